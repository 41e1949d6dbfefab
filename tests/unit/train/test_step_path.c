/* test_step_path.c - the critical path of a step, with messages. */
#include "train/step_path.h"

#include "lib/test.h"

static int any(const struct dsflow_case *c, struct dsflow_err *err)
{
    return DSFLOW_OK;
}

static void nothing(const struct dsflow_case *c, struct dsflow_cost *cost)
{
}

static const struct dsflow_op work = {
    .abi = DSFLOW_OP_ABI,
    .name = "work",
    DSFLOW_PORTS({ "in", DSFLOW_R }, { "out", DSFLOW_W }),
    .comm = 1,
    .check = any,
    .cost = nothing,
};

static void work_on(struct dsflow_graph *g, dsflow_program program, int rank,
                    dsflow_data_id in, dsflow_data_id out)
{
    dsflow_graph_add_task(
        g, &DSFLOW_TASK(.op = &work, .data = (dsflow_data_id[]){ in, out },
                        .ndata = 2, .program = program, .rank = (int16_t)rank));
}

static dsflow_data_id data(struct dsflow_graph *g, const char *name, int home)
{
    return dsflow_graph_add_data(g, &DSFLOW_DATA(.name = name, .elems = 1,
                                                 .home = (int16_t)home,
                                                 .persistent = 1));
}

/* From rank 0 to 1 and back; and a program that is not asked for. */
static struct dsflow_graph *there_and_back(void)
{
    struct dsflow_graph *g = dsflow_graph_new();
    struct dsflow_err err;
    const dsflow_data_id a = data(g, "a", 0), b = data(g, "b", 1);
    const dsflow_program other = dsflow_graph_add_program(g, "other");

    work_on(g, DSFLOW_STEP, 0, b, a);
    work_on(g, DSFLOW_STEP, 1, a, b);
    work_on(g, other, 1, a, b);
    assert_int_equal(dsflow_graph_check(g, &err), DSFLOW_OK);
    return g;
}

static double step_of(const struct dsf_processes *all)
{
    const double seconds[] = { 3, 1, 100 }, came[] = { 4, 2 };
    struct dsflow_graph *g = there_and_back();
    struct dsf_step_path paths[2] = { { .n = 0 } };
    double step;

    dsf_step_paths_init(paths, (const bool[]){ true, false }, all, g);
    step = dsf_step_path_seconds(&paths[DSFLOW_STEP], seconds, came);
    assert_int_equal(paths[1].n, 0);
    dsf_step_paths_fini(paths, 2);
    dsflow_graph_free(g);
    return step;
}

static void what_comes_for_a_task_is_waited_for(void **state)
{
    const struct dsf_processes one = { 2, 1 }, two = { 2, 2 };

    assert_float_equal(step_of(&one), 3 + 1, 0);
    /* `a` is made of what came in 4 s, `b` of what came in 2. */
    assert_float_equal(step_of(&two), 4 + 3 + 2 + 1, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_comes_for_a_task_is_waited_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
