/* task_embed.c - tokens to vectors, and the gradient of the table; of a part,
 * by some rows of the tables. */
#include "tasks/scratch.h"
#include "tasks/tasks.h"
#include "tasks/tile.h"

int dsf_embed_needs(const struct dsflow_op *op, const void *args,
                    struct dsflow_need *need, struct dsflow_err *err)
{
    const struct dsflow_embed_args *a = args;
    const struct dsflow_tile *t = &a->tile;
    const size_t width = (size_t)t->width;
    const struct dsf_in_unit tensors[] = {
        { "wte", a->wte, (size_t)t->vocab * width, 0 },
        { "wpe", a->wpe, (size_t)a->npos * width, 1 },
    };
    int status = dsf_tile_check(op, t, err);

    need[DSFLOW_EMBED_BATCH] = dsf_batch_of(t);
    need[DSFLOW_EMBED_X] = need[DSFLOW_EMBED_DX] = dsf_rows_of(t, width);
    if (status == DSFLOW_OK && a->first < 0)
        status =
            dsflow_fail(err, DSFLOW_EINVAL, "%s: first: %d: expected 0 or more",
                        op->name, (int)a->first);
    if (status == DSFLOW_OK &&
        (a->first_pos < 0 || a->npos < 0 ||
         a->npos > t->context - a->first_pos || (a->wpe < 0 && a->npos != 0)))
        status = dsflow_fail(err, DSFLOW_EINVAL,
                             "%s: %d positions from %d on: expected some of %d",
                             op->name, (int)a->npos, (int)a->first_pos,
                             a->wpe < 0 ? 0 : (int)t->context);
    if (status == DSFLOW_OK)
        status = dsf_unit_needs(op, tensors, 2, &need[DSFLOW_EMBED_UNIT], err);
    need[DSFLOW_EMBED_GRAD] = need[DSFLOW_EMBED_UNIT];
    return status;
}

DSF_SEGMENT_CHECK(embed)

/* Of a number on a port. */
static double bytes_on(const struct dsflow_case *c, unsigned port)
{
    return (double)dsflow_dtype_bytes(c->shapes[port].dtype, 1);
}

/* A row of each table for each token, to a row of x; back, dx once, and each
 * table's rows read and written. How many of the rows are of a part is not
 * known: it counts as if all were. */
static void cost(const struct dsflow_case *c, struct dsflow_cost *cost)
{
    const struct dsflow_embed_args *a = c->args;
    const int back = c->op->direction == DSFLOW_DIR_BACKWARD_WEIGHT;
    const int tables = a->npos > 0 ? 2 : 1;
    const double x = (double)dsf_tile_x(&a->tile);
    const double rows = x * bytes_on(c, back ? DSFLOW_EMBED_DX : DSFLOW_EMBED_X);

    cost->flops = x * (back ? tables : tables - 1);
    cost->bytes = DSF_CELL * 2.0 * a->tile.rows + rows +
                  tables * x *
                      (back ? 2.0 * bytes_on(c, DSFLOW_EMBED_GRAD)
                            : bytes_on(c, DSFLOW_EMBED_UNIT));
}

/* Rows that are not fp32: two of the unit and their sum, or one of dx; and, for
 * a gradient that is not, a sum and where each row of the tile goes. */
static size_t scratch(const struct dsflow_case *c)
{
    const struct dsflow_embed_args *a = c->args;
    const int back = c->op->direction == DSFLOW_DIR_BACKWARD_WEIGHT;
    const size_t row = dsf_round16((size_t)a->tile.width) * DSF_CELL;

    if (back && dsf_is_narrow(c->shapes[DSFLOW_EMBED_GRAD].dtype))
        return 2 * row + (size_t)a->tile.rows * sizeof(int64_t);
    if (back)
        return dsf_is_narrow(c->shapes[DSFLOW_EMBED_DX].dtype) ? row : 0;
    return dsf_is_narrow(c->shapes[DSFLOW_EMBED_UNIT].dtype) ||
                   dsf_is_narrow(c->shapes[DSFLOW_EMBED_X].dtype)
               ? 3 * row
               : 0;
}

/* A port, by its name in the list of the segment. */
#define P(port, name, access, ...)                                             \
    DSF_PORT(EMBED, port, name, access, __VA_ARGS__)

DSF_SEGMENT_OP(embed, forward, FORWARD, struct dsflow_embed_args,
               .summary = "token and position embeddings of a tile",
               .cost = cost, .scratch = scratch,
               DSFLOW_PORTS(P(BATCH, "batch", R, DSFLOW_INT32),
                            P(UNIT, "embed", R, .floats = DSFLOW_NARROW_ALONE),
                            P(X, "x", W, .floats = DSFLOW_NARROW_ALONE)));

DSF_SEGMENT_OP(embed, backward_weight, BACKWARD_WEIGHT,
               struct dsflow_embed_args,
               .summary = "gradients of the embeddings, added up by token",
               .cost = cost, .scratch = scratch,
               DSFLOW_PORTS(P(BATCH, "batch", R, DSFLOW_INT32),
                            P(DX, "dx", R, .floats = DSFLOW_NARROW),
                            P(GRAD, "grad", RW,
                              .floats = DSFLOW_NARROW_ALONE)));
