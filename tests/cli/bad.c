/* bad.c - a plug-in with every fault that `dsflow codelet check` should find,
 * each under its own name, and with one of each sort that has none. */
#include <dsflow/plan.h>
#include <dsflow/plugin.h>
#include <dsflow/rewrite.h>
#include <fenv.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Every task: out = 2 in, of as many numbers; `sum` is added to, or set. */
enum { IN, OUT, SUM };

static int check(const struct dsflow_case *c, struct dsflow_err *err)
{
    return c->shapes[IN].elems <= c->shapes[OUT].elems &&
                   c->shapes[IN].elems <= c->shapes[SUM].elems
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
    shapes[IN] = shapes[OUT] = shapes[SUM] =
        dsflow_shape_of(DSFLOW_FP32, 1 + (int64_t)(seed * 7 % 50));
    *fresh = seed & 1 ? 1 << SUM : 0;
    return DSFLOW_OK;
}

static void good(const struct dsflow_call *call)
{
    const float *in = call->bufs[IN].ptr;
    float *out = call->bufs[OUT].ptr, *sum = call->bufs[SUM].ptr;

    for (size_t i = 0; i < call->bufs[IN].bytes / 4; i++) {
        out[i] = 2 * in[i];
        sum[i] = (call->fresh >> SUM & 1 ? 0 : sum[i]) + in[i];
    }
}

static size_t count(const struct dsflow_call *call)
{
    return call->bufs[IN].bytes / 4;
}

#define FLOATS(port) ((float *)call->bufs[port].ptr)

static void bad_crash(const struct dsflow_call *call)
{
    good(call);
    *(volatile int *)16 = 1;
}

static void bad_access(const struct dsflow_call *call)
{
    good(call);
    FLOATS(IN)[0] = 1;
}

static void bad_past(const struct dsflow_call *call)
{
    good(call);
    FLOATS(OUT)[count(call)] = 1;
}

static void bad_far(const struct dsflow_call *call)
{
    good(call);
    FLOATS(OUT)[count(call) + 1000] = 1;
}

static void bad_before(const struct dsflow_call *call)
{
    good(call);
    FLOATS(OUT)[-1] = 1;
}

static void bad_nan(const struct dsflow_call *call)
{
    good(call);
    FLOATS(OUT)[count(call) / 2] = NAN;
}

static void bad_twice(const struct dsflow_call *call)
{
    static int calls;

    good(call);
    FLOATS(OUT)[0] = (float)calls++;
}

static void bad_held(const struct dsflow_call *call)
{
    float held = FLOATS(OUT)[0];

    good(call);
    FLOATS(OUT)[0] = isfinite(held) ? 2 * held : 1;
}

static void bad_fresh(const struct dsflow_call *call)
{
    float held = FLOATS(SUM)[0];

    good(call);
    FLOATS(SUM)[0] = isfinite(held) ? held + FLOATS(IN)[0] : 1;
}

static void bad_scratch(const struct dsflow_call *call)
{
    float held = *(const float *)call->scratch;

    good(call);
    FLOATS(OUT)[0] = isfinite(held) ? held : 1;
}

static void bad_address(const struct dsflow_call *call)
{
    good(call);
    FLOATS(OUT)[0] = (float)((size_t)call->bufs[IN].ptr % 4096);
}

/* What it keeps is that of whoever calls it next. */
static void bad_kept(const struct dsflow_call *call)
{
    static float kept[64];

    memcpy(kept, FLOATS(IN), call->bufs[IN].bytes);
    usleep(500);
    good(call);
    for (size_t i = 0; i < count(call); i++)
        FLOATS(OUT)[i] = 2 * kept[i];
}

static void bad_rounding(const struct dsflow_call *call)
{
    good(call);
    fesetround(FE_TOWARDZERO);
}

static void bad_number(const struct dsflow_call *call)
{
    good(call);
    FLOATS(OUT)[count(call) - 1] += 0.01f;
}

static void bad_short(const struct dsflow_call *call)
{
    float held = FLOATS(OUT)[count(call) - 1];

    good(call);
    FLOATS(OUT)[count(call) - 1] = held;
}

static void bad_hang(const struct dsflow_call *call)
{
    for (volatile int forever = 1; forever;)
        good(call);
}

static void bad_exit(const struct dsflow_call *call)
{
    exit(3);
}

static void bad_abort(const struct dsflow_call *call)
{
    abort();
}

static void bad_stack(const struct dsflow_call *call)
{
    volatile char room[100000];

    room[0] = 1;
    if (count(call) > 0) /* always */
        bad_stack(call);
    room[1] = room[0];
}

static const struct dsflow_trials trials = { .make = make, .reference = good };

#define TASK(f, its_trials)                                                    \
    static const struct dsflow_op op_##f = {                                   \
        .abi = DSFLOW_OP_ABI,                                                  \
        .name = #f,                                                            \
        .summary = "a task",                                                   \
        DSFLOW_PORTS({ "in", DSFLOW_R }, { "out", DSFLOW_W },                  \
                     { "sum", DSFLOW_RW }),                                    \
        .check = check,                                                        \
        .scratch = scratch,                                                    \
    };                                                                         \
    static const struct dsflow_codelet codelet_##f = {                         \
        .abi = DSFLOW_CODELET_ABI,                                             \
        .op = &op_##f,                                                         \
        .cpu = f,                                                              \
        .trials = its_trials,                                                  \
    };
#define TASKS(XX)                                                              \
    XX(good)                                                                   \
    XX(bad_crash)                                                              \
    XX(bad_access)                                                             \
    XX(bad_past)                                                               \
    XX(bad_far)                                                                \
    XX(bad_before)                                                             \
    XX(bad_nan)                                                                \
    XX(bad_twice)                                                              \
    XX(bad_held)                                                               \
    XX(bad_fresh)                                                              \
    XX(bad_scratch)                                                            \
    XX(bad_address)                                                            \
    XX(bad_kept)                                                               \
    XX(bad_rounding)                                                           \
    XX(bad_number)                                                             \
    XX(bad_short)                                                              \
    XX(bad_hang)                                                               \
    XX(bad_exit)                                                               \
    XX(bad_abort)                                                              \
    XX(bad_stack)
#define XX(f) TASK(f, &trials)
TASKS(XX)
#undef XX

/* No trials: it cannot be tried alone. */
static void untried_as_it_has_no_trials_for_it(const struct dsflow_call *call)
{
    good(call);
}
TASK(untried_as_it_has_no_trials_for_it, NULL)

/* A segment `out` that computes y = x + 2 (att W^T + b), and leaves the
 * backward pass to the built-in one, which is of another function. */
static const struct dsflow_codelet *original(void)
{
    return dsflow_codelet_find(dsflow_op_find("out.forward"));
}

static int gradient_make(const struct dsflow_op *op, uint64_t seed,
                         struct dsflow_shape *shapes, unsigned *n, void *args,
                         unsigned *fresh)
{
    return original()->trials->make(op, seed, shapes, n, args, fresh);
}

static int gradient_check(const struct dsflow_case *c, struct dsflow_err *err)
{
    return original()->op->check(c, err);
}

static void bad_gradient(const struct dsflow_call *call)
{
    const float *x = call->bufs[0].ptr;
    float *y = call->bufs[3].ptr;

    original()->cpu(call);
    for (size_t i = 0; i < call->bufs[3].bytes / 4; i++)
        y[i] += y[i] - x[i];
}

static const struct dsflow_trials gradient_trials = {
    .make = gradient_make,
    .reference = bad_gradient,
};
static const struct dsflow_op op_bad_gradient = {
    .abi = DSFLOW_OP_ABI,
    .name = "bad_gradient",
    .segment = "out",
    .direction = DSFLOW_DIR_FORWARD,
    .summary = "out, with another gradient",
    .args_size = sizeof(struct dsflow_out_args),
    DSFLOW_PORTS({ "x", DSFLOW_R }, { "att", DSFLOW_R }, { "unit", DSFLOW_R },
                 { "y", DSFLOW_W }),
    .check = gradient_check,
};
static const struct dsflow_codelet codelet_bad_gradient = {
    .abi = DSFLOW_CODELET_ABI,
    .op = &op_bad_gradient,
    .cpu = bad_gradient,
    .trials = &gradient_trials,
};
static const struct dsflow_segment segment = {
    .abi = DSFLOW_SEGMENT_ABI,
    .name = "bad",
    .summary = "out, with another gradient",
    .replaces = "out",
    .forward = &op_bad_gradient,
};

/* Optimizers: one moves the padding, one needs whole tensors and does not say
 * so, one does not clip. */
static void bad_padding(const struct dsflow_call *call)
{
    const struct dsflow_update_args *a = call->args;

    for (int64_t i = 0; i < a->elems; i++)
        FLOATS(2)[a->param_at + i] -= 0.01f * (FLOATS(1)[a->grad_at + i] + 1);
}

static void bad_shard(const struct dsflow_call *call)
{
    const struct dsflow_update_args *a = call->args;
    float sum = 1;

    for (int64_t i = 0; i < a->elems; i++)
        sum += fabsf(FLOATS(1)[a->grad_at + i]);
    for (int64_t i = 0; i < a->elems; i++)
        FLOATS(2)[a->param_at + i] -= FLOATS(1)[a->grad_at + i] / sum;
}

static void bad_scale(const struct dsflow_call *call)
{
    const struct dsflow_update_args *a = call->args;

    for (int64_t i = 0; i < a->elems; i++)
        FLOATS(2)[a->param_at + i] -= 0.01f * FLOATS(1)[a->grad_at + i];
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
        .cpu = f,                                                              \
    };                                                                         \
    static const struct dsflow_optimizer optimizer_##f = {                     \
        .abi = DSFLOW_OPTIMIZER_ABI,                                           \
        .name = #f,                                                            \
        .summary = "an optimizer",                                             \
        .op = &op_##f,                                                         \
    };
OPTIMIZER(bad_padding)
OPTIMIZER(bad_shard)
OPTIMIZER(bad_scale)

static double negative(const void *part, const struct dsflow_lr_keys *keys,
                       int64_t step)
{
    return keys->lr * (double)(7 - step);
}
static const struct dsflow_lr_schedule bad_rate = {
    .abi = DSFLOW_LR_SCHEDULE_ABI,
    .name = "bad_rate",
    .summary = "falls below zero",
    .lr = negative,
};

/* A policy that does not give the same graph twice. */
static int change(const void *part, const struct dsflow_plan *plan,
                  struct dsflow_graph *in, struct dsflow_graph *out,
                  struct dsflow_err *err)
{
    static int calls;
    char name[32];

    dsflow_rewrite_all(in, out, NULL, NULL);
    snprintf(name, sizeof(name), "data%d", calls++);
    dsflow_graph_add_data(out, &DSFLOW_DATA(.name = name, .elems = 4,
                                            .home = DSFLOW_ANYWHERE,
                                            .persistent = 1, .unit = -1));
    return DSFLOW_OK;
}
static const struct dsflow_policy bad_policy = {
    .abi = DSFLOW_POLICY_ABI,
    .name = "bad_policy",
    .summary = "another graph every time",
    .after = "priorities",
    .rewrite = change,
};

/* The upper half of each number; another one has 0 for what is no number. */
static size_t block_bytes(size_t block)
{
    return 2 * block;
}

static void encode_halves(size_t block, const float *in, uint8_t *out, size_t n)
{
    for (size_t i = 0; i < n * block; i++)
        memcpy(out + 2 * i, (const char *)&in[i] + 2, 2);
}

static void encode_finite(size_t block, const float *in, uint8_t *out, size_t n)
{
    encode_halves(block, in, out, n);
    for (size_t i = 0; i < n * block; i++)
        if (!isfinite(in[i]))
            memset(out + 2 * i, 0, 2);
}

static void decode(size_t block, const uint8_t *in, float *out, size_t n)
{
    memset(out, 0, n * block * sizeof(*out));
    for (size_t i = 0; i < n * block; i++)
        memcpy((char *)&out[i] + 2, in + 2 * i, 2);
}

#define FORMAT(f, its_error, encodes)                                          \
    static const struct dsflow_wire_format f = {                               \
        .abi = DSFLOW_WIRE_FORMAT_ABI,                                         \
        .name = #f,                                                            \
        .summary = "a format",                                                 \
        .block = 64,                                                           \
        .error = its_error,                                                    \
        .bytes = block_bytes,                                                  \
        .encode = encodes,                                                     \
        .decode = decode,                                                      \
    };
FORMAT(bad_error, 1e-3, encode_halves)
FORMAT(bad_infinity, 1.0 / 128, encode_finite)

const struct dsflow_plugin dsflow_plugin = {
    .abi = DSFLOW_PLUGIN_ABI,
    .name = "bad",
    .summary = "every fault there is",
#define XX(f) &op_##f,
    .ops =
        (const struct dsflow_op *const[]){
            TASKS(XX) & op_untried_as_it_has_no_trials_for_it, &op_bad_gradient,
            &op_bad_padding, &op_bad_shard, &op_bad_scale, NULL },
#undef XX
#define XX(f) &codelet_##f,
    .codelets =
        (const struct dsflow_codelet *const[]){
            TASKS(XX) & codelet_untried_as_it_has_no_trials_for_it,
            &codelet_bad_gradient, &codelet_bad_padding, &codelet_bad_shard,
            &codelet_bad_scale, NULL },
#undef XX
    .optimizers =
        (const struct dsflow_optimizer *const[]){ &optimizer_bad_padding,
                                                  &optimizer_bad_shard,
                                                  &optimizer_bad_scale, NULL },
    .schedules = (const struct dsflow_lr_schedule *const[]){ &bad_rate, NULL },
    .segments = (const struct dsflow_segment *const[]){ &segment, NULL },
    .policies = (const struct dsflow_policy *const[]){ &bad_policy, NULL },
    .formats =
        (const struct dsflow_wire_format *const[]){ &bad_error, &bad_infinity,
                                                    NULL },
};
