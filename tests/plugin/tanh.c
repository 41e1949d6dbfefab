/* tanh.c - a segment without parameters: y = x + tanh(x), of which each tensor
 * rank does its rows. */
#include <dsflow/plugin.h>
#include <math.h>

enum { X, SLOPE, Y, DY, DX, NPORTS };
struct args {
    struct dsflow_tile tile;
};

static void fill(const struct dsflow_site *site, void *args)
{
    *(struct args *)args = (struct args){ site->tile };
}

static int needs(const struct dsflow_op *op, const void *args,
                 struct dsflow_need *need, struct dsflow_err *err)
{
    const struct args *a = args;

    for (int p = 0; p < NPORTS; p++)
        need[p] =
            (struct dsflow_need){ a->tile.rows, a->tile.width, DSFLOW_FP32 };
    return DSFLOW_OK;
}

static int check(const struct dsflow_case *c, struct dsflow_err *err)
{
    return dsflow_segment_check(c, needs, err);
}

static int64_t count(const struct dsflow_call *call)
{
    const struct args *a = call->args;

    return (int64_t)a->tile.rows * a->tile.width;
}

static void forward(const struct dsflow_call *call)
{
    const float *x = call->bufs[X].ptr;
    float *slope = call->bufs[SLOPE].ptr, *y = call->bufs[Y].ptr;

    for (int64_t i = 0; i < count(call); i++) {
        float t = tanhf(x[i]);

        y[i] = x[i] + t;
        slope[i] = 2 - t * t;
    }
}

static void backward_input(const struct dsflow_call *call)
{
    const float *slope = call->bufs[SLOPE].ptr, *dy = call->bufs[DY].ptr;
    float *dx = call->bufs[DX].ptr;

    for (int64_t i = 0; i < count(call); i++)
        dx[i] = dy[i] * slope[i];
}

#define ROWS .cut = DSFLOW_CUT_ROWS
static const struct dsflow_segment_port ports[] = {
    [X] = { "x", DSFLOW_FROM_IN, ROWS },
    [SLOPE] = { "slope", DSFLOW_FROM_KEPT, ROWS, DSFLOW_DROPPED_WITH_BLOCK },
    [Y] = { "tanh", DSFLOW_FROM_OUT, ROWS, DSFLOW_DROPPED_WITH_BLOCK },
    [DY] = { "dtanh", DSFLOW_FROM_DOUT, ROWS },
    [DX] = { "dx", DSFLOW_FROM_DIN, ROWS },
};

#define OF_ALL .args_size = sizeof(struct args), .check = check
DSFLOW_SEGMENT_TASK(
    tanh, forward, FORWARD, OF_ALL,
    DSFLOW_PORTS([X] = { "x", DSFLOW_R }, [SLOPE] = { "slope", DSFLOW_W },
                 [Y] = { "tanh", DSFLOW_W }));
DSFLOW_SEGMENT_TASK(
    tanh, backward_input, BACKWARD_INPUT, OF_ALL,
    DSFLOW_PORTS([SLOPE] = { "slope", DSFLOW_R }, [DY] = { "dtanh", DSFLOW_R },
                 [DX] = { "dx", DSFLOW_W }));

static const struct dsflow_op_rules rules[] = {
    { &forward_op, { { .kind = DSFLOW_RULE_ROWS } } },
    { &backward_input_op, { { .kind = DSFLOW_RULE_ROWS } } },
    { .op = NULL },
};

static const struct dsflow_segment segment = {
    .abi = DSFLOW_SEGMENT_ABI,
    .name = "tanh",
    .summary = "x + tanh(x)",
    .nports = NPORTS,
    .ports = ports,
    .needs = needs,
    .fill = fill,
    .forward = &forward_op,
    .backward_input = &backward_input_op,
    .rules = rules,
    .codelets =
        (const struct dsflow_codelet *const[]){ &forward_codelet,
                                                &backward_input_codelet, NULL },
};
const struct dsflow_plugin dsflow_plugin = {
    .abi = DSFLOW_PLUGIN_ABI,
    .name = "tanh",
    .summary = "a segment without parameters",
    .segments = (const struct dsflow_segment *const[]){ &segment, NULL },
};
