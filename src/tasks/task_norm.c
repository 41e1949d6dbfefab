/* task_norm.c - the norm of the whole gradient, and clipping by it. */
#include "tasks/tasks.h"

static int square_check(const size_t *bytes, unsigned n, const void *args,
                        struct dsflow_err *err)
{
    const struct dsf_square_args *a = args;

    if (a->elems < 0 || a->at < 0 || a->block < 1 ||
        a->elems % a->block != 0 ||
        (int64_t)(bytes[0] / sizeof(float)) - a->at < a->elems ||
        (int64_t)(bytes[1] / sizeof(double)) < a->elems / a->block)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "square: %lld numbers from %lld on, in blocks of "
                           "%lld, of %zu bytes",
                           (long long)a->elems, (long long)a->at,
                           (long long)a->block, bytes[0]);
    return DSFLOW_OK;
}

static void square_cost(const size_t *bytes, unsigned n, const void *args,
                        struct dsflow_cost *cost)
{
    const struct dsf_square_args *a = args;

    cost->flops = 2.0 * (double)a->elems;
    cost->bytes = sizeof(float) * (double)a->elems;
}

const struct dsflow_op dsf_op_square = {
    .abi = DSFLOW_OP_ABI,
    .name = "square",
    .direction = DSFLOW_DIR_UPDATE,
    .summary = "squared norm of a gradient",
    .args_size = sizeof(struct dsf_square_args),
    DSFLOW_PORTS({ "in", DSFLOW_R }, { "out", DSFLOW_W }),
    .check = square_check,
    .cost = square_cost,
};

static int sum_check(const size_t *bytes, unsigned n, const void *args,
                     struct dsflow_err *err)
{
    for (unsigned i = 0; i < n; i++)
        if (bytes[i] < sizeof(double) || bytes[i] % sizeof(double) != 0)
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "sum: %zu bytes: expected doubles", bytes[i]);
    return DSFLOW_OK;
}

static void sum_cost(const size_t *bytes, unsigned n, const void *args,
                     struct dsflow_cost *cost)
{
    for (unsigned i = 0; i < n; i++)
        cost->bytes += (double)bytes[i];
    cost->flops = cost->bytes / sizeof(double);
}

const struct dsflow_op dsf_op_sum = {
    .abi = DSFLOW_OP_ABI,
    .name = "sum",
    .direction = DSFLOW_DIR_UPDATE,
    .summary = "sum of numbers, left to right",
    .repeats = 1,
    .comm = DSFLOW_COMM_REDUCE,
    DSFLOW_PORTS({ "out", DSFLOW_RW }, { "in", DSFLOW_R }),
    .check = sum_check,
    .cost = sum_cost,
};

static int clip_check(const size_t *bytes, unsigned n, const void *args,
                      struct dsflow_err *err)
{
    const struct dsf_clip_args *a = args;

    if (bytes[0] < sizeof(double) || bytes[1] < sizeof(struct dsflow_control))
        return dsflow_fail(err, DSFLOW_EINVAL, "clip: control: %zu bytes",
                           bytes[1]);
    if (!(a->limit >= 0))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "clip: limit: %g: expected 0 or more", a->limit);
    return DSFLOW_OK;
}

static void clip_cost(const size_t *bytes, unsigned n, const void *args,
                      struct dsflow_cost *cost)
{
    cost->bytes = 2 * sizeof(struct dsflow_control);
}

const struct dsflow_op dsf_op_clip = {
    .abi = DSFLOW_OP_ABI,
    .name = "clip",
    .direction = DSFLOW_DIR_UPDATE,
    .summary = "scale that keeps the gradient's norm within the limit",
    .args_size = sizeof(struct dsf_clip_args),
    DSFLOW_PORTS({ "norm2", DSFLOW_R }, { "control", DSFLOW_RW }),
    .check = clip_check,
    .cost = clip_cost,
};
