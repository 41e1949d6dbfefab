/* task_move.c - what carries numbers from rank to rank. */
#include "tasks/tasks.h"

/* Are numbers at .. at+elems within `bytes`? */
static int within(const struct dsflow_op *op, unsigned port, size_t bytes,
                  int64_t at, int64_t elems, struct dsflow_err *err)
{
    int64_t has = (int64_t)(bytes / sizeof(float));

    if (at >= 0 && elems >= 0 && at <= has && elems <= has - at)
        return DSFLOW_OK;
    return dsflow_fail(
        err, DSFLOW_EINVAL, "%s: port %u: %lld numbers from %lld on, of %lld",
        op->name, port, (long long)elems, (long long)at, (long long)has);
}

static int send_check(const size_t *bytes, unsigned n, const void *args,
                      struct dsflow_err *err)
{
    if (bytes[0] != bytes[1])
        return dsflow_fail(err, DSFLOW_EINVAL, "send: %zu bytes into %zu",
                           bytes[0], bytes[1]);
    return DSFLOW_OK;
}

static void send_cost(const size_t *bytes, unsigned n, const void *args,
                      struct dsflow_cost *cost)
{
    cost->bytes = 2.0 * (double)bytes[0];
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

static int wait_check(const size_t *bytes, unsigned n, const void *args,
                      struct dsflow_err *err)
{
    return DSFLOW_OK;
}

static void wait_cost(const size_t *bytes, unsigned n, const void *args,
                      struct dsflow_cost *cost)
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

static int split_check(const size_t *bytes, unsigned n, const void *args,
                       struct dsflow_err *err)
{
    const struct dsf_move_args *a = args;
    int status = DSFLOW_OK;

    for (unsigned i = 0; i + 1 < n && status == DSFLOW_OK; i++) {
        status = within(&dsf_op_split, 0, bytes[0], a->at[i], a->elems[i], err);
        if (status == DSFLOW_OK)
            status =
                within(&dsf_op_split, i + 1, bytes[i + 1], 0, a->elems[i], err);
    }
    return status;
}

static double moved(unsigned n, const struct dsf_move_args *a)
{
    double elems = 0;

    for (unsigned i = 0; i + 1 < n; i++)
        elems += (double)a->elems[i];
    return elems;
}

static void move_cost(const size_t *bytes, unsigned n, const void *args,
                      struct dsflow_cost *cost)
{
    cost->bytes = 2.0 * sizeof(float) * moved(n, args);
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

static int gather_check(const size_t *bytes, unsigned n, const void *args,
                        struct dsflow_err *err)
{
    const struct dsf_move_args *a = args;
    int status = DSFLOW_OK;

    for (unsigned i = 0; i + 1 < n && status == DSFLOW_OK; i++) {
        status =
            within(&dsf_op_gather, 0, bytes[0], a->at[i], a->elems[i], err);
        if (status == DSFLOW_OK)
            status = within(&dsf_op_gather, i + 1, bytes[i + 1], a->from[i],
                            a->elems[i], err);
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

static int reduce_scatter_check(const size_t *bytes, unsigned n,
                                const void *args, struct dsflow_err *err)
{
    const struct dsf_move_args *a = args;
    int status =
        within(&dsf_op_reduce_scatter, 0, bytes[0], a->at[0], a->elems[0], err);

    for (unsigned i = 0; i + 1 < n && status == DSFLOW_OK; i++)
        status = within(&dsf_op_reduce_scatter, i + 1, bytes[i + 1], a->from[i],
                        a->elems[0], err);
    if (status == DSFLOW_OK && (a->self < -1 || a->self > (int)n - 1))
        status = dsflow_fail(err, DSFLOW_EINVAL,
                             "reduce_scatter: self: %d: expected -1 to %u",
                             (int)a->self, n - 1);
    return status;
}

static void reduce_scatter_cost(const size_t *bytes, unsigned n,
                                const void *args, struct dsflow_cost *cost)
{
    const struct dsf_move_args *a = args;
    double leaves = n - 1 + (a->self >= 0);

    cost->flops = (leaves - 1) * (double)a->elems[0];
    cost->bytes = sizeof(float) * (leaves + 1) * (double)a->elems[0];
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
