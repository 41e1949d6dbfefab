/* task_part_embed.c - some rows of the tables of embeddings. */
#include "tasks/tasks.h"
#include "tasks/tile.h"

static int embed_check(const struct dsflow_op *op,
                       const struct dsflow_shape *shapes, unsigned n,
                       const struct dsf_embed_part_args *a, unsigned x,
                       unsigned unit, struct dsflow_err *err)
{
    const struct dsflow_tile *t = &a->tile;
    size_t floats[3] = { 0 }, width = (size_t)t->width;
    int status = dsf_tile_check(op, t, err);

    if (status < 0)
        return status;
    if (a->first < 0)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: first: %d: expected 0 or "
                           "more",
                           op->name, (int)a->first);
    if (a->first_pos < 0 || a->npos < 0 ||
        a->npos > t->context - a->first_pos || (a->wpe < 0 && a->npos != 0))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: %d positions from %d on: expected some of %d",
                           op->name, (int)a->npos, (int)a->first_pos,
                           a->wpe < 0 ? 0 : (int)t->context);
    floats[0] = 2 * (size_t)t->rows;
    floats[x] = dsf_tile_x(t);
    status = dsf_unit_need(op, "wte", a->wte, (size_t)t->vocab * width, 0,
                           &floats[unit], err);
    if (status == DSFLOW_OK)
        status = dsf_unit_need(op, "wpe", a->wpe, (size_t)a->npos * width, 1,
                               &floats[unit], err);
    if (status < 0)
        return status;
    return dsf_ports_check(op, shapes, floats, n, err);
}

static int forward_check(const struct dsflow_shape *shapes, unsigned n,
                         const void *args, struct dsflow_err *err)
{
    return embed_check(&dsf_op_embed_part_forward, shapes, n, args, 2, 1, err);
}

/* How many of its rows this part has is not known: as many as all have. */
static void forward_cost(const struct dsflow_shape *shapes, unsigned n,
                         const void *args, struct dsflow_cost *cost)
{
    const struct dsf_embed_part_args *a = args;
    double x = (double)dsf_tile_x(&a->tile);

    cost->flops = a->npos == 0 ? 0 : x;
    cost->bytes =
        sizeof(float) * (2.0 * a->tile.rows + x * (a->npos == 0 ? 2 : 3));
}

const struct dsflow_op dsf_op_embed_part_forward = {
    .abi = DSFLOW_OP_ABI,
    .name = "embed_part.forward",
    .segment = "embed",
    .direction = DSFLOW_DIR_FORWARD,
    .summary = "embeddings of the tokens that one tensor rank has",
    .args_size = sizeof(struct dsf_embed_part_args),
    DSFLOW_PORTS({ "batch", DSFLOW_R, DSFLOW_INT32 }, { "embed", DSFLOW_R },
                 { "x", DSFLOW_W }),
    .check = forward_check,
    .cost = forward_cost,
};

static int backward_weight_check(const struct dsflow_shape *shapes, unsigned n,
                                 const void *args, struct dsflow_err *err)
{
    return embed_check(&dsf_op_embed_part_backward_weight, shapes, n, args, 1,
                       2, err);
}

static void backward_weight_cost(const struct dsflow_shape *shapes, unsigned n,
                                 const void *args, struct dsflow_cost *cost)
{
    const struct dsf_embed_part_args *a = args;
    double x = (double)dsf_tile_x(&a->tile), tables = a->npos == 0 ? 1 : 2;

    cost->flops = x * tables;
    cost->bytes = sizeof(float) * (2.0 * a->tile.rows + x * (1 + 2 * tables));
}

const struct dsflow_op dsf_op_embed_part_backward_weight = {
    .abi = DSFLOW_OP_ABI,
    .name = "embed_part.backward_weight",
    .segment = "embed",
    .direction = DSFLOW_DIR_BACKWARD_WEIGHT,
    .summary = "gradients of the embeddings that one tensor rank has",
    .args_size = sizeof(struct dsf_embed_part_args),
    DSFLOW_PORTS({ "batch", DSFLOW_R, DSFLOW_INT32 }, { "dx", DSFLOW_R },
                 { "grad", DSFLOW_RW }),
    .check = backward_weight_check,
    .cost = backward_weight_cost,
};
