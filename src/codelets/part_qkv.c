/* part_qkv.c - projection to the queries, keys and values of some heads. */
#include "codelets/codelets.h"

#include "codelets/call.h"
#include "kernels/kernels.h"
#include "tasks/tasks.h"
#include "tasks/tile.h"

/* Rotate queries and keys, or gradients of them back, sequence by sequence. */
static void rotate(const struct dsf_tile *t, float *q, float *kv,
                   const float *table, int inverse)
{
    const size_t d = (size_t)t->head_dim, length = dsf_tile_length(t);
    const size_t nq = dsf_tile_qwidth(t), nkv = dsf_tile_kvwidth(t);
    const float *from = table + (size_t)t->pos * d;

    for (size_t s = 0; s < (size_t)t->nseq; s++) {
        dsf_rotate(q + s * length * nq, nq, length, (size_t)t->heads, d, from,
                   inverse);
        dsf_rotate(kv + s * length * nkv, nkv, length, (size_t)t->kv_heads, d,
                   from, inverse);
    }
}

static void forward_cpu(const struct dsflow_call *call)
{
    enum { XN, UNIT, Q, KV, ROPE };
    const struct dsf_qkv_part_args *a = call->args;
    const struct dsf_tile *t = &a->tile;
    const size_t rows = (size_t)t->rows, width = (size_t)t->width;
    const size_t nq = dsf_tile_qwidth(t), nkv = dsf_tile_kvwidth(t);
    float *unit = dsf_floats(call, UNIT);
    float *q = dsf_floats(call, Q), *kv = dsf_floats(call, KV);
    const float *xn = dsf_floats(call, XN);
    const float *w = unit + a->w, *b = dsf_tensor_at(unit, a->b);

    dsf_gemm(0, 1, rows, nq, width, xn, width, w, width, 0, q, nq);
    dsf_gemm(0, 1, rows, nkv, width, xn, width, w + nq * width, width, 0, kv,
             nkv);
    if (b) {
        dsf_add_bias(q, b, rows, nq);
        dsf_add_bias(kv, b + nq, rows, nkv);
    }
    if (t->rope)
        rotate(t, q, kv, dsf_floats(call, ROPE), 0);
}

const struct dsflow_codelet dsf_codelet_qkv_part_forward = {
    .abi = DSFLOW_CODELET_ABI,
    .op = &dsf_op_qkv_part_forward,
    .cpu = forward_cpu,
};

static void backward_input_cpu(const struct dsflow_call *call)
{
    enum { DQ, DKV, UNIT, DXN, ROPE };
    const struct dsf_qkv_part_args *a = call->args;
    const struct dsf_tile *t = &a->tile;
    const size_t rows = (size_t)t->rows, width = (size_t)t->width;
    const size_t nq = dsf_tile_qwidth(t), nkv = dsf_tile_kvwidth(t);
    float *dq = dsf_floats(call, DQ), *dkv = dsf_floats(call, DKV);
    float *dxn = dsf_floats(call, DXN);
    const float *w = dsf_floats(call, UNIT) + a->w;

    if (t->rope)
        rotate(t, dq, dkv, dsf_floats(call, ROPE), 1);
    dsf_gemm(0, 0, rows, width, nq, dq, nq, w, width, 0, dxn, width);
    dsf_gemm(0, 0, rows, width, nkv, dkv, nkv, w + nq * width, width, 1, dxn,
             width);
}

const struct dsflow_codelet dsf_codelet_qkv_part_backward_input = {
    .abi = DSFLOW_CODELET_ABI,
    .op = &dsf_op_qkv_part_backward_input,
    .cpu = backward_input_cpu,
};

static void backward_weight_cpu(const struct dsflow_call *call)
{
    enum { DQ, DKV, XN, GRAD };
    const struct dsf_qkv_part_args *a = call->args;
    const struct dsf_tile *t = &a->tile;
    const size_t rows = (size_t)t->rows, width = (size_t)t->width;
    const size_t nq = dsf_tile_qwidth(t), nkv = dsf_tile_kvwidth(t);
    const float *dq = dsf_floats(call, DQ), *dkv = dsf_floats(call, DKV);
    const float *xn = dsf_floats(call, XN);
    float *grad = dsf_gradient(call, GRAD), *w = grad + a->w;
    float *b = dsf_tensor_at(grad, a->b);

    dsf_gemm(1, 0, nq, width, rows, dq, nq, xn, width, 1, w, width);
    dsf_gemm(1, 0, nkv, width, rows, dkv, nkv, xn, width, 1, w + nq * width,
             width);
    if (b) {
        dsf_column_sums(b, dq, rows, nq);
        dsf_column_sums(b + nq, dkv, rows, nkv);
    }
}

const struct dsflow_codelet dsf_codelet_qkv_part_backward_weight = {
    .abi = DSFLOW_CODELET_ABI,
    .op = &dsf_op_qkv_part_backward_weight,
    .cpu = backward_weight_cpu,
};
