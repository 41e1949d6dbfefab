/* task_norm.c - the norm of the whole gradient, and clipping by it. */
#include "tasks/shapes.h"
#include "tasks/tasks.h"

static int square_check(const struct dsflow_shape *shapes, unsigned n,
                        const void *args, struct dsflow_err *err)
{
    const struct dsf_square_args *a = args;
    const struct dsflow_op *op = &dsf_op_square;
    int status;

    if (a->elems < 0 || a->at < 0 || shapes[1].elems < 1 ||
        a->elems % shapes[1].elems != 0)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "square: %lld numbers from %lld on, in %lld blocks",
                           (long long)a->elems, (long long)a->at,
                           (long long)shapes[1].elems);
    status =
        dsf_range_check(op, 0, &shapes[0], DSFLOW_FP32, a->at, a->elems, err);
    if (status == DSFLOW_OK)
        status = dsf_port_check(op, 1, &shapes[1], DSFLOW_FP64, 1, err);
    return status;
}

static void square_cost(const struct dsflow_shape *shapes, unsigned n,
                        const void *args, struct dsflow_cost *cost)
{
    const struct dsf_square_args *a = args;

    cost->flops = 2.0 * (double)a->elems;
    cost->bytes = (double)dsflow_dtype_bytes(shapes[0].dtype, a->elems);
}

static void square_slice(void *args, int64_t from, int64_t elems,
                         const int64_t *gone)
{
    struct dsf_square_args *a = args;

    a->elems = elems;
    if (from >= 0)
        a->at += from - gone[0];
}

const struct dsflow_op dsf_op_square = {
    .abi = DSFLOW_OP_ABI,
    .name = "square",
    .direction = DSFLOW_DIR_UPDATE,
    .summary = "squared norm of a gradient",
    .args_size = sizeof(struct dsf_square_args),
    DSFLOW_PORTS({ "in", DSFLOW_R, DSFLOW_FP32, DSFLOW_ELEMS },
                 { "out", DSFLOW_W, DSFLOW_FP64, DSFLOW_BLOCKS }),
    .check = square_check,
    .cost = square_cost,
    .slice = square_slice,
};

static int sum_check(const struct dsflow_shape *shapes, unsigned n,
                     const void *args, struct dsflow_err *err)
{
    int status = DSFLOW_OK;

    for (unsigned i = 0; i < n && status == DSFLOW_OK; i++)
        status =
            dsf_port_check(&dsf_op_sum, i, &shapes[i], DSFLOW_FP64, 1, err);
    return status;
}

static void sum_cost(const struct dsflow_shape *shapes, unsigned n,
                     const void *args, struct dsflow_cost *cost)
{
    for (unsigned i = 0; i < n; i++) {
        cost->bytes += (double)shapes[i].bytes;
        cost->flops += (double)shapes[i].elems;
    }
}

const struct dsflow_op dsf_op_sum = {
    .abi = DSFLOW_OP_ABI,
    .name = "sum",
    .direction = DSFLOW_DIR_UPDATE,
    .summary = "sum of numbers, left to right",
    .repeats = 1,
    .comm = DSFLOW_COMM_REDUCE,
    .joins = 1,
    DSFLOW_PORTS({ "out", DSFLOW_RW, DSFLOW_FP64 },
                 { "in", DSFLOW_R, DSFLOW_FP64 }),
    .check = sum_check,
    .cost = sum_cost,
};

static int clip_check(const struct dsflow_shape *shapes, unsigned n,
                      const void *args, struct dsflow_err *err)
{
    const struct dsf_clip_args *a = args;
    int status;

    if (!(a->limit >= 0))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "clip: limit: %g: expected 0 or more", a->limit);
    status = dsf_port_check(&dsf_op_clip, 0, &shapes[0], DSFLOW_FP64, 1, err);
    if (status == DSFLOW_OK)
        status = dsf_control_check(&dsf_op_clip, 1, &shapes[1], err);
    return status;
}

static void clip_cost(const struct dsflow_shape *shapes, unsigned n,
                      const void *args, struct dsflow_cost *cost)
{
    cost->bytes = 2 * sizeof(struct dsflow_control);
}

const struct dsflow_op dsf_op_clip = {
    .abi = DSFLOW_OP_ABI,
    .name = "clip",
    .direction = DSFLOW_DIR_UPDATE,
    .summary = "scale that keeps the gradient's norm within the limit",
    .args_size = sizeof(struct dsf_clip_args),
    DSFLOW_PORTS({ "norm2", DSFLOW_R, DSFLOW_FP64 }, { "control", DSFLOW_RW }),
    .check = clip_check,
    .cost = clip_cost,
};
