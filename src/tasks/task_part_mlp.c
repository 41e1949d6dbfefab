/* task_part_mlp.c - some columns of the feed-forward, between its projections.
 */
#include "tasks/tasks.h"
#include "tasks/tile.h"

/* Floats of the unit, or an error. */
static int unit_floats(const struct dsflow_op *op,
                       const struct dsf_mlp_part_args *a, size_t *need,
                       struct dsflow_err *err)
{
    const struct dsflow_tile *t = &a->tile;
    size_t width = (size_t)t->width, nh = dsf_tile_hwidth(t);
    int status = dsf_tile_check(op, t, err);

    if (status == DSFLOW_OK)
        status = dsf_unit_need(op, "w1", a->w1, nh * width, 0, need, err);
    if (status == DSFLOW_OK)
        status = dsf_unit_need(op, "b1", a->b1, nh, 1, need, err);
    if (status == DSFLOW_OK)
        status = dsf_unit_need(op, "w2", a->w2, width * (size_t)t->ffn, 0, need,
                               err);
    return status;
}

/* Two products, and about 20 for an activation. */
static void mlp_cost(const struct dsflow_op *op,
                     const struct dsflow_shape *shapes, unsigned n,
                     const struct dsflow_tile *t, struct dsflow_cost *cost)
{
    double rows = t->rows, h = (double)dsf_tile_hwidth(t);

    cost->flops = 2 * rows * t->width * (h + t->ffn) + 20 * rows * t->ffn;
    cost->bytes = dsf_ports_bytes(op, shapes, n);
}

static int forward_check(const struct dsflow_shape *shapes, unsigned n,
                         const void *args, struct dsflow_err *err)
{
    const struct dsf_mlp_part_args *a = args;
    const struct dsflow_tile *t = &a->tile;
    size_t unit = 0, x = dsf_tile_x(t);
    int status = unit_floats(&dsf_op_mlp_part_forward, a, &unit, err);

    if (status < 0)
        return status;
    return dsf_ports_check(
        &dsf_op_mlp_part_forward, shapes,
        (size_t[]){ x, unit, (size_t)t->rows * dsf_tile_hwidth(t), x }, n, err);
}

static void forward_cost(const struct dsflow_shape *shapes, unsigned n,
                         const void *args, struct dsflow_cost *cost)
{
    const struct dsf_mlp_part_args *a = args;

    mlp_cost(&dsf_op_mlp_part_forward, shapes, n, &a->tile, cost);
}

/* The activations. */
static size_t forward_scratch(const struct dsflow_shape *shapes, unsigned n,
                              const void *args)
{
    const struct dsf_mlp_part_args *a = args;

    return (size_t)a->tile.rows * (size_t)a->tile.ffn * sizeof(float);
}

const struct dsflow_op dsf_op_mlp_part_forward = {
    .abi = DSFLOW_OP_ABI,
    .name = "mlp_part.forward",
    .segment = "mlp",
    .direction = DSFLOW_DIR_FORWARD,
    .summary = "two projections through some columns of the feed-forward",
    .args_size = sizeof(struct dsf_mlp_part_args),
    DSFLOW_PORTS({ "xn", DSFLOW_R }, { "unit", DSFLOW_R }, { "h", DSFLOW_W },
                 { "y", DSFLOW_W }),
    .check = forward_check,
    .cost = forward_cost,
    .scratch = forward_scratch,
};

static int hidden_check(const struct dsflow_shape *shapes, unsigned n,
                        const void *args, struct dsflow_err *err)
{
    const struct dsf_mlp_part_args *a = args;
    const struct dsflow_tile *t = &a->tile;
    size_t unit = 0;
    int status = unit_floats(&dsf_op_mlp_part_hidden, a, &unit, err);

    if (status < 0)
        return status;
    return dsf_ports_check(
        &dsf_op_mlp_part_hidden, shapes,
        (size_t[]){ dsf_tile_x(t), unit, (size_t)t->rows * dsf_tile_hwidth(t) },
        n, err);
}

static void hidden_cost(const struct dsflow_shape *shapes, unsigned n,
                        const void *args, struct dsflow_cost *cost)
{
    const struct dsf_mlp_part_args *a = args;
    double rows = a->tile.rows, h = (double)dsf_tile_hwidth(&a->tile);

    cost->flops = 2 * rows * a->tile.width * h + rows * h;
    cost->bytes = dsf_ports_bytes(&dsf_op_mlp_part_hidden, shapes, n);
}

const struct dsflow_op dsf_op_mlp_part_hidden = {
    .abi = DSFLOW_OP_ABI,
    .name = "mlp_part.hidden",
    .segment = "mlp",
    .direction = DSFLOW_DIR_HIDDEN,
    .summary = "some columns of the first projection, computed once more",
    .args_size = sizeof(struct dsf_mlp_part_args),
    DSFLOW_PORTS({ "xn", DSFLOW_R }, { "unit", DSFLOW_R }, { "h", DSFLOW_W }),
    .check = hidden_check,
    .cost = hidden_cost,
};

static int backward_input_check(const struct dsflow_shape *shapes, unsigned n,
                                const void *args, struct dsflow_err *err)
{
    const struct dsf_mlp_part_args *a = args;
    const struct dsflow_tile *t = &a->tile;
    size_t unit = 0, x = dsf_tile_x(t);
    size_t h = (size_t)t->rows * dsf_tile_hwidth(t);
    int status = unit_floats(&dsf_op_mlp_part_backward_input, a, &unit, err);

    if (status < 0)
        return status;
    return dsf_ports_check(&dsf_op_mlp_part_backward_input, shapes,
                           (size_t[]){ x, unit, h, h, x }, n, err);
}

static void backward_input_cost(const struct dsflow_shape *shapes, unsigned n,
                                const void *args, struct dsflow_cost *cost)
{
    const struct dsf_mlp_part_args *a = args;

    mlp_cost(&dsf_op_mlp_part_backward_input, shapes, n, &a->tile, cost);
}

const struct dsflow_op dsf_op_mlp_part_backward_input = {
    .abi = DSFLOW_OP_ABI,
    .name = "mlp_part.backward_input",
    .segment = "mlp",
    .direction = DSFLOW_DIR_BACKWARD_INPUT,
    .summary = "what some columns add to the gradient of the input of mlp",
    .args_size = sizeof(struct dsf_mlp_part_args),
    DSFLOW_PORTS({ "dy", DSFLOW_R }, { "unit", DSFLOW_R }, { "h", DSFLOW_RW },
                 { "dh", DSFLOW_W }, { "dxn", DSFLOW_W }),
    .check = backward_input_check,
    .cost = backward_input_cost,
};

static int backward_weight_check(const struct dsflow_shape *shapes, unsigned n,
                                 const void *args, struct dsflow_err *err)
{
    const struct dsf_mlp_part_args *a = args;
    const struct dsflow_tile *t = &a->tile;
    size_t unit = 0, x = dsf_tile_x(t), rows = (size_t)t->rows;
    int status = unit_floats(&dsf_op_mlp_part_backward_weight, a, &unit, err);

    if (status < 0)
        return status;
    return dsf_ports_check(&dsf_op_mlp_part_backward_weight, shapes,
                           (size_t[]){ x, x, rows * (size_t)t->ffn,
                                       rows * dsf_tile_hwidth(t), unit },
                           n, err);
}

static void backward_weight_cost(const struct dsflow_shape *shapes, unsigned n,
                                 const void *args, struct dsflow_cost *cost)
{
    const struct dsf_mlp_part_args *a = args;
    const struct dsflow_tile *t = &a->tile;

    mlp_cost(&dsf_op_mlp_part_backward_weight, shapes, n, t, cost);
    cost->flops -= 20.0 * t->rows * t->ffn; /* no activation here */
}

const struct dsflow_op dsf_op_mlp_part_backward_weight = {
    .abi = DSFLOW_OP_ABI,
    .name = "mlp_part.backward_weight",
    .segment = "mlp",
    .direction = DSFLOW_DIR_BACKWARD_WEIGHT,
    .summary = "gradients of some columns of the feed-forward",
    .args_size = sizeof(struct dsf_mlp_part_args),
    DSFLOW_PORTS({ "dy", DSFLOW_R }, { "xn", DSFLOW_R }, { "h", DSFLOW_R },
                 { "dh", DSFLOW_R }, { "grad", DSFLOW_RW }),
    .check = backward_weight_check,
    .cost = backward_weight_cost,
};
