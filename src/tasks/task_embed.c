/* task_embed.c - tokens to vectors, and the gradient of the table. */
#include "tasks/tasks.h"
#include "tasks/tile.h"

static int embed_check(const struct dsflow_op *op,
                       const struct dsflow_shape *shapes, unsigned n,
                       const struct dsflow_embed_args *a, unsigned x,
                       unsigned unit, struct dsflow_err *err)
{
    const struct dsflow_tile *t = &a->tile;
    size_t floats[3] = { 0 };
    int status = dsf_tile_check(op, t, err);

    if (status < 0)
        return status;
    floats[0] = 2 * (size_t)t->rows;
    floats[x] = dsf_tile_x(t);
    status =
        dsf_unit_need(op, "wte", a->wte, (size_t)t->vocab * (size_t)t->width, 0,
                      &floats[unit], err);
    if (status == DSFLOW_OK)
        status = dsf_unit_need(op, "wpe", a->wpe,
                               (size_t)t->context * (size_t)t->width, 1,
                               &floats[unit], err);
    if (status < 0)
        return status;
    return dsf_ports_check(op, shapes, floats, n, err);
}

/* A row of the table and one of the positions for each token. */
static void embed_cost(const struct dsflow_shape *shapes, unsigned n,
                       const void *args, struct dsflow_cost *cost)
{
    const struct dsflow_embed_args *a = args;
    double x = (double)dsf_tile_x(&a->tile);

    cost->flops = a->wpe < 0 ? 0 : x;
    cost->bytes =
        sizeof(float) * (2.0 * a->tile.rows + x * (a->wpe < 0 ? 2 : 3));
}

static int forward_check(const struct dsflow_shape *shapes, unsigned n,
                         const void *args, struct dsflow_err *err)
{
    return embed_check(&dsf_op_embed_forward, shapes, n, args, 2, 1, err);
}

const struct dsflow_op dsf_op_embed_forward = {
    .abi = DSFLOW_OP_ABI,
    .name = "embed.forward",
    .segment = "embed",
    .direction = DSFLOW_DIR_FORWARD,
    .summary = "token and position embeddings of a tile",
    .args_size = sizeof(struct dsflow_embed_args),
    DSFLOW_PORTS({ "batch", DSFLOW_R, DSFLOW_INT32 }, { "embed", DSFLOW_R },
                 { "x", DSFLOW_W }),
    .check = forward_check,
    .cost = embed_cost,
};

static int backward_weight_check(const struct dsflow_shape *shapes, unsigned n,
                                 const void *args, struct dsflow_err *err)
{
    return embed_check(&dsf_op_embed_backward_weight, shapes, n, args, 1, 2,
                       err);
}

static void backward_weight_cost(const struct dsflow_shape *shapes, unsigned n,
                                 const void *args, struct dsflow_cost *cost)
{
    const struct dsflow_embed_args *a = args;
    double x = (double)dsf_tile_x(&a->tile), tables = a->wpe < 0 ? 1 : 2;

    cost->flops = x * tables;
    /* dx once; each table's rows read and written. */
    cost->bytes = sizeof(float) * (2.0 * a->tile.rows + x * (1 + 2 * tables));
}

const struct dsflow_op dsf_op_embed_backward_weight = {
    .abi = DSFLOW_OP_ABI,
    .name = "embed.backward_weight",
    .segment = "embed",
    .direction = DSFLOW_DIR_BACKWARD_WEIGHT,
    .summary = "gradients of the embeddings, added up by token",
    .args_size = sizeof(struct dsflow_embed_args),
    DSFLOW_PORTS({ "batch", DSFLOW_R, DSFLOW_INT32 }, { "dx", DSFLOW_R },
                 { "grad", DSFLOW_RW }),
    .check = backward_weight_check,
    .cost = backward_weight_cost,
};
