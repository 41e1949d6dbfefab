/* qkv.c - norm, and projection to queries, keys and values, or to those of some
 * heads. */
#include "codelets/codelets.h"

#include "codelets/call.h"
#include "codelets/inputs.h"
#include "codelets/rows_product.h"
#include "codelets/trials.h"
#include "kernels/kernels.h"
#include "tasks/tile.h"

/* Rotate the heads of queries or keys, or gradients of them back, sequence by
 * sequence; rows are `ld` apart. */
static void rotate(const struct dsflow_tile *t, float *x, size_t ld,
                   int32_t heads, const float *table, int inverse)
{
    const size_t d = (size_t)t->head_dim, length = dsf_tile_length(t);

    for (size_t s = 0; s < (size_t)t->nseq; s++)
        dsf_rotate(x + s * length * ld, ld, length, (size_t)heads, d,
                   table + (size_t)t->pos * d, inverse);
}

/* Rows of W and b for the keys, the values, or both: where they are in the
 * unit, after the queries', or in what is shared, where each has a place of its
 * own. b: -1, none. */
struct kv_rows {
    int64_t w, b;
    size_t at, n; /* their columns in a row of kv */
};

static unsigned kv_count(const struct dsflow_qkv_args *a)
{
    return a->k < 0 ? 1 : 2;
}

static struct kv_rows kv_rows(const struct dsflow_qkv_args *a, unsigned values)
{
    const size_t nq = dsf_tile_qwidth(&a->tile);
    const size_t nkv = dsf_tile_kvwidth(&a->tile), nk = nkv / 2;

    if (a->k < 0)
        return (struct kv_rows){ a->w + (int64_t)nq * a->tile.width,
                                 a->b < 0 ? -1 : a->b + (int64_t)nq, 0, nkv };
    return (struct kv_rows){ values ? a->v : a->k, values ? a->vb : a->kb,
                             values ? nk : 0, nk };
}

/* The port of the unit that has them. */
static unsigned kv_port(const struct dsflow_qkv_args *a)
{
    return a->k < 0 ? DSFLOW_QKV_UNIT : DSFLOW_QKV_SHARED;
}

/* Where the tile's rows of keys and values begin, in numbers; or of their
 * gradients. */
static size_t kv_at(const struct dsflow_qkv_args *a)
{
    return (size_t)a->kv_at * dsf_tile_kvwidth(&a->tile);
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
    float *kv_unit = dsf_floats(call, kv_port(a));
    float *q = dsf_floats(call, DSFLOW_QKV_Q);
    float *kv = dsf_floats(call, DSFLOW_QKV_KV) + kv_at(a);
    const struct dsf_norm norm = DSF_NORM_OF(call, DSFLOW_QKV_UNIT, a);
    const float *xn = dsf_normed_inputs(
        &a->tile, &norm, dsf_floats(call, DSFLOW_QKV_X), call->scratch, rows);

    product(a, xn, unit + a->w, q, nq, nq);
    if (a->b >= 0)
        dsf_add_bias(q, unit + a->b, rows, nq);
    for (unsigned i = 0; i < kv_count(a); i++) {
        const struct kv_rows from = kv_rows(a, i);
        const float *b = dsf_tensor_at(kv_unit, from.b);

        product(a, xn, kv_unit + from.w, kv + from.at, from.n, nkv);
        if (b && from.n == nkv)
            dsf_add_bias(kv, b, rows, nkv);
        else if (b)
            for (size_t r = 0; r < rows; r++)
                dsf_add(kv + from.at + r * nkv, b, from.n);
    }
    if (t->rope) {
        const float *table = dsf_floats(call, DSFLOW_QKV_ROPE);

        rotate(t, q, nq, t->heads, table, 0);
        rotate(t, kv, nkv, t->kv_heads, table, 0);
    }
}

/* Some columns of a row of `out`, of which the first heads are rotated. */
struct columns {
    const uint16_t *w, *b;
    size_t n, ld;
    int32_t heads;
    uint16_t *out;
};

static void project_narrow(const struct dsflow_call *call,
                           const struct dsf_narrow_call *c, const uint16_t *xn,
                           struct columns to)
{
    const struct dsflow_qkv_args *a = call->args;
    const size_t rows = (size_t)a->tile.rows, width = (size_t)a->tile.width;
    const struct dsf_projection p = { c, rows, width, to.n };

    if (is_slice(a))
        dsf_rows_projection(&p, xn, to.w, c->wide, to.n);
    else
        dsf_projection(&p, xn, to.w, c->wide, to.n);
    if (a->tile.rope && to.heads > 0) {
        float *b = c->wide + rows * to.n;

        if (to.b) {
            c->loops->widen(to.b, b, to.n);
            dsf_add_bias(c->wide, b, rows, to.n);
            to.b = NULL;
        }
        rotate(&a->tile, c->wide, to.n, to.heads,
               dsf_floats(call, DSFLOW_QKV_ROPE), 0);
    }
    c->loops->narrow(c->wide, to.n, to.b, to.out, to.ld, rows, to.n);
}

static void forward_narrow(const struct dsflow_call *call)
{
    const struct dsflow_qkv_args *a = call->args;
    const struct dsflow_tile *t = &a->tile;
    const size_t nq = dsf_tile_qwidth(t), nkv = dsf_tile_kvwidth(t);
    const uint16_t *unit = dsf_halves(call, DSFLOW_QKV_UNIT);
    const uint16_t *kv_unit = dsf_halves(call, kv_port(a));
    const struct dsf_narrow_norm norm =
        DSF_NARROW_NORM_OF(call, DSFLOW_QKV_UNIT, a);
    const struct dsf_narrow_call c = dsf_narrow_call(
        call, DSFLOW_QKV_X, dsf_qkv_scratch(DSFLOW_DIR_FORWARD, a));
    const uint16_t *xn = dsf_narrow_normed_inputs(
        &c, &a->tile, &norm, dsf_halves(call, DSFLOW_QKV_X), (size_t)t->rows);

    project_narrow(call, &c, xn,
                   (struct columns){ unit + a->w, dsf_half_at(unit, a->b), nq,
                                     nq, t->heads,
                                     dsf_halves(call, DSFLOW_QKV_Q) });
    for (unsigned i = 0; i < kv_count(a); i++) {
        const struct kv_rows from = kv_rows(a, i);

        project_narrow(call, &c, xn,
                       (struct columns){ kv_unit + from.w,
                                         dsf_half_at(kv_unit, from.b), from.n,
                                         nkv, from.at == 0 ? t->kv_heads : 0,
                                         dsf_halves(call, DSFLOW_QKV_KV) +
                                             kv_at(a) + from.at });
    }
}

DSF_BY_TYPE(qkv_forward, DSFLOW_QKV_X, forward)
DSF_SEGMENT_CODELET(qkv_forward, qkv_forward_cpu);

static void backward_input_cpu(const struct dsflow_call *call)
{
    const struct dsflow_qkv_args *a = call->args;
    const struct dsflow_tile *t = &a->tile;
    const size_t rows = (size_t)t->rows, width = (size_t)t->width;
    const size_t nq = dsf_tile_qwidth(t), nkv = dsf_tile_kvwidth(t);
    float *unit = dsf_floats(call, DSFLOW_QKV_UNIT);
    float *kv_unit = dsf_floats(call, kv_port(a));
    float *dq = dsf_floats(call, DSFLOW_QKV_DQ);
    float *dkv = dsf_floats(call, DSFLOW_QKV_DKV) + kv_at(a);
    float *dx = dsf_floats(call, DSFLOW_QKV_DX);
    float *dnormed = a->norm_w < 0 ? dx : call->scratch;
    const struct dsf_norm norm = DSF_NORM_OF(call, DSFLOW_QKV_UNIT, a);

    if (t->rope) {
        const float *table = dsf_floats(call, DSFLOW_QKV_ROPE);

        rotate(t, dq, nq, t->heads, table, 1);
        rotate(t, dkv, nkv, t->kv_heads, table, 1);
    }
    dsf_gemm(0, 0, rows, width, nq, dq, nq, unit + a->w, width, 0, dnormed,
             width);
    for (unsigned i = 0; i < kv_count(a); i++) {
        const struct kv_rows from = kv_rows(a, i);

        dsf_gemm(0, 0, rows, width, from.n, dkv + from.at, nkv,
                 kv_unit + from.w, width, 1, dnormed, width);
    }
    if (a->norm_w >= 0)
        dsf_norm_backward(&norm, dsf_floats(call, DSFLOW_QKV_X), dnormed,
                          dsf_floats(call, DSFLOW_QKV_DRES), dx,
                          dsf_floats(call, DSFLOW_QKV_DNORM), rows);
}

/* Rows of gradients of rotated heads, back, one by one. */
static void rotate_narrow(const struct dsf_narrow_call *c,
                          const struct dsflow_tile *t, uint16_t *x, size_t ld,
                          int32_t heads, const float *table)
{
    const size_t d = (size_t)t->head_dim, n = (size_t)heads * d;
    const size_t length = dsf_tile_length(t);

    for (size_t r = 0; r < (size_t)t->rows; r++, x += ld) {
        c->loops->widen(x, c->wide, n);
        dsf_rotate(c->wide, n, 1, (size_t)heads, d,
                   table + ((size_t)t->pos + r % length) * d, 1);
        c->loops->narrow(c->wide, n, NULL, x, n, 1, n);
    }
}

static void backward_input_narrow(const struct dsflow_call *call)
{
    const struct dsflow_qkv_args *a = call->args;
    const struct dsflow_tile *t = &a->tile;
    const size_t rows = (size_t)t->rows, width = (size_t)t->width;
    const size_t nq = dsf_tile_qwidth(t), nkv = dsf_tile_kvwidth(t);
    const uint16_t *unit = dsf_halves(call, DSFLOW_QKV_UNIT);
    const uint16_t *kv_unit = dsf_halves(call, kv_port(a));
    const struct dsf_narrow_norm norm =
        DSF_NARROW_NORM_OF(call, DSFLOW_QKV_UNIT, a);
    const struct dsf_narrow_call c = dsf_narrow_call(
        call, DSFLOW_QKV_DQ, dsf_qkv_scratch(DSFLOW_DIR_BACKWARD_INPUT, a));
    const int part = a->norm_w < 0;
    uint16_t *dq = dsf_halves(call, DSFLOW_QKV_DQ);
    uint16_t *dkv = dsf_halves(call, DSFLOW_QKV_DKV) + kv_at(a);
    float *dnormed = part ? dsf_product_at(&c, call, DSFLOW_QKV_DX) : c.wide;

    if (t->rope) {
        const float *table = dsf_floats(call, DSFLOW_QKV_ROPE);

        rotate_narrow(&c, t, dq, nq, t->heads, table);
        rotate_narrow(&c, t, dkv, nkv, t->kv_heads, table);
    }
    dsf_projection_input(&(struct dsf_projection){ &c, rows, width, nq }, dq,
                         nq, unit + a->w, 0, dnormed);
    for (unsigned i = 0; i < kv_count(a); i++) {
        const struct kv_rows from = kv_rows(a, i);

        dsf_projection_input(
            &(struct dsf_projection){ &c, rows, width, from.n }, dkv + from.at,
            nkv, kv_unit + from.w, 1, dnormed);
    }
    if (part)
        dsf_product_leaves(&c, call, DSFLOW_QKV_DX, NULL, NULL, rows, width);
    else
        dsf_normed_leaves(&c, call, DSFLOW_QKV_DX, &norm,
                          dsf_halves(call, DSFLOW_QKV_X),
                          dsf_halves(call, DSFLOW_QKV_DRES),
                          dsf_floats(call, DSFLOW_QKV_DNORM), rows);
}

DSF_BY_TYPE(qkv_backward_input, DSFLOW_QKV_DQ, backward_input)
DSF_SEGMENT_CODELET(qkv_backward_input, qkv_backward_input_cpu);

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
    const float *dkv = dsf_floats(call, DSFLOW_QKV_DKV) + kv_at(a);
    const struct dsf_norm norm = DSF_NORM_OF(call, DSFLOW_QKV_UNIT, a);
    const float *xn = dsf_normed_inputs(
        &a->tile, &norm, dsf_floats(call, DSFLOW_QKV_X), call->scratch, rows);
    const struct dsf_extent matrix = { a->w,
                                       (nq + (a->k < 0 ? nkv : 0)) * width };
    float beta,
        *grad = dsf_gradient_but(call, DSFLOW_QKV_GRAD, &matrix, 1, &beta);
    float *kv_grad =
        a->k < 0 ? grad : dsf_gradient(call, DSFLOW_QKV_SHARED_GRAD);

    dsf_gemm(1, 0, nq, width, rows, dq, nq, xn, width, beta, grad + a->w,
             width);
    if (a->b >= 0)
        dsf_column_sums(grad + a->b, dq, rows, nq);
    for (unsigned i = 0; i < kv_count(a); i++) {
        const struct kv_rows into = kv_rows(a, i);

        dsf_gemm(1, 0, into.n, width, rows, dkv + into.at, nkv, xn, width,
                 a->k < 0 ? beta : 1, kv_grad + into.w, width);
        if (into.b >= 0)
            add_columns(kv_grad + into.b, dkv + into.at, nkv, rows, into.n);
    }
    dsf_norm_gradient(grad, a->norm_w, a->norm_b,
                      dsf_floats(call, DSFLOW_QKV_DNORM), width);
}

static void backward_weight_narrow(const struct dsflow_call *call)
{
    const struct dsflow_qkv_args *a = call->args;
    const struct dsflow_tile *t = &a->tile;
    const size_t rows = (size_t)t->rows, width = (size_t)t->width;
    const size_t nq = dsf_tile_qwidth(t), nkv = dsf_tile_kvwidth(t);
    const uint16_t *dq = dsf_halves(call, DSFLOW_QKV_DQ);
    const struct dsf_narrow_norm norm =
        DSF_NARROW_NORM_OF(call, DSFLOW_QKV_UNIT, a);
    const struct dsf_narrow_call c = dsf_narrow_call(
        call, DSFLOW_QKV_DQ, dsf_qkv_scratch(DSFLOW_DIR_BACKWARD_WEIGHT, a));
    const uint16_t *xn = dsf_narrow_normed_inputs(
        &c, &a->tile, &norm, dsf_halves(call, DSFLOW_QKV_X), rows);
    const struct dsf_extent matrix = { a->w,
                                       (nq + (a->k < 0 ? nkv : 0)) * width };
    const struct dsf_gradient grad =
        dsf_gradient_on(call, DSFLOW_QKV_GRAD, &matrix, 1);
    const struct dsf_gradient kv_grad =
        a->k < 0 ? grad
                 : dsf_gradient_on(call, DSFLOW_QKV_SHARED_GRAD, NULL, 0);

    dsf_projection_weight(&(struct dsf_projection){ &c, rows, width, nq }, dq,
                          nq, xn, &grad, a->w);
    dsf_gradient_columns(&grad, a->b, c.loops, dq, nq, rows, nq);
    for (unsigned i = 0; i < kv_count(a); i++) {
        const struct kv_rows into = kv_rows(a, i);
        const uint16_t *dkv =
            dsf_halves(call, DSFLOW_QKV_DKV) + kv_at(a) + into.at;

        dsf_projection_weight(
            &(struct dsf_projection){ &c, rows, width, into.n }, dkv, nkv, xn,
            &kv_grad, into.w);
        dsf_gradient_columns(&kv_grad, into.b, c.loops, dkv, nkv, rows, into.n);
    }
    dsf_gradient_norm(&grad, a->norm_w, a->norm_b,
                      dsf_floats(call, DSFLOW_QKV_DNORM), width);
}

DSF_BY_TYPE(qkv_backward_weight, DSFLOW_QKV_DQ, backward_weight)
DSF_SEGMENT_CODELET(qkv_backward_weight, qkv_backward_weight_cpu);
