/* task_part_head.c - logits and cross entropy over some of the vocabulary. */
#include "tasks/tasks.h"
#include "tasks/tile.h"

#include <math.h>

/* Floats of the part's matrix, or an error. */
static int weight_floats(const struct dsflow_op *op,
                         const struct dsf_head_part_args *a, size_t *need,
                         struct dsflow_err *err)
{
    const struct dsflow_tile *t = &a->tile;
    int status = dsf_tile_check(op, t, err);

    if (status < 0)
        return status;
    if (a->first < 0 || a->whole < t->vocab || a->first > a->whole - t->vocab)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: %d columns from %d on: expected some of %d",
                           op->name, (int)t->vocab, (int)a->first,
                           (int)a->whole);
    if (a->parts < 1 || a->parts > 4096)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: parts: %d: expected 1 to 4096", op->name,
                           (int)a->parts);
    if (!isfinite(a->scale))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: scale: %g: expected a finite number", op->name,
                           (double)a->scale);
    return dsf_unit_need(op, "w", a->w, (size_t)t->vocab * (size_t)t->width, 0,
                         need, err);
}

static size_t logits_floats(const struct dsflow_tile *t)
{
    return (size_t)t->rows * (size_t)t->vocab;
}

static size_t stats_elems(const struct dsflow_tile *t)
{
    return (size_t)t->rows * DSF_HEAD_STATS;
}

static size_t tops_floats(const struct dsflow_tile *t)
{
    return (size_t)t->rows * dsf_head_blocks(t);
}

/* A slot of logits may be larger than the tile, and a unit "embed" has more
 * than the matrix: what is touched is counted, not the sizes. */
static void gemm_cost(const struct dsflow_tile *t, struct dsflow_cost *cost)
{
    double logits = (double)logits_floats(t);

    cost->flops = 2.0 * logits * t->width;
    cost->bytes = sizeof(float) * (logits + (double)t->vocab * t->width +
                                   (double)dsf_tile_x(t));
}

static int forward_check(const struct dsflow_shape *shapes, unsigned n,
                         const void *args, struct dsflow_err *err)
{
    const struct dsf_head_part_args *a = args;
    const struct dsflow_tile *t = &a->tile;
    size_t weight = 0;
    int status = weight_floats(&dsf_op_head_part_forward, a, &weight, err);

    if (status < 0)
        return status;
    return dsf_ports_check(&dsf_op_head_part_forward, shapes,
                           (size_t[]){ dsf_tile_x(t), weight,
                                       2 * (size_t)t->rows, logits_floats(t),
                                       stats_elems(t), tops_floats(t) },
                           n, err);
}

static void forward_cost(const struct dsflow_shape *shapes, unsigned n,
                         const void *args, struct dsflow_cost *cost)
{
    const struct dsf_head_part_args *a = args;

    /* An exponential of each, while it is in the cache. */
    gemm_cost(&a->tile, cost);
    cost->flops += 14.0 * (double)logits_floats(&a->tile);
}

/* For each block of columns the sum of each row. */
static size_t forward_scratch(const struct dsflow_shape *shapes, unsigned n,
                              const void *args)
{
    const struct dsf_head_part_args *a = args;

    return tops_floats(&a->tile) * sizeof(double);
}

const struct dsflow_op dsf_op_head_part_forward = {
    .abi = DSFLOW_OP_ABI,
    .name = "head_part.forward",
    .segment = "head",
    .direction = DSFLOW_DIR_FORWARD,
    .summary = "logits over some of the vocabulary, and what the loss needs",
    .args_size = sizeof(struct dsf_head_part_args),
    DSFLOW_PORTS({ "xn", DSFLOW_R }, { "weight", DSFLOW_R },
                 { "batch", DSFLOW_R, DSFLOW_INT32 }, { "logits", DSFLOW_W },
                 { "stats", DSFLOW_W, DSFLOW_FP64 }, { "tops", DSFLOW_W }),
    .check = forward_check,
    .cost = forward_cost,
    .scratch = forward_scratch,
};

static int loss_check(const struct dsflow_shape *shapes, unsigned n,
                      const void *args, struct dsflow_err *err)
{
    const struct dsf_head_part_args *a = args;
    const struct dsflow_tile *t = &a->tile;
    size_t weight = 0;
    int status = weight_floats(&dsf_op_head_part_loss, a, &weight, err);

    if (status < 0)
        return status;
    return dsf_ports_check(&dsf_op_head_part_loss, shapes,
                           (size_t[]){ logits_floats(t), 2 * (size_t)t->rows,
                                       (size_t)a->parts * stats_elems(t),
                                       tops_floats(t), 1 },
                           n, err);
}

static void loss_cost(const struct dsflow_shape *shapes, unsigned n,
                      const void *args, struct dsflow_cost *cost)
{
    const struct dsf_head_part_args *a = args;
    const struct dsflow_tile *t = &a->tile;
    double stats = (double)a->parts * (double)stats_elems(t);

    cost->flops = (double)logits_floats(t) + 5 * stats;
    cost->bytes =
        sizeof(float) * (2.0 * (double)logits_floats(t) + 2.0 * t->rows +
                         stats + (double)tops_floats(t));
}

const struct dsflow_op dsf_op_head_part_loss = {
    .abi = DSFLOW_OP_ABI,
    .name = "head_part.loss",
    .segment = "loss",
    .direction = DSFLOW_DIR_FORWARD,
    .summary = "loss of all parts, and gradient of the logits of one",
    .args_size = sizeof(struct dsf_head_part_args),
    DSFLOW_PORTS({ "logits", DSFLOW_RW }, { "batch", DSFLOW_R, DSFLOW_INT32 },
                 { "stats", DSFLOW_R, DSFLOW_FP64 }, { "tops", DSFLOW_R },
                 { "loss", DSFLOW_W, DSFLOW_FP64 }),
    .check = loss_check,
    .cost = loss_cost,
};

static int backward_input_check(const struct dsflow_shape *shapes, unsigned n,
                                const void *args, struct dsflow_err *err)
{
    const struct dsf_head_part_args *a = args;
    size_t weight = 0;
    int status =
        weight_floats(&dsf_op_head_part_backward_input, a, &weight, err);

    if (status < 0)
        return status;
    return dsf_ports_check(
        &dsf_op_head_part_backward_input, shapes,
        (size_t[]){ logits_floats(&a->tile), weight, dsf_tile_x(&a->tile) }, n,
        err);
}

static void backward_input_cost(const struct dsflow_shape *shapes, unsigned n,
                                const void *args, struct dsflow_cost *cost)
{
    const struct dsf_head_part_args *a = args;

    gemm_cost(&a->tile, cost);
}

const struct dsflow_op dsf_op_head_part_backward_input = {
    .abi = DSFLOW_OP_ABI,
    .name = "head_part.backward_input",
    .segment = "head",
    .direction = DSFLOW_DIR_BACKWARD_INPUT,
    .summary = "what some of the vocabulary adds to the gradient of xn",
    .args_size = sizeof(struct dsf_head_part_args),
    DSFLOW_PORTS({ "logits", DSFLOW_R }, { "weight", DSFLOW_R },
                 { "dxn", DSFLOW_W }),
    .check = backward_input_check,
    .cost = backward_input_cost,
};

static int backward_weight_check(const struct dsflow_shape *shapes, unsigned n,
                                 const void *args, struct dsflow_err *err)
{
    const struct dsf_head_part_args *a = args;
    size_t weight = 0;
    int status =
        weight_floats(&dsf_op_head_part_backward_weight, a, &weight, err);

    if (status < 0)
        return status;
    return dsf_ports_check(
        &dsf_op_head_part_backward_weight, shapes,
        (size_t[]){ logits_floats(&a->tile), dsf_tile_x(&a->tile), weight }, n,
        err);
}

static void backward_weight_cost(const struct dsflow_shape *shapes, unsigned n,
                                 const void *args, struct dsflow_cost *cost)
{
    const struct dsf_head_part_args *a = args;
    const struct dsflow_tile *t = &a->tile;

    gemm_cost(t, cost);
    cost->bytes += sizeof(float) * (double)t->vocab * t->width; /* RW */
}

const struct dsflow_op dsf_op_head_part_backward_weight = {
    .abi = DSFLOW_OP_ABI,
    .name = "head_part.backward_weight",
    .segment = "head",
    .direction = DSFLOW_DIR_BACKWARD_WEIGHT,
    .summary = "gradient of the matrix of some of the vocabulary",
    .args_size = sizeof(struct dsf_head_part_args),
    DSFLOW_PORTS({ "logits", DSFLOW_R }, { "xn", DSFLOW_R },
                 { "grad", DSFLOW_RW }),
    .check = backward_weight_check,
    .cost = backward_weight_cost,
};
