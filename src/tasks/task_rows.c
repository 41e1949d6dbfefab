/* task_rows.c - norm and residual of the rows that one tensor rank has. */
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

int dsf_norm_needs(const struct dsflow_op *op, const void *args,
                   struct dsf_need *need, struct dsflow_err *err)
{
    const struct dsf_norm_args *a = args;
    const struct dsflow_tile *t = &a->tile;
    const size_t width = (size_t)t->width;
    const struct dsf_in_unit tensors[] = { { "norm_w", a->norm_w, width, 0 },
                                           { "norm_b", a->norm_b, width, 1 } };
    int status = rows_check(op, t, err);

    /* Written so that it refuses what is not a number. */
    if (status == DSFLOW_OK && !(t->eps > 0 && t->eps < 1))
        status =
            dsflow_fail(err, DSFLOW_EINVAL,
                        "%s: eps: %g: expected more than 0 and less than 1",
                        op->name, (double)t->eps);
    need[DSF_NORM_X] = need[DSF_NORM_Y] = need[DSF_NORM_DY] =
        need[DSF_NORM_DX] = dsf_rows_of(t, width);
    if (a->residual)
        need[DSF_NORM_DRES] = dsf_rows_of(t, width);
    need[DSF_NORM_DNORM] = dsf_matrix(2, width);
    if (status == DSFLOW_OK)
        status = dsf_unit_needs(op, tensors, 2, &need[DSF_NORM_UNIT], err);
    need[DSF_NORM_GRAD] = need[DSF_NORM_UNIT];
    return status;
}

/* The unit has more than this norm: what is touched is counted. */
static void cost_of(const struct dsflow_tile *t, double flops, double tiles,
                    double vectors, struct dsflow_cost *cost)
{
    cost->flops = flops * (double)dsf_tile_x(t);
    cost->bytes =
        DSF_CELL * (tiles * (double)dsf_tile_x(t) + vectors * t->width);
}

DSF_SEGMENT_CHECK(forward, norm)

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
    .nports = DSF_NORM_Y + 1,
    .ports =
        (const struct dsflow_port[]){
            [DSF_NORM_X] = { "x", DSFLOW_R },
            [DSF_NORM_UNIT] = { "unit", DSFLOW_R },
            [DSF_NORM_Y] = { "y", DSFLOW_W },
        },
    .check = forward_check,
    .cost = norm_forward_cost,
};

DSF_SEGMENT_CHECK(backward_input, norm)

static void norm_backward_input_cost(const struct dsflow_shape *shapes,
                                     unsigned n, const void *args,
                                     struct dsflow_cost *cost)
{
    const struct dsf_norm_args *a = args;

    cost_of(&a->tile, 16, a->residual ? 4 : 3, 3, cost);
}

const struct dsflow_op dsf_op_norm_backward_input = {
    .abi = DSFLOW_OP_ABI,
    .name = "norm.backward_input",
    .segment = "norm",
    .direction = DSFLOW_DIR_BACKWARD_INPUT,
    .summary = "gradient of the input of a norm, of the rows of one rank",
    .args_size = sizeof(struct dsf_norm_args),
    .nports = DSF_NORM_DRES + 1,
    .ports =
        (const struct dsflow_port[]){
            [DSF_NORM_X] = { "x", DSFLOW_R },
            [DSF_NORM_UNIT] = { "unit", DSFLOW_R },
            [DSF_NORM_DY] = { "dy", DSFLOW_R },
            [DSF_NORM_DX] = { "dx", DSFLOW_W },
            [DSF_NORM_DNORM] = { "dnorm", DSFLOW_W },
            [DSF_NORM_DRES] = { "dres", DSFLOW_R, .optional = 1 },
        },
    .check = backward_input_check,
    .cost = norm_backward_input_cost,
};

DSF_SEGMENT_CHECK(backward_weight, norm)

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
    .nports = DSF_NORM_GRAD + 1,
    .ports =
        (const struct dsflow_port[]){
            [DSF_NORM_DNORM] = { "dnorm", DSFLOW_R },
            [DSF_NORM_GRAD] = { "grad", DSFLOW_RW },
        },
    .check = backward_weight_check,
    .cost = norm_backward_weight_cost,
};

int dsf_residual_needs(const struct dsflow_op *op, const void *args,
                       struct dsf_need *need, struct dsflow_err *err)
{
    const struct dsf_residual_args *a = args;
    const struct dsflow_tile *t = &a->tile;
    const size_t width = (size_t)t->width;
    const struct dsf_in_unit bias = { "b", a->b, width,
                                      op == &dsf_op_residual_forward };
    int status = rows_check(op, t, err);

    need[DSF_RESIDUAL_X] = need[DSF_RESIDUAL_IN] = need[DSF_RESIDUAL_Y] =
        need[DSF_RESIDUAL_DY] = dsf_rows_of(t, width);
    if (status == DSFLOW_OK)
        status = dsf_unit_needs(op, &bias, 1, &need[DSF_RESIDUAL_UNIT], err);
    need[DSF_RESIDUAL_GRAD] = need[DSF_RESIDUAL_UNIT];
    return status;
}

static int residual_forward_check(const struct dsflow_shape *shapes, unsigned n,
                                  const void *args, struct dsflow_err *err)
{
    return dsf_segment_check(&dsf_op_residual_forward, shapes, n, args,
                             dsf_residual_needs, err);
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
    .nports = DSF_RESIDUAL_UNIT + 1,
    .ports =
        (const struct dsflow_port[]){
            [DSF_RESIDUAL_X] = { "x", DSFLOW_R },
            [DSF_RESIDUAL_IN] = { "in", DSFLOW_R },
            [DSF_RESIDUAL_Y] = { "y", DSFLOW_W },
            [DSF_RESIDUAL_UNIT] = { "unit", DSFLOW_R, .optional = 1 },
        },
    .check = residual_forward_check,
    .cost = residual_forward_cost,
};

static int residual_backward_weight_check(const struct dsflow_shape *shapes,
                                          unsigned n, const void *args,
                                          struct dsflow_err *err)
{
    return dsf_segment_check(&dsf_op_residual_backward_weight, shapes, n, args,
                             dsf_residual_needs, err);
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
    .nports = DSF_RESIDUAL_GRAD + 1,
    .ports =
        (const struct dsflow_port[]){
            [DSF_RESIDUAL_DY] = { "dy", DSFLOW_R },
            [DSF_RESIDUAL_GRAD] = { "grad", DSFLOW_RW },
        },
    .check = residual_backward_weight_check,
    .cost = residual_backward_weight_cost,
};
