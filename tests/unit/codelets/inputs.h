/* inputs.h - inputs of products that are rounded: a task that rounds them
 * leaves the bits that one without it leaves of inputs that were rounded
 * before. Of cores (test_inputs.c) and of GPUs (tests/gpu/test_inputs_cuda.c),
 * which are `computed` by INPUTS_CODELET(op). */
#ifndef DSF_UNIT_CODELETS_INPUTS_H
#define DSF_UNIT_CODELETS_INPUTS_H

#include "kernels/fake_quantize.h"
#include "unit/codelets/part.h"

/* How, and of which type the rows are. */
struct inputs_way {
    enum dsflow_dtype type;
    int llama;
    enum dsf_quantizer quantizer;
    int bits, group;
};

static const struct inputs_way inputs_ways[] = {
    { DSFLOW_FP32, 0, DSF_SYMMETRIC, 8, 64 },
    { DSFLOW_FP32, 1, DSF_ASYMMETRIC, 4, 16 },
    { DSFLOW_BF16, 0, DSF_ASYMMETRIC, 8, 32 },
    { DSFLOW_BF16, 1, DSF_SYMMETRIC, 4, 64 },
    { DSFLOW_FP16, 0, DSF_SYMMETRIC, 2, 16 },
    { DSFLOW_FP16, 1, DSF_ASYMMETRIC, 8, 32 },
    { DSFLOW_FP32, 1, DSF_SYMMETRIC, 4, 0 },
    { DSFLOW_BF16, 0, DSF_ASYMMETRIC, 4, 0 },
};

/* Rows, heads and inner numbers are 64 wide; `exact` is the same tile whose
 * inputs are not rounded. */
enum { INPUTS_ROWS = 6, INPUTS_WIDTH = 64 };

struct inputs {
    struct inputs_way way;
    struct dsflow_tile rounded, exact;
    enum dsflow_dtype as; /* on a port, as in struct on: 0 is fp32 */
    struct tensor x;
};

static inline struct inputs inputs_new(const struct inputs_way *way)
{
    struct inputs i = { .way = *way };

    i.exact = (struct dsflow_tile){
        .rows = INPUTS_ROWS,
        .nseq = 2,
        .width = INPUTS_WIDTH,
        .heads = 4,
        .kv_heads = 2,
        .head_dim = INPUTS_WIDTH / 4,
        .ffn = INPUTS_WIDTH,
        .vocab = 8,
        .context = 8,
        .rms = way->llama,
        .swiglu = way->llama,
        .eps = 1e-5f,
    };
    i.rounded = i.exact;
    i.rounded.input_quantizer = (int16_t)way->quantizer;
    i.rounded.input_bits = (int16_t)way->bits;
    i.rounded.input_group = way->group;
    i.as = way->type == DSFLOW_FP32 ? 0 : way->type;
    i.x = tensor_new(INPUTS_ROWS * INPUTS_WIDTH, 2, 5);
    if (is_narrow(i.as))
        tensor_round(&i.x, i.as);
    return i;
}

static inline void inputs_free(struct inputs *i)
{
    tensor_free(&i->x);
}

static inline void tensors_free(struct tensor *const *t, size_t n)
{
    for (size_t i = 0; i < n; i++)
        tensor_free(t[i]);
}

#define TENSORS_FREE(...)                                                      \
    tensors_free((struct tensor *const[]){ __VA_ARGS__ },                      \
                 sizeof((struct tensor *const[]){ __VA_ARGS__ }) /             \
                     sizeof(struct tensor *))

/* The first `n` numbers of t as the model has them; `cols` of a row, which are
 * a group where none is said. */
static inline void round_rows(const struct inputs *i, struct tensor *t,
                              size_t n, size_t cols)
{
    const struct dsf_fake_quantizer q = { .quantizer = i->way.quantizer,
                                          .bits = i->way.bits,
                                          .group = i->way.group };

    if (is_narrow(i->as))
        for (size_t k = 0; k < n; k++)
            t->f[k] = wide_of(i->as, narrow_of(i->as, t->f[k]));
    if (q.group > 0)
        dsf_fake_quantize(&q, t->f, t->f, n / (size_t)q.group);
    for (size_t k = 0; k < n && q.group == 0; k += cols) {
        struct dsf_extremes e = DSF_NO_EXTREMES;

        dsf_see_extremes(t->f + k, cols, &e);
        dsf_quantize_between(&q, &e, t->f + k, t->f + k, cols);
    }
    if (is_narrow(i->as))
        for (size_t k = 0; k < n; k++)
            t->f[k] = wide_of(i->as, narrow_of(i->as, t->f[k]));
}

static inline void round_tensor(const struct inputs *i, struct tensor *t,
                                size_t n)
{
    round_rows(i, t, n, INPUTS_WIDTH);
}

static inline void assert_rounded(const struct tensor *rounded,
                                  const struct tensor *exact)
{
    assert_same_bits(rounded->f, exact->f, exact->n);
}

/* Does rounding change anything? */
static inline void assert_other(const struct tensor *a, const struct tensor *b)
{
    assert_true(memcmp(a->f, b->f, a->n * sizeof(float)) != 0);
}

/* A unit of matrices, whose norm comes last. */
static inline struct tensor unit_new(size_t n)
{
    return tensor_new(n, 0.5, 7);
}

/* What the norm of the unit, from `w` and `b` on, makes of x, rounded. */
static inline struct tensor normed_of(struct inputs *i, struct tensor *unit,
                                      int64_t w, int64_t b)
{
    const struct dsf_norm_args rounds = { .tile = i->rounded,
                                          .norm_w = w,
                                          .norm_b = b };
    const struct dsf_norm_args exact = { .tile = i->exact,
                                         .norm_w = w,
                                         .norm_b = b };
    struct tensor y = tensor_unset(i->x.n), before = tensor_unset(i->x.n);

    RUN(INPUTS_CODELET(norm_forward), &rounds, { DSFLOW_NORM_X, &i->x, i->as },
        { DSFLOW_NORM_UNIT, unit, i->as }, { DSFLOW_NORM_Y, &y, i->as });
    RUN(INPUTS_CODELET(norm_forward), &exact, { DSFLOW_NORM_X, &i->x, i->as },
        { DSFLOW_NORM_UNIT, unit, i->as }, { DSFLOW_NORM_Y, &before, i->as });
    assert_other(&y, &before);
    round_tensor(i, &before, before.n);
    assert_rounded(&y, &before);
    tensor_free(&before);
    return y;
}

/* Rows that are wider than what is worked on at a time. */
static void inputs_wide(struct inputs *i)
{
    enum { ROWS = 3, WIDE = 33 * 128 };
    struct dsf_norm_args a = { .tile = i->rounded, .norm_b = -1 };
    struct tensor x = tensor_new(ROWS * WIDE, 1, 14);
    struct tensor unit = tensor_new(WIDE, 1, 15);
    struct tensor y = tensor_unset(x.n), y1 = tensor_unset(x.n);

    for (size_t k = 0; k < ROWS; k++) /* at the end of a row, at first, … */
        x.f[k * WIDE + (k == 0 ? WIDE - 1 : k * 1800)] = k == 2 ? -9 : 9;
    a.tile.rows = ROWS;
    a.tile.width = WIDE;
    RUN(INPUTS_CODELET(norm_forward), &a, { DSFLOW_NORM_X, &x, i->as },
        { DSFLOW_NORM_UNIT, &unit, i->as }, { DSFLOW_NORM_Y, &y, i->as });
    a.tile.input_quantizer = DSF_UNQUANTIZED;
    RUN(INPUTS_CODELET(norm_forward), &a, { DSFLOW_NORM_X, &x, i->as },
        { DSFLOW_NORM_UNIT, &unit, i->as }, { DSFLOW_NORM_Y, &y1, i->as });
    round_rows(i, &y1, y1.n, WIDE);
    assert_rounded(&y, &y1);
    TENSORS_FREE(&x, &unit, &y, &y1);
}

static void inputs_qkv(struct inputs *i)
{
    const size_t nq = INPUTS_WIDTH, nkv = dsf_tile_kvwidth(&i->exact);
    size_t at = 0;
    struct dsflow_qkv_args whole = { .tile = i->rounded,
                                     .k = -1,
                                     .v = -1,
                                     .kb = -1,
                                     .vb = -1 },
                           part;
    struct tensor unit, xn, q, kv, q1, kv1, dq, dkv, dnorm, grad, grad1;

    whole.w = (int64_t)place(&at, (nq + nkv) * INPUTS_WIDTH);
    whole.b = i->way.llama ? -1 : (int64_t)place(&at, nq + nkv);
    whole.norm_w = (int64_t)place(&at, INPUTS_WIDTH);
    whole.norm_b = i->way.llama ? -1 : (int64_t)place(&at, INPUTS_WIDTH);
    part = whole;
    part.tile = i->exact;
    part.norm_w = part.norm_b = -1;
    unit = unit_new(at);
    xn = normed_of(i, &unit, whole.norm_w, whole.norm_b);
    q = tensor_unset(INPUTS_ROWS * nq), q1 = tensor_unset(q.n);
    kv = tensor_unset(INPUTS_ROWS * nkv), kv1 = tensor_unset(kv.n);
    RUN_FRESH(1u << DSFLOW_QKV_KV, INPUTS_CODELET(qkv_forward), &whole,
              { DSFLOW_QKV_X, &i->x, i->as }, { DSFLOW_QKV_UNIT, &unit, i->as },
              { DSFLOW_QKV_Q, &q, i->as }, { DSFLOW_QKV_KV, &kv, i->as });
    RUN_FRESH(1u << DSFLOW_QKV_KV, INPUTS_CODELET(qkv_forward), &part,
              { DSFLOW_QKV_X, &xn, i->as }, { DSFLOW_QKV_UNIT, &unit, i->as },
              { DSFLOW_QKV_Q, &q1, i->as }, { DSFLOW_QKV_KV, &kv1, i->as });
    assert_rounded(&q, &q1);
    assert_rounded(&kv, &kv1);

    dq = tensor_new(q.n, 1, 8), dkv = tensor_new(kv.n, 1, 9);
    dnorm = tensor_zero(2 * INPUTS_WIDTH);
    grad = tensor_zero(at), grad1 = tensor_zero(at);
    RUN(INPUTS_CODELET(qkv_backward_weight), &whole,
        { DSFLOW_QKV_X, &i->x, i->as }, { DSFLOW_QKV_UNIT, &unit, i->as },
        { DSFLOW_QKV_DQ, &dq, i->as }, { DSFLOW_QKV_DKV, &dkv, i->as },
        { DSFLOW_QKV_DNORM, &dnorm }, { DSFLOW_QKV_GRAD, &grad });
    RUN(INPUTS_CODELET(qkv_backward_weight), &part,
        { DSFLOW_QKV_X, &xn, i->as }, { DSFLOW_QKV_DQ, &dq, i->as },
        { DSFLOW_QKV_DKV, &dkv, i->as }, { DSFLOW_QKV_GRAD, &grad1 });
    assert_rounded(&grad, &grad1);
    TENSORS_FREE(&unit, &xn, &q, &kv, &q1, &kv1, &dq, &dkv, &dnorm, &grad,
                 &grad1);
}

static void inputs_out(struct inputs *i)
{
    size_t at = 0;
    struct dsflow_out_args rounds = { .tile = i->rounded, .residual = 1 },
                           exact;
    struct tensor unit, att, att1, y, y1, dy, datt, datt1, delta, delta1;
    struct tensor grad, grad1;

    rounds.w = (int64_t)place(&at, INPUTS_WIDTH * INPUTS_WIDTH);
    rounds.b = i->way.llama ? -1 : (int64_t)place(&at, INPUTS_WIDTH);
    exact = rounds;
    exact.tile = i->exact;
    unit = unit_new(at);
    att = tensor_new(i->x.n, 1, 10), att1 = tensor_copy(&att);
    round_tensor(i, &att1, att1.n);
    y = tensor_unset(i->x.n), y1 = tensor_unset(i->x.n);
    RUN(INPUTS_CODELET(out_forward), &rounds, { DSFLOW_OUT_X, &i->x, i->as },
        { DSFLOW_OUT_ATT, &att, i->as }, { DSFLOW_OUT_UNIT, &unit, i->as },
        { DSFLOW_OUT_Y, &y, i->as });
    RUN(INPUTS_CODELET(out_forward), &exact, { DSFLOW_OUT_X, &i->x, i->as },
        { DSFLOW_OUT_ATT, &att1, i->as }, { DSFLOW_OUT_UNIT, &unit, i->as },
        { DSFLOW_OUT_Y, &y1, i->as });
    assert_rounded(&y, &y1);

    /* Straight through: delta is of what attention left. */
    dy = tensor_new(i->x.n, 1, 11);
    datt = tensor_unset(i->x.n), datt1 = tensor_unset(i->x.n);
    delta = tensor_unset(INPUTS_ROWS * 4), delta1 = tensor_unset(delta.n);
    RUN(INPUTS_CODELET(out_backward_input), &rounds,
        { DSFLOW_OUT_ATT, &att, i->as }, { DSFLOW_OUT_UNIT, &unit, i->as },
        { DSFLOW_OUT_DY, &dy, i->as }, { DSFLOW_OUT_DATT, &datt, i->as },
        { DSFLOW_OUT_DELTA, &delta });
    RUN(INPUTS_CODELET(out_backward_input), &exact,
        { DSFLOW_OUT_ATT, &att, i->as }, { DSFLOW_OUT_UNIT, &unit, i->as },
        { DSFLOW_OUT_DY, &dy, i->as }, { DSFLOW_OUT_DATT, &datt1, i->as },
        { DSFLOW_OUT_DELTA, &delta1 });
    assert_rounded(&datt, &datt1);
    assert_rounded(&delta, &delta1);

    grad = tensor_zero(at), grad1 = tensor_zero(at);
    RUN(INPUTS_CODELET(out_backward_weight), &rounds,
        { DSFLOW_OUT_ATT, &att, i->as }, { DSFLOW_OUT_DY, &dy, i->as },
        { DSFLOW_OUT_GRAD, &grad });
    RUN(INPUTS_CODELET(out_backward_weight), &exact,
        { DSFLOW_OUT_ATT, &att1, i->as }, { DSFLOW_OUT_DY, &dy, i->as },
        { DSFLOW_OUT_GRAD, &grad1 });
    assert_rounded(&grad, &grad1);
    TENSORS_FREE(&unit, &att, &att1, &y, &y1, &dy, &datt, &datt1, &delta,
                 &delta1, &grad, &grad1);
}

static struct dsflow_mlp_args inputs_mlp_args(const struct inputs *i,
                                              size_t *at)
{
    struct dsflow_mlp_args a = { .tile = i->rounded };
    const size_t nh = dsf_tile_hwidth(&i->exact);

    a.w1 = (int64_t)place(at, nh * INPUTS_WIDTH);
    a.w2 = (int64_t)place(at, INPUTS_WIDTH * INPUTS_WIDTH);
    a.b1 = i->way.llama ? -1 : (int64_t)place(at, nh);
    a.b2 = i->way.llama ? -1 : (int64_t)place(at, INPUTS_WIDTH);
    a.norm_w = (int64_t)place(at, INPUTS_WIDTH);
    a.norm_b = i->way.llama ? -1 : (int64_t)place(at, INPUTS_WIDTH);
    return a;
}

/* Of a part, normed rows, with the second matrix that of ones on the diagonal:
 * y is what it is multiplied with. */
static struct tensor inputs_acted(struct inputs *i, struct dsflow_mlp_args a,
                                  const struct dsflow_tile *tile,
                                  struct tensor *xn, struct tensor *unit)
{
    struct tensor h = tensor_unset(INPUTS_ROWS * dsf_tile_hwidth(tile));
    struct tensor y = tensor_unset(i->x.n);

    a.tile = *tile;
    a.norm_w = a.norm_b = a.b2 = -1;
    for (size_t k = 0; k < INPUTS_WIDTH * INPUTS_WIDTH; k++)
        unit->f[(size_t)a.w2 + k] = k % (INPUTS_WIDTH + 1) == 0;
    RUN(INPUTS_CODELET(mlp_forward), &a, { DSFLOW_MLP_X, xn, i->as },
        { DSFLOW_MLP_UNIT, unit, i->as }, { DSFLOW_MLP_H, &h, i->as },
        { DSFLOW_MLP_Y, &y, i->as });
    tensor_free(&h);
    return y;
}

static void inputs_mlp_forward(struct inputs *i)
{
    size_t at = 0;
    const struct dsflow_mlp_args whole = inputs_mlp_args(i, &at);
    struct dsflow_mlp_args part = whole;
    struct tensor unit = unit_new(at), xn, act, act1, h, h1, y, y1;

    part.tile = i->exact;
    part.norm_w = part.norm_b = part.b2 = -1;
    xn = normed_of(i, &unit, whole.norm_w, whole.norm_b);
    act = inputs_acted(i, whole, &i->rounded, &xn, &unit);
    act1 = inputs_acted(i, whole, &i->exact, &xn, &unit);
    assert_other(&act, &act1);
    round_tensor(i, &act1, act1.n);
    assert_rounded(&act, &act1);

    h = tensor_unset(INPUTS_ROWS * dsf_tile_hwidth(&i->exact));
    h1 = tensor_unset(h.n);
    y = tensor_unset(i->x.n), y1 = tensor_unset(i->x.n);
    RUN(INPUTS_CODELET(mlp_forward), &part, { DSFLOW_MLP_X, &xn, i->as },
        { DSFLOW_MLP_UNIT, &unit, i->as }, { DSFLOW_MLP_H, &h1, i->as },
        { DSFLOW_MLP_Y, &y1, i->as });
    RUN(INPUTS_CODELET(mlp_hidden), &whole, { DSFLOW_MLP_X, &i->x, i->as },
        { DSFLOW_MLP_UNIT, &unit, i->as }, { DSFLOW_MLP_H, &h, i->as });
    assert_rounded(&h, &h1);
    forget(&h);
    RUN(INPUTS_CODELET(mlp_forward), &whole, { DSFLOW_MLP_X, &i->x, i->as },
        { DSFLOW_MLP_UNIT, &unit, i->as }, { DSFLOW_MLP_H, &h, i->as },
        { DSFLOW_MLP_Y, &y, i->as });
    assert_rounded(&h, &h1);
    /* The whole adds x and the bias to what its part leaves. */
    for (size_t k = 0; k < y.n; k++) {
        const size_t c = k % INPUTS_WIDTH;
        const float *b = whole.b2 < 0 ? NULL : unit.f + whole.b2 + c;
        const double sum =
            (double)i->x.f[k] + (double)act.f[k] + (b == NULL ? 0 : (double)*b);

        if (fabs((double)y.f[k] - sum) > 0x1p-6 * (1 + fabs(sum)))
            fail_msg("y[%zu] is %g, not %g", k, (double)y.f[k], sum);
    }
    TENSORS_FREE(&unit, &xn, &act, &act1, &h, &h1, &y, &y1);
}

static void inputs_mlp_backward(struct inputs *i)
{
    size_t at = 0;
    const struct dsflow_mlp_args rounds = inputs_mlp_args(i, &at);
    const size_t nh = dsf_tile_hwidth(&i->exact), acted = i->x.n;
    struct dsflow_mlp_args exact = rounds, part;
    struct tensor unit = unit_new(at), xn, h, h1, dy, dh, dh1, dx, dx1;
    struct tensor dnorm, dnorm1, grad, grad1;

    exact.tile = i->exact;
    part = exact;
    part.norm_w = part.norm_b = part.b2 = -1;
    xn = normed_of(i, &unit, rounds.norm_w, rounds.norm_b);
    h = tensor_new(INPUTS_ROWS * nh, 2, 12), h1 = tensor_copy(&h);
    dy = tensor_new(acted, 1, 13);
    dh = tensor_unset(h.n), dh1 = tensor_unset(h.n);
    dx = tensor_unset(acted), dx1 = tensor_unset(acted);
    dnorm = tensor_unset(2 * INPUTS_WIDTH), dnorm1 = tensor_unset(dnorm.n);
    RUN(INPUTS_CODELET(mlp_backward_input), &rounds,
        { DSFLOW_MLP_X, &i->x, i->as }, { DSFLOW_MLP_UNIT, &unit, i->as },
        { DSFLOW_MLP_H, &h, i->as }, { DSFLOW_MLP_DY, &dy, i->as },
        { DSFLOW_MLP_DH, &dh, i->as }, { DSFLOW_MLP_DX, &dx, i->as },
        { DSFLOW_MLP_DNORM, &dnorm });
    RUN(INPUTS_CODELET(mlp_backward_input), &exact,
        { DSFLOW_MLP_X, &i->x, i->as }, { DSFLOW_MLP_UNIT, &unit, i->as },
        { DSFLOW_MLP_H, &h1, i->as }, { DSFLOW_MLP_DY, &dy, i->as },
        { DSFLOW_MLP_DH, &dh1, i->as }, { DSFLOW_MLP_DX, &dx1, i->as },
        { DSFLOW_MLP_DNORM, &dnorm1 });
    /* Straight through: the gradients do not see it. */
    assert_rounded(&dh, &dh1);
    assert_rounded(&dx, &dx1);
    assert_rounded(&dnorm, &dnorm1);
    round_tensor(i, &h1, acted);
    assert_same_bits(h.f, h1.f, acted);

    memset(dnorm.f, 0, dnorm.n * sizeof(float));
    grad = tensor_zero(at), grad1 = tensor_zero(at);
    RUN(INPUTS_CODELET(mlp_backward_weight), &rounds,
        { DSFLOW_MLP_X, &i->x, i->as }, { DSFLOW_MLP_UNIT, &unit, i->as },
        { DSFLOW_MLP_H, &h, i->as }, { DSFLOW_MLP_DY, &dy, i->as },
        { DSFLOW_MLP_DH, &dh, i->as }, { DSFLOW_MLP_DNORM, &dnorm },
        { DSFLOW_MLP_GRAD, &grad });
    part.b2 = rounds.b2;
    RUN(INPUTS_CODELET(mlp_backward_weight), &part,
        { DSFLOW_MLP_X, &xn, i->as }, { DSFLOW_MLP_H, &h, i->as },
        { DSFLOW_MLP_DY, &dy, i->as }, { DSFLOW_MLP_DH, &dh, i->as },
        { DSFLOW_MLP_GRAD, &grad1 });
    assert_rounded(&grad, &grad1);
    TENSORS_FREE(&unit, &xn, &h, &h1, &dy, &dh, &dh1, &dx, &dx1, &dnorm,
                 &dnorm1, &grad, &grad1);
}

/* CHECK, in each way. */
#define INPUTS_IN_EACH_WAY(check)                                              \
    do {                                                                       \
        for (size_t w_ = 0; w_ < sizeof(inputs_ways) / sizeof(*inputs_ways);   \
             w_++) {                                                           \
            struct inputs in_ = inputs_new(&inputs_ways[w_]);                  \
                                                                               \
            check(&in_);                                                       \
            inputs_free(&in_);                                                 \
        }                                                                      \
    } while (0)

#endif
