/* part_qkv.c - projection to the queries, keys and values of some heads. */
#include "codelets/codelets.h"

#include "codelets/call.h"
#include "kernels/kernels.h"
#include "tasks/tasks.h"
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

/* Rows of W and b for the keys, or for the values: after the queries' in
 * the unit, or in what is shared. */
struct head_rows {
    float *w, *b;
};

static struct head_rows rows_of(const struct dsf_qkv_part_args *a, float *unit,
                                float *shared, int values)
{
    const size_t nk = dsf_tile_kvwidth(&a->tile) / 2;
    const size_t row = dsf_tile_qwidth(&a->tile) + (values ? nk : 0);

    if (a->k >= 0)
        return (
            struct head_rows){ shared + (values ? a->v : a->k),
                               dsf_tensor_at(shared, values ? a->vb : a->kb) };
    return (struct head_rows){ unit + a->w + row * (size_t)a->tile.width,
                               a->b < 0 ? NULL : unit + a->b + row };
}

static float *shared_at(const struct dsflow_call *call, unsigned port)
{
    return call->nbufs > port ? dsf_floats(call, port) : NULL;
}

/* Keys and values are one product where their rows follow each other. */
static void project_kv(const struct dsf_qkv_part_args *a, const float *xn,
                       float *unit, float *shared, float *kv)
{
    const size_t rows = (size_t)a->tile.rows, width = (size_t)a->tile.width;
    const size_t nkv = dsf_tile_kvwidth(&a->tile), nk = nkv / 2;

    for (int values = 0; values < (a->k < 0 ? 1 : 2); values++) {
        struct head_rows from = rows_of(a, unit, shared, values);
        const size_t n = a->k < 0 ? nkv : nk;
        float *out = kv + (values ? nk : 0);

        dsf_gemm(0, 1, rows, n, width, xn, width, from.w, width, 0, out, nkv);
        for (size_t r = 0; r < rows && from.b; r++)
            dsf_add(out + r * nkv, from.b, n);
    }
}

static void forward_cpu(const struct dsflow_call *call)
{
    enum { XN, UNIT, Q, KV, ROPE, SHARED };
    const struct dsf_qkv_part_args *a = call->args;
    const struct dsflow_tile *t = &a->tile;
    const size_t rows = (size_t)t->rows, width = (size_t)t->width;
    const size_t nq = dsf_tile_qwidth(t);
    float *unit = dsf_floats(call, UNIT);
    float *q = dsf_floats(call, Q), *kv = dsf_floats(call, KV);
    const float *xn = dsf_floats(call, XN);

    dsf_gemm(0, 1, rows, nq, width, xn, width, unit + a->w, width, 0, q, nq);
    if (a->b >= 0)
        dsf_add_bias(q, unit + a->b, rows, nq);
    project_kv(a, xn, unit, shared_at(call, SHARED), kv);
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
    enum { DQ, DKV, UNIT, DXN, ROPE, SHARED };
    const struct dsf_qkv_part_args *a = call->args;
    const struct dsflow_tile *t = &a->tile;
    const size_t rows = (size_t)t->rows, width = (size_t)t->width;
    const size_t nq = dsf_tile_qwidth(t), nkv = dsf_tile_kvwidth(t);
    float *dq = dsf_floats(call, DQ), *dkv = dsf_floats(call, DKV);
    float *unit = dsf_floats(call, UNIT), *dxn = dsf_floats(call, DXN);

    if (t->rope)
        rotate(t, dq, dkv, dsf_floats(call, ROPE), 1);
    dsf_gemm(0, 0, rows, width, nq, dq, nq, unit + a->w, width, 0, dxn, width);
    for (int values = 0; values < (a->k < 0 ? 1 : 2); values++)
        dsf_gemm(0, 0, rows, width, a->k < 0 ? nkv : nkv / 2,
                 dkv + (values ? nkv / 2 : 0), nkv,
                 rows_of(a, unit, shared_at(call, SHARED), values).w, width, 1,
                 dxn, width);
}

const struct dsflow_codelet dsf_codelet_qkv_part_backward_input = {
    .abi = DSFLOW_CODELET_ABI,
    .op = &dsf_op_qkv_part_backward_input,
    .cpu = backward_input_cpu,
};

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
    enum { DQ, DKV, XN, GRAD, SHARED };
    const struct dsf_qkv_part_args *a = call->args;
    const struct dsflow_tile *t = &a->tile;
    const size_t rows = (size_t)t->rows, width = (size_t)t->width;
    const size_t nq = dsf_tile_qwidth(t), nkv = dsf_tile_kvwidth(t);
    const float *dq = dsf_floats(call, DQ), *xn = dsf_floats(call, XN);
    float *grad = dsf_gradient(call, GRAD), *shared = NULL;

    if (call->nbufs > SHARED)
        shared = dsf_gradient(call, SHARED);
    dsf_gemm(1, 0, nq, width, rows, dq, nq, xn, width, 1, grad + a->w, width);
    if (a->b >= 0)
        dsf_column_sums(grad + a->b, dq, rows, nq);
    for (int values = 0; values < (a->k < 0 ? 1 : 2); values++) {
        struct head_rows into = rows_of(a, grad, shared, values);
        const size_t n = a->k < 0 ? nkv : nkv / 2;
        const float *d = dsf_floats(call, DKV) + (values ? nkv / 2 : 0);

        dsf_gemm(1, 0, n, width, rows, d, nkv, xn, width, 1, into.w, width);
        if (into.b)
            add_columns(into.b, d, nkv, rows, n);
    }
}

const struct dsflow_codelet dsf_codelet_qkv_part_backward_weight = {
    .abi = DSFLOW_CODELET_ABI,
    .op = &dsf_op_qkv_part_backward_weight,
    .cpu = backward_weight_cpu,
};
