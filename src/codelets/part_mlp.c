/* part_mlp.c - some columns of the feed-forward, between its projections. */
#include "codelets/codelets.h"

#include "codelets/call.h"
#include "kernels/kernels.h"
#include "tasks/tasks.h"
#include "tasks/tile.h"

static void forward_cpu(const struct dsflow_call *call)
{
    enum { XN, UNIT, H, Y };
    const struct dsf_mlp_part_args *a = call->args;
    const struct dsflow_tile *t = &a->tile;
    const size_t rows = (size_t)t->rows, width = (size_t)t->width;
    const size_t ffn = (size_t)t->ffn, nh = dsf_tile_hwidth(t);
    float *unit = dsf_floats(call, UNIT), *act = call->scratch;
    float *h = dsf_floats(call, H);
    const float *b1 = dsf_tensor_at(unit, a->b1);

    dsf_gemm(0, 1, rows, nh, width, dsf_floats(call, XN), width, unit + a->w1,
             width, 0, h, nh);
    if (t->swiglu)
        dsf_swiglu_forward(h, b1, act, rows, ffn);
    else
        dsf_gelu_forward(h, b1, act, rows, ffn);
    dsf_gemm(0, 1, rows, width, ffn, act, ffn, unit + a->w2, ffn, 0,
             dsf_floats(call, Y), width);
}

const struct dsflow_codelet dsf_codelet_mlp_part_forward = {
    .abi = DSFLOW_CODELET_ABI,
    .op = &dsf_op_mlp_part_forward,
    .cpu = forward_cpu,
};

static void hidden_cpu(const struct dsflow_call *call)
{
    enum { XN, UNIT, H };
    const struct dsf_mlp_part_args *a = call->args;
    const struct dsflow_tile *t = &a->tile;
    const size_t rows = (size_t)t->rows, width = (size_t)t->width;
    const size_t nh = dsf_tile_hwidth(t);
    float *unit = dsf_floats(call, UNIT), *h = dsf_floats(call, H);
    const float *b1 = dsf_tensor_at(unit, a->b1);

    dsf_gemm(0, 1, rows, nh, width, dsf_floats(call, XN), width, unit + a->w1,
             width, 0, h, nh);
    if (b1)
        dsf_add_bias(h, b1, rows, nh);
}

const struct dsflow_codelet dsf_codelet_mlp_part_hidden = {
    .abi = DSFLOW_CODELET_ABI,
    .op = &dsf_op_mlp_part_hidden,
    .cpu = hidden_cpu,
};

static void backward_input_cpu(const struct dsflow_call *call)
{
    enum { DY, UNIT, H, DH, DXN };
    const struct dsf_mlp_part_args *a = call->args;
    const struct dsflow_tile *t = &a->tile;
    const size_t rows = (size_t)t->rows, width = (size_t)t->width;
    const size_t ffn = (size_t)t->ffn, nh = dsf_tile_hwidth(t);
    float *unit = dsf_floats(call, UNIT);
    float *h = dsf_floats(call, H), *dh = dsf_floats(call, DH);

    /* The gradient of act(h) stands where that of h will: with SwiGLU, in the
     * first half of each row. */
    dsf_gemm(0, 0, rows, ffn, width, dsf_floats(call, DY), width, unit + a->w2,
             ffn, 0, dh, nh);
    if (t->swiglu)
        dsf_swiglu_backward(h, dh, rows, ffn);
    else
        dsf_gelu_backward(h, dh, rows * ffn);
    dsf_gemm(0, 0, rows, width, nh, dh, nh, unit + a->w1, width, 0,
             dsf_floats(call, DXN), width);
}

const struct dsflow_codelet dsf_codelet_mlp_part_backward_input = {
    .abi = DSFLOW_CODELET_ABI,
    .op = &dsf_op_mlp_part_backward_input,
    .cpu = backward_input_cpu,
};

static void backward_weight_cpu(const struct dsflow_call *call)
{
    enum { DY, XN, H, DH, GRAD };
    const struct dsf_mlp_part_args *a = call->args;
    const struct dsflow_tile *t = &a->tile;
    const size_t rows = (size_t)t->rows, width = (size_t)t->width;
    const size_t ffn = (size_t)t->ffn, nh = dsf_tile_hwidth(t);
    const float *dh = dsf_floats(call, DH);
    const struct dsf_extent matrices[] = { { a->w1, nh * width },
                                           { a->w2, width * ffn } };
    float beta, *grad = dsf_gradient_but(call, GRAD, matrices, 2, &beta);

    dsf_gemm(1, 0, width, ffn, rows, dsf_floats(call, DY), width,
             dsf_floats(call, H), ffn, beta, grad + a->w2, ffn);
    dsf_gemm(1, 0, nh, width, rows, dh, nh, dsf_floats(call, XN), width, beta,
             grad + a->w1, width);
    if (a->b1 >= 0)
        dsf_column_sums(grad + a->b1, dh, rows, nh);
}

const struct dsflow_codelet dsf_codelet_mlp_part_backward_weight = {
    .abi = DSFLOW_CODELET_ABI,
    .op = &dsf_op_mlp_part_backward_weight,
    .cpu = backward_weight_cpu,
};
