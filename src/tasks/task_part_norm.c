/* task_part_norm.c - norm and residual of the rows that one tensor rank has. */
#include "tasks/tasks.h"
#include "tasks/tile.h"

/* Rows of no matter which sequences: the rest of the tile is not read. */
static int rows_check(const struct dsflow_op *op, const struct dsflow_tile *t,
                      struct dsflow_err *err)
{
    const struct {
        const char *name;
        int32_t value;
    } numbers[] = { { "rows", t->rows }, { "width", t->width } };

    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
        if (numbers[i].value < 1 || numbers[i].value > 1 << 24)
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "%s: %s: %d: expected 1 to %d", op->name,
                               numbers[i].name, (int)numbers[i].value, 1 << 24);
    }
    return DSFLOW_OK;
}

/* Floats of the unit, or an error. */
static int norm_floats(const struct dsflow_op *op,
                       const struct dsf_norm_args *a, size_t *need,
                       struct dsflow_err *err)
{
    size_t width = (size_t)a->tile.width;
    int status = rows_check(op, &a->tile, err);

    /* Written so that it refuses what is not a number. */
    if (status == DSFLOW_OK && !(a->tile.eps > 0 && a->tile.eps < 1))
        status =
            dsflow_fail(err, DSFLOW_EINVAL,
                        "%s: eps: %g: expected more than 0 and less than 1",
                        op->name, (double)a->tile.eps);
    if (status == DSFLOW_OK)
        status = dsf_unit_need(op, "norm_w", a->norm_w, width, 0, need, err);
    if (status == DSFLOW_OK)
        status = dsf_unit_need(op, "norm_b", a->norm_b, width, 1, need, err);
    return status;
}

/* The unit has more than this norm: what is touched is counted. */
static void cost_of(const struct dsflow_tile *t, double flops, double tiles,
                    double vectors, struct dsflow_cost *cost)
{
    cost->flops = flops * (double)dsf_tile_x(t);
    cost->bytes =
        sizeof(float) * (tiles * (double)dsf_tile_x(t) + vectors * t->width);
}

static int norm_forward_check(const struct dsflow_shape *shapes, unsigned n,
                              const void *args, struct dsflow_err *err)
{
    const struct dsf_norm_args *a = args;
    size_t unit = 0, x = dsf_tile_x(&a->tile);
    int status = norm_floats(&dsf_op_norm_forward, a, &unit, err);

    if (status < 0)
        return status;
    return dsf_ports_check(&dsf_op_norm_forward, shapes,
                           (size_t[]){ x, unit, x }, n, err);
}

static void norm_forward_cost(const struct dsflow_shape *shapes, unsigned n,
                              const void *args, struct dsflow_cost *cost)
{
    const struct dsf_norm_args *a = args;

    cost_of(&a->tile, 8, 2, a->norm_b < 0 ? 1 : 2, cost);
}

const struct dsflow_op dsf_op_norm_forward = {
    .abi = DSFLOW_OP_ABI,
    .name = "norm.forward",
    .segment = "norm",
    .direction = DSFLOW_DIR_FORWARD,
    .summary = "norm of the rows of one tensor rank",
    .args_size = sizeof(struct dsf_norm_args),
    DSFLOW_PORTS({ "x", DSFLOW_R }, { "unit", DSFLOW_R }, { "y", DSFLOW_W }),
    .check = norm_forward_check,
    .cost = norm_forward_cost,
};

static int norm_backward_input_check(const struct dsflow_shape *shapes,
                                     unsigned n, const void *args,
                                     struct dsflow_err *err)
{
    const struct dsf_norm_args *a = args;
    size_t unit = 0, x = dsf_tile_x(&a->tile);
    int status = norm_floats(&dsf_op_norm_backward_input, a, &unit, err);

    if (status < 0)
        return status;
    return dsf_ports_check(
        &dsf_op_norm_backward_input, shapes,
        (size_t[]){ x, x, unit, x, 2 * (size_t)a->tile.width, x }, n, err);
}

static void norm_backward_input_cost(const struct dsflow_shape *shapes,
                                     unsigned n, const void *args,
                                     struct dsflow_cost *cost)
{
    const struct dsf_norm_args *a = args;

    cost_of(&a->tile, 16, n == 6 ? 4 : 3, 3, cost);
}

const struct dsflow_op dsf_op_norm_backward_input = {
    .abi = DSFLOW_OP_ABI,
    .name = "norm.backward_input",
    .segment = "norm",
    .direction = DSFLOW_DIR_BACKWARD_INPUT,
    .summary = "gradient of the input of a norm, of the rows of one rank",
    .args_size = sizeof(struct dsf_norm_args),
    .noptional = 1,
    DSFLOW_PORTS({ "dy", DSFLOW_R }, { "x", DSFLOW_R }, { "unit", DSFLOW_R },
                 { "dx", DSFLOW_W }, { "dnorm", DSFLOW_W },
                 { "dres", DSFLOW_R }),
    .check = norm_backward_input_check,
    .cost = norm_backward_input_cost,
};

static int norm_backward_weight_check(const struct dsflow_shape *shapes,
                                      unsigned n, const void *args,
                                      struct dsflow_err *err)
{
    const struct dsf_norm_args *a = args;
    size_t unit = 0;
    int status = norm_floats(&dsf_op_norm_backward_weight, a, &unit, err);

    if (status < 0)
        return status;
    return dsf_ports_check(&dsf_op_norm_backward_weight, shapes,
                           (size_t[]){ 2 * (size_t)a->tile.width, unit }, n,
                           err);
}

static void norm_backward_weight_cost(const struct dsflow_shape *shapes,
                                      unsigned n, const void *args,
                                      struct dsflow_cost *cost)
{
    const struct dsf_norm_args *a = args;
    double vectors = a->norm_b < 0 ? 1 : 2;

    cost_of(&a->tile, 0, 0, 3 * vectors, cost);
    cost->flops = vectors * a->tile.width;
}

const struct dsflow_op dsf_op_norm_backward_weight = {
    .abi = DSFLOW_OP_ABI,
    .name = "norm.backward_weight",
    .segment = "norm",
    .direction = DSFLOW_DIR_BACKWARD_WEIGHT,
    .summary = "gradients of the parameters of a norm",
    .args_size = sizeof(struct dsf_norm_args),
    DSFLOW_PORTS({ "dnorm", DSFLOW_R }, { "grad", DSFLOW_RW }),
    .check = norm_backward_weight_check,
    .cost = norm_backward_weight_cost,
};

static int residual_floats(const struct dsflow_op *op,
                           const struct dsf_residual_args *a, size_t *need,
                           struct dsflow_err *err)
{
    int status = rows_check(op, &a->tile, err);

    if (status == DSFLOW_OK)
        status = dsf_unit_need(op, "b", a->b, (size_t)a->tile.width,
                               op == &dsf_op_residual_forward, need, err);
    return status;
}

static int residual_forward_check(const struct dsflow_shape *shapes, unsigned n,
                                  const void *args, struct dsflow_err *err)
{
    const struct dsf_residual_args *a = args;
    size_t unit = 0, x = dsf_tile_x(&a->tile);
    int status = residual_floats(&dsf_op_residual_forward, a, &unit, err);

    if (status == DSFLOW_OK && (a->b >= 0) != (n == 4))
        status = dsflow_fail(err, DSFLOW_EINVAL, "%s: %u ports: expected %d",
                             dsf_op_residual_forward.name, n, a->b < 0 ? 3 : 4);
    if (status < 0)
        return status;
    return dsf_ports_check(&dsf_op_residual_forward, shapes,
                           (size_t[]){ x, x, x, unit }, n, err);
}

static void residual_forward_cost(const struct dsflow_shape *shapes, unsigned n,
                                  const void *args, struct dsflow_cost *cost)
{
    const struct dsf_residual_args *a = args;
    int bias = a->b >= 0;

    /* The sum is written, then read and written again: twice from memory only
     * where the rows do not stay in the cache. */
    cost_of(&a->tile, bias ? 2 : 1, 4, bias, cost);
}

const struct dsflow_op dsf_op_residual_forward = {
    .abi = DSFLOW_OP_ABI,
    .name = "residual.forward",
    .segment = "residual",
    .direction = DSFLOW_DIR_FORWARD,
    .summary = "what a segment adds to the rows of one tensor rank",
    .args_size = sizeof(struct dsf_residual_args),
    .noptional = 1,
    DSFLOW_PORTS({ "x", DSFLOW_R }, { "in", DSFLOW_R }, { "y", DSFLOW_W },
                 { "unit", DSFLOW_R }),
    .check = residual_forward_check,
    .cost = residual_forward_cost,
};

static int residual_backward_weight_check(const struct dsflow_shape *shapes,
                                          unsigned n, const void *args,
                                          struct dsflow_err *err)
{
    const struct dsf_residual_args *a = args;
    size_t unit = 0;
    int status =
        residual_floats(&dsf_op_residual_backward_weight, a, &unit, err);

    if (status < 0)
        return status;
    return dsf_ports_check(&dsf_op_residual_backward_weight, shapes,
                           (size_t[]){ dsf_tile_x(&a->tile), unit }, n, err);
}

static void residual_backward_weight_cost(const struct dsflow_shape *shapes,
                                          unsigned n, const void *args,
                                          struct dsflow_cost *cost)
{
    const struct dsf_residual_args *a = args;

    cost_of(&a->tile, 1, 1, 2, cost);
}

const struct dsflow_op dsf_op_residual_backward_weight = {
    .abi = DSFLOW_OP_ABI,
    .name = "residual.backward_weight",
    .segment = "residual",
    .direction = DSFLOW_DIR_BACKWARD_WEIGHT,
    .summary = "gradient of the bias that a segment adds",
    .args_size = sizeof(struct dsf_residual_args),
    DSFLOW_PORTS({ "dy", DSFLOW_R }, { "grad", DSFLOW_RW }),
    .check = residual_backward_weight_check,
    .cost = residual_backward_weight_cost,
};
