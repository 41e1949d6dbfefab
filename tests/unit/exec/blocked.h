/* blocked.h - a graph with a task that ends when it is let go. */
#ifndef TESTS_UNIT_EXEC_BLOCKED_H
#define TESTS_UNIT_EXEC_BLOCKED_H

#include "lib/test.h"

#include <dsflow/exec.h>
#include <semaphore.h>

static sem_t began, let_go;

static int blocked_check(const struct dsflow_case *c, struct dsflow_err *err)
{
    return DSFLOW_OK;
}

static void blocked_cost(const struct dsflow_case *c,
                         struct dsflow_cost *cost)
{
    cost->flops = 1;
}

static void block_cpu(const struct dsflow_call *call)
{
    sem_post(&began);
    sem_wait(&let_go);
}

static void pass_cpu(const struct dsflow_call *call)
{
}

static const struct dsflow_op block_op = {
    .abi = DSFLOW_OP_ABI,
    .name = "test_block",
    .summary = "waits until it is let go",
    DSFLOW_PORTS({ "x", DSFLOW_RW }),
    .check = blocked_check,
    .cost = blocked_cost,
};
static const struct dsflow_op pass_op = {
    .abi = DSFLOW_OP_ABI,
    .name = "test_pass",
    .summary = "does nothing",
    DSFLOW_PORTS({ "x", DSFLOW_RW }),
    .check = blocked_check,
    .cost = blocked_cost,
};
static const struct dsflow_codelet block_codelet = { .abi = DSFLOW_CODELET_ABI,
                                                     .op = &block_op,
                                                     .cpu = block_cpu };
static const struct dsflow_codelet pass_codelet = { .abi = DSFLOW_CODELET_ABI,
                                                    .op = &pass_op,
                                                    .cpu = pass_cpu };

/* Task 0 blocks; 1 works on the same data; 2 on other data; 3 again on the
 * first, at another rank. */
static inline struct dsflow_graph *blocked_graph(void)
{
    struct dsflow_graph *g = dsflow_graph_new();
    const struct dsflow_data_spec spec =
        DSFLOW_DATA(.elems = 64, .persistent = 1);
    struct dsflow_data_spec a = spec, b = spec;
    dsflow_data_id one, other;

    a.name = "one";
    b.name = "other";
    one = dsflow_graph_add_data(g, &a);
    other = dsflow_graph_add_data(g, &b);
    for (int i = 0; i < 4; i++)
        dsflow_graph_add_task(
            g,
            &DSFLOW_TASK(.op = i == 0 ? &block_op : &pass_op,
                         .layer = (int16_t)(i == 1 ? 7 : -1),
                         .rank = (int16_t)(i == 3 ? 0 : DSFLOW_ANYWHERE),
                         .priority = i == 0, .ndata = 1,
                         .data = (dsflow_data_id[]){ i == 2 ? other : one }));
    return g;
}

/* Of one worker, with `steps` steps submitted; the task that blocks runs. */
static inline struct dsflow_exec *
blocked_exec(struct dsflow_graph *g, const struct dsflow_host *host, int steps)
{
    const struct dsflow_exec_options options =
        DSFLOW_EXEC_OPTIONS(.kind = DSFLOW_STARPU, .workers = 1);
    struct dsflow_exec *exec = NULL;
    struct dsflow_err err;

    sem_init(&began, 0, 0);
    sem_init(&let_go, 0, 0);
    dsflow_op_register(&block_op, &err);
    dsflow_op_register(&pass_op, &err);
    dsflow_codelet_register(&block_codelet, &err);
    dsflow_codelet_register(&pass_codelet, &err);
    if (dsflow_exec_open(g, &options, host, &exec, &err) < 0)
        fail_msg("%s", err.msg);
    for (int i = 0; i < steps; i++)
        assert_int_equal(dsflow_exec_submit(exec, DSFLOW_STEP, &err), 0);
    sem_wait(&began);
    return exec;
}

static inline void let_all_go(struct dsflow_exec *exec, int steps)
{
    struct dsflow_err err;

    for (int i = 0; i < steps; i++)
        sem_post(&let_go);
    assert_int_equal(dsflow_exec_wait(exec, &err), DSFLOW_OK);
}

#endif
