/* task_head.c - last norm, logits and cross entropy of a tile. */
#include "tasks/tasks.h"
#include "tasks/tile.h"

#include <math.h>

/* Floats of the two units, norm and weight, or an error. */
static int unit_floats(const struct dsflow_op *op,
                       const struct dsflow_head_args *a, size_t *norm,
                       size_t *weight, struct dsflow_err *err)
{
    const struct dsflow_tile *t = &a->tile;
    size_t width = (size_t)t->width;
    int status = dsf_tile_check(op, t, err);

    if (status == DSFLOW_OK && !isfinite(a->scale))
        status = dsflow_fail(err, DSFLOW_EINVAL,
                             "%s: scale: %g: expected a finite number",
                             op->name, (double)a->scale);
    if (status == DSFLOW_OK)
        status = dsf_unit_need(op, "w", a->w, (size_t)t->vocab * width, 0,
                               weight, err);
    if (status == DSFLOW_OK)
        status = dsf_unit_need(op, "norm_w", a->norm_w, width, 0, norm, err);
    if (status == DSFLOW_OK)
        status = dsf_unit_need(op, "norm_b", a->norm_b, width, 1, norm, err);
    return status;
}

static size_t logits_floats(const struct dsflow_tile *t)
{
    return (size_t)t->rows * (size_t)t->vocab;
}

/* A slot of logits may be larger than the tile, and a unit "embed" has more
 * than the matrix: what is touched is counted, not the sizes. */
static double touched(const struct dsflow_tile *t)
{
    return sizeof(float) *
           ((double)logits_floats(t) + (double)t->vocab * t->width +
            2 * (double)dsf_tile_x(t));
}

static double gemm_flops(const struct dsflow_tile *t)
{
    return 2.0 * (double)logits_floats(t) * t->width;
}

static int forward_check(const struct dsflow_shape *shapes, unsigned n,
                         const void *args, struct dsflow_err *err)
{
    const struct dsflow_head_args *a = args;
    const struct dsflow_tile *t = &a->tile;
    size_t norm = 0, weight = 0;
    int status = unit_floats(&dsf_op_head_forward, a, &norm, &weight, err);

    if (status < 0)
        return status;
    return dsf_ports_check(&dsf_op_head_forward, shapes,
                           (size_t[]){ dsf_tile_x(t), norm, weight,
                                       2 * (size_t)t->rows, logits_floats(t),
                                       1 },
                           n, err);
}

static void forward_cost(const struct dsflow_shape *shapes, unsigned n,
                         const void *args, struct dsflow_cost *cost)
{
    const struct dsflow_head_args *a = args;

    cost->flops = gemm_flops(&a->tile) + 15.0 * (double)logits_floats(&a->tile);
    /* The logits are written, then scaled. */
    cost->bytes = touched(&a->tile) +
                  2.0 * sizeof(float) * (double)logits_floats(&a->tile);
}

/* The normed tile; for each block of columns the maximum and the sum of each
 * row; the logit of each target. */
static size_t forward_scratch(const struct dsflow_shape *shapes, unsigned n,
                              const void *args)
{
    const struct dsflow_head_args *a = args;
    const struct dsflow_tile *t = &a->tile;
    size_t rows = (size_t)t->rows;
    size_t blocks =
        ((size_t)t->vocab + DSF_HEAD_COLUMNS - 1) / DSF_HEAD_COLUMNS;

    return dsf_round16(dsf_tile_x(t)) * sizeof(float) +
           dsf_round16(rows * blocks) * (sizeof(float) + sizeof(double)) +
           dsf_round16(rows) * sizeof(float);
}

const struct dsflow_op dsf_op_head_forward = {
    .abi = DSFLOW_OP_ABI,
    .name = "head.forward",
    .segment = "head",
    .direction = DSFLOW_DIR_FORWARD,
    .summary = "logits, loss, and gradient of the logits of a tile",
    .args_size = sizeof(struct dsflow_head_args),
    DSFLOW_PORTS({ "x", DSFLOW_R }, { "norm", DSFLOW_R },
                 { "weight", DSFLOW_R }, { "batch", DSFLOW_R, DSFLOW_INT32 },
                 { "logits", DSFLOW_W }, { "loss", DSFLOW_W, DSFLOW_FP64 }),
    .check = forward_check,
    .cost = forward_cost,
    .scratch = forward_scratch,
};

static int backward_input_check(const struct dsflow_shape *shapes, unsigned n,
                                const void *args, struct dsflow_err *err)
{
    const struct dsflow_head_args *a = args;
    const struct dsflow_tile *t = &a->tile;
    size_t norm = 0, weight = 0, x = dsf_tile_x(t);
    int status =
        unit_floats(&dsf_op_head_backward_input, a, &norm, &weight, err);

    if (status < 0)
        return status;
    return dsf_ports_check(&dsf_op_head_backward_input, shapes,
                           (size_t[]){ logits_floats(t), x, norm, weight, x,
                                       2 * (size_t)t->width },
                           n, err);
}

static void backward_input_cost(const struct dsflow_shape *shapes, unsigned n,
                                const void *args, struct dsflow_cost *cost)
{
    const struct dsflow_head_args *a = args;

    cost->flops = gemm_flops(&a->tile) + 8.0 * (double)dsf_tile_x(&a->tile);
    cost->bytes = touched(&a->tile);
}

/* The gradient of the normed tile, or that tile. */
static size_t backward_scratch(const struct dsflow_shape *shapes, unsigned n,
                               const void *args)
{
    const struct dsflow_head_args *a = args;

    return dsf_tile_x(&a->tile) * sizeof(float);
}

const struct dsflow_op dsf_op_head_backward_input = {
    .abi = DSFLOW_OP_ABI,
    .name = "head.backward_input",
    .segment = "head",
    .direction = DSFLOW_DIR_BACKWARD_INPUT,
    .summary = "gradient of the input of the head, and of its norm",
    .args_size = sizeof(struct dsflow_head_args),
    DSFLOW_PORTS({ "logits", DSFLOW_R }, { "x", DSFLOW_R },
                 { "norm", DSFLOW_R }, { "weight", DSFLOW_R },
                 { "dx", DSFLOW_W }, { "dnorm", DSFLOW_W }),
    .check = backward_input_check,
    .cost = backward_input_cost,
    .scratch = backward_scratch,
};

static int backward_weight_check(const struct dsflow_shape *shapes, unsigned n,
                                 const void *args, struct dsflow_err *err)
{
    const struct dsflow_head_args *a = args;
    const struct dsflow_tile *t = &a->tile;
    size_t norm = 0, weight = 0;
    int status =
        unit_floats(&dsf_op_head_backward_weight, a, &norm, &weight, err);

    if (status < 0)
        return status;
    return dsf_ports_check(&dsf_op_head_backward_weight, shapes,
                           (size_t[]){ logits_floats(t), dsf_tile_x(t), norm,
                                       2 * (size_t)t->width, weight, norm },
                           n, err);
}

static void backward_weight_cost(const struct dsflow_shape *shapes, unsigned n,
                                 const void *args, struct dsflow_cost *cost)
{
    const struct dsflow_head_args *a = args;
    const struct dsflow_tile *t = &a->tile;

    cost->flops = gemm_flops(t) + 8.0 * (double)dsf_tile_x(t);
    cost->bytes = touched(t) + sizeof(float) * (double)t->vocab * t->width;
}

const struct dsflow_op dsf_op_head_backward_weight = {
    .abi = DSFLOW_OP_ABI,
    .name = "head.backward_weight",
    .segment = "head",
    .direction = DSFLOW_DIR_BACKWARD_WEIGHT,
    .summary = "gradients of the head's matrix and norm",
    .args_size = sizeof(struct dsflow_head_args),
    DSFLOW_PORTS({ "logits", DSFLOW_R }, { "x", DSFLOW_R },
                 { "norm", DSFLOW_R }, { "dnorm", DSFLOW_R },
                 { "grad", DSFLOW_RW }, { "norm_grad", DSFLOW_RW }),
    .check = backward_weight_check,
    .cost = backward_weight_cost,
    .scratch = backward_scratch,
};

static int logits_check(const struct dsflow_shape *shapes, unsigned n,
                        const void *args, struct dsflow_err *err)
{
    const struct dsflow_head_args *a = args;
    const struct dsflow_tile *t = &a->tile;
    size_t norm = 0, weight = 0;
    int status = unit_floats(&dsf_op_head_logits, a, &norm, &weight, err);

    if (status < 0)
        return status;
    return dsf_ports_check(
        &dsf_op_head_logits, shapes,
        (size_t[]){ dsf_tile_x(t), norm, weight, logits_floats(t) }, n, err);
}

const struct dsflow_op dsf_op_head_logits = {
    .abi = DSFLOW_OP_ABI,
    .name = "head.logits",
    .segment = "head",
    .direction = DSFLOW_DIR_FORWARD,
    .summary = "logits of a tile, for generation",
    .args_size = sizeof(struct dsflow_head_args),
    DSFLOW_PORTS({ "x", DSFLOW_R }, { "norm", DSFLOW_R },
                 { "weight", DSFLOW_R }, { "logits", DSFLOW_W }),
    .check = logits_check,
    .cost = backward_input_cost,
    .scratch = backward_scratch,
};
