/* test_graph.c - what a graph accepts, and the edges it finds. */
#include <dsflow/graph.h>

#include "graph/task.h"
#include "lib/test.h"

#include <stdlib.h>
#include <string.h>

static int any_size(const struct dsflow_case *c, struct dsflow_err *err)
{
    if (c->shapes[0].bytes == 13)
        return dsflow_fail(err, DSFLOW_EINVAL, "copy: 13 bytes");
    return DSFLOW_OK;
}

static const struct dsflow_op copy = {
    .abi = DSFLOW_OP_ABI,
    .name = "copy",
    DSFLOW_PORTS({ "from", DSFLOW_R }, { "to", DSFLOW_W }),
    .check = any_size,
};
static const struct dsflow_op bump = {
    .abi = DSFLOW_OP_ABI,
    .name = "bump",
    .args_size = sizeof(int),
    DSFLOW_PORTS({ "what", DSFLOW_RW }),
    .check = any_size,
};

static dsflow_data_id data(struct dsflow_graph *g, const char *name,
                           size_t bytes, int persistent)
{
    return dsflow_graph_add_data(
        g, &DSFLOW_DATA(.name = name, .elems = bytes,
                        .persistent = (uint8_t)persistent));
}

static dsflow_task_id add_copy(struct dsflow_graph *g, dsflow_data_id from,
                               dsflow_data_id to)
{
    return dsflow_graph_add_task(
        g, &DSFLOW_TASK(.op = &copy, .ndata = 2,
                        .data = (dsflow_data_id[]){ from, to }));
}

static dsflow_task_id add_bump(struct dsflow_graph *g, dsflow_data_id what,
                               unsigned fresh)
{
    return dsflow_graph_add_task(
        g, &DSFLOW_TASK(.op = &bump, .args = &(int){ 7 }, .fresh = fresh,
                        .ndata = 1, .data = (dsflow_data_id[]){ what }));
}

static void reading_what_nobody_wrote_is_refused(void **state)
{
    struct dsflow_graph *g = dsflow_graph_new();
    struct dsflow_err err;

    add_copy(g, data(g, "a", 64, 0), data(g, "b", 64, 0));
    assert_int_equal(dsflow_graph_check(g, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "copy reads a, which nothing wrote");
    dsflow_graph_free(g);
}

static void persistent_data_may_be_read_first(void **state)
{
    struct dsflow_graph *g = dsflow_graph_new();

    add_copy(g, data(g, "a", 64, 1), data(g, "b", 64, 0));
    assert_int_equal(dsflow_graph_check(g, NULL), DSFLOW_OK);
    dsflow_graph_free(g);
}

static void a_fresh_port_is_written_only(void **state)
{
    struct dsflow_graph *g = dsflow_graph_new();
    dsflow_data_id a = data(g, "a", 64, 0);
    struct dsflow_err err;

    add_bump(g, a, 0);
    assert_int_equal(dsflow_graph_check(g, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "bump reads a, which nothing wrote");
    dsflow_graph_free(g);

    g = dsflow_graph_new();
    a = data(g, "a", 64, 0);
    add_bump(g, a, 1);
    add_bump(g, a, 0);
    assert_int_equal(dsflow_graph_check(g, &err), DSFLOW_OK);
    assert_int_equal(*(const int *)dsflow_graph_task(
                          g, (dsflow_task_id){ 1 })->args, 7);
    dsflow_graph_free(g);
}

/* The only task that `task` waits for in its step. */
static uint32_t only_pred(struct dsflow_graph *g, uint32_t task)
{
    const dsflow_task_id *preds;

    assert_int_equal(dsflow_graph_preds(g, (dsflow_task_id){ task }, &preds),
                     1);
    return preds[0].i;
}

static void who_writes_parts_waits_for_no_other_part(void **state)
{
    struct dsflow_graph *g = dsflow_graph_new();
    dsflow_data_id a = data(g, "a", 64, 0);
    const dsflow_task_id *preds;
    struct dsflow_err err;

    add_bump(g, a, 1);
    for (int i = 0; i < 2; i++)
        dsflow_graph_add_task(g, &DSFLOW_TASK(.op = &bump, .args = &(int){ 7 },
                                              .apart = 1, .ndata = 1,
                                              .data = (dsflow_data_id[]){ a }));
    add_bump(g, a, 0);
    assert_int_equal(dsflow_graph_check(g, &err), DSFLOW_OK);
    assert_int_equal(only_pred(g, 1), 0);
    assert_int_equal(only_pred(g, 2), 0);
    assert_int_equal(dsflow_graph_preds(g, (dsflow_task_id){ 3 }, &preds), 2);
    assert_true(preds[0].i == 1 && preds[1].i == 2);
    dsflow_graph_free(g);

    g = dsflow_graph_new();
    dsflow_graph_add_task(
        g, &DSFLOW_TASK(.op = &copy, .apart = 1, .ndata = 2,
                        .data = (dsflow_data_id[]){ data(g, "a", 64, 1),
                                                    data(g, "b", 64, 0) }));
    assert_int_equal(dsflow_graph_check(g, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "copy: port from is only read, so no part of "
                                 "it is written");
    dsflow_graph_free(g);
}

static void wrong_ports_are_refused(void **state)
{
    struct dsflow_graph *g = dsflow_graph_new();
    dsflow_data_id a = data(g, "a", 64, 1);
    struct dsflow_err err;

    dsflow_graph_add_task(g, &DSFLOW_TASK(.op = &copy, .ndata = 1,
                                          .data = (dsflow_data_id[]){ a }));
    assert_int_equal(dsflow_graph_check(g, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "copy: has nothing on port to");
    dsflow_graph_free(g);

    g = dsflow_graph_new();
    a = data(g, "a", 64, 1);
    add_copy(g, a, a);
    assert_int_equal(dsflow_graph_check(g, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "copy: ports 0 and 1 are the same data");
    dsflow_graph_free(g);
}

static void an_op_without_ports_gets_no_data(void **state)
{
    const struct dsflow_op none = { .abi = DSFLOW_OP_ABI, .name = "none" };
    struct dsflow_graph *g = dsflow_graph_new();
    const dsflow_data_id a = data(g, "a", 64, 1);
    struct dsflow_err err;

    dsflow_graph_add_task(g, &DSFLOW_TASK(.op = &none, .ndata = 1, .data = &a));
    assert_int_equal(dsflow_graph_check(g, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "none: 1 data: expected 0 at most");
    dsflow_graph_free(g);
}

static const struct dsflow_op many = {
    .abi = DSFLOW_OP_ABI,
    .name = "many",
    .repeats = 1,
    DSFLOW_PORTS({ "into", DSFLOW_RW }, { "from", DSFLOW_R }),
    .check = any_size,
};

/* `into`, and the results of as many copies. */
static dsflow_task_id add_many(struct dsflow_graph *g,
                               const struct dsflow_op *op, unsigned n)
{
    dsflow_data_id *ids = calloc(n, sizeof(*ids)), a = data(g, "a", 8, 1);
    dsflow_task_id id;
    char name[16];

    ids[0] = data(g, "into", 8, 0);
    for (unsigned i = 1; i < n; i++) {
        snprintf(name, sizeof(name), "d%u", i);
        ids[n - i] = data(g, name, 8, 0); /* the last one comes first */
        add_copy(g, a, ids[n - i]);
    }
    id = dsflow_graph_add_task(
        g, &DSFLOW_TASK(.op = op, .ndata = n, .data = ids, .fresh = 1));
    free(ids);
    return id;
}

static void a_task_has_as_many_ports_as_it_needs(void **state)
{
    struct dsflow_graph *g = dsflow_graph_new();
    dsflow_task_id id = add_many(g, &many, 100);
    const struct dsflow_task_spec *t = dsflow_graph_task(g, id);
    const dsflow_task_id *preds;
    dsflow_data_id d50;
    struct dsflow_err err;

    assert_int_equal(t->ndata, 100);
    assert_int_equal(dsflow_graph_find(g, "d50", &d50), 1);
    assert_int_equal(t->data[50].i, d50.i);
    assert_int_equal(dsflow_task_access(t, 0), DSFLOW_W);
    assert_int_equal(dsflow_task_access(t, 32), DSFLOW_R); /* not bit 0 */
    assert_int_equal(dsflow_task_access(t, 99), DSFLOW_R);
    assert_int_equal(dsflow_graph_check(g, &err), DSFLOW_OK);
    assert_int_equal(dsflow_graph_preds(g, id, &preds), 99);
    for (uint32_t i = 0; i < 99; i++)
        assert_int_equal(preds[i].i, i);
    assert_true(dsf_task_cost(g, t).bytes == 8 * 100);
    dsflow_graph_free(g);
}

static void a_port_that_comes_again_is_read_or_written(void **state)
{
    struct dsflow_graph *g = dsflow_graph_new();
    struct dsflow_op op = many;
    struct dsflow_err err;

    op.ports = (const struct dsflow_port[]){ { "into", DSFLOW_RW },
                                             { "from", DSFLOW_RW } };
    add_many(g, &op, 3);
    assert_int_equal(dsflow_graph_check(g, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "many: port from comes again: expected R or "
                                 "W, not RW");
    dsflow_graph_free(g);
}

/* What is added wrongly is not there, and the first of it is reported. */
static void what_cannot_be_added_is_a_fault_of_the_graph(void **state)
{
    struct dsflow_graph *g = dsflow_graph_new();
    dsflow_data_id a = data(g, "a", 8, 1);
    struct dsflow_err err;

    assert_int_equal(data(g, "a", 16, 0).i, a.i);
    assert_int_equal(dsflow_graph_ndata(g), 1);
    assert_int_equal(dsflow_graph_data(g, a)->bytes, 8);
    add_copy(g, a, (dsflow_data_id){ 7 });
    assert_int_equal(dsflow_graph_ntasks(g), 0);
    assert_int_equal(dsflow_graph_check(g, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "two data called a");
    dsflow_graph_free(g);

    g = dsflow_graph_new();
    a = data(g, "a", 8, 1);
    add_copy(g, a, (dsflow_data_id){ 7 });
    assert_int_equal(dsflow_graph_check(g, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "copy: port 1: data 7: expected less than 1");
    dsflow_graph_free(g);
}

/* The message of a graph to which this was added. */
static void assert_fault(const struct dsflow_task_spec *task,
                         const struct dsflow_data_spec *data, const char *text)
{
    struct dsflow_graph *g = dsflow_graph_new();
    struct dsflow_err err;

    if (task != NULL)
        dsflow_graph_add_task(g, task);
    else
        dsflow_graph_add_data(g, data);
    assert_int_equal(dsflow_graph_ntasks(g) + dsflow_graph_ndata(g), 0);
    assert_int_equal(dsflow_graph_check(g, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, text);
    dsflow_graph_free(g);
}

static void what_is_missing_is_a_fault(void **state)
{
    struct dsflow_op op = *dsflow_op_find("copy");

    assert_fault(NULL, &DSFLOW_DATA(.elems = 1), "data without a name");
    assert_fault(&DSFLOW_TASK(.ndata = 0), NULL, "a task without an op");
    op.args_size = 12;
    assert_fault(&DSFLOW_TASK(.op = &op), NULL,
                 "copy: has no args: expected 12 bytes");
    op.args_size = 0;
    assert_fault(&DSFLOW_TASK(.op = &op, .ndata = 2), NULL,
                 "copy: has no list of its 2 data");
}

static void a_description_of_another_size_is_refused(void **state)
{
    struct dsflow_graph *g = dsflow_graph_new();
    struct dsflow_err err;
    char text[100];

    dsflow_graph_add_data(g, &(struct dsflow_data_spec){ .name = "a" });
    assert_int_equal(dsflow_graph_check(g, &err), DSFLOW_EINVAL);
    snprintf(text, sizeof(text), "data: a description of 0 bytes: expected %zu",
             sizeof(struct dsflow_data_spec));
    assert_string_equal(err.msg, text);
    dsflow_graph_free(g);

    g = dsflow_graph_new();
    dsflow_graph_add_task(g, &(struct dsflow_task_spec){ .size = 8 });
    assert_int_equal(dsflow_graph_check(g, &err), DSFLOW_EINVAL);
    snprintf(text, sizeof(text), "task: a description of 8 bytes: expected %zu",
             sizeof(struct dsflow_task_spec));
    assert_string_equal(err.msg, text);
    dsflow_graph_free(g);
}

static void the_op_has_the_last_word_on_sizes(void **state)
{
    struct dsflow_graph *g = dsflow_graph_new();
    struct dsflow_err err;

    add_copy(g, data(g, "a", 13, 1), data(g, "b", 13, 0));
    assert_int_equal(dsflow_graph_check(g, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "copy: 13 bytes (from 13 bytes, to 13 bytes)");
    dsflow_graph_free(g);
}

static void programs_stand_in_order(void **state)
{
    struct dsflow_graph *g = dsflow_graph_new();
    dsflow_data_id a = data(g, "a", 8, 1);
    dsflow_program more = dsflow_graph_add_program(g, "more");
    struct dsflow_err err;

    dsflow_graph_add_task(g, &DSFLOW_TASK(.op = &bump, .args = &(int){ 0 },
                                          .program = more, .ndata = 1,
                                          .data = (dsflow_data_id[]){ a }));
    add_bump(g, a, 0);
    assert_int_equal(dsflow_graph_check(g, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg,
                        "bump: a task of program step after one of more");
    dsflow_graph_free(g);
}

static void names_find_data(void **state)
{
    struct dsflow_graph *g = dsflow_graph_new();
    dsflow_data_id id;
    char name[16];

    assert_int_equal(dsflow_graph_find(g, "d7", &id), 0);
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof(name), "d%d", i);
        data(g, name, 8, 0);
    }
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof(name), "d%d", i);
        assert_int_equal(dsflow_graph_find(g, name, &id), 1);
        assert_int_equal(id.i, i);
    }
    assert_int_equal(dsflow_graph_find(g, "d1000", &id), 0);
    dsflow_graph_free(g);
}

static void assert_preds(struct dsflow_graph *g, dsflow_task_id t, unsigned n,
                         const uint32_t *want)
{
    const dsflow_task_id *preds;

    assert_int_equal(dsflow_graph_preds(g, t, &preds), n);
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(preds[i].i, want[i]);
}

static void readers_follow_the_writer_and_the_next_writer_follows_them(
    void **state)
{
    struct dsflow_graph *g = dsflow_graph_new();
    dsflow_data_id a = data(g, "a", 8, 1), b = data(g, "b", 8, 0);
    dsflow_data_id c = data(g, "c", 8, 0);
    dsflow_task_id t0 = add_bump(g, a, 0);
    dsflow_task_id t1 = add_copy(g, a, b);
    dsflow_task_id t2 = add_copy(g, a, c);
    dsflow_task_id t3 = add_bump(g, a, 0);
    dsflow_task_id t4 = add_copy(g, b, a);

    assert_preds(g, t0, 0, NULL);
    assert_preds(g, t1, 1, (uint32_t[]){ 0 });
    assert_preds(g, t2, 1, (uint32_t[]){ 0 });
    assert_preds(g, t3, 2, (uint32_t[]){ 1, 2 });
    assert_preds(g, t4, 2, (uint32_t[]){ 1, 3 });
    dsflow_graph_free(g);
}

static void a_task_stays_where_it_is_while_the_graph_grows(void **state)
{
    enum { N = 20000 };
    struct dsflow_graph *g = dsflow_graph_new();
    dsflow_data_id a = data(g, "a", 8, 1);
    const struct dsflow_task_spec *first =
        dsflow_graph_task(g, add_bump(g, a, 0));
    const dsflow_task_id *preds;

    for (uint32_t i = 1; i < N; i++)
        assert_int_equal(add_bump(g, a, 0).i, i);
    assert_ptr_equal(dsflow_graph_task(g, (dsflow_task_id){ 0 }), first);
    for (uint32_t i = 0; i < N; i++)
        dsflow_graph_set_priority(g, (dsflow_task_id){ i }, (int32_t)i);
    for (uint32_t i = 0; i < N; i++) {
        assert_int_equal(dsflow_graph_task(g, (dsflow_task_id){ i })->priority,
                         i);
        assert_int_equal(dsflow_graph_preds(g, (dsflow_task_id){ i }, &preds),
                         i > 0);
    }
    dsflow_graph_free(g);
}

static void the_same_graph_gives_the_same_dot(void **state)
{
    char *text[2];
    size_t bytes[2];

    for (int i = 0; i < 2; i++) {
        struct dsflow_graph *g = dsflow_graph_new();
        FILE *out = open_memstream(&text[i], &bytes[i]);

        add_copy(g, data(g, "a", 8, 1), data(g, "b", 8, 0));
        add_bump(g, (dsflow_data_id){ 1 }, 0);
        assert_int_equal(dsflow_graph_write_dot(g, out, NULL), DSFLOW_OK);
        fclose(out);
        dsflow_graph_free(g);
    }
    assert_string_equal(text[0], text[1]);
    assert_non_null(strstr(text[0], "t0 -> t1;"));
    assert_non_null(strstr(text[0], "copy"));
    free(text[0]);
    free(text[1]);
}

static void a_task_without_a_cost_moves_the_bytes_of_its_ports(void **state)
{
    struct dsflow_graph *g = dsflow_graph_new();
    dsflow_data_id a = data(g, "a", 24, 1);
    dsflow_task_id read = add_copy(g, a, data(g, "b", 8, 0));
    dsflow_task_id both = add_bump(g, a, 0), fresh = add_bump(g, a, 1);

    assert_true(dsf_task_cost(g, dsflow_graph_task(g, read)).bytes == 24 + 8);
    assert_true(dsf_task_cost(g, dsflow_graph_task(g, both)).bytes == 2 * 24);
    assert_true(dsf_task_cost(g, dsflow_graph_task(g, fresh)).bytes == 24);
    assert_true(dsf_task_cost(g, dsflow_graph_task(g, both)).flops == 0);
    dsflow_graph_free(g);
}

static void so_does_one_that_leaves_out_a_port(void **state)
{
    const struct dsflow_op join = {
        .abi = DSFLOW_OP_ABI,
        .name = "join",
        DSFLOW_PORTS({ "a", DSFLOW_R, .optional = 1 }, { "b", DSFLOW_R },
                     { "to", DSFLOW_W }),
        .check = any_size,
    };
    struct dsflow_graph *g = dsflow_graph_new();
    const dsflow_data_id ids[] = { data(g, "b", 24, 1), data(g, "to", 8, 0) };
    dsflow_task_id task = dsflow_graph_add_task(
        g, &DSFLOW_TASK(.op = &join, .without = 1, .ndata = 2, .data = ids));

    assert_int_equal(dsflow_graph_check(g, NULL), DSFLOW_OK);
    assert_true(dsf_task_cost(g, dsflow_graph_task(g, task)).bytes == 24 + 8);
    dsflow_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reading_what_nobody_wrote_is_refused),
        cmocka_unit_test(persistent_data_may_be_read_first),
        cmocka_unit_test(a_fresh_port_is_written_only),
        cmocka_unit_test(who_writes_parts_waits_for_no_other_part),
        cmocka_unit_test(wrong_ports_are_refused),
        cmocka_unit_test(an_op_without_ports_gets_no_data),
        cmocka_unit_test(a_task_has_as_many_ports_as_it_needs),
        cmocka_unit_test(a_port_that_comes_again_is_read_or_written),
        cmocka_unit_test(what_cannot_be_added_is_a_fault_of_the_graph),
        cmocka_unit_test(what_is_missing_is_a_fault),
        cmocka_unit_test(a_description_of_another_size_is_refused),
        cmocka_unit_test(the_op_has_the_last_word_on_sizes),
        cmocka_unit_test(programs_stand_in_order),
        cmocka_unit_test(names_find_data),
        cmocka_unit_test(
            readers_follow_the_writer_and_the_next_writer_follows_them),
        cmocka_unit_test(a_task_stays_where_it_is_while_the_graph_grows),
        cmocka_unit_test(the_same_graph_gives_the_same_dot),
        cmocka_unit_test(a_task_without_a_cost_moves_the_bytes_of_its_ports),
        cmocka_unit_test(so_does_one_that_leaves_out_a_port),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
