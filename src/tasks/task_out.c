/* task_out.c - projection of the attention's output, added to the layer's
 * input; of a part, of the output of some heads. */
#include "tasks/tasks.h"
#include "tasks/tile.h"

int dsf_out_needs(const struct dsflow_op *op, const void *args,
                  struct dsf_need *need, struct dsflow_err *err)
{
    const struct dsflow_out_args *a = args;
    const struct dsflow_tile *t = &a->tile;
    const size_t width = (size_t)t->width, nq = dsf_tile_qwidth(t);
    const struct dsf_in_unit tensors[] = {
        { "w", a->w, width * nq, 0 },
        { "b", a->b, width, 1 },
    };
    int status = dsf_tile_check(op, t, err);

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

/* The product, and `more` for each number of the tile. */
static void out_cost(const struct dsflow_op *op,
                     const struct dsflow_shape *shapes, unsigned n,
                     const void *args, double more, struct dsflow_cost *cost)
{
    const struct dsflow_out_args *a = args;
    double nq = (double)dsf_tile_qwidth(&a->tile);

    cost->flops = (2.0 * nq + more) * (double)dsf_tile_x(&a->tile);
    cost->bytes = dsf_ports_bytes(op, shapes, n);
}

DSF_SEGMENT_CHECK(forward, out)

static void forward_cost(const struct dsflow_shape *shapes, unsigned n,
                         const void *args, struct dsflow_cost *cost)
{
    const struct dsflow_out_args *a = args;

    out_cost(&dsf_op_out_forward, shapes, n, args, a->residual ? 2 : 0, cost);
}

const struct dsflow_op dsf_op_out_forward = {
    .abi = DSFLOW_OP_ABI,
    .name = "out.forward",
    .segment = "out",
    .direction = DSFLOW_DIR_FORWARD,
    .summary = "projection of the attention's output, and residual",
    .args_size = sizeof(struct dsflow_out_args),
    .nports = DSFLOW_OUT_Y + 1,
    .ports =
        (const struct dsflow_port[]){
            [DSFLOW_OUT_X] = { "x", DSFLOW_R, .optional = 1 },
            [DSFLOW_OUT_ATT] = { "att", DSFLOW_R },
            [DSFLOW_OUT_UNIT] = { "unit", DSFLOW_R },
            [DSFLOW_OUT_Y] = { "y", DSFLOW_W },
        },
    .check = forward_check,
    .cost = forward_cost,
};

DSF_SEGMENT_CHECK(backward_input, out)

static void backward_input_cost(const struct dsflow_shape *shapes, unsigned n,
                                const void *args, struct dsflow_cost *cost)
{
    const struct dsflow_out_args *a = args;
    const struct dsflow_tile *t = &a->tile;

    out_cost(&dsf_op_out_backward_input, shapes, n, args, 0, cost);
    cost->flops += 2.0 * t->rows * (double)dsf_tile_qwidth(t);
}

const struct dsflow_op dsf_op_out_backward_input = {
    .abi = DSFLOW_OP_ABI,
    .name = "out.backward_input",
    .segment = "out",
    .direction = DSFLOW_DIR_BACKWARD_INPUT,
    .summary = "gradient of the attention's output",
    .args_size = sizeof(struct dsflow_out_args),
    .nports = DSFLOW_OUT_DELTA + 1,
    .ports =
        (const struct dsflow_port[]){
            [DSFLOW_OUT_ATT] = { "att", DSFLOW_R },
            [DSFLOW_OUT_UNIT] = { "unit", DSFLOW_R },
            [DSFLOW_OUT_DY] = { "dy", DSFLOW_R },
            [DSFLOW_OUT_DATT] = { "datt", DSFLOW_W },
            [DSFLOW_OUT_DELTA] = { "delta", DSFLOW_W },
        },
    .check = backward_input_check,
    .cost = backward_input_cost,
};

DSF_SEGMENT_CHECK(backward_weight, out)

static void backward_weight_cost(const struct dsflow_shape *shapes, unsigned n,
                                 const void *args, struct dsflow_cost *cost)
{
    out_cost(&dsf_op_out_backward_weight, shapes, n, args, 1, cost);
}

const struct dsflow_op dsf_op_out_backward_weight = {
    .abi = DSFLOW_OP_ABI,
    .name = "out.backward_weight",
    .segment = "out",
    .direction = DSFLOW_DIR_BACKWARD_WEIGHT,
    .summary = "gradients of the parameters of out",
    .args_size = sizeof(struct dsflow_out_args),
    .nports = DSFLOW_OUT_GRAD + 1,
    .ports =
        (const struct dsflow_port[]){
            [DSFLOW_OUT_ATT] = { "att", DSFLOW_R },
            [DSFLOW_OUT_DY] = { "dy", DSFLOW_R },
            [DSFLOW_OUT_GRAD] = { "grad", DSFLOW_RW },
        },
    .check = backward_weight_check,
    .cost = backward_weight_cost,
};
