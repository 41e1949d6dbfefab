/* qkv.c - norm, and projection to queries, keys and values. */
#include "codelets/codelets.h"

#include "codelets/call.h"
#include "codelets/trials.h"
#include "kernels/kernels.h"
#include "tasks/tasks.h"
#include "tasks/tile.h"

static struct dsf_norm norm_of(const struct dsflow_qkv_args *a, float *unit)
{
    return (struct dsf_norm){ unit + a->norm_w, dsf_tensor_at(unit, a->norm_b),
                              (size_t)a->tile.width, a->tile.eps, a->tile.rms };
}

/* Rotate queries and keys, or gradients of them back, sequence by sequence. */
static void rotate(const struct dsflow_tile *t, float *q, float *kv,
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
    enum { X, UNIT, Q, KV, ROPE };
    const struct dsflow_qkv_args *a = call->args;
    const struct dsflow_tile *t = &a->tile;
    const size_t rows = (size_t)t->rows, width = (size_t)t->width;
    const size_t nq = dsf_tile_qwidth(t), nkv = dsf_tile_kvwidth(t);
    float *unit = dsf_floats(call, UNIT), *normed = call->scratch;
    float *q = dsf_floats(call, Q), *kv = dsf_floats(call, KV);
    const float *w = unit + a->w, *b = dsf_tensor_at(unit, a->b);
    const struct dsf_norm norm = norm_of(a, unit);

    dsf_norm_forward(&norm, dsf_floats(call, X), normed, rows);
    dsf_gemm(0, 1, rows, nq, width, normed, width, w, width, 0, q, nq);
    dsf_gemm(0, 1, rows, nkv, width, normed, width, w + nq * width, width, 0,
             kv, nkv);
    if (b) {
        dsf_add_bias(q, b, rows, nq);
        dsf_add_bias(kv, b + nq, rows, nkv);
    }
    if (t->rope)
        rotate(t, q, kv, dsf_floats(call, ROPE), 0);
}

const struct dsflow_codelet dsf_codelet_qkv_forward = {
    .abi = DSFLOW_CODELET_ABI,
    .op = &dsf_op_qkv_forward,
    .cpu = forward_cpu,
    .trials = &dsf_trials_qkv_forward,
};

static void backward_input_cpu(const struct dsflow_call *call)
{
    enum { DQ, DKV, X, UNIT, DRES, DX, DNORM, ROPE };
    const struct dsflow_qkv_args *a = call->args;
    const struct dsflow_tile *t = &a->tile;
    const size_t rows = (size_t)t->rows, width = (size_t)t->width;
    const size_t nq = dsf_tile_qwidth(t), nkv = dsf_tile_kvwidth(t);
    float *unit = dsf_floats(call, UNIT), *dnormed = call->scratch;
    float *dq = dsf_floats(call, DQ), *dkv = dsf_floats(call, DKV);
    const float *w = unit + a->w;
    const struct dsf_norm norm = norm_of(a, unit);

    if (t->rope)
        rotate(t, dq, dkv, dsf_floats(call, ROPE), 1);
    dsf_gemm(0, 0, rows, width, nq, dq, nq, w, width, 0, dnormed, width);
    dsf_gemm(0, 0, rows, width, nkv, dkv, nkv, w + nq * width, width, 1,
             dnormed, width);
    dsf_norm_backward(&norm, dsf_floats(call, X), dnormed,
                      dsf_floats(call, DRES), dsf_floats(call, DX),
                      dsf_floats(call, DNORM), rows);
}

const struct dsflow_codelet dsf_codelet_qkv_backward_input = {
    .abi = DSFLOW_CODELET_ABI,
    .op = &dsf_op_qkv_backward_input,
    .cpu = backward_input_cpu,
    .trials = &dsf_trials_qkv_backward_input,
};

static void backward_weight_cpu(const struct dsflow_call *call)
{
    enum { DQ, DKV, X, UNIT, DNORM, GRAD };
    const struct dsflow_qkv_args *a = call->args;
    const struct dsflow_tile *t = &a->tile;
    const size_t rows = (size_t)t->rows, width = (size_t)t->width;
    const size_t nq = dsf_tile_qwidth(t), nkv = dsf_tile_kvwidth(t);
    const float *dq = dsf_floats(call, DQ), *dkv = dsf_floats(call, DKV);
    const float *dnorm = dsf_floats(call, DNORM);
    const struct dsf_extent matrix = { a->w, (nq + nkv) * width };
    float beta, *grad = dsf_gradient_but(call, GRAD, &matrix, 1, &beta);
    float *normed = call->scratch;
    float *w = grad + a->w, *b = dsf_tensor_at(grad, a->b);
    const struct dsf_norm norm = norm_of(a, dsf_floats(call, UNIT));

    dsf_norm_forward(&norm, dsf_floats(call, X), normed, rows);
    dsf_gemm(1, 0, nq, width, rows, dq, nq, normed, width, beta, w, width);
    dsf_gemm(1, 0, nkv, width, rows, dkv, nkv, normed, width, beta,
             w + nq * width, width);
    if (b) {
        dsf_column_sums(b, dq, rows, nq);
        dsf_column_sums(b + nq, dkv, rows, nkv);
    }
    dsf_add(grad + a->norm_w, dnorm, width);
    if (a->norm_b >= 0)
        dsf_add(grad + a->norm_b, dnorm + width, width);
}

const struct dsflow_codelet dsf_codelet_qkv_backward_weight = {
    .abi = DSFLOW_CODELET_ABI,
    .op = &dsf_op_qkv_backward_weight,
    .cpu = backward_weight_cpu,
    .trials = &dsf_trials_qkv_backward_weight,
};
