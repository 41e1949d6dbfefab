/* task_embed.c - tokens to vectors, and the gradient of the table; of a part,
 * by some rows of the tables. */
#include "tasks/tasks.h"
#include "tasks/tile.h"

int dsf_embed_needs(const struct dsflow_op *op, const void *args,
                    struct dsf_need *need, struct dsflow_err *err)
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
        status = dsflow_fail(err, DSFLOW_EINVAL,
                             "%s: first: %d: expected 0 or more", op->name,
                             (int)a->first);
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

/* A row of the table and one of the positions for each token. How many of the
 * rows are of a part is not known: it counts as if all were. */
static void embed_cost(const struct dsflow_embed_args *a, double flops,
                       double tiles, struct dsflow_cost *cost)
{
    double x = (double)dsf_tile_x(&a->tile);

    cost->flops = flops * x;
    cost->bytes = DSF_CELL * (2.0 * a->tile.rows + x * tiles);
}

DSF_SEGMENT_CHECK(forward, embed)

static void forward_cost(const struct dsflow_shape *shapes, unsigned n,
                         const void *args, struct dsflow_cost *cost)
{
    const struct dsflow_embed_args *a = args;

    embed_cost(a, a->npos > 0, a->npos > 0 ? 3 : 2, cost);
}

const struct dsflow_op dsf_op_embed_forward = {
    .abi = DSFLOW_OP_ABI,
    .name = "embed.forward",
    .segment = "embed",
    .direction = DSFLOW_DIR_FORWARD,
    .summary = "token and position embeddings of a tile",
    .args_size = sizeof(struct dsflow_embed_args),
    .nports = DSFLOW_EMBED_X + 1,
    .ports =
        (const struct dsflow_port[]){
            [DSFLOW_EMBED_BATCH] = { "batch", DSFLOW_R, DSFLOW_INT32 },
            [DSFLOW_EMBED_UNIT] = { "embed", DSFLOW_R },
            [DSFLOW_EMBED_X] = { "x", DSFLOW_W },
        },
    .check = forward_check,
    .cost = forward_cost,
};

DSF_SEGMENT_CHECK(backward_weight, embed)

/* dx once; each table's rows read and written. */
static void backward_weight_cost(const struct dsflow_shape *shapes, unsigned n,
                                 const void *args, struct dsflow_cost *cost)
{
    const struct dsflow_embed_args *a = args;
    int tables = a->npos > 0 ? 2 : 1;

    embed_cost(a, tables, 1 + 2 * tables, cost);
}

const struct dsflow_op dsf_op_embed_backward_weight = {
    .abi = DSFLOW_OP_ABI,
    .name = "embed.backward_weight",
    .segment = "embed",
    .direction = DSFLOW_DIR_BACKWARD_WEIGHT,
    .summary = "gradients of the embeddings, added up by token",
    .args_size = sizeof(struct dsflow_embed_args),
    .nports = DSFLOW_EMBED_GRAD + 1,
    .ports =
        (const struct dsflow_port[]){
            [DSFLOW_EMBED_BATCH] = { "batch", DSFLOW_R, DSFLOW_INT32 },
            [DSFLOW_EMBED_DX] = { "dx", DSFLOW_R },
            [DSFLOW_EMBED_GRAD] = { "grad", DSFLOW_RW },
        },
    .check = backward_weight_check,
    .cost = backward_weight_cost,
};
