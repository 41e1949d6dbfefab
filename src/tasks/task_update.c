/* task_update.c - what becomes of a unit's gradient: sums over groups, and the
 * optimizers. They differ in their ports and in their arithmetic only. */
#include "tasks/tasks.h"

#include "tasks/components.h"
#include "tasks/shapes.h"

static int add_check(const struct dsflow_shape *shapes, unsigned n,
                     const void *args, struct dsflow_err *err)
{
    const struct dsf_add_args *a = args;
    int status = dsf_range_check(&dsf_op_add, 0, &shapes[0], DSFLOW_FP32, 0,
                                 a->elems, err);

    if (status == DSFLOW_OK)
        status = dsf_range_check(&dsf_op_add, 1, &shapes[1], DSFLOW_FP32,
                                 a->from_at, a->elems, err);
    return status;
}

static void add_cost(const struct dsflow_shape *shapes, unsigned n,
                     const void *args, struct dsflow_cost *cost)
{
    const struct dsf_add_args *a = args;

    cost->flops = (double)a->elems;
    cost->bytes = 3.0 * (double)dsflow_dtype_bytes(shapes[0].dtype, a->elems);
}

const struct dsflow_op dsf_op_add = {
    .abi = DSFLOW_OP_ABI,
    .name = "add",
    .direction = DSFLOW_DIR_UPDATE,
    .summary = "gradients of one group onto those of another",
    .args_size = sizeof(struct dsf_add_args),
    DSFLOW_PORTS({ "into", DSFLOW_RW, DSFLOW_FP32 },
                 { "from", DSFLOW_R, DSFLOW_FP32 }),
    .check = add_check,
    .cost = add_cost,
};

/* For the messages: which optimizer it is, is not known to its check. */
static const struct dsflow_op update = {
    .name = "update",
    DSFLOW_PORTS({ "control", DSFLOW_R }, { "grad", DSFLOW_R },
                 { "param", DSFLOW_RW }, { "state", DSFLOW_RW }),
};

int dsflow_update_check(const struct dsflow_shape *shapes, unsigned n,
                        const void *args, struct dsflow_err *err)
{
    const struct dsflow_update_args *a = args;
    int status;

    if (a->elems < 0 || a->decay < 0 || a->decay > a->elems ||
        a->grad_at < 0 || a->param_at < 0)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "update: %lld of %lld numbers decay",
                           (long long)a->decay, (long long)a->elems);
    status = dsf_control_check(&update, 0, &shapes[0], err);
    for (unsigned i = 1; i < n && status == DSFLOW_OK; i++)
        status = dsf_range_check(&update, i, &shapes[i], DSFLOW_FP32,
                                 i == 1   ? a->grad_at
                                 : i == 2 ? a->param_at
                                          : 0,
                                 a->elems, err);
    return status;
}

void dsf_update_slice(struct dsflow_update_args *args, int64_t from,
                      int64_t elems)
{
    int32_t n = 0;

    args->decay = args->decay < from ? 0 : args->decay - from;
    args->decay = args->decay > elems ? elems : args->decay;
    args->elems = elems;
    for (int32_t i = 0; i < args->ntensors; i++) {
        struct dsflow_tensor t = args->tensors[i];

        t.at -= from;
        if (t.at < elems && t.at + t.rows * t.cols > 0)
            args->tensors[n++] = t;
    }
    args->ntensors = n;
}

void dsflow_update_cost(const struct dsflow_shape *shapes, unsigned n,
                        const void *args, double flops,
                        struct dsflow_cost *cost)
{
    const struct dsflow_update_args *a = args;

    cost->flops = flops * (double)a->elems;
    for (unsigned i = 1; i < n; i++)
        cost->bytes += (i == 1 ? 1.0 : 2.0) *
                       (double)dsflow_dtype_bytes(shapes[i].dtype, a->elems);
}

static void update_cost(const struct dsflow_shape *shapes, unsigned n,
                        const void *args, struct dsflow_cost *cost)
{
    dsflow_update_cost(shapes, n, args, 12, cost);
}

const struct dsflow_op dsf_op_adam = {
    .abi = DSFLOW_OP_ABI,
    .name = "adam",
    .direction = DSFLOW_DIR_UPDATE,
    .update = 1,
    .summary = "Adam or AdamW update of a unit",
    .args_size = sizeof(struct dsf_update_args),
    DSFLOW_PORTS({ "control", DSFLOW_R }, { "grad", DSFLOW_R },
                 { "param", DSFLOW_RW }, { "m", DSFLOW_RW },
                 { "v", DSFLOW_RW }),
    .check = dsflow_update_check,
    .cost = update_cost,
};

const struct dsflow_op dsf_op_sgd = {
    .abi = DSFLOW_OP_ABI,
    .name = "sgd",
    .direction = DSFLOW_DIR_UPDATE,
    .update = 1,
    .summary = "SGD update of a unit, with or without momentum",
    .args_size = sizeof(struct dsf_update_args),
    .noptional = 1,
    DSFLOW_PORTS({ "control", DSFLOW_R }, { "grad", DSFLOW_R },
                 { "param", DSFLOW_RW }, { "m", DSFLOW_RW }),
    .check = dsflow_update_check,
    .cost = update_cost,
};

const struct dsflow_op dsf_op_lion = {
    .abi = DSFLOW_OP_ABI,
    .name = "lion",
    .direction = DSFLOW_DIR_UPDATE,
    .update = 1,
    .summary = "Lion update of a unit",
    .args_size = sizeof(struct dsf_update_args),
    DSFLOW_PORTS({ "control", DSFLOW_R }, { "grad", DSFLOW_R },
                 { "param", DSFLOW_RW }, { "m", DSFLOW_RW }),
    .check = dsflow_update_check,
    .cost = update_cost,
};
