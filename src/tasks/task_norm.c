/* task_norm.c - the norm of the whole gradient, and clipping by it. */
#include "tasks/tasks.h"

static int square_check(const size_t *bytes, unsigned n, const void *args,
                        struct dsflow_err *err)
{
    const struct dsf_square_args *a = args;

    if (a->elems < 0 || bytes[0] / sizeof(float) < (size_t)a->elems ||
        bytes[1] < sizeof(double))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "square: %lld numbers in %zu bytes",
                           (long long)a->elems, bytes[0]);
    return DSFLOW_OK;
}

static void square_cost(const size_t *bytes, unsigned n, const void *args,
                        struct dsflow_cost *cost)
{
    cost->flops = 2.0 * (double)bytes[0] / sizeof(float);
    cost->bytes = (double)bytes[0];
}

const struct dsflow_op dsf_op_square = {
    .abi = DSFLOW_OP_ABI,
    .name = "square",
    .summary = "squared norm of a gradient",
    .args_size = sizeof(struct dsf_square_args),
    .nports = 2,
    .ports = { { "in", DSFLOW_R }, { "out", DSFLOW_W } },
    .check = square_check,
    .cost = square_cost,
};

static int sum_check(const size_t *bytes, unsigned n, const void *args,
                     struct dsflow_err *err)
{
    for (unsigned i = 0; i < n; i++)
        if (bytes[i] < sizeof(double))
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "sum: %zu bytes: expected a double", bytes[i]);
    return DSFLOW_OK;
}

static void sum_cost(const size_t *bytes, unsigned n, const void *args,
                     struct dsflow_cost *cost)
{
    cost->flops = n;
    cost->bytes = (double)(n * sizeof(double));
}

const struct dsflow_op dsf_op_sum = {
    .abi = DSFLOW_OP_ABI,
    .name = "sum",
    .summary = "sum of numbers, left to right",
    .nports = 2,
    .repeats = 1,
    .ports = { { "out", DSFLOW_W }, { "in", DSFLOW_R } },
    .check = sum_check,
    .cost = sum_cost,
};

static int clip_check(const size_t *bytes, unsigned n, const void *args,
                      struct dsflow_err *err)
{
    const struct dsf_clip_args *a = args;

    if (bytes[0] < sizeof(double) || bytes[1] < sizeof(struct dsf_control))
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
    cost->bytes = 2 * sizeof(struct dsf_control);
}

const struct dsflow_op dsf_op_clip = {
    .abi = DSFLOW_OP_ABI,
    .name = "clip",
    .summary = "scale that keeps the gradient's norm within the limit",
    .args_size = sizeof(struct dsf_clip_args),
    .nports = 2,
    .ports = { { "norm2", DSFLOW_R }, { "control", DSFLOW_RW } },
    .check = clip_check,
    .cost = clip_cost,
};
