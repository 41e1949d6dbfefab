/* task_mlp.c - norm, two projections with an activation between, residual; of a
 * part, some columns of the feed-forward between its projections. */
#include "tasks/scratch.h"
#include "tasks/tasks.h"
#include "tasks/tile.h"

int dsf_mlp_needs(const struct dsflow_op *op, const void *args,
                  struct dsflow_need *need, struct dsflow_err *err)
{
    const struct dsflow_mlp_args *a = args;
    const struct dsflow_tile *t = &a->tile;
    const size_t width = (size_t)t->width, h = dsf_tile_hwidth(t);
    const int whole = a->norm_w >= 0;
    const struct dsf_in_unit tensors[] = {
        { "w1", a->w1, h * width, 0 },
        { "b1", a->b1, h, 1 },
        { "w2", a->w2, width * (size_t)t->ffn, 0 },
        { "b2", a->b2, width, 1 },
        { "norm_w", a->norm_w, width, 1 },
        { "norm_b", a->norm_b, width, 1 },
    };
    int status = dsf_tile_check(op, t, err);

    if (status == DSFLOW_OK && whole)
        status = dsf_tile_quantizer_check(op, t, width, err);
    if (status == DSFLOW_OK)
        status = dsf_tile_quantizer_check(op, t, (size_t)t->ffn, err);
    need[DSFLOW_MLP_Y] = need[DSFLOW_MLP_DY] = need[DSFLOW_MLP_DX] =
        dsf_rows_of(t, width);
    need[DSFLOW_MLP_H] = need[DSFLOW_MLP_DH] = dsf_rows_of(t, h);
    need[DSFLOW_MLP_DNORM] = dsf_matrix(whole ? 2 : 0, width);
    if (whole || !dsf_is_optional(op, DSFLOW_MLP_X))
        need[DSFLOW_MLP_X] = dsf_rows_of(t, width);
    if (status == DSFLOW_OK)
        status = dsf_unit_needs(op, tensors, 6, &need[DSFLOW_MLP_GRAD], err);
    if (whole || !dsf_is_optional(op, DSFLOW_MLP_UNIT))
        need[DSFLOW_MLP_UNIT] = need[DSFLOW_MLP_GRAD];
    return status;
}

DSF_SEGMENT_CHECK(mlp)

/* Two products and about 20 for an activation, or the first product and its
 * bias; and a norm. backward_weight reads only the norm of the unit. */
static void cost(const struct dsflow_case *c, struct dsflow_cost *cost)
{
    const struct dsflow_mlp_args *a = c->args;
    const struct dsflow_tile *t = &a->tile;
    const int hidden = c->op->direction == DSFLOW_DIR_HIDDEN;
    const int weight = c->op->direction == DSFLOW_DIR_BACKWARD_WEIGHT;
    const int back = c->op->direction == DSFLOW_DIR_BACKWARD_INPUT;
    const double rows = t->rows, h = (double)dsf_tile_hwidth(t);

    cost->flops = 2 * rows * t->width * (hidden ? h : h + t->ffn) +
                  (hidden ? rows * h : 20 * rows * t->ffn);
    cost->bytes = dsf_ports_bytes(c, weight ? 1u << DSFLOW_MLP_UNIT : 0);
    if (a->norm_w >= 0)
        cost->flops += 8 * rows * t->width;
    if (a->norm_w >= 0 && !back)
        cost->flops += dsf_tile_rounding(t, rows * t->width);
    if (!hidden && !weight)
        cost->flops += dsf_tile_rounding(t, rows * t->ffn);
    if (a->norm_w >= 0 && weight)
        cost->bytes += dsf_case_bytes(c, 2.0 * t->width);
}

/* Of the first projection, or of both; normed rows, activations, or dx before it
 * is widened. */
struct dsf_scratch dsf_mlp_scratch(enum dsflow_direction direction,
                                   const struct dsflow_mlp_args *a)
{
    const struct dsflow_tile *t = &a->tile;
    const size_t rows = (size_t)t->rows, width = (size_t)t->width;
    const size_t ffn = (size_t)t->ffn, h = dsf_tile_hwidth(t);
    const size_t first = dsf_projection_scratch(direction, rows, width, h);
    const size_t both =
        dsf_most(first, dsf_projection_scratch(direction, rows, ffn, width));
    const size_t x = a->norm_w < 0 ? 0 : rows * width;

    switch (direction) {
    case DSFLOW_DIR_FORWARD:
        return (struct dsf_scratch){ rows * dsf_most(h, width),
                                     dsf_most(rows * ffn, x), both };
    case DSFLOW_DIR_HIDDEN:
        return (struct dsf_scratch){ rows * h, x, first };
    case DSFLOW_DIR_BACKWARD_INPUT:
        return (struct dsf_scratch){ rows * dsf_most(ffn, width), x, both };
    default:
        return (struct dsf_scratch){ 0, x, both };
    }
}

static size_t narrow_scratch(const struct dsflow_case *c)
{
    const struct dsflow_mlp_args *a = c->args;
    const size_t width = (size_t)a->tile.width, ffn = (size_t)a->tile.ffn;

    return dsf_scratch_bytes(dsf_mlp_scratch(c->op->direction, a)) +
           dsf_most(dsf_gradient_scratch(c, DSFLOW_MLP_GRAD, width,
                                         dsf_tile_hwidth(&a->tile)),
                    dsf_gradient_scratch(c, DSFLOW_MLP_GRAD, ffn, width));
}

static size_t norm_scratch(const struct dsflow_case *c)
{
    const struct dsflow_mlp_args *a = c->args;

    return dsf_is_narrow(dsf_case_type(c))
               ? narrow_scratch(c)
               : dsf_normed_bytes(&a->tile, a->norm_w);
}

/* The normed tile, then the activations: never both are needed. */
static size_t forward_scratch(const struct dsflow_case *c)
{
    const struct dsflow_mlp_args *a = c->args;
    const struct dsflow_tile *t = &a->tile;
    int32_t most = a->norm_w >= 0 && t->width > t->ffn ? t->width : t->ffn;

    return dsf_is_narrow(dsf_case_type(c))
               ? narrow_scratch(c)
               : (size_t)t->rows * (size_t)most * DSF_CELL;
}

/* A port, by its name in the list of the segment. */
#define P(port, name, access, ...)                                             \
    DSF_PORT(MLP, port, name, access, __VA_ARGS__)
#define NARROW .floats = DSFLOW_NARROW
#define SUM    .floats = DSFLOW_NARROW_SUM
#define ALONE  .floats = DSFLOW_NARROW_ALONE

DSF_SEGMENT_OP(mlp, forward, FORWARD, struct dsflow_mlp_args,
               .summary = "norm, two projections and residual", .cost = cost,
               .scratch = forward_scratch,
               DSFLOW_PORTS(P(X, "x", R, NARROW), P(UNIT, "unit", R, NARROW), P(H, "h", W, NARROW),
                            P(Y, "y", W, SUM)));

DSF_SEGMENT_OP(mlp, hidden, HIDDEN, struct dsflow_mlp_args,
               .summary = "norm and first projection, computed once more",
               .cost = cost, .scratch = norm_scratch,
               DSFLOW_PORTS(P(X, "x", R, NARROW), P(UNIT, "unit", R, NARROW), P(H, "h", W, NARROW)));

DSF_SEGMENT_OP(mlp, backward_input, BACKWARD_INPUT, struct dsflow_mlp_args,
               .summary = "gradient of the input of mlp, and of its norm",
               .cost = cost, .scratch = norm_scratch,
               DSFLOW_PORTS(P(X, "x", R, .optional = 1, NARROW), P(UNIT, "unit", R, NARROW),
                            P(H, "h", RW, NARROW), P(DY, "dy", R, NARROW), P(DH, "dh", W, NARROW),
                            P(DX, "dx", W, SUM),
                            P(DNORM, "dnorm", W, .optional = 1)));

DSF_SEGMENT_OP(mlp, backward_weight, BACKWARD_WEIGHT, struct dsflow_mlp_args,
               .summary = "gradients of the parameters of mlp", .cost = cost,
               .scratch = norm_scratch,
               DSFLOW_PORTS(P(X, "x", R, NARROW),
                            P(UNIT, "unit", R, .optional = 1, NARROW),
                            P(H, "h", R, NARROW), P(DY, "dy", R, NARROW),
                            P(DH, "dh", R, NARROW),
                            P(DNORM, "dnorm", R, .optional = 1),
                            P(GRAD, "grad", RW, ALONE)));
