/* task_update.c - what becomes of a unit's gradient: sums over groups, and the
 * optimizers. They differ in their ports and in their arithmetic only. */
#include "tasks/tasks.h"

#include "tasks/components.h"

static int add_check(const size_t *bytes, unsigned n, const void *args,
                     struct dsflow_err *err)
{
    const struct dsf_add_args *a = args;

    if (a->elems < 0 || a->from_at < 0 ||
        (int64_t)(bytes[0] / sizeof(float)) < a->elems ||
        (int64_t)(bytes[1] / sizeof(float)) - a->from_at < a->elems)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "add: %lld numbers in %zu and %zu bytes",
                           (long long)a->elems, bytes[0], bytes[1]);
    return DSFLOW_OK;
}

static void add_cost(const size_t *bytes, unsigned n, const void *args,
                     struct dsflow_cost *cost)
{
    const struct dsf_add_args *a = args;

    cost->flops = (double)a->elems;
    cost->bytes = 3.0 * sizeof(float) * (double)a->elems;
}

const struct dsflow_op dsf_op_add = {
    .abi = DSFLOW_OP_ABI,
    .name = "add",
    .direction = DSFLOW_DIR_UPDATE,
    .summary = "gradients of one group onto those of another",
    .args_size = sizeof(struct dsf_add_args),
    DSFLOW_PORTS({ "into", DSFLOW_RW }, { "from", DSFLOW_R }),
    .check = add_check,
    .cost = add_cost,
};

int dsflow_update_check(const size_t *bytes, unsigned n, const void *args,
                        struct dsflow_err *err)
{
    const struct dsflow_update_args *a = args;

    if (a->elems < 0 || a->decay < 0 || a->decay > a->elems ||
        a->grad_at < 0 || a->param_at < 0)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "update: %lld of %lld numbers decay",
                           (long long)a->decay, (long long)a->elems);
    if (bytes[0] < sizeof(struct dsflow_control))
        return dsflow_fail(err, DSFLOW_EINVAL, "update: control: %zu bytes",
                           bytes[0]);
    for (unsigned i = 1; i < n; i++) {
        int64_t at = i == 1 ? a->grad_at : i == 2 ? a->param_at : 0;

        if ((int64_t)(bytes[i] / sizeof(float)) - at < a->elems)
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "update: port %u: %zu bytes: expected %lld "
                               "numbers from %lld on",
                               i, bytes[i], (long long)a->elems,
                               (long long)at);
    }
    return DSFLOW_OK;
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

void dsflow_update_cost(unsigned n, const void *args, double flops,
                        struct dsflow_cost *cost)
{
    const struct dsflow_update_args *a = args;

    cost->flops = flops * (double)a->elems;
    cost->bytes = sizeof(float) * (double)a->elems * (2.0 * (n - 1) - 1);
}

static void update_cost(const size_t *bytes, unsigned n, const void *args,
                        struct dsflow_cost *cost)
{
    dsflow_update_cost(n, args, 12, cost);
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
