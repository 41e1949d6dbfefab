/* task_move.c - what carries numbers from rank to rank. */
#include "tasks/shapes.h"
#include "tasks/tasks.h"

static int send_check(const struct dsflow_shape *shapes, unsigned n,
                      const void *args, struct dsflow_err *err)
{
    if (shapes[0].dtype == shapes[1].dtype &&
        shapes[0].elems == shapes[1].elems)
        return DSFLOW_OK;
    return dsflow_fail(
        err, DSFLOW_EINVAL, "send: %lld %s into %lld %s",
        (long long)shapes[0].elems, dsflow_dtype_str(shapes[0].dtype),
        (long long)shapes[1].elems, dsflow_dtype_str(shapes[1].dtype));
}

static void send_cost(const struct dsflow_shape *shapes, unsigned n,
                      const void *args, struct dsflow_cost *cost)
{
    cost->bytes = 2.0 * (double)shapes[0].bytes;
}

const struct dsflow_op dsf_op_send = {
    .abi = DSFLOW_OP_ABI,
    .name = "send",
    .direction = DSFLOW_DIR_MOVE,
    .summary = "copy of what another rank made",
    .comm = DSFLOW_COMM_SEND,
    DSFLOW_PORTS({ "in", DSFLOW_R }, { "out", DSFLOW_W }),
    .check = send_check,
    .cost = send_cost,
};

static int wait_check(const struct dsflow_shape *shapes, unsigned n,
                      const void *args, struct dsflow_err *err)
{
    return DSFLOW_OK;
}

static void wait_cost(const struct dsflow_shape *shapes, unsigned n,
                      const void *args, struct dsflow_cost *cost)
{
    cost->flops = 0;
}

const struct dsflow_op dsf_op_wait = {
    .abi = DSFLOW_OP_ABI,
    .name = "wait",
    .direction = DSFLOW_DIR_HOST,
    .summary = "what reads the first waits for the others too",
    .repeats = 1,
    DSFLOW_PORTS({ "data", DSFLOW_RW }, { "after", DSFLOW_R }),
    .check = wait_check,
    .cost = wait_cost,
};

static int split_check(const struct dsflow_shape *shapes, unsigned n,
                       const void *args, struct dsflow_err *err)
{
    const struct dsf_move_args *a = args;
    int status = DSFLOW_OK;

    for (unsigned i = 0; i + 1 < n && status == DSFLOW_OK; i++) {
        status = dsf_range_check(&dsf_op_split, 0, &shapes[0], shapes[0].dtype,
                                 a->at[i], a->elems[i], err);
        if (status == DSFLOW_OK)
            status = dsf_range_check(&dsf_op_split, i + 1, &shapes[i + 1],
                                     shapes[0].dtype, 0, a->elems[i], err);
    }
    return status;
}

static double moved(const struct dsflow_shape *shapes, unsigned n,
                    const struct dsf_move_args *a)
{
    double bytes = 0;

    for (unsigned i = 0; i + 1 < n; i++)
        bytes += (double)dsflow_dtype_bytes(shapes[0].dtype, a->elems[i]);
    return bytes;
}

static void move_cost(const struct dsflow_shape *shapes, unsigned n,
                      const void *args, struct dsflow_cost *cost)
{
    cost->bytes = 2.0 * moved(shapes, n, args);
}

const struct dsflow_op dsf_op_split = {
    .abi = DSFLOW_OP_ABI,
    .name = "split",
    .direction = DSFLOW_DIR_MOVE,
    .summary = "pieces of a buffer, for other ranks to read",
    .args_size = sizeof(struct dsf_move_args),
    .repeats = 1,
    DSFLOW_PORTS({ "in", DSFLOW_R }, { "out", DSFLOW_W }),
    .check = split_check,
    .cost = move_cost,
};

static int gather_check(const struct dsflow_shape *shapes, unsigned n,
                        const void *args, struct dsflow_err *err)
{
    const struct dsf_move_args *a = args;
    int status = DSFLOW_OK;

    for (unsigned i = 0; i + 1 < n && status == DSFLOW_OK; i++) {
        status = dsf_range_check(&dsf_op_gather, 0, &shapes[0], shapes[0].dtype,
                                 a->at[i], a->elems[i], err);
        if (status == DSFLOW_OK)
            status =
                dsf_range_check(&dsf_op_gather, i + 1, &shapes[i + 1],
                                shapes[0].dtype, a->from[i], a->elems[i], err);
    }
    return status;
}

const struct dsflow_op dsf_op_gather = {
    .abi = DSFLOW_OP_ABI,
    .name = "gather",
    .direction = DSFLOW_DIR_MOVE,
    .summary = "a whole buffer from the shards of several ranks",
    .args_size = sizeof(struct dsf_move_args),
    .repeats = 1,
    .comm = DSFLOW_COMM_GATHER,
    DSFLOW_PORTS({ "whole", DSFLOW_RW }, { "in", DSFLOW_R }),
    .check = gather_check,
    .cost = move_cost,
};

static int reduce_scatter_check(const struct dsflow_shape *shapes, unsigned n,
                                const void *args, struct dsflow_err *err)
{
    const struct dsf_move_args *a = args;
    int status = dsf_range_check(&dsf_op_reduce_scatter, 0, &shapes[0],
                                 DSFLOW_FP32, a->at[0], a->elems[0], err);

    for (unsigned i = 0; i + 1 < n && status == DSFLOW_OK; i++)
        status = dsf_range_check(&dsf_op_reduce_scatter, i + 1, &shapes[i + 1],
                                 DSFLOW_FP32, a->from[i], a->elems[0], err);
    if (status == DSFLOW_OK && (a->self < -1 || a->self > (int)n - 1))
        status = dsflow_fail(err, DSFLOW_EINVAL,
                             "reduce_scatter: self: %d: expected -1 to %u",
                             (int)a->self, n - 1);
    return status;
}

static void reduce_scatter_cost(const struct dsflow_shape *shapes, unsigned n,
                                const void *args, struct dsflow_cost *cost)
{
    const struct dsf_move_args *a = args;
    double leaves = n - 1 + (a->self >= 0);

    cost->flops = (leaves - 1) * (double)a->elems[0];
    cost->bytes =
        (leaves + 1) * (double)dsflow_dtype_bytes(shapes[0].dtype, a->elems[0]);
}

const struct dsflow_op dsf_op_reduce_scatter = {
    .abi = DSFLOW_OP_ABI,
    .name = "reduce_scatter",
    .direction = DSFLOW_DIR_MOVE,
    .summary = "one shard of a sum over ranks, in a fixed tree",
    .args_size = sizeof(struct dsf_move_args),
    .repeats = 1,
    .comm = DSFLOW_COMM_REDUCE,
    DSFLOW_PORTS({ "into", DSFLOW_RW }, { "in", DSFLOW_R }),
    .check = reduce_scatter_check,
    .cost = reduce_scatter_cost,
};
