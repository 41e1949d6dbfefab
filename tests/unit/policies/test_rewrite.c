/* test_rewrite.c - data, tasks and programs of one graph in another. */
#include <dsflow/rewrite.h>

#include "unit/policies/hand.h"

#include <string.h>

/* Two programs; `kept` is all that both use. */
static struct dsflow_graph *graph(void)
{
    struct dsflow_graph *g = dsflow_graph_new();
    dsflow_program more = dsflow_graph_add_program(g, "more");
    dsflow_data_id a = hand_data(g, "a", 0), b = hand_data(g, "b", 1);
    dsflow_data_id kept = dsflow_graph_add_data(
        g, &DSFLOW_DATA(.name = "kept", .elems = 70, .dtype = DSFLOW_FP64,
                        .role = DSFLOW_STATES, .home = 1, .tier = DSFLOW_HOST,
                        .persistent = 1, .unit = 4, .part = 2, .at = 30,
                        .block = 10, .kept = 3, .ring_class = -5,
                        .ring = "zero.prefetch"));

    dsflow_graph_add_program(g, "none");
    hand_make(g, 0, a);
    hand_use(g, &op_use, DSFLOW_STEP, 0, kept, a);
    hand_use(g, &op_use, more, 1, b, kept);
    return g;
}

static void assert_same_task(const struct dsflow_graph *g,
                             const struct dsflow_graph *h, uint32_t i)
{
    const struct dsflow_task_spec *x = hand_task(g, i), *y = hand_task(h, i);

    assert_ptr_equal(x->op, y->op);
    assert_int_equal(x->rank, y->rank);
    assert_int_equal(x->layer, y->layer);
    assert_int_equal(x->microbatch, y->microbatch);
    assert_int_equal(x->tile, y->tile);
    assert_int_equal(x->program, y->program);
    assert_int_equal(x->fresh, y->fresh);
    assert_int_equal(x->ndata, y->ndata);
    for (unsigned p = 0; p < x->ndata; p++)
        assert_string_equal(hand_name(g, i, p), hand_name(h, i, p));
}

static void assert_kept(const struct dsflow_graph *g)
{
    const struct dsflow_data_spec *d;
    dsflow_data_id id;

    assert_true(dsflow_graph_find(g, "kept", &id));
    d = dsflow_graph_data(g, id);
    assert_int_equal(d->elems, 70);
    assert_int_equal(d->dtype, DSFLOW_FP64);
    assert_int_equal(d->bytes, 70 * sizeof(double));
    assert_int_equal(d->role, DSFLOW_STATES);
    assert_int_equal(d->home, 1);
    assert_int_equal(d->tier, DSFLOW_HOST);
    assert_int_equal(d->persistent, 1);
    assert_int_equal(d->unit, 4);
    assert_int_equal(d->part, 2);
    assert_int_equal(d->at, 30);
    assert_int_equal(d->block, 10);
    assert_int_equal(d->kept, 3);
    assert_int_equal(d->ring_class, -5);
    assert_string_equal(d->ring, "zero.prefetch");
}

static void assert_same_programs(const struct dsflow_graph *g)
{
    assert_int_equal(dsflow_graph_nprograms(g), 3);
    assert_string_equal(dsflow_graph_program(g, 1), "more");
    assert_string_equal(dsflow_graph_program(g, 2), "none");
}

static void all_of_it_is_copied(void **state)
{
    struct dsflow_graph *in = graph(), *out = dsflow_graph_new();

    dsflow_rewrite_all(in, out, NULL, NULL);
    assert_int_equal(dsflow_graph_ndata(out), dsflow_graph_ndata(in));
    assert_int_equal(dsflow_graph_ntasks(out), 3);
    for (uint32_t i = 0; i < 3; i++)
        assert_same_task(in, out, i);
    assert_same_programs(out);
    dsflow_graph_free(in); /* what was copied does not need it */
    assert_kept(out);
    assert_int_equal(dsflow_graph_check(out, NULL), DSFLOW_OK);
    dsflow_graph_free(out);
}

static void move(void *user, struct dsflow_task_spec *t)
{
    t->rank = (int16_t)(t->rank + *(int *)user);
    t->priority = 9;
}

static void a_task_may_be_changed_on_the_way(void **state)
{
    struct dsflow_graph *in = graph(), *out = dsflow_graph_new();

    dsflow_rewrite_all(in, out, move, &(int){ 5 });
    assert_int_equal(hand_task(out, 0)->rank, 5);
    assert_int_equal(hand_task(out, 2)->rank, 6);
    assert_int_equal(hand_task(out, 2)->priority, 9);
    assert_int_equal(hand_task(in, 2)->rank, 1);
    dsflow_graph_free(in);
    dsflow_graph_free(out);
}

static void data_is_copied_when_it_is_first_asked_for(void **state)
{
    struct dsflow_graph *in = graph(), *out = dsflow_graph_new();
    struct dsflow_rewrite rw = dsflow_rewrite_begin(in, out);
    dsflow_data_id b;

    assert_same_programs(out);
    assert_int_equal(dsflow_graph_ndata(out), 0);
    b = dsflow_rewrite_data(&rw, (dsflow_data_id){ 1 });
    assert_int_equal(dsflow_rewrite_data(&rw, (dsflow_data_id){ 1 }).i, b.i);
    assert_int_equal(dsflow_graph_ndata(out), 1);
    dsflow_rewrite_task(&rw, hand_task(in, 2));
    assert_int_equal(dsflow_graph_ndata(out), 2);
    assert_string_equal(hand_name(out, 0, 0), "b");
    assert_string_equal(hand_name(out, 0, 1), "kept");
    assert_kept(out);
    dsflow_rewrite_end(&rw);
    dsflow_graph_free(in);
    dsflow_graph_free(out);
}

static void data_that_is_not_in_the_old_graph_is_a_fault(void **state)
{
    struct dsflow_graph *in = graph(), *out = dsflow_graph_new();
    struct dsflow_rewrite rw = dsflow_rewrite_begin(in, out);
    struct dsflow_task_spec task = *hand_task(in, 2);
    const dsflow_data_id data[] = { { 1 }, { 1000000 } };
    struct dsflow_err err;

    task.data = data;
    dsflow_rewrite_task(&rw, &task);
    assert_int_equal(dsflow_graph_check(out, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "use: port 1: data 4294967295: expected less "
                                 "than 1");
    dsflow_rewrite_end(&rw);
    dsflow_graph_free(out);

    out = dsflow_graph_new();
    rw = dsflow_rewrite_begin(in, out);
    task.data = NULL;
    dsflow_rewrite_task(&rw, &task);
    assert_int_equal(dsflow_graph_check(out, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "use: has no list of its 2 data");
    dsflow_rewrite_end(&rw);
    dsflow_graph_free(in);
    dsflow_graph_free(out);
}

static void a_name_is_made_once(void **state)
{
    struct dsflow_graph *g = dsflow_graph_new();
    struct dsflow_data_spec spec =
        DSFLOW_DATA(.name = "other", .elems = 3, .dtype = DSFLOW_FP32);
    dsflow_data_id a = dsflow_rewrite_named(g, &spec, "slot.%d.%s", 3, "x");

    spec.elems = 4; /* of what is there, nothing changes */
    assert_int_equal(dsflow_rewrite_named(g, &spec, "slot.3.x").i, a.i);
    assert_string_equal(dsflow_graph_data(g, a)->name, "slot.3.x");
    assert_int_equal(dsflow_graph_data(g, a)->elems, 3);
    assert_int_not_equal(dsflow_rewrite_named(g, &spec, "slot.4.x").i, a.i);
    assert_int_equal(dsflow_graph_ndata(g), 2);
    dsflow_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_of_it_is_copied),
        cmocka_unit_test(a_task_may_be_changed_on_the_way),
        cmocka_unit_test(data_is_copied_when_it_is_first_asked_for),
        cmocka_unit_test(data_that_is_not_in_the_old_graph_is_a_fault),
        cmocka_unit_test(a_name_is_made_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
