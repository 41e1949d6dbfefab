/* gated_norm.c - a segment of its own: y = x + w u sigmoid(a u), where u are the
 * rows x / rms(x), and each number of a row has its w and a. A job says where it
 * stands: [model] segments = ["qkv", "attention", "out", "gated_norm", "mlp"]. */
#include <dsflow/plugin.h>
#include <math.h>
#include <string.h>

enum { W, A }; /* tensors */
enum { X, UNIT, GATE, Y, DY, DX, GRAD, NPORTS };
struct args {
    struct dsflow_tile tile; /* first */
    int64_t w, a;            /* where they begin in the unit */
};

static void tensors(const struct dsflow_layout *layout,
                    struct dsflow_tensor_spec list[DSFLOW_SEGMENT_TENSORS])
{
    const int64_t n = layout->sizes.width;

    /* vectors of n numbers: 1, and random ones with a deviation of 0.5 */
    list[W] = (struct dsflow_tensor_spec){ "gated_norm.weight", 0, n, 1 };
    list[A] = (struct dsflow_tensor_spec){ "gated_norm.gate", 0, n, 0, 0.5f };
}

static void fill(const struct dsflow_site *site, void *args)
{
    *(struct args *)args =
        (struct args){ site->tile, site->at[0][W], site->at[0][A] };
}

static int needs(const struct dsflow_op *op, const void *args,
                 struct dsflow_need *need, struct dsflow_err *err)
{
    const struct args *a = args;
    const int64_t rows = a->tile.rows, n = a->tile.width;

    need[X] = need[GATE] = need[Y] = need[DY] = need[DX] =
        (struct dsflow_need){ rows, n, DSFLOW_FP32 };
    need[UNIT] = need[GRAD] = (struct dsflow_need){ 1, a->a + n, DSFLOW_FP32 };
    return DSFLOW_OK;
}

static int check(const struct dsflow_case *c, struct dsflow_err *err)
{
    return dsflow_segment_check(c, needs, err);
}

#define ROWS .cut = DSFLOW_CUT_ROWS
#define AGAIN .dropped = DSFLOW_DROPPED_WITH_BLOCK
static const struct dsflow_segment_port ports[] = {
    [X] = { "x", DSFLOW_FROM_IN, ROWS },
    [UNIT] = { "unit", DSFLOW_FROM_PARAMETERS, .cut = DSFLOW_CUT_UNIT },
    [GATE] = { "gate", DSFLOW_FROM_KEPT, ROWS, AGAIN },
    [Y] = { "gated", DSFLOW_FROM_OUT, ROWS, AGAIN },
    [DY] = { "dgated", DSFLOW_FROM_DOUT, ROWS },
    [DX] = { "dx", DSFLOW_FROM_DIN, ROWS },
    [GRAD] = { "grad", DSFLOW_FROM_GRADIENTS, .cut = DSFLOW_CUT_UNIT },
};

static float *row(const struct dsflow_call *call, int port, int r)
{
    const struct args *a = call->args;

    return (float *)call->bufs[port].ptr + (size_t)r * a->tile.width;
}

/* 1 / rms(x) */
static float scale(const float *x, const struct dsflow_tile *t)
{
    float sum = 0;

    for (int i = 0; i < t->width; i++)
        sum += x[i] * x[i];
    return 1 / sqrtf(sum / t->width + t->eps);
}

static void forward(const struct dsflow_call *call)
{
    const struct args *p = call->args;
    const float *w = row(call, UNIT, 0) + p->w, *a = row(call, UNIT, 0) + p->a;

    for (int r = 0; r < p->tile.rows; r++) {
        float *x = row(call, X, r), *gate = row(call, GATE, r);
        float *y = row(call, Y, r), s = scale(x, &p->tile);

        for (int i = 0; i < p->tile.width; i++) {
            gate[i] = 1 / (1 + expf(-a[i] * x[i] * s));
            y[i] = x[i] + w[i] * x[i] * s * gate[i];
        }
    }
}

/* du = dy w (gate + u a gate (1 - gate)); dx = dy + s (du - u mean(du u)) */
static void backward_input(const struct dsflow_call *call)
{
    const struct args *p = call->args;
    const float *w = row(call, UNIT, 0) + p->w, *a = row(call, UNIT, 0) + p->a;
    const int n = p->tile.width;

    for (int r = 0; r < p->tile.rows; r++) {
        const float *x = row(call, X, r), *gate = row(call, GATE, r);
        float *dy = row(call, DY, r), *dx = row(call, DX, r), mean = 0;
        float s = scale(x, &p->tile);

        for (int i = 0; i < n; i++) {
            dx[i] = dy[i] * w[i] * gate[i] *
                    (1 + x[i] * s * a[i] * (1 - gate[i]));
            mean += dx[i] * x[i] * s / n;
        }
        for (int i = 0; i < n; i++)
            dx[i] = dy[i] + s * (dx[i] - x[i] * s * mean);
    }
}

static void backward_weight(const struct dsflow_call *call)
{
    const struct args *p = call->args;
    const float *w = row(call, UNIT, 0) + p->w;
    float *dw = row(call, GRAD, 0) + p->w, *da = row(call, GRAD, 0) + p->a;

    if (call->fresh >> GRAD & 1) /* no contents yet */
        memset(call->bufs[GRAD].ptr, 0, call->bufs[GRAD].bytes);
    for (int r = 0; r < p->tile.rows; r++) {
        const float *x = row(call, X, r), *gate = row(call, GATE, r);
        const float *dy = row(call, DY, r), s = scale(x, &p->tile);

        for (int i = 0; i < p->tile.width; i++) {
            float u = x[i] * s, open = gate[i];

            dw[i] += dy[i] * u * open;
            da[i] += dy[i] * w[i] * u * u * open * (1 - open);
        }
    }
}

#define OF_ALL .args_size = sizeof(struct args), .check = check
#define READ(port, name) [port] = { name, DSFLOW_R }
DSFLOW_SEGMENT_TASK(gated_norm, forward, FORWARD, OF_ALL,
    DSFLOW_PORTS(READ(X, "x"), READ(UNIT, "unit"),
        [GATE] = { "gate", DSFLOW_W }, [Y] = { "gated", DSFLOW_W }));
DSFLOW_SEGMENT_TASK(gated_norm, backward_input, BACKWARD_INPUT, OF_ALL,
    DSFLOW_PORTS(READ(X, "x"), READ(UNIT, "unit"), READ(GATE, "gate"),
        READ(DY, "dgated"), [DX] = { "dx", DSFLOW_W }));
DSFLOW_SEGMENT_TASK(gated_norm, backward_weight, BACKWARD_WEIGHT, OF_ALL,
    DSFLOW_PORTS(READ(X, "x"), READ(UNIT, "unit"), READ(GATE, "gate"),
        READ(DY, "dgated"), [GRAD] = { "grad", DSFLOW_RW }));

/* A tensor rank does its rows, with all parameters. */
static const struct dsflow_op_rules rules[] = {
    { &forward_op, { DSFLOW_ON_ROWS(UNIT) } },
    { &backward_input_op, { DSFLOW_ON_ROWS(UNIT) } },
    { &backward_weight_op, { DSFLOW_ON_ROWS(GRAD) } },
    { .op = NULL },
};

static const struct dsflow_segment gated_norm = {
    .abi = DSFLOW_SEGMENT_ABI, .name = "gated_norm",
    .summary = "a norm whose numbers have gates", .nports = NPORTS,
    .ports = ports, .needs = needs, .tensors = tensors, .fill = fill,
    .forward = &forward_op, .backward_input = &backward_input_op,
    .backward_weight = &backward_weight_op, .rules = rules,
    .codelets = (const struct dsflow_codelet *const[]){ &forward_codelet,
        &backward_input_codelet, &backward_weight_codelet, NULL },
};
const struct dsflow_plugin dsflow_plugin = {
    .abi = DSFLOW_PLUGIN_ABI, .name = "gated_norm", .summary = "a gated norm",
    .segments = (const struct dsflow_segment *const[]){ &gated_norm, NULL },
};
