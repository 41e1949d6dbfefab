/* test_program.c - programs of a graph: names, their tasks, what they share. */
#include <dsflow/graph.h>

#include "lib/test.h"

#include <stdlib.h>
#include <string.h>

static int any_size(const struct dsflow_case *c, struct dsflow_err *err)
{
    return DSFLOW_OK;
}

static const struct dsflow_op copy = {
    .abi = DSFLOW_OP_ABI,
    .name = "copy",
    DSFLOW_PORTS({ "from", DSFLOW_R }, { "to", DSFLOW_W }),
    .check = any_size,
};

static dsflow_data_id data(struct dsflow_graph *g, const char *name,
                           int persistent)
{
    return dsflow_graph_add_data(
        g, &DSFLOW_DATA(.name = name, .elems = 8,
                        .persistent = (uint8_t)persistent));
}

static void add(struct dsflow_graph *g, dsflow_program program,
                dsflow_data_id from, dsflow_data_id to)
{
    dsflow_graph_add_task(
        g, &DSFLOW_TASK(.op = &copy, .program = program, .ndata = 2,
                        .data = (dsflow_data_id[]){ from, to }));
}

static void a_graph_begins_with_the_program_step(void **state)
{
    struct dsflow_graph *g = dsflow_graph_new();
    dsflow_program program = 9;

    assert_int_equal(dsflow_graph_nprograms(g), 1);
    assert_string_equal(dsflow_graph_program(g, DSFLOW_STEP), "step");
    assert_true(dsflow_graph_find_program(g, "step", &program));
    assert_int_equal(program, DSFLOW_STEP);
    assert_false(dsflow_graph_find_program(g, "eval", &program));
    dsflow_graph_free(g);
}

static void a_name_is_one_program(void **state)
{
    struct dsflow_graph *g = dsflow_graph_new();
    char name[] = "warm_up";
    dsflow_program a = dsflow_graph_add_program(g, name), b;

    name[0] = 'h'; /* it was copied */
    b = dsflow_graph_add_program(g, "step2");
    assert_int_equal(a, 1);
    assert_int_equal(b, 2);
    assert_int_equal(dsflow_graph_add_program(g, "warm_up"), a);
    assert_int_equal(dsflow_graph_nprograms(g), 3);
    assert_string_equal(dsflow_graph_program(g, a), "warm_up");
    dsflow_graph_free(g);
}

static void its_tasks_stand_together(void **state)
{
    struct dsflow_graph *g = dsflow_graph_new();
    dsflow_data_id a = data(g, "a", 1), b = data(g, "b", 1);
    dsflow_program none = dsflow_graph_add_program(g, "none");
    dsflow_program three = dsflow_graph_add_program(g, "three");
    uint32_t first;

    add(g, DSFLOW_STEP, a, b);
    add(g, DSFLOW_STEP, b, a);
    for (int i = 0; i < 3; i++)
        add(g, three, a, b);
    assert_int_equal(dsflow_graph_program_tasks(g, DSFLOW_STEP, &first), 2);
    assert_int_equal(first, 0);
    assert_int_equal(dsflow_graph_program_tasks(g, three, &first), 3);
    assert_int_equal(first, 2);
    assert_int_equal(dsflow_graph_program_tasks(g, none, &first), 0);
    assert_int_equal(dsflow_graph_check(g, NULL), DSFLOW_OK);
    dsflow_graph_free(g);
}

/* Ten programs, each of which writes before it reads, but for the last. */
static void each_program_writes_what_it_reads(void **state)
{
    enum { N = 10 };
    struct dsflow_graph *g = dsflow_graph_new();
    dsflow_data_id kept = data(g, "kept", 1), passing = data(g, "passing", 0);
    struct dsflow_err err;
    char name[24];

    for (int i = 0; i < N; i++) {
        dsflow_program program;

        snprintf(name, sizeof(name), "program%d", i);
        program = dsflow_graph_add_program(g, name);
        add(g, program, kept, passing);
        add(g, program, passing, kept);
    }
    assert_int_equal(dsflow_graph_check(g, &err), DSFLOW_OK);
    add(g, dsflow_graph_add_program(g, "last"), passing, kept);
    assert_int_equal(dsflow_graph_check(g, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "copy reads passing, which nothing wrote");
    dsflow_graph_free(g);
}

static void edges_stay_within_a_program(void **state)
{
    struct dsflow_graph *g = dsflow_graph_new();
    dsflow_data_id a = data(g, "a", 1), b = data(g, "b", 1);
    dsflow_program more = dsflow_graph_add_program(g, "more");
    const dsflow_task_id *preds;

    add(g, DSFLOW_STEP, a, b);
    add(g, DSFLOW_STEP, b, a);
    add(g, more, b, a);
    add(g, more, a, b);
    assert_int_equal(dsflow_graph_preds(g, (dsflow_task_id){ 1 }, &preds), 1);
    assert_int_equal(dsflow_graph_preds(g, (dsflow_task_id){ 2 }, &preds), 0);
    assert_int_equal(dsflow_graph_preds(g, (dsflow_task_id){ 3 }, &preds), 1);
    assert_int_equal(preds[0].i, 2);
    dsflow_graph_free(g);
}

static void names_are_words(void **state)
{
    static const char *const bad[] = { "", "two words", "a-b", "\"" };
    struct dsflow_err err;

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct dsflow_graph *g = dsflow_graph_new();
        char expected[100];

        dsflow_graph_add_program(g, bad[i]);
        assert_int_equal(dsflow_graph_check(g, &err), DSFLOW_EINVAL);
        snprintf(expected, sizeof(expected),
                 "program \"%s\": expected a name of letters, digits and _",
                 bad[i]);
        assert_string_equal(err.msg, expected);
        dsflow_graph_free(g);
    }
}

static void too_many_are_refused(void **state)
{
    struct dsflow_graph *g = dsflow_graph_new();
    struct dsflow_err err;
    char name[16];

    for (int i = 1; i < DSFLOW_MAX_PROGRAMS; i++) {
        snprintf(name, sizeof(name), "p%d", i);
        dsflow_graph_add_program(g, name);
    }
    assert_int_equal(dsflow_graph_check(g, &err), DSFLOW_OK);
    dsflow_graph_add_program(g, "p1"); /* it is there */
    assert_int_equal(dsflow_graph_check(g, &err), DSFLOW_OK);
    dsflow_graph_add_program(g, "one_more");
    assert_int_equal(dsflow_graph_check(g, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg,
                        "program one_more: expected at most 64 in a graph");
    dsflow_graph_free(g);
}

static void dot_names_them(void **state)
{
    struct dsflow_graph *g = dsflow_graph_new();
    dsflow_data_id a = data(g, "a", 1), b = data(g, "b", 1);
    dsflow_program more = dsflow_graph_add_program(g, "every_fifth");
    char *text;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);

    add(g, DSFLOW_STEP, a, b);
    add(g, more, a, b);
    assert_int_equal(dsflow_graph_write_dot(g, out, NULL), DSFLOW_OK);
    fclose(out);
    assert_non_null(strstr(text, "cluster_step_r0"));
    assert_non_null(strstr(text, "label=\"every_fifth, rank 0\""));
    free(text);
    dsflow_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_graph_begins_with_the_program_step),
        cmocka_unit_test(a_name_is_one_program),
        cmocka_unit_test(its_tasks_stand_together),
        cmocka_unit_test(each_program_writes_what_it_reads),
        cmocka_unit_test(edges_stay_within_a_program),
        cmocka_unit_test(names_are_words),
        cmocka_unit_test(too_many_are_refused),
        cmocka_unit_test(dot_names_them),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
