/* task_mlp.c - norm, two projections with an activation between, residual. */
#include "tasks/tasks.h"
#include "tasks/tile.h"

/* Floats of the unit, or an error. */
static int unit_floats(const struct dsflow_op *op,
                       const struct dsflow_mlp_args *a, size_t *need,
                       struct dsflow_err *err)
{
    const struct dsflow_tile *t = &a->tile;
    const size_t width = (size_t)t->width, ffn = (size_t)t->ffn;
    const struct {
        const char *name;
        int64_t at;
        size_t n;
        int optional;
    } parts[] = {
        { "w1", a->w1, dsf_tile_hwidth(t) * width, 0 },
        { "b1", a->b1, dsf_tile_hwidth(t), 1 },
        { "w2", a->w2, width * ffn, 0 },
        { "b2", a->b2, width, 1 },
        { "norm_w", a->norm_w, width, 0 },
        { "norm_b", a->norm_b, width, 1 },
    };
    int status = dsf_tile_check(op, t, err);

    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
        if (status == DSFLOW_OK)
            status = dsf_unit_need(op, parts[i].name, parts[i].at, parts[i].n,
                                   parts[i].optional, need, err);
    }
    return status;
}

/* Two products, and about 20 for an activation and a norm. */
static void mlp_cost(const struct dsflow_op *op,
                     const struct dsflow_shape *shapes, unsigned n,
                     const struct dsflow_tile *t, struct dsflow_cost *cost)
{
    double rows = t->rows, h = (double)dsf_tile_hwidth(t);

    cost->flops = 2 * rows * t->width * (h + t->ffn) + 20 * rows * t->ffn +
                  8 * rows * t->width;
    cost->bytes = dsf_ports_bytes(op, shapes, n);
}

static int forward_check(const struct dsflow_shape *shapes, unsigned n,
                         const void *args, struct dsflow_err *err)
{
    const struct dsflow_mlp_args *a = args;
    const struct dsflow_tile *t = &a->tile;
    size_t unit = 0;
    int status = unit_floats(&dsf_op_mlp_forward, a, &unit, err);

    if (status < 0)
        return status;
    return dsf_ports_check(&dsf_op_mlp_forward, shapes,
                           (size_t[]){ dsf_tile_x(t), unit,
                                       (size_t)t->rows * dsf_tile_hwidth(t),
                                       dsf_tile_x(t) },
                           n, err);
}

static void forward_cost(const struct dsflow_shape *shapes, unsigned n,
                         const void *args, struct dsflow_cost *cost)
{
    const struct dsflow_mlp_args *a = args;

    mlp_cost(&dsf_op_mlp_forward, shapes, n, &a->tile, cost);
}

/* The normed tile, then the activations: never both are needed. */
static size_t forward_scratch(const struct dsflow_shape *shapes, unsigned n,
                              const void *args)
{
    const struct dsflow_mlp_args *a = args;
    const struct dsflow_tile *t = &a->tile;
    size_t most = (size_t)(t->ffn > t->width ? t->ffn : t->width);

    return (size_t)t->rows * most * sizeof(float);
}

const struct dsflow_op dsf_op_mlp_forward = {
    .abi = DSFLOW_OP_ABI,
    .name = "mlp.forward",
    .segment = "mlp",
    .direction = DSFLOW_DIR_FORWARD,
    .summary = "norm, two projections and residual",
    .args_size = sizeof(struct dsflow_mlp_args),
    DSFLOW_PORTS({ "x", DSFLOW_R }, { "unit", DSFLOW_R }, { "h", DSFLOW_W },
                 { "y", DSFLOW_W }),
    .check = forward_check,
    .cost = forward_cost,
    .scratch = forward_scratch,
};

static int hidden_check(const struct dsflow_shape *shapes, unsigned n,
                        const void *args, struct dsflow_err *err)
{
    const struct dsflow_mlp_args *a = args;
    const struct dsflow_tile *t = &a->tile;
    size_t unit = 0;
    int status = unit_floats(&dsf_op_mlp_hidden, a, &unit, err);

    if (status < 0)
        return status;
    return dsf_ports_check(
        &dsf_op_mlp_hidden, shapes,
        (size_t[]){ dsf_tile_x(t), unit, (size_t)t->rows * dsf_tile_hwidth(t) },
        n, err);
}

static void hidden_cost(const struct dsflow_shape *shapes, unsigned n,
                        const void *args, struct dsflow_cost *cost)
{
    const struct dsflow_mlp_args *a = args;
    double rows = a->tile.rows, h = (double)dsf_tile_hwidth(&a->tile);

    cost->flops = 2 * rows * a->tile.width * h + rows * h +
                  8 * rows * a->tile.width;
    cost->bytes = dsf_ports_bytes(&dsf_op_mlp_hidden, shapes, n);
}

static size_t hidden_scratch(const struct dsflow_shape *shapes, unsigned n,
                             const void *args)
{
    const struct dsflow_mlp_args *a = args;

    return dsf_tile_x(&a->tile) * sizeof(float);
}

const struct dsflow_op dsf_op_mlp_hidden = {
    .abi = DSFLOW_OP_ABI,
    .name = "mlp.hidden",
    .segment = "mlp",
    .direction = DSFLOW_DIR_HIDDEN,
    .summary = "norm and first projection, computed once more",
    .args_size = sizeof(struct dsflow_mlp_args),
    DSFLOW_PORTS({ "x", DSFLOW_R }, { "unit", DSFLOW_R }, { "h", DSFLOW_W }),
    .check = hidden_check,
    .cost = hidden_cost,
    .scratch = hidden_scratch,
};

static int backward_input_check(const struct dsflow_shape *shapes, unsigned n,
                                const void *args, struct dsflow_err *err)
{
    const struct dsflow_mlp_args *a = args;
    const struct dsflow_tile *t = &a->tile;
    size_t unit = 0, x = dsf_tile_x(t);
    size_t h = (size_t)t->rows * dsf_tile_hwidth(t);
    int status = unit_floats(&dsf_op_mlp_backward_input, a, &unit, err);

    if (status < 0)
        return status;
    return dsf_ports_check(
        &dsf_op_mlp_backward_input, shapes,
        (size_t[]){ x, x, unit, h, h, x, 2 * (size_t)t->width }, n, err);
}

static void backward_input_cost(const struct dsflow_shape *shapes, unsigned n,
                                const void *args, struct dsflow_cost *cost)
{
    const struct dsflow_mlp_args *a = args;

    mlp_cost(&dsf_op_mlp_backward_input, shapes, n, &a->tile, cost);
}

/* The gradient of the normed tile, or that tile. */
static size_t backward_scratch(const struct dsflow_shape *shapes, unsigned n,
                               const void *args)
{
    const struct dsflow_mlp_args *a = args;

    return dsf_tile_x(&a->tile) * sizeof(float);
}

const struct dsflow_op dsf_op_mlp_backward_input = {
    .abi = DSFLOW_OP_ABI,
    .name = "mlp.backward_input",
    .segment = "mlp",
    .direction = DSFLOW_DIR_BACKWARD_INPUT,
    .summary = "gradient of the input of mlp, and of its norm",
    .args_size = sizeof(struct dsflow_mlp_args),
    DSFLOW_PORTS({ "dy", DSFLOW_R }, { "x", DSFLOW_R }, { "unit", DSFLOW_R },
                 { "h", DSFLOW_RW }, { "dh", DSFLOW_W }, { "dx", DSFLOW_W },
                 { "dnorm", DSFLOW_W }),
    .check = backward_input_check,
    .cost = backward_input_cost,
    .scratch = backward_scratch,
};

static int backward_weight_check(const struct dsflow_shape *shapes, unsigned n,
                                 const void *args, struct dsflow_err *err)
{
    const struct dsflow_mlp_args *a = args;
    const struct dsflow_tile *t = &a->tile;
    size_t unit = 0, x = dsf_tile_x(t), rows = (size_t)t->rows;
    int status = unit_floats(&dsf_op_mlp_backward_weight, a, &unit, err);

    if (status < 0)
        return status;
    return dsf_ports_check(&dsf_op_mlp_backward_weight, shapes,
                           (size_t[]){ x, x, unit, rows * (size_t)t->ffn,
                                       rows * dsf_tile_hwidth(t),
                                       2 * (size_t)t->width, unit },
                           n, err);
}

/* Of the unit only the norm is read. */
static void backward_weight_cost(const struct dsflow_shape *shapes, unsigned n,
                                 const void *args, struct dsflow_cost *cost)
{
    const struct dsflow_mlp_args *a = args;

    mlp_cost(&dsf_op_mlp_backward_weight, shapes, n, &a->tile, cost);
    cost->bytes += 8.0 * a->tile.width - (double)shapes[2].bytes;
}

const struct dsflow_op dsf_op_mlp_backward_weight = {
    .abi = DSFLOW_OP_ABI,
    .name = "mlp.backward_weight",
    .segment = "mlp",
    .direction = DSFLOW_DIR_BACKWARD_WEIGHT,
    .summary = "gradients of the parameters of mlp",
    .args_size = sizeof(struct dsflow_mlp_args),
    DSFLOW_PORTS({ "dy", DSFLOW_R }, { "x", DSFLOW_R }, { "unit", DSFLOW_R },
                 { "h", DSFLOW_R }, { "dh", DSFLOW_R }, { "dnorm", DSFLOW_R },
                 { "grad", DSFLOW_RW }),
    .check = backward_weight_check,
    .cost = backward_weight_cost,
    .scratch = backward_scratch,
};
