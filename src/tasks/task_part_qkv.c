/* task_part_qkv.c - projection to the queries, keys and values of some heads.
 */
#include "tasks/tasks.h"
#include "tasks/tile.h"

/* Floats of the unit and of what is shared, or an error. */
static int unit_floats(const struct dsflow_op *op,
                       const struct dsf_qkv_part_args *a, size_t *need,
                       size_t *shared, struct dsflow_err *err)
{
    const struct dsflow_tile *t = &a->tile;
    size_t width = (size_t)t->width, nk = dsf_tile_kvwidth(t) / 2;
    size_t out = dsf_tile_qwidth(t) + (a->k < 0 ? 2 * nk : 0);
    const struct {
        const char *name;
        int64_t at;
        size_t n;
        int optional;
        size_t *need;
    } parts[] = {
        { "w", a->w, out * width, 0, need },
        { "b", a->b, out, 1, need },
        { "k", a->k, nk * width, a->v < 0, shared },
        { "v", a->v, nk * width, a->k < 0, shared },
        { "kb", a->kb, nk, 1, shared },
        { "vb", a->vb, nk, a->kb < 0, shared },
    };
    int status = dsf_tile_check(op, t, err);

    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
        if (status == DSFLOW_OK)
            status = dsf_unit_need(op, parts[i].name, parts[i].at, parts[i].n,
                                   parts[i].optional, parts[i].need, err);
    }
    return status;
}

/* The rope port and that of what is shared, the last, are there where they are
 * used; the second only after the first. */
static int check_ports(const struct dsflow_op *op, unsigned n, unsigned rope,
                       const struct dsf_qkv_part_args *a,
                       struct dsflow_err *err)
{
    unsigned expected = op->nports - rope - 1 + (a->tile.rope ? rope : 0);

    if (a->k >= 0)
        expected = op->nports;
    if (rope && a->k >= 0 && !a->tile.rope)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: shared keys: expected rotary positions",
                           op->name);
    if (n != expected)
        return dsflow_fail(err, DSFLOW_EINVAL, "%s: %u ports: expected %u",
                           op->name, n, expected);
    return DSFLOW_OK;
}

static size_t rope_floats(const struct dsflow_tile *t)
{
    return ((size_t)t->pos + dsf_tile_length(t)) * (size_t)t->head_dim;
}

/* Bytes of this part's rows of what is shared. */
static double shared_bytes(const struct dsf_qkv_part_args *a)
{
    return a->k < 0 ? 0
                    : (double)(dsf_tile_kvwidth(&a->tile) *
                               (size_t)a->tile.width * sizeof(float));
}

/* The table of rotations is read for the rows of the tile only, and of what is
 * shared the part's rows. */
static void qkv_cost(const struct dsflow_op *op,
                     const struct dsflow_shape *shapes, int rope,
                     const struct dsf_qkv_part_args *a,
                     struct dsflow_cost *cost)
{
    const struct dsflow_tile *t = &a->tile;
    double out = (double)(dsf_tile_qwidth(t) + dsf_tile_kvwidth(t));

    cost->flops = 2.0 * (double)dsf_tile_x(t) * out;
    cost->bytes = dsf_ports_bytes(op, shapes, 4) + shared_bytes(a);
    if (rope && t->rope) {
        cost->flops += 3.0 * t->rows * out;
        cost->bytes +=
            (double)(dsf_tile_length(t) * (size_t)t->head_dim * sizeof(float));
    }
}

static int forward_check(const struct dsflow_shape *shapes, unsigned n,
                         const void *args, struct dsflow_err *err)
{
    const struct dsflow_op *op = &dsf_op_qkv_part_forward;
    const struct dsf_qkv_part_args *a = args;
    const struct dsflow_tile *t = &a->tile;
    size_t unit = 0, shared = 0, rows = (size_t)t->rows;
    int status = unit_floats(op, a, &unit, &shared, err);

    if (status == DSFLOW_OK)
        status = check_ports(op, n, 1, a, err);
    if (status < 0)
        return status;
    return dsf_ports_check(
        op, shapes,
        (size_t[]){ dsf_tile_x(t), unit, rows * dsf_tile_qwidth(t),
                    rows * dsf_tile_kvwidth(t), rope_floats(t), shared },
        n, err);
}

static void forward_cost(const struct dsflow_shape *shapes, unsigned n,
                         const void *args, struct dsflow_cost *cost)
{
    const struct dsf_qkv_part_args *a = args;

    qkv_cost(&dsf_op_qkv_part_forward, shapes, 1, a, cost);
}

const struct dsflow_op dsf_op_qkv_part_forward = {
    .abi = DSFLOW_OP_ABI,
    .name = "qkv_part.forward",
    .segment = "qkv",
    .direction = DSFLOW_DIR_FORWARD,
    .summary = "projection to queries, keys and values of some heads",
    .args_size = sizeof(struct dsf_qkv_part_args),
    .noptional = 2,
    DSFLOW_PORTS({ "xn", DSFLOW_R }, { "unit", DSFLOW_R }, { "q", DSFLOW_W },
                 { "kv", DSFLOW_W }, { "rope", DSFLOW_R },
                 { "shared", DSFLOW_R }),
    .check = forward_check,
    .cost = forward_cost,
};

static int backward_input_check(const struct dsflow_shape *shapes, unsigned n,
                                const void *args, struct dsflow_err *err)
{
    const struct dsflow_op *op = &dsf_op_qkv_part_backward_input;
    const struct dsf_qkv_part_args *a = args;
    const struct dsflow_tile *t = &a->tile;
    size_t unit = 0, shared = 0, rows = (size_t)t->rows;
    int status = unit_floats(op, a, &unit, &shared, err);

    if (status == DSFLOW_OK)
        status = check_ports(op, n, 1, a, err);
    if (status < 0)
        return status;
    return dsf_ports_check(op, shapes,
                           (size_t[]){ rows * dsf_tile_qwidth(t),
                                       rows * dsf_tile_kvwidth(t), unit,
                                       dsf_tile_x(t), rope_floats(t), shared },
                           n, err);
}

static void backward_input_cost(const struct dsflow_shape *shapes, unsigned n,
                                const void *args, struct dsflow_cost *cost)
{
    const struct dsf_qkv_part_args *a = args;

    qkv_cost(&dsf_op_qkv_part_backward_input, shapes, 1, a, cost);
}

const struct dsflow_op dsf_op_qkv_part_backward_input = {
    .abi = DSFLOW_OP_ABI,
    .name = "qkv_part.backward_input",
    .segment = "qkv",
    .direction = DSFLOW_DIR_BACKWARD_INPUT,
    .summary = "what some heads add to the gradient of their input",
    .args_size = sizeof(struct dsf_qkv_part_args),
    .noptional = 2,
    DSFLOW_PORTS({ "dq", DSFLOW_RW }, { "dkv", DSFLOW_RW },
                 { "unit", DSFLOW_R }, { "dxn", DSFLOW_W },
                 { "rope", DSFLOW_R }, { "shared", DSFLOW_R }),
    .check = backward_input_check,
    .cost = backward_input_cost,
};

static int backward_weight_check(const struct dsflow_shape *shapes, unsigned n,
                                 const void *args, struct dsflow_err *err)
{
    const struct dsflow_op *op = &dsf_op_qkv_part_backward_weight;
    const struct dsf_qkv_part_args *a = args;
    const struct dsflow_tile *t = &a->tile;
    size_t unit = 0, shared = 0, rows = (size_t)t->rows;
    int status = unit_floats(op, a, &unit, &shared, err);

    if (status == DSFLOW_OK)
        status = check_ports(op, n, 0, a, err);
    if (status < 0)
        return status;
    return dsf_ports_check(op, shapes,
                           (size_t[]){ rows * dsf_tile_qwidth(t),
                                       rows * dsf_tile_kvwidth(t),
                                       dsf_tile_x(t), unit, shared },
                           n, err);
}

static void backward_weight_cost(const struct dsflow_shape *shapes, unsigned n,
                                 const void *args, struct dsflow_cost *cost)
{
    const struct dsf_qkv_part_args *a = args;

    qkv_cost(&dsf_op_qkv_part_backward_weight, shapes, 0, a, cost);
    cost->bytes += shared_bytes(a); /* written too */
}

const struct dsflow_op dsf_op_qkv_part_backward_weight = {
    .abi = DSFLOW_OP_ABI,
    .name = "qkv_part.backward_weight",
    .segment = "qkv",
    .direction = DSFLOW_DIR_BACKWARD_WEIGHT,
    .summary = "gradients of the projection to some heads",
    .args_size = sizeof(struct dsf_qkv_part_args),
    .noptional = 1,
    DSFLOW_PORTS({ "dq", DSFLOW_R }, { "dkv", DSFLOW_R }, { "xn", DSFLOW_R },
                 { "grad", DSFLOW_RW }, { "shared_grad", DSFLOW_RW }),
    .check = backward_weight_check,
    .cost = backward_weight_cost,
};
