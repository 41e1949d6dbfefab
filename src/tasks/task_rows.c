/* task_rows.c - norm and residual of the rows that one tensor rank has. */
#include "tasks/scratch.h"
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
                   struct dsflow_need *need, struct dsflow_err *err)
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
    if (status == DSFLOW_OK)
        status = dsf_tile_quantizer_check(op, t, width, err);
    need[DSFLOW_NORM_X] = need[DSFLOW_NORM_Y] = need[DSFLOW_NORM_DY] =
        need[DSFLOW_NORM_DX] = dsf_rows_of(t, width);
    if (a->residual)
        need[DSFLOW_NORM_DRES] = dsf_rows_of(t, width);
    need[DSFLOW_NORM_DNORM] = dsf_matrix(2, width);
    if (status == DSFLOW_OK)
        status = dsf_unit_needs(op, tensors, 2, &need[DSFLOW_NORM_UNIT], err);
    need[DSFLOW_NORM_GRAD] = need[DSFLOW_NORM_UNIT];
    return status;
}

DSF_SEGMENT_CHECK(norm)

/* The unit has more than this norm: what is touched is counted: tiles of the
 * task's type and of fp32, and vectors. */
static void cost_of(const struct dsflow_case *c, double flops, double tiles,
                    double wide, double vectors, struct dsflow_cost *cost)
{
    const struct dsflow_tile *t = c->args;
    const double x = (double)dsf_tile_x(t);

    cost->flops = flops * x;
    cost->bytes = dsf_case_bytes(c, tiles * x) +
                  DSF_CELL * (wide * x + vectors * t->width);
}

static void norm_cost(const struct dsflow_case *c, struct dsflow_cost *cost)
{
    const struct dsf_norm_args *a = c->args;
    const double vectors = a->norm_b < 0 ? 1 : 2;

    if (c->op->direction == DSFLOW_DIR_FORWARD) {
        cost_of(c, 8 + dsf_tile_rounding(&a->tile, 1), 2, 0, vectors, cost);
    } else if (c->op->direction == DSFLOW_DIR_BACKWARD_INPUT) {
        cost_of(c, 16, a->residual ? 3 : 2, 1, 3, cost);
    } else {
        cost_of(c, 0, 0, 0, 3 * vectors, cost);
        cost->flops = vectors * a->tile.width;
    }
}

#define NARROW .floats = DSFLOW_NARROW
#define ALONE  .floats = DSFLOW_NARROW_ALONE

/* A port, by its name in the list of the segment. */
#define NORM_PORT(port, name, access, ...)                                     \
    DSF_PORT(NORM, port, name, access, __VA_ARGS__)

DSF_SEGMENT_OP(norm, forward, FORWARD, struct dsf_norm_args,
               .summary = "norm of the rows of one tensor rank",
               .cost = norm_cost,
               DSFLOW_PORTS(NORM_PORT(X, "x", R, NARROW), NORM_PORT(UNIT, "unit", R, NARROW),
                            NORM_PORT(Y, "y", W, NARROW)));

DSF_SEGMENT_OP(norm, backward_input, BACKWARD_INPUT, struct dsf_norm_args,
               .summary = "gradient of the input of a norm, of the rows of one "
                          "rank",
               .cost = norm_cost,
               DSFLOW_PORTS(NORM_PORT(X, "x", R, NARROW), NORM_PORT(UNIT, "unit", R, NARROW),
                            NORM_PORT(DY, "dy", R), NORM_PORT(DX, "dx", W, NARROW),
                            NORM_PORT(DNORM, "dnorm", W),
                            NORM_PORT(DRES, "dres", R, .optional = 1, NARROW)));

DSF_SEGMENT_OP(norm, backward_weight, BACKWARD_WEIGHT, struct dsf_norm_args,
               .summary = "gradients of the parameters of a norm",
               .cost = norm_cost,
               DSFLOW_PORTS(NORM_PORT(DNORM, "dnorm", R),
                            NORM_PORT(GRAD, "grad", RW, ALONE)));

int dsf_residual_needs(const struct dsflow_op *op, const void *args,
                       struct dsflow_need *need, struct dsflow_err *err)
{
    const struct dsf_residual_args *a = args;
    const struct dsflow_tile *t = &a->tile;
    const size_t width = (size_t)t->width;
    const struct dsf_in_unit bias = {
        "b", a->b, width, dsf_is_optional(op, DSFLOW_RESIDUAL_UNIT)
    };
    int status = rows_check(op, t, err);

    need[DSFLOW_RESIDUAL_X] = need[DSFLOW_RESIDUAL_IN] =
        need[DSFLOW_RESIDUAL_Y] = need[DSFLOW_RESIDUAL_DY] =
            dsf_rows_of(t, width);
    if (status == DSFLOW_OK)
        status = dsf_unit_needs(op, &bias, 1, &need[DSFLOW_RESIDUAL_UNIT], err);
    need[DSFLOW_RESIDUAL_GRAD] = need[DSFLOW_RESIDUAL_UNIT];
    return status;
}

DSF_SEGMENT_CHECK(residual)

static void residual_cost(const struct dsflow_case *c, struct dsflow_cost *cost)
{
    const struct dsf_residual_args *a = c->args;
    const int bias = a->b >= 0;

    /* The sum in fp32 is written, then read and written again: twice from
     * memory only where the rows do not stay in the cache. */
    if (c->op->direction == DSFLOW_DIR_FORWARD)
        cost_of(c, bias ? 2 : 1, dsf_is_narrow(dsf_case_type(c)) ? 2 : 3, 1,
                bias, cost);
    else
        cost_of(c, 1, 1, 0, 2, cost);
}

/* A port, by its name in the list of the segment. */
#define RESIDUAL_PORT(port, name, access, ...)                                 \
    DSF_PORT(RESIDUAL, port, name, access, __VA_ARGS__)

DSF_SEGMENT_OP(residual, forward, FORWARD, struct dsf_residual_args,
               .summary = "what a segment adds to the rows of one tensor rank",
               .cost = residual_cost,
               DSFLOW_PORTS(RESIDUAL_PORT(X, "x", R, NARROW),
                            RESIDUAL_PORT(IN, "in", R),
                            RESIDUAL_PORT(Y, "y", W, NARROW),
                            RESIDUAL_PORT(UNIT, "unit", R, .optional = 1, NARROW)));

DSF_SEGMENT_OP(residual, backward_weight, BACKWARD_WEIGHT,
               struct dsf_residual_args,
               .summary = "gradient of the bias that a segment adds",
               .cost = residual_cost,
               DSFLOW_PORTS(RESIDUAL_PORT(DY, "dy", R, NARROW),
                            RESIDUAL_PORT(GRAD, "grad", RW, ALONE)));
