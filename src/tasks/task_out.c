/* task_out.c - projection of the attention's output, added to its input. */
#include "tasks/tasks.h"
#include "tasks/tile.h"

/* Floats of the unit, or an error. */
static int unit_floats(const struct dsflow_op *op,
                       const struct dsflow_out_args *a, size_t *need,
                       struct dsflow_err *err)
{
    const struct dsflow_tile *t = &a->tile;
    size_t width = (size_t)t->width;
    int status = dsf_tile_check(op, t, err);

    if (status == DSFLOW_OK)
        status = dsf_unit_need(op, "w", a->w, width * dsf_tile_qwidth(t), 0,
                               need, err);
    if (status == DSFLOW_OK)
        status = dsf_unit_need(op, "b", a->b, width, 1, need, err);
    return status;
}

static double gemm_flops(const struct dsflow_tile *t)
{
    return 2.0 * (double)dsf_tile_x(t) * (double)dsf_tile_qwidth(t);
}

static int forward_check(const struct dsflow_shape *shapes, unsigned n,
                         const void *args, struct dsflow_err *err)
{
    const struct dsflow_out_args *a = args;
    const struct dsflow_tile *t = &a->tile;
    size_t unit = 0;
    int status = unit_floats(&dsf_op_out_forward, a, &unit, err);

    if (status < 0)
        return status;
    return dsf_ports_check(&dsf_op_out_forward, shapes,
                           (size_t[]){ dsf_tile_x(t),
                                       (size_t)t->rows * dsf_tile_qwidth(t),
                                       unit, dsf_tile_x(t) },
                           n, err);
}

static void forward_cost(const struct dsflow_shape *shapes, unsigned n,
                         const void *args, struct dsflow_cost *cost)
{
    const struct dsflow_out_args *a = args;

    cost->flops = gemm_flops(&a->tile) + 2.0 * (double)dsf_tile_x(&a->tile);
    cost->bytes = dsf_ports_bytes(&dsf_op_out_forward, shapes, n);
}

const struct dsflow_op dsf_op_out_forward = {
    .abi = DSFLOW_OP_ABI,
    .name = "out.forward",
    .segment = "out",
    .direction = DSFLOW_DIR_FORWARD,
    .summary = "projection of the attention's output, and residual",
    .args_size = sizeof(struct dsflow_out_args),
    DSFLOW_PORTS({ "x", DSFLOW_R }, { "att", DSFLOW_R }, { "unit", DSFLOW_R },
                 { "y", DSFLOW_W }),
    .check = forward_check,
    .cost = forward_cost,
};

static int backward_input_check(const struct dsflow_shape *shapes, unsigned n,
                                const void *args, struct dsflow_err *err)
{
    const struct dsflow_out_args *a = args;
    const struct dsflow_tile *t = &a->tile;
    size_t unit = 0, rows = (size_t)t->rows;
    int status = unit_floats(&dsf_op_out_backward_input, a, &unit, err);

    if (status < 0)
        return status;
    return dsf_ports_check(&dsf_op_out_backward_input, shapes,
                           (size_t[]){ dsf_tile_x(t), rows * dsf_tile_qwidth(t),
                                       unit, rows * dsf_tile_qwidth(t),
                                       rows * (size_t)t->heads },
                           n, err);
}

static void backward_input_cost(const struct dsflow_shape *shapes, unsigned n,
                                const void *args, struct dsflow_cost *cost)
{
    const struct dsflow_out_args *a = args;
    const struct dsflow_tile *t = &a->tile;

    cost->flops = gemm_flops(t) + 2.0 * t->rows * (double)dsf_tile_qwidth(t);
    cost->bytes = dsf_ports_bytes(&dsf_op_out_backward_input, shapes, n);
}

const struct dsflow_op dsf_op_out_backward_input = {
    .abi = DSFLOW_OP_ABI,
    .name = "out.backward_input",
    .segment = "out",
    .direction = DSFLOW_DIR_BACKWARD_INPUT,
    .summary = "gradient of the attention's output",
    .args_size = sizeof(struct dsflow_out_args),
    DSFLOW_PORTS({ "dy", DSFLOW_R }, { "att", DSFLOW_R }, { "unit", DSFLOW_R },
                 { "datt", DSFLOW_W }, { "delta", DSFLOW_W }),
    .check = backward_input_check,
    .cost = backward_input_cost,
};

static int backward_weight_check(const struct dsflow_shape *shapes, unsigned n,
                                 const void *args, struct dsflow_err *err)
{
    const struct dsflow_out_args *a = args;
    const struct dsflow_tile *t = &a->tile;
    size_t unit = 0;
    int status = unit_floats(&dsf_op_out_backward_weight, a, &unit, err);

    if (status < 0)
        return status;
    return dsf_ports_check(
        &dsf_op_out_backward_weight, shapes,
        (size_t[]){ dsf_tile_x(t), (size_t)t->rows * dsf_tile_qwidth(t), unit },
        n, err);
}

static void backward_weight_cost(const struct dsflow_shape *shapes, unsigned n,
                                 const void *args, struct dsflow_cost *cost)
{
    const struct dsflow_out_args *a = args;

    cost->flops = gemm_flops(&a->tile) + (double)dsf_tile_x(&a->tile);
    cost->bytes = dsf_ports_bytes(&dsf_op_out_backward_weight, shapes, n);
}

const struct dsflow_op dsf_op_out_backward_weight = {
    .abi = DSFLOW_OP_ABI,
    .name = "out.backward_weight",
    .segment = "out",
    .direction = DSFLOW_DIR_BACKWARD_WEIGHT,
    .summary = "gradients of the parameters of out",
    .args_size = sizeof(struct dsflow_out_args),
    DSFLOW_PORTS({ "dy", DSFLOW_R }, { "att", DSFLOW_R },
                 { "grad", DSFLOW_RW }),
    .check = backward_weight_check,
    .cost = backward_weight_cost,
};
