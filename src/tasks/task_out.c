/* task_out.c - projection of the attention's output, added to the layer's
 * input; of a part, of the output of some heads. */
#include "tasks/scratch.h"
#include "tasks/tasks.h"
#include "tasks/tile.h"

int dsf_out_needs(const struct dsflow_op *op, const void *args,
                  struct dsflow_need *need, struct dsflow_err *err)
{
    const struct dsflow_out_args *a = args;
    const struct dsflow_tile *t = &a->tile;
    const size_t width = (size_t)t->width, nq = dsf_tile_qwidth(t);
    const struct dsf_in_unit tensors[] = {
        { "w", a->w, width * nq, 0 },
        { "b", a->b, width, 1 },
    };
    int status = dsf_tile_check(op, t, err);

    if (status == DSFLOW_OK)
        status = dsf_tile_quantizer_check(op, t, nq, err);

    need[DSFLOW_OUT_X] = dsf_matrix(a->residual ? (size_t)t->rows : 0, width);
    need[DSFLOW_OUT_Y] = need[DSFLOW_OUT_DY] = dsf_rows_of(t, width);
    need[DSFLOW_OUT_ATT] = need[DSFLOW_OUT_DATT] = dsf_rows_of(t, nq);
    need[DSFLOW_OUT_DELTA] = dsf_rows_of(t, (size_t)t->heads);
    if (status == DSFLOW_OK && !a->residual && a->b != -1)
        status = dsflow_fail(err, DSFLOW_EINVAL,
                             "%s: b: %lld: expected -1, a part adds none",
                             op->name, (long long)a->b);
    if (status == DSFLOW_OK)
        status = dsf_unit_needs(op, tensors, 2, &need[DSFLOW_OUT_UNIT], err);
    need[DSFLOW_OUT_GRAD] = need[DSFLOW_OUT_UNIT];
    return status;
}

DSF_SEGMENT_CHECK(out)

/* The product; for each number of the tile, what is added to it or its sum; for
 * each of the output of attention, delta. */
static void cost(const struct dsflow_case *c, struct dsflow_cost *cost)
{
    const struct dsflow_out_args *a = c->args;
    const double nq = (double)dsf_tile_qwidth(&a->tile);
    const double x = (double)dsf_tile_x(&a->tile);

    cost->flops = 2 * nq * x;
    cost->bytes = dsf_ports_bytes(c, 0);
    if (c->op->direction == DSFLOW_DIR_FORWARD && a->residual)
        cost->flops += 2 * x;
    else if (c->op->direction == DSFLOW_DIR_BACKWARD_INPUT)
        cost->flops += 2 * a->tile.rows * nq;
    else if (c->op->direction == DSFLOW_DIR_BACKWARD_WEIGHT)
        cost->flops += x;
    if (c->op->direction != DSFLOW_DIR_BACKWARD_INPUT)
        cost->flops += dsf_tile_rounding(&a->tile, a->tile.rows * nq);
}

/* What the product leaves, before it is narrowed; inputs that are rounded. */
struct dsf_scratch dsf_out_scratch(enum dsflow_direction direction,
                                   const struct dsflow_out_args *a)
{
    const struct dsflow_tile *t = &a->tile;
    const size_t rows = (size_t)t->rows, width = (size_t)t->width;
    const size_t nq = dsf_tile_qwidth(t);
    struct dsf_scratch s = { .product = dsf_projection_scratch(direction, rows,
                                                               nq, width) };

    if (direction == DSFLOW_DIR_FORWARD)
        s.wide = rows * width;
    else if (direction == DSFLOW_DIR_BACKWARD_INPUT)
        s.wide = rows * nq;
    if (direction != DSFLOW_DIR_BACKWARD_INPUT && dsf_tile_rounds(t))
        s.narrow = rows * nq;
    return s;
}

static size_t scratch(const struct dsflow_case *c)
{
    const struct dsflow_out_args *a = c->args;

    if (!dsf_is_narrow(dsf_case_type(c)))
        return c->op->direction != DSFLOW_DIR_BACKWARD_INPUT &&
                       dsf_tile_rounds(&a->tile)
                   ? DSF_CELL * (size_t)a->tile.rows * dsf_tile_qwidth(&a->tile)
                   : 0;
    return dsf_scratch_bytes(dsf_out_scratch(c->op->direction, a)) +
           dsf_gradient_scratch(c, DSFLOW_OUT_GRAD, dsf_tile_qwidth(&a->tile),
                                (size_t)a->tile.width);
}

/* A port, by its name in the list of the segment. */
#define P(port, name, access, ...)                                             \
    DSF_PORT(OUT, port, name, access, __VA_ARGS__)
#define NARROW .floats = DSFLOW_NARROW
#define SUM    .floats = DSFLOW_NARROW_SUM
#define ALONE  .floats = DSFLOW_NARROW_ALONE

DSF_SEGMENT_OP(out, forward, FORWARD, struct dsflow_out_args,
               .summary = "projection of the attention's output, and residual",
               .cost = cost, .scratch = scratch,
               DSFLOW_PORTS(P(X, "x", R, NARROW, .optional = 1),
                            P(ATT, "att", R, NARROW),
                            P(UNIT, "unit", R, NARROW), P(Y, "y", W, SUM)));

DSF_SEGMENT_OP(out, backward_input, BACKWARD_INPUT, struct dsflow_out_args,
               .summary = "gradient of the attention's output", .cost = cost,
               .scratch = scratch,
               DSFLOW_PORTS(P(ATT, "att", R, NARROW),
                            P(UNIT, "unit", R, NARROW), P(DY, "dy", R, NARROW),
                            P(DATT, "datt", W, NARROW), P(DELTA, "delta", W)));

DSF_SEGMENT_OP(out, backward_weight, BACKWARD_WEIGHT, struct dsflow_out_args,
               .summary = "gradients of the parameters of out", .cost = cost,
               .scratch = scratch,
               DSFLOW_PORTS(P(ATT, "att", R, NARROW), P(DY, "dy", R, NARROW),
                            P(GRAD, "grad", RW, ALONE)));
