/* bad_cuda.c - a plug-in whose CUDA sides have the faults that `dsflow codelet
 * check` should find, each under its own name, beside sound CPU sides. */
#include "bad_cuda.h"

#include <dsflow/plugin.h>

/* Every task: out = 2 in, of as many numbers, and sum is that of `in`. */
static int check(const struct dsflow_case *c, struct dsflow_err *err)
{
    return c->shapes[IN].elems == c->shapes[OUT].elems
               ? DSFLOW_OK
               : dsflow_fail(err, DSFLOW_EINVAL, "sizes");
}

static size_t scratch(const struct dsflow_case *c)
{
    return c->shapes[IN].bytes;
}

static int make(const struct dsflow_op *op, uint64_t seed,
                struct dsflow_shape *shapes, unsigned *n, void *args,
                unsigned *fresh)
{
    *n = 3;
    shapes[IN] = shapes[OUT] =
        dsflow_shape_of(DSFLOW_FP32, 70 + (int64_t)(seed * 7 % 50));
    shapes[SUM] = dsflow_shape_of(DSFLOW_FP32, 1);
    return DSFLOW_OK;
}
static const struct dsflow_trials trials = { .make = make };

static void cpu(const struct dsflow_call *call)
{
    const float *in = call->bufs[IN].ptr;
    float *out = call->bufs[OUT].ptr;
    double sum = 0;

    for (int64_t i = 0; i < call->bufs[IN].elems; i++) {
        out[i] = 2 * in[i];
        sum += in[i];
    }
    *(float *)call->bufs[SUM].ptr = (float)sum;
}

#define TASK(f)                                                                \
    static const struct dsflow_op op_##f = {                                   \
        .abi = DSFLOW_OP_ABI,                                                  \
        .name = #f,                                                            \
        .summary = "a task",                                                   \
        DSFLOW_PORTS({ "in", DSFLOW_R, DSFLOW_FP32 },                          \
                     { "out", DSFLOW_W, DSFLOW_FP32 },                         \
                     { "sum", DSFLOW_W, DSFLOW_FP32 }),                        \
        .check = check,                                                        \
        .scratch = scratch,                                                    \
    };                                                                         \
    static const struct dsflow_codelet codelet_##f = {                         \
        .abi = DSFLOW_CODELET_ABI,                                             \
        .op = &op_##f,                                                         \
        .cpu = cpu,                                                            \
        .cuda = f##_cuda,                                                      \
        .trials = &trials,                                                     \
    };
BAD_TASKS(TASK)

/* Every optimizer: param -= lr scale grad. */
static void update(const struct dsflow_call *call)
{
    const struct dsflow_update_args *a = call->args;
    const struct dsflow_control *control = call->bufs[CONTROL].ptr;
    const float *grad = (const float *)call->bufs[GRAD].ptr + a->grad_at;
    float *param = (float *)call->bufs[PARAM].ptr + a->param_at;

    for (int64_t i = 0; i < a->elems; i++)
        param[i] -= (float)(control->lr * control->scale) * grad[i];
}

#define OPTIMIZER(f)                                                           \
    static const struct dsflow_op op_##f = {                                   \
        .abi = DSFLOW_OP_ABI,                                                  \
        .name = #f,                                                            \
        .direction = DSFLOW_DIR_UPDATE,                                        \
        .update = 1,                                                           \
        .summary = "an optimizer",                                             \
        .args_size = sizeof(struct dsflow_update_args),                        \
        DSFLOW_PORTS({ "control", DSFLOW_R },                                  \
                     { "grad", DSFLOW_R, .slice = DSFLOW_ELEMS },              \
                     { "param", DSFLOW_RW, .slice = DSFLOW_ELEMS }),           \
        .check = dsflow_update_check,                                          \
        .slice = dsflow_update_slice,                                          \
    };                                                                         \
    static const struct dsflow_codelet codelet_##f = {                         \
        .abi = DSFLOW_CODELET_ABI,                                             \
        .op = &op_##f,                                                         \
        .cpu = update,                                                         \
        .cuda = f##_cuda,                                                      \
    };                                                                         \
    static const struct dsflow_optimizer optimizer_##f = {                     \
        .abi = DSFLOW_OPTIMIZER_ABI,                                           \
        .name = #f,                                                            \
        .summary = "an optimizer",                                             \
        .op = &op_##f,                                                         \
    };
BAD_OPTIMIZERS(OPTIMIZER)

#define OP(f)           &op_##f,
#define CODELET(f)      &codelet_##f,
#define OPTIMIZER_OF(f) &optimizer_##f,
const struct dsflow_plugin dsflow_plugin = {
    .abi = DSFLOW_PLUGIN_ABI,
    .name = "bad_cuda",
    .summary = "faults of CUDA sides",
    .ops = (const struct dsflow_op *const[]){ BAD_TASKS(OP) BAD_OPTIMIZERS(OP)
                                                  NULL },
    .codelets = (const struct dsflow_codelet *const[]){ BAD_TASKS(
        CODELET) BAD_OPTIMIZERS(CODELET) NULL },
    .optimizers = (const struct dsflow_optimizer *const[]){ BAD_OPTIMIZERS(
        OPTIMIZER_OF) NULL },
};
