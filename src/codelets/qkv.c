/* qkv.c - norm, and projection to queries, keys and values, or to those of some
 * heads. */
#include "codelets/codelets.h"

#include "codelets/call.h"
#include "codelets/normed.h"
#include "codelets/rows_product.h"
#include "codelets/trials.h"
#include "kernels/kernels.h"
#include "tasks/tile.h"

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

/* Rows of W and b for the keys, the values, or both: after the queries' in the
 * unit, or in what is shared, where each has a place of its own. */
struct kv_rows {
    float *w, *b;
    size_t at, n; /* their columns in a row of kv */
};

static unsigned kv_count(const struct dsflow_qkv_args *a)
{
    return a->k < 0 ? 1 : 2;
}

static struct kv_rows kv_rows(const struct dsflow_qkv_args *a, float *unit,
                              float *shared, unsigned values)
{
    const size_t nq = dsf_tile_qwidth(&a->tile);
    const size_t nkv = dsf_tile_kvwidth(&a->tile), nk = nkv / 2;

    if (a->k < 0)
        return (struct kv_rows){ unit + a->w + nq * (size_t)a->tile.width,
                                 a->b < 0 ? NULL : unit + a->b + nq, 0, nkv };
    return (struct kv_rows){ shared + (values ? a->v : a->k),
                             dsf_tensor_at(shared, values ? a->vb : a->kb),
                             values ? nk : 0, nk };
}

/* Some heads, of whole units: what generation shares out. Training has the norm
 * and all rows of a unit, or a part of it and no norm. */
static bool is_slice(const struct dsflow_qkv_args *a)
{
    return a->norm_w >= 0 && a->k >= 0;
}

/* out[rows][n] = xn W^T, whose rows are ld apart. */
static void product(const struct dsflow_qkv_args *a, const float *xn,
                    const float *w, float *out, size_t n, size_t ld)
{
    const size_t rows = (size_t)a->tile.rows, width = (size_t)a->tile.width;

    if (is_slice(a))
        dsf_rows_product(rows, n, width, xn, w, 0, out, ld);
    else
        dsf_gemm(0, 1, rows, n, width, xn, width, w, width, 0, out, ld);
}

static void forward_cpu(const struct dsflow_call *call)
{
    const struct dsflow_qkv_args *a = call->args;
    const struct dsflow_tile *t = &a->tile;
    const size_t rows = (size_t)t->rows;
    const size_t nq = dsf_tile_qwidth(t), nkv = dsf_tile_kvwidth(t);
    float *unit = dsf_floats(call, DSFLOW_QKV_UNIT);
    float *q = dsf_floats(call, DSFLOW_QKV_Q);
    float *kv = dsf_floats(call, DSFLOW_QKV_KV);
    const struct dsf_norm norm = DSF_NORM_OF(call, DSFLOW_QKV_UNIT, a);
    const float *xn =
        dsf_normed(&norm, dsf_floats(call, DSFLOW_QKV_X), call->scratch, rows);

    product(a, xn, unit + a->w, q, nq, nq);
    if (a->b >= 0)
        dsf_add_bias(q, unit + a->b, rows, nq);
    for (unsigned i = 0; i < kv_count(a); i++) {
        const struct kv_rows from =
            kv_rows(a, unit, dsf_floats(call, DSFLOW_QKV_SHARED), i);

        product(a, xn, from.w, kv + from.at, from.n, nkv);
        if (from.b && from.n == nkv)
            dsf_add_bias(kv, from.b, rows, nkv);
        else if (from.b)
            for (size_t r = 0; r < rows; r++)
                dsf_add(kv + from.at + r * nkv, from.b, from.n);
    }
    if (t->rope)
        rotate(t, q, kv, dsf_floats(call, DSFLOW_QKV_ROPE), 0);
}

DSF_SEGMENT_CODELET(qkv_forward, forward_cpu);

static void backward_input_cpu(const struct dsflow_call *call)
{
    const struct dsflow_qkv_args *a = call->args;
    const struct dsflow_tile *t = &a->tile;
    const size_t rows = (size_t)t->rows, width = (size_t)t->width;
    const size_t nq = dsf_tile_qwidth(t), nkv = dsf_tile_kvwidth(t);
    float *unit = dsf_floats(call, DSFLOW_QKV_UNIT);
    float *dq = dsf_floats(call, DSFLOW_QKV_DQ);
    float *dkv = dsf_floats(call, DSFLOW_QKV_DKV);
    float *dx = dsf_floats(call, DSFLOW_QKV_DX);
    float *dnormed = a->norm_w < 0 ? dx : call->scratch;
    const struct dsf_norm norm = DSF_NORM_OF(call, DSFLOW_QKV_UNIT, a);

    if (t->rope)
        rotate(t, dq, dkv, dsf_floats(call, DSFLOW_QKV_ROPE), 1);
    dsf_gemm(0, 0, rows, width, nq, dq, nq, unit + a->w, width, 0, dnormed,
             width);
    for (unsigned i = 0; i < kv_count(a); i++) {
        const struct kv_rows from =
            kv_rows(a, unit, dsf_floats(call, DSFLOW_QKV_SHARED), i);

        dsf_gemm(0, 0, rows, width, from.n, dkv + from.at, nkv, from.w, width,
                 1, dnormed, width);
    }
    if (a->norm_w >= 0)
        dsf_norm_backward(&norm, dsf_floats(call, DSFLOW_QKV_X), dnormed,
                          dsf_floats(call, DSFLOW_QKV_DRES), dx,
                          dsf_floats(call, DSFLOW_QKV_DNORM), rows);
}

DSF_SEGMENT_CODELET(qkv_backward_input, backward_input_cpu);

/* b += the sums of `n` columns of x, whose rows are `ld` apart. */
static void add_columns(float *b, const float *x, size_t ld, size_t rows,
                        size_t n)
{
    if (ld == n)
        dsf_column_sums(b, x, rows, n);
    else
        for (size_t r = 0; r < rows; r++)
            dsf_add(b, x + r * ld, n);
}

static void backward_weight_cpu(const struct dsflow_call *call)
{
    const struct dsflow_qkv_args *a = call->args;
    const struct dsflow_tile *t = &a->tile;
    const size_t rows = (size_t)t->rows, width = (size_t)t->width;
    const size_t nq = dsf_tile_qwidth(t), nkv = dsf_tile_kvwidth(t);
    const float *dq = dsf_floats(call, DSFLOW_QKV_DQ);
    const float *dkv = dsf_floats(call, DSFLOW_QKV_DKV);
    const struct dsf_norm norm = DSF_NORM_OF(call, DSFLOW_QKV_UNIT, a);
    const float *xn =
        dsf_normed(&norm, dsf_floats(call, DSFLOW_QKV_X), call->scratch, rows);
    const struct dsf_extent matrix = { a->w,
                                       (nq + (a->k < 0 ? nkv : 0)) * width };
    float beta,
        *grad = dsf_gradient_but(call, DSFLOW_QKV_GRAD, &matrix, 1, &beta);
    float *shared =
        a->k < 0 ? NULL : dsf_gradient(call, DSFLOW_QKV_SHARED_GRAD);

    dsf_gemm(1, 0, nq, width, rows, dq, nq, xn, width, beta, grad + a->w,
             width);
    if (a->b >= 0)
        dsf_column_sums(grad + a->b, dq, rows, nq);
    for (unsigned i = 0; i < kv_count(a); i++) {
        const struct kv_rows into = kv_rows(a, grad, shared, i);

        dsf_gemm(1, 0, into.n, width, rows, dkv + into.at, nkv, xn, width,
                 a->k < 0 ? beta : 1, into.w, width);
        if (into.b)
            add_columns(into.b, dkv + into.at, nkv, rows, into.n);
    }
    dsf_norm_gradient(grad, a->norm_w, a->norm_b,
                      dsf_floats(call, DSFLOW_QKV_DNORM), width);
}

DSF_SEGMENT_CODELET(qkv_backward_weight, backward_weight_cpu);
