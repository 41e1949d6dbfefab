/* task_qkv.c - norm, and projection to queries, keys and values. */
#include "tasks/tasks.h"
#include "tasks/tile.h"

/* Floats of the unit, or an error. */
static int unit_floats(const struct dsflow_op *op,
                       const struct dsflow_qkv_args *a, size_t *need,
                       struct dsflow_err *err)
{
    const struct dsflow_tile *t = &a->tile;
    size_t width = (size_t)t->width;
    size_t out = dsf_tile_qwidth(t) + dsf_tile_kvwidth(t);
    int status = dsf_unit_need(op, "w", a->w, out * width, 0, need, err);

    if (status == DSFLOW_OK)
        status = dsf_unit_need(op, "b", a->b, out, 1, need, err);
    if (status == DSFLOW_OK)
        status = dsf_unit_need(op, "norm_w", a->norm_w, width, 0, need, err);
    if (status == DSFLOW_OK)
        status = dsf_unit_need(op, "norm_b", a->norm_b, width, 1, need, err);
    return status;
}

/* A row of head_dim numbers for each position up to the last of the tile. */
static size_t rope_floats(const struct dsflow_tile *t)
{
    return ((size_t)t->pos + dsf_tile_length(t)) * (size_t)t->head_dim;
}

/* The rope port, the last, must be there exactly when the model rotates. */
static int check_rope(const struct dsflow_op *op, unsigned n,
                      const struct dsflow_tile *t, struct dsflow_err *err)
{
    unsigned expected = op->nports - (t->rope ? 0 : 1);

    if (n != expected)
        return dsflow_fail(err, DSFLOW_EINVAL, "%s: %u ports: expected %u",
                           op->name, n, expected);
    return DSFLOW_OK;
}

static double gemm_flops(const struct dsflow_tile *t)
{
    return 2.0 * (double)dsf_tile_x(t) *
           (double)(dsf_tile_qwidth(t) + dsf_tile_kvwidth(t));
}

/* The table of rotations is read for the rows of the tile only. */
static void qkv_cost(const struct dsflow_op *op,
                     const struct dsflow_shape *shapes, unsigned n,
                     const struct dsflow_tile *t, struct dsflow_cost *cost)
{
    cost->flops = gemm_flops(t) + 8.0 * (double)dsf_tile_x(t);
    cost->bytes = dsf_ports_bytes(op, shapes, t->rope ? n - 1 : n);
    if (t->rope)
        cost->bytes +=
            (double)(dsf_tile_length(t) * (size_t)t->head_dim * sizeof(float));
}

/* The normed tile, or the gradient of it. */
static size_t scratch(const struct dsflow_shape *shapes, unsigned n,
                      const void *args)
{
    const struct dsflow_qkv_args *a = args;

    return dsf_tile_x(&a->tile) * sizeof(float);
}

static int forward_check(const struct dsflow_shape *shapes, unsigned n,
                         const void *args, struct dsflow_err *err)
{
    const struct dsflow_op *op = &dsf_op_qkv_forward;
    const struct dsflow_qkv_args *a = args;
    const struct dsflow_tile *t = &a->tile;
    int status = dsf_tile_check(op, t, err);
    size_t unit = 0, rows = (size_t)t->rows;

    if (status == DSFLOW_OK)
        status = check_rope(op, n, t, err);
    if (status == DSFLOW_OK)
        status = unit_floats(op, a, &unit, err);
    if (status < 0)
        return status;
    return dsf_ports_check(
        op, shapes,
        (size_t[]){ dsf_tile_x(t), unit, rows * dsf_tile_qwidth(t),
                    rows * dsf_tile_kvwidth(t), rope_floats(t) },
        n, err);
}

static void forward_cost(const struct dsflow_shape *shapes, unsigned n,
                         const void *args, struct dsflow_cost *cost)
{
    const struct dsflow_qkv_args *a = args;

    qkv_cost(&dsf_op_qkv_forward, shapes, n, &a->tile, cost);
}

const struct dsflow_op dsf_op_qkv_forward = {
    .abi = DSFLOW_OP_ABI,
    .name = "qkv.forward",
    .segment = "qkv",
    .direction = DSFLOW_DIR_FORWARD,
    .summary = "norm and projection to queries, keys and values",
    .args_size = sizeof(struct dsflow_qkv_args),
    .noptional = 1,
    DSFLOW_PORTS({ "x", DSFLOW_R }, { "unit", DSFLOW_R }, { "q", DSFLOW_W },
                 { "kv", DSFLOW_W }, { "rope", DSFLOW_R }),
    .check = forward_check,
    .cost = forward_cost,
    .scratch = scratch,
};

static int backward_input_check(const struct dsflow_shape *shapes, unsigned n,
                                const void *args, struct dsflow_err *err)
{
    const struct dsflow_op *op = &dsf_op_qkv_backward_input;
    const struct dsflow_qkv_args *a = args;
    const struct dsflow_tile *t = &a->tile;
    int status = dsf_tile_check(op, t, err);
    size_t unit = 0, rows = (size_t)t->rows, x = dsf_tile_x(t);

    if (status == DSFLOW_OK)
        status = check_rope(op, n, t, err);
    if (status == DSFLOW_OK)
        status = unit_floats(op, a, &unit, err);
    if (status < 0)
        return status;
    return dsf_ports_check(
        op, shapes,
        (size_t[]){ rows * dsf_tile_qwidth(t), rows * dsf_tile_kvwidth(t), x,
                    unit, x, x, 2 * (size_t)t->width, rope_floats(t) },
        n, err);
}

static void backward_input_cost(const struct dsflow_shape *shapes, unsigned n,
                                const void *args, struct dsflow_cost *cost)
{
    const struct dsflow_qkv_args *a = args;

    qkv_cost(&dsf_op_qkv_backward_input, shapes, n, &a->tile, cost);
}

const struct dsflow_op dsf_op_qkv_backward_input = {
    .abi = DSFLOW_OP_ABI,
    .name = "qkv.backward_input",
    .segment = "qkv",
    .direction = DSFLOW_DIR_BACKWARD_INPUT,
    .summary = "gradient of the input of qkv, and of its norm",
    .args_size = sizeof(struct dsflow_qkv_args),
    .noptional = 1,
    DSFLOW_PORTS({ "dq", DSFLOW_RW }, { "dkv", DSFLOW_RW }, { "x", DSFLOW_R },
                 { "unit", DSFLOW_R }, { "dres", DSFLOW_R }, { "dx", DSFLOW_W },
                 { "dnorm", DSFLOW_W }, { "rope", DSFLOW_R }),
    .check = backward_input_check,
    .cost = backward_input_cost,
    .scratch = scratch,
};

static int backward_weight_check(const struct dsflow_shape *shapes, unsigned n,
                                 const void *args, struct dsflow_err *err)
{
    const struct dsflow_op *op = &dsf_op_qkv_backward_weight;
    const struct dsflow_qkv_args *a = args;
    const struct dsflow_tile *t = &a->tile;
    int status = dsf_tile_check(op, t, err);
    size_t unit = 0, rows = (size_t)t->rows;

    if (status == DSFLOW_OK)
        status = unit_floats(op, a, &unit, err);
    if (status < 0)
        return status;
    return dsf_ports_check(
        op, shapes,
        (size_t[]){ rows * dsf_tile_qwidth(t), rows * dsf_tile_kvwidth(t),
                    dsf_tile_x(t), unit, 2 * (size_t)t->width, unit },
        n, err);
}

/* Of the unit only the norm is read; of the gradient all is. */
static void backward_weight_cost(const struct dsflow_shape *shapes, unsigned n,
                                 const void *args, struct dsflow_cost *cost)
{
    const struct dsflow_qkv_args *a = args;
    const struct dsflow_tile *t = &a->tile;

    cost->flops = gemm_flops(t) + 8.0 * (double)dsf_tile_x(t);
    cost->bytes = dsf_ports_bytes(&dsf_op_qkv_backward_weight, shapes, n) -
                  (double)shapes[3].bytes + 8.0 * t->width;
}

const struct dsflow_op dsf_op_qkv_backward_weight = {
    .abi = DSFLOW_OP_ABI,
    .name = "qkv.backward_weight",
    .segment = "qkv",
    .direction = DSFLOW_DIR_BACKWARD_WEIGHT,
    .summary = "gradients of the parameters of qkv",
    .args_size = sizeof(struct dsflow_qkv_args),
    DSFLOW_PORTS({ "dq", DSFLOW_R }, { "dkv", DSFLOW_R }, { "x", DSFLOW_R },
                 { "unit", DSFLOW_R }, { "dnorm", DSFLOW_R },
                 { "grad", DSFLOW_RW }),
    .check = backward_weight_check,
    .cost = backward_weight_cost,
    .scratch = scratch,
};
