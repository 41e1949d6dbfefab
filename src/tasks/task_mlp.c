/* task_mlp.c - norm, two projections with an activation between, residual; of a
 * part, some columns of the feed-forward between its projections. */
#include "tasks/tasks.h"
#include "tasks/tile.h"

int dsf_mlp_needs(const struct dsflow_op *op, const void *args,
                  struct dsf_need *need, struct dsflow_err *err)
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

    need[DSFLOW_MLP_Y] = need[DSFLOW_MLP_DY] = need[DSFLOW_MLP_DX] =
        dsf_rows_of(t, width);
    need[DSFLOW_MLP_H] = need[DSFLOW_MLP_DH] = dsf_rows_of(t, h);
    need[DSFLOW_MLP_DNORM] = dsf_matrix(whole ? 2 : 0, width);
    if (whole || op != &dsf_op_mlp_backward_input)
        need[DSFLOW_MLP_X] = dsf_rows_of(t, width);
    if (status == DSFLOW_OK)
        status = dsf_unit_needs(op, tensors, 6, &need[DSFLOW_MLP_GRAD], err);
    if (whole || op != &dsf_op_mlp_backward_weight)
        need[DSFLOW_MLP_UNIT] = need[DSFLOW_MLP_GRAD];
    return status;
}

/* Two products, about 20 for an activation, and a norm. */
static void mlp_cost(const struct dsflow_op *op,
                     const struct dsflow_shape *shapes, unsigned n,
                     const void *args, struct dsflow_cost *cost)
{
    const struct dsflow_mlp_args *a = args;
    const struct dsflow_tile *t = &a->tile;
    double rows = t->rows, h = (double)dsf_tile_hwidth(t);

    cost->flops = 2 * rows * t->width * (h + t->ffn) + 20 * rows * t->ffn;
    if (a->norm_w >= 0)
        cost->flops += 8 * rows * t->width;
    cost->bytes = dsf_ports_bytes(op, shapes, n);
}

/* The normed tile, or the gradient of it. */
static size_t norm_scratch(const struct dsflow_shape *shapes, unsigned n,
                           const void *args)
{
    const struct dsflow_mlp_args *a = args;

    return a->norm_w < 0 ? 0 : dsf_tile_x(&a->tile) * DSF_CELL;
}

DSF_SEGMENT_CHECK(forward, mlp)

static void forward_cost(const struct dsflow_shape *shapes, unsigned n,
                         const void *args, struct dsflow_cost *cost)
{
    mlp_cost(&dsf_op_mlp_forward, shapes, n, args, cost);
}

/* The normed tile, then the activations: never both are needed. */
static size_t forward_scratch(const struct dsflow_shape *shapes, unsigned n,
                              const void *args)
{
    const struct dsflow_mlp_args *a = args;
    const struct dsflow_tile *t = &a->tile;
    int32_t most = a->norm_w >= 0 && t->width > t->ffn ? t->width : t->ffn;

    return (size_t)t->rows * (size_t)most * DSF_CELL;
}

const struct dsflow_op dsf_op_mlp_forward = {
    .abi = DSFLOW_OP_ABI,
    .name = "mlp.forward",
    .segment = "mlp",
    .direction = DSFLOW_DIR_FORWARD,
    .summary = "norm, two projections and residual",
    .args_size = sizeof(struct dsflow_mlp_args),
    .nports = DSFLOW_MLP_Y + 1,
    .ports =
        (const struct dsflow_port[]){
            [DSFLOW_MLP_X] = { "x", DSFLOW_R },
            [DSFLOW_MLP_UNIT] = { "unit", DSFLOW_R },
            [DSFLOW_MLP_H] = { "h", DSFLOW_W },
            [DSFLOW_MLP_Y] = { "y", DSFLOW_W },
        },
    .check = forward_check,
    .cost = forward_cost,
    .scratch = forward_scratch,
};

DSF_SEGMENT_CHECK(hidden, mlp)

static void hidden_cost(const struct dsflow_shape *shapes, unsigned n,
                        const void *args, struct dsflow_cost *cost)
{
    const struct dsflow_mlp_args *a = args;
    double rows = a->tile.rows, h = (double)dsf_tile_hwidth(&a->tile);

    cost->flops = 2 * rows * a->tile.width * h + rows * h;
    if (a->norm_w >= 0)
        cost->flops += 8 * rows * a->tile.width;
    cost->bytes = dsf_ports_bytes(&dsf_op_mlp_hidden, shapes, n);
}

const struct dsflow_op dsf_op_mlp_hidden = {
    .abi = DSFLOW_OP_ABI,
    .name = "mlp.hidden",
    .segment = "mlp",
    .direction = DSFLOW_DIR_HIDDEN,
    .summary = "norm and first projection, computed once more",
    .args_size = sizeof(struct dsflow_mlp_args),
    .nports = DSFLOW_MLP_H + 1,
    .ports =
        (const struct dsflow_port[]){
            [DSFLOW_MLP_X] = { "x", DSFLOW_R },
            [DSFLOW_MLP_UNIT] = { "unit", DSFLOW_R },
            [DSFLOW_MLP_H] = { "h", DSFLOW_W },
        },
    .check = hidden_check,
    .cost = hidden_cost,
    .scratch = norm_scratch,
};

DSF_SEGMENT_CHECK(backward_input, mlp)

static void backward_input_cost(const struct dsflow_shape *shapes, unsigned n,
                                const void *args, struct dsflow_cost *cost)
{
    mlp_cost(&dsf_op_mlp_backward_input, shapes, n, args, cost);
}

const struct dsflow_op dsf_op_mlp_backward_input = {
    .abi = DSFLOW_OP_ABI,
    .name = "mlp.backward_input",
    .segment = "mlp",
    .direction = DSFLOW_DIR_BACKWARD_INPUT,
    .summary = "gradient of the input of mlp, and of its norm",
    .args_size = sizeof(struct dsflow_mlp_args),
    .nports = DSFLOW_MLP_DNORM + 1,
    .ports =
        (const struct dsflow_port[]){
            [DSFLOW_MLP_X] = { "x", DSFLOW_R, .optional = 1 },
            [DSFLOW_MLP_UNIT] = { "unit", DSFLOW_R },
            [DSFLOW_MLP_H] = { "h", DSFLOW_RW },
            [DSFLOW_MLP_DY] = { "dy", DSFLOW_R },
            [DSFLOW_MLP_DH] = { "dh", DSFLOW_W },
            [DSFLOW_MLP_DX] = { "dx", DSFLOW_W },
            [DSFLOW_MLP_DNORM] = { "dnorm", DSFLOW_W, .optional = 1 },
        },
    .check = backward_input_check,
    .cost = backward_input_cost,
    .scratch = norm_scratch,
};

DSF_SEGMENT_CHECK(backward_weight, mlp)

/* Of the unit only the norm is read. */
static void backward_weight_cost(const struct dsflow_shape *shapes, unsigned n,
                                 const void *args, struct dsflow_cost *cost)
{
    const struct dsflow_mlp_args *a = args;

    mlp_cost(&dsf_op_mlp_backward_weight, shapes, n, args, cost);
    if (a->norm_w >= 0)
        cost->bytes +=
            8.0 * a->tile.width - (double)shapes[DSFLOW_MLP_UNIT].bytes;
}

const struct dsflow_op dsf_op_mlp_backward_weight = {
    .abi = DSFLOW_OP_ABI,
    .name = "mlp.backward_weight",
    .segment = "mlp",
    .direction = DSFLOW_DIR_BACKWARD_WEIGHT,
    .summary = "gradients of the parameters of mlp",
    .args_size = sizeof(struct dsflow_mlp_args),
    .nports = DSFLOW_MLP_GRAD + 1,
    .ports =
        (const struct dsflow_port[]){
            [DSFLOW_MLP_X] = { "x", DSFLOW_R },
            [DSFLOW_MLP_UNIT] = { "unit", DSFLOW_R, .optional = 1 },
            [DSFLOW_MLP_H] = { "h", DSFLOW_R },
            [DSFLOW_MLP_DY] = { "dy", DSFLOW_R },
            [DSFLOW_MLP_DH] = { "dh", DSFLOW_R },
            [DSFLOW_MLP_DNORM] = { "dnorm", DSFLOW_R, .optional = 1 },
            [DSFLOW_MLP_GRAD] = { "grad", DSFLOW_RW },
        },
    .check = backward_weight_check,
    .cost = backward_weight_cost,
    .scratch = norm_scratch,
};
