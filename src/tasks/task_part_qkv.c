/* task_part_qkv.c - projection to the queries, keys and values of some heads.
 */
#include "tasks/tasks.h"
#include "tasks/tile.h"

/* Floats of the unit, or an error. */
static int unit_floats(const struct dsflow_op *op,
                       const struct dsf_qkv_part_args *a, size_t *need,
                       struct dsflow_err *err)
{
    const struct dsf_tile *t = &a->tile;
    size_t out = dsf_tile_qwidth(t) + dsf_tile_kvwidth(t);
    int status = dsf_tile_check(op, t, err);

    if (status == DSFLOW_OK)
        status = dsf_unit_need(op, "w", a->w, out * (size_t)t->width, 0, need,
                               err);
    if (status == DSFLOW_OK)
        status = dsf_unit_need(op, "b", a->b, out, 1, need, err);
    return status;
}

/* The same, and the rope port, the last, is there when the model rotates. */
static int rope_floats(const struct dsflow_op *op, unsigned n,
                       const struct dsf_qkv_part_args *a, size_t *unit,
                       size_t *rope, struct dsflow_err *err)
{
    const struct dsf_tile *t = &a->tile;
    unsigned expected = op->nports - (t->rope ? 0 : 1);
    int status = unit_floats(op, a, unit, err);

    if (status < 0)
        return status;
    if (n != expected)
        return dsflow_fail(err, DSFLOW_EINVAL, "%s: %u ports: expected %u",
                           op->name, n, expected);
    *rope = ((size_t)t->pos + dsf_tile_length(t)) * (size_t)t->head_dim;
    return DSFLOW_OK;
}

/* The table of rotations is read for the rows of the tile only. */
static void qkv_cost(const struct dsflow_op *op, const size_t *bytes,
                     unsigned n, unsigned ports, const struct dsf_tile *t,
                     struct dsflow_cost *cost)
{
    double out = (double)(dsf_tile_qwidth(t) + dsf_tile_kvwidth(t));

    cost->flops = 2.0 * (double)dsf_tile_x(t) * out;
    cost->bytes = dsf_ports_bytes(op, bytes, ports);
    if (n > ports) {
        cost->flops += 3.0 * t->rows * out;
        cost->bytes +=
            (double)(dsf_tile_length(t) * (size_t)t->head_dim * sizeof(float));
    }
}

static int forward_check(const size_t *bytes, unsigned n, const void *args,
                         struct dsflow_err *err)
{
    const struct dsflow_op *op = &dsf_op_qkv_part_forward;
    const struct dsf_qkv_part_args *a = args;
    const struct dsf_tile *t = &a->tile;
    size_t unit = 0, rope = 0, rows = (size_t)t->rows;
    int status = rope_floats(op, n, a, &unit, &rope, err);

    if (status < 0)
        return status;
    return dsf_ports_check(op, bytes,
                           (size_t[]){ dsf_tile_x(t), unit,
                                       rows * dsf_tile_qwidth(t),
                                       rows * dsf_tile_kvwidth(t), rope },
                           n, err);
}

static void forward_cost(const size_t *bytes, unsigned n, const void *args,
                         struct dsflow_cost *cost)
{
    const struct dsf_qkv_part_args *a = args;

    qkv_cost(&dsf_op_qkv_part_forward, bytes, n, 4, &a->tile, cost);
}

const struct dsflow_op dsf_op_qkv_part_forward = {
    .abi = DSFLOW_OP_ABI,
    .name = "qkv_part.forward",
    .summary = "projection to queries, keys and values of some heads",
    .args_size = sizeof(struct dsf_qkv_part_args),
    .nports = 5,
    .noptional = 1,
    .ports = { { "xn", DSFLOW_R },
               { "unit", DSFLOW_R },
               { "q", DSFLOW_W },
               { "kv", DSFLOW_W },
               { "rope", DSFLOW_R } },
    .check = forward_check,
    .cost = forward_cost,
};

static int backward_input_check(const size_t *bytes, unsigned n,
                                const void *args, struct dsflow_err *err)
{
    const struct dsflow_op *op = &dsf_op_qkv_part_backward_input;
    const struct dsf_qkv_part_args *a = args;
    const struct dsf_tile *t = &a->tile;
    size_t unit = 0, rope = 0, rows = (size_t)t->rows;
    int status = rope_floats(op, n, a, &unit, &rope, err);

    if (status < 0)
        return status;
    return dsf_ports_check(op, bytes,
                           (size_t[]){ rows * dsf_tile_qwidth(t),
                                       rows * dsf_tile_kvwidth(t), unit,
                                       dsf_tile_x(t), rope },
                           n, err);
}

static void backward_input_cost(const size_t *bytes, unsigned n,
                                const void *args, struct dsflow_cost *cost)
{
    const struct dsf_qkv_part_args *a = args;

    qkv_cost(&dsf_op_qkv_part_backward_input, bytes, n, 4, &a->tile, cost);
}

const struct dsflow_op dsf_op_qkv_part_backward_input = {
    .abi = DSFLOW_OP_ABI,
    .name = "qkv_part.backward_input",
    .summary = "what some heads add to the gradient of their input",
    .args_size = sizeof(struct dsf_qkv_part_args),
    .nports = 5,
    .noptional = 1,
    .ports = { { "dq", DSFLOW_RW },
               { "dkv", DSFLOW_RW },
               { "unit", DSFLOW_R },
               { "dxn", DSFLOW_W },
               { "rope", DSFLOW_R } },
    .check = backward_input_check,
    .cost = backward_input_cost,
};

static int backward_weight_check(const size_t *bytes, unsigned n,
                                 const void *args, struct dsflow_err *err)
{
    const struct dsflow_op *op = &dsf_op_qkv_part_backward_weight;
    const struct dsf_qkv_part_args *a = args;
    const struct dsf_tile *t = &a->tile;
    size_t unit = 0, rows = (size_t)t->rows;
    int status = unit_floats(op, a, &unit, err);

    if (status < 0)
        return status;
    return dsf_ports_check(op, bytes,
                           (size_t[]){ rows * dsf_tile_qwidth(t),
                                       rows * dsf_tile_kvwidth(t),
                                       dsf_tile_x(t), unit },
                           n, err);
}

static void backward_weight_cost(const size_t *bytes, unsigned n,
                                 const void *args, struct dsflow_cost *cost)
{
    const struct dsf_qkv_part_args *a = args;

    qkv_cost(&dsf_op_qkv_part_backward_weight, bytes, n, n, &a->tile, cost);
}

const struct dsflow_op dsf_op_qkv_part_backward_weight = {
    .abi = DSFLOW_OP_ABI,
    .name = "qkv_part.backward_weight",
    .summary = "gradients of the projection to some heads",
    .args_size = sizeof(struct dsf_qkv_part_args),
    .nports = 4,
    .ports = { { "dq", DSFLOW_R },
               { "dkv", DSFLOW_R },
               { "xn", DSFLOW_R },
               { "grad", DSFLOW_RW } },
    .check = backward_weight_check,
    .cost = backward_weight_cost,
};
