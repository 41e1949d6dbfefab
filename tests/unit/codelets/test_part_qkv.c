/* test_part_qkv.c - queries, keys and values by heads: what the parts give
 * together is what the whole segment gives. */
#include "unit/codelets/part.h"

struct layer {
    struct dsflow_qkv_args args;
    struct tensor x, unit, q, kv, dq, dkv, dres, dx, dnorm, grad, rope, xn;
};

static struct layer layer_new(struct dsflow_tile t, int bias)
{
    struct layer l = { .args = {
                           .tile = t, .k = -1, .v = -1, .kb = -1, .vb = -1 } };
    size_t width = (size_t)t.width, rows = (size_t)t.rows, at = 0;
    size_t nq = dsf_tile_qwidth(&t), nkv = dsf_tile_kvwidth(&t);

    l.args.w = (int64_t)place(&at, (nq + nkv) * width);
    l.args.b = bias ? (int64_t)place(&at, nq + nkv) : -1;
    l.args.norm_w = (int64_t)place(&at, width);
    l.args.norm_b = t.rms ? -1 : (int64_t)place(&at, width);
    l.x = tensor_new(rows * width, 2, 1);
    l.unit = tensor_new(at, 0.5, 2);
    l.q = tensor_unset(rows * nq);
    l.kv = tensor_unset(rows * nkv);
    l.dq = tensor_new(rows * nq, 1, 3);
    l.dkv = tensor_new(rows * nkv, 1, 4);
    l.dres = tensor_new(rows * width, 1, 5);
    l.dx = tensor_unset(rows * width);
    l.dnorm = tensor_unset(2 * width);
    l.grad = tensor_zero(at);
    l.rope = tensor_new((size_t)t.context * (size_t)t.head_dim, 1, 7);
    l.xn = tensor_unset(rows * width);
    return l;
}

static void layer_free(struct layer *l)
{
    struct tensor *all[] = { &l->x,     &l->unit, &l->q,    &l->kv,
                             &l->dq,    &l->dkv,  &l->dres, &l->dx,
                             &l->dnorm, &l->grad, &l->rope, &l->xn };

    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        tensor_free(all[i]);
}

/* Runs the codelet with the rope port, or without. */
#define RUN_ROPE(l, codelet, ...)                                              \
    do {                                                                       \
        if ((l)->args.tile.rope)                                               \
            RUN(codelet, __VA_ARGS__, { DSFLOW_QKV_ROPE, &(l)->rope });        \
        else                                                                   \
            RUN(codelet, __VA_ARGS__);                                         \
    } while (0)

static void run_whole(struct layer *l)
{
    const struct dsflow_qkv_args *a = &l->args;
    struct dsf_norm_args norm = { a->tile, a->norm_w, a->norm_b, 0 };

    RUN(&dsf_codelet_norm_forward, &norm, { DSFLOW_NORM_X, &l->x },
        { DSFLOW_NORM_UNIT, &l->unit }, { DSFLOW_NORM_Y, &l->xn });
    RUN_ROPE(l, &dsf_codelet_qkv_forward, a, { DSFLOW_QKV_X, &l->x },
             { DSFLOW_QKV_UNIT, &l->unit }, { DSFLOW_QKV_Q, &l->q },
             { DSFLOW_QKV_KV, &l->kv });
    RUN_ROPE(l, &dsf_codelet_qkv_backward_input, a, { DSFLOW_QKV_DQ, &l->dq },
             { DSFLOW_QKV_DKV, &l->dkv }, { DSFLOW_QKV_X, &l->x },
             { DSFLOW_QKV_UNIT, &l->unit }, { DSFLOW_QKV_DRES, &l->dres },
             { DSFLOW_QKV_DX, &l->dx }, { DSFLOW_QKV_DNORM, &l->dnorm });
    RUN(&dsf_codelet_qkv_backward_weight, a, { DSFLOW_QKV_DQ, &l->dq },
        { DSFLOW_QKV_DKV, &l->dkv }, { DSFLOW_QKV_X, &l->x },
        { DSFLOW_QKV_UNIT, &l->unit }, { DSFLOW_QKV_DNORM, &l->dnorm },
        { DSFLOW_QKV_GRAD, &l->grad });
}

/* Rows of q, of k and of v that part `p` of `parts` has, of a matrix with
 * `cols` columns. */
static void take_rows(const struct dsflow_tile *t, int parts, int p,
                      float *part, const float *whole, size_t cols)
{
    size_t nq = dsf_tile_qwidth(t), nk = dsf_tile_kvwidth(t) / 2;
    size_t sizes[] = { nq, nk, nk }, at = 0;

    for (int i = 0; i < 3; i++) {
        size_t n = sizes[i] / (size_t)parts;

        memcpy(part, whole + (at + n * (size_t)p) * cols,
               n * cols * sizeof(float));
        part += n * cols;
        at += sizes[i];
    }
}

/* Columns of heads: q is one group of them, kv two. */
static void take_columns(struct tensor *part, const struct tensor *whole,
                         size_t rows, size_t groups, int parts, int p)
{
    size_t wide = whole->n / rows / groups, n = wide / (size_t)parts;

    for (size_t g = 0; g < groups; g++)
        copy_block(part->f + g * n, groups * n,
                   whole->f + g * wide + n * (size_t)p, groups * wide, rows, n);
}

static void check_part(struct layer *whole, struct layer *l, int parts, int p,
                       const struct tensor *dq, const struct tensor *dkv,
                       struct tensor *dxn)
{
    const struct dsflow_tile *t = &l->args.tile;
    const struct dsflow_qkv_args a = { .tile = *t,
                                       .w = l->args.w,
                                       .b = l->args.b,
                                       .norm_w = -1,
                                       .norm_b = -1,
                                       .k = -1,
                                       .v = -1,
                                       .kb = -1,
                                       .vb = -1 };
    size_t rows = (size_t)t->rows, width = (size_t)t->width;
    size_t out = dsf_tile_qwidth(t) + dsf_tile_kvwidth(t);
    struct tensor q = tensor_copy(&l->q), kv = tensor_copy(&l->kv);
    struct tensor one = tensor_unset(dxn->n), grad = tensor_zero(l->grad.n);

    take_rows(&whole->args.tile, parts, p, l->unit.f + a.w,
              whole->unit.f + whole->args.w, width);
    if (a.b >= 0)
        take_rows(&whole->args.tile, parts, p, l->unit.f + a.b,
                  whole->unit.f + whole->args.b, 1);
    RUN_ROPE(whole, &dsf_codelet_qkv_forward, &a, { DSFLOW_QKV_X, &whole->xn },
             { DSFLOW_QKV_UNIT, &l->unit }, { DSFLOW_QKV_Q, &l->q },
             { DSFLOW_QKV_KV, &l->kv });
    take_columns(&q, &whole->q, rows, 1, parts, p);
    take_columns(&kv, &whole->kv, rows, 2, parts, p);
    assert_like(l->q.f, q.f, q.n, parts);
    assert_like(l->kv.f, kv.f, kv.n, parts);

    take_columns(&l->dq, dq, rows, 1, parts, p);
    take_columns(&l->dkv, dkv, rows, 2, parts, p);
    RUN_ROPE(whole, &dsf_codelet_qkv_backward_input, &a,
             { DSFLOW_QKV_DQ, &l->dq }, { DSFLOW_QKV_DKV, &l->dkv },
             { DSFLOW_QKV_UNIT, &l->unit }, { DSFLOW_QKV_DX, &one });
    add_floats(dxn->f, one.f, one.n);
    forget(&l->grad);
    RUN_FRESH(1u << DSFLOW_QKV_GRAD, &dsf_codelet_qkv_backward_weight, &a,
              { DSFLOW_QKV_DQ, &l->dq }, { DSFLOW_QKV_DKV, &l->dkv },
              { DSFLOW_QKV_X, &whole->xn }, { DSFLOW_QKV_GRAD, &l->grad });
    take_rows(&whole->args.tile, parts, p, grad.f + a.w,
              whole->grad.f + whole->args.w, width);
    assert_like(l->grad.f + a.w, grad.f + a.w, out * width, parts);
    if (a.b >= 0) {
        take_rows(&whole->args.tile, parts, p, grad.f + a.b,
                  whole->grad.f + whole->args.b, 1);
        assert_like(l->grad.f + a.b, grad.f + a.b, out, parts);
    }
    tensor_free(&q);
    tensor_free(&kv);
    tensor_free(&one);
    tensor_free(&grad);
}

static void check_layer(struct dsflow_tile t, int bias, int parts)
{
    struct layer whole = layer_new(t, bias);
    struct tensor dq = tensor_copy(&whole.dq), dkv = tensor_copy(&whole.dkv);
    struct tensor dxn = tensor_zero(whole.x.n), dx = tensor_unset(whole.x.n);
    struct tensor dnorm = tensor_unset(whole.dnorm.n);
    const struct dsf_norm_args norm = { t, whole.args.norm_w, whole.args.norm_b,
                                        1 };

    run_whole(&whole);
    for (int p = 0; p < parts; p++) {
        struct dsflow_tile cut = t;
        struct layer l;

        cut.heads /= parts;
        cut.kv_heads /= parts;
        l = layer_new(cut, bias);
        check_part(&whole, &l, parts, p, &dq, &dkv, &dxn);
        layer_free(&l);
    }
    RUN(&dsf_codelet_norm_backward_input, &norm, { DSFLOW_NORM_DY, &dxn },
        { DSFLOW_NORM_X, &whole.x }, { DSFLOW_NORM_UNIT, &whole.unit },
        { DSFLOW_NORM_DX, &dx }, { DSFLOW_NORM_DNORM, &dnorm },
        { DSFLOW_NORM_DRES, &whole.dres });
    assert_like(dx.f, whole.dx.f, dx.n, parts);
    assert_like(dnorm.f, whole.dnorm.f, dnorm.n, parts);
    layer_free(&whole);
    tensor_free(&dq);
    tensor_free(&dkv);
    tensor_free(&dxn);
    tensor_free(&dx);
    tensor_free(&dnorm);
}

static void check_shapes(void)
{
    struct dsflow_tile gpt2 = { .rows = 7,
                                .nseq = 1,
                                .width = 48,
                                .heads = 4,
                                .kv_heads = 4,
                                .head_dim = 12,
                                .ffn = 1,
                                .vocab = 1,
                                .context = 20,
                                .eps = 1e-5f };
    struct dsflow_tile llama = { .rows = 33,
                                 .nseq = 3,
                                 .width = 65,
                                 .heads = 6,
                                 .kv_heads = 2,
                                 .head_dim = 10,
                                 .ffn = 1,
                                 .vocab = 1,
                                 .context = 40,
                                 .rms = 1,
                                 .rope = 1,
                                 .eps = 1e-6f };

    for (int parts = 1; parts <= 4; parts *= 2)
        check_layer(gpt2, 1, parts);
    for (int parts = 1; parts <= 2; parts++) {
        check_layer(llama, 0, parts);
        check_layer(llama, 1, parts);
    }
    llama.rows = 9;
    llama.nseq = 1;
    llama.pos = 31;
    check_layer(llama, 1, 2);
}

static void the_parts_together_are_the_whole(void **state)
{
    with_every_isa(check_shapes);
}

/* Six ranks for two heads of keys: three use the same one, and each has a share
 * of its gradient, a power of two so that nothing is rounded. */
static void check_sharing(struct layer *whole, int p, const struct tensor *dq,
                          const struct tensor *dkv, struct tensor *shared,
                          struct tensor *dxn, struct tensor *grad)
{
    static const float shares[] = { 0.5f, 0.25f, 0.25f };
    struct dsflow_tile t = whole->args.tile;
    const size_t rows = (size_t)t.rows, width = (size_t)t.width;
    const size_t nk = (size_t)t.head_dim, head = (size_t)p / 3 * nk;
    const int bias = whole->args.b >= 0;
    struct dsflow_qkv_args a = {
        .norm_w = -1, .norm_b = -1, .kb = -1, .vb = -1, .b = -1
    };
    struct layer l;
    struct tensor kv, one = tensor_unset(dxn->n), own;

    t.heads = t.kv_heads = 1;
    l = layer_new(t, bias);
    a.tile = t;
    a.k = (int64_t)(head * width);
    a.v = a.k + (int64_t)(2 * nk * width);
    if (bias) {
        a.b = l.args.b;
        a.kb = (int64_t)(4 * nk * width + head);
        a.vb = a.kb + (int64_t)(2 * nk);
    }
    memcpy(l.unit.f, whole->unit.f + (size_t)p * nk * width,
           nk * width * sizeof(float));
    if (bias)
        memcpy(l.unit.f + a.b, whole->unit.f + whole->args.b + (size_t)p * nk,
               nk * sizeof(float));
    RUN(&dsf_codelet_qkv_forward, &a, { DSFLOW_QKV_X, &whole->xn },
        { DSFLOW_QKV_UNIT, &l.unit }, { DSFLOW_QKV_Q, &l.q },
        { DSFLOW_QKV_KV, &l.kv }, { DSFLOW_QKV_ROPE, &whole->rope },
        { DSFLOW_QKV_SHARED, shared });
    kv = tensor_copy(&l.kv);
    take_columns(&kv, &whole->kv, rows, 2, 2, p / 3);
    assert_like(l.kv.f, kv.f, kv.n, 6);

    take_columns(&l.dq, dq, rows, 1, 6, p);
    take_columns(&l.dkv, dkv, rows, 2, 2, p / 3);
    for (size_t i = 0; i < l.dkv.n; i++)
        l.dkv.f[i] *= shares[p % 3];
    RUN(&dsf_codelet_qkv_backward_input, &a, { DSFLOW_QKV_DQ, &l.dq },
        { DSFLOW_QKV_DKV, &l.dkv }, { DSFLOW_QKV_UNIT, &l.unit },
        { DSFLOW_QKV_DX, &one }, { DSFLOW_QKV_ROPE, &whole->rope },
        { DSFLOW_QKV_SHARED, shared });
    add_floats(dxn->f, one.f, one.n);
    own = tensor_unset(grad->n);
    forget(&l.grad);
    RUN_FRESH(1u << DSFLOW_QKV_GRAD | 1u << DSFLOW_QKV_SHARED_GRAD,
              &dsf_codelet_qkv_backward_weight, &a, { DSFLOW_QKV_DQ, &l.dq },
              { DSFLOW_QKV_DKV, &l.dkv }, { DSFLOW_QKV_X, &whole->xn },
              { DSFLOW_QKV_GRAD, &l.grad }, { DSFLOW_QKV_SHARED_GRAD, &own });
    add_floats(grad->f, own.f, own.n);
    assert_like(l.grad.f, whole->grad.f + (size_t)p * nk * width, nk * width,
                6);
    layer_free(&l);
    tensor_free(&kv);
    tensor_free(&one);
    tensor_free(&own);
}

static void check_shared(int bias)
{
    struct dsflow_tile t = { .rows = 33,
                             .nseq = 3,
                             .width = 65,
                             .heads = 6,
                             .kv_heads = 2,
                             .head_dim = 10,
                             .ffn = 1,
                             .vocab = 1,
                             .context = 40,
                             .rms = 1,
                             .rope = 1,
                             .eps = 1e-6f };
    struct layer whole = layer_new(t, bias);
    struct tensor dq = tensor_copy(&whole.dq), dkv = tensor_copy(&whole.dkv);
    struct tensor dxn = tensor_zero(whole.x.n), dx = tensor_unset(whole.x.n);
    struct tensor dnorm = tensor_unset(whole.dnorm.n);
    const size_t nq = 60 * 65, nkv = 40 * 65;
    struct tensor shared = tensor_unset(nkv + 40), grad = tensor_zero(nkv + 40);
    const struct dsf_norm_args norm = { t, whole.args.norm_w, -1, 1 };

    memcpy(shared.f, whole.unit.f + nq, nkv * sizeof(float));
    if (bias)
        memcpy(shared.f + nkv, whole.unit.f + whole.args.b + 60,
               40 * sizeof(float));
    run_whole(&whole);
    for (int p = 0; p < 6; p++)
        check_sharing(&whole, p, &dq, &dkv, &shared, &dxn, &grad);
    assert_like(grad.f, whole.grad.f + nq, nkv, 6);
    if (bias)
        assert_like(grad.f + nkv, whole.grad.f + whole.args.b + 60, 40, 6);
    RUN(&dsf_codelet_norm_backward_input, &norm, { DSFLOW_NORM_DY, &dxn },
        { DSFLOW_NORM_X, &whole.x }, { DSFLOW_NORM_UNIT, &whole.unit },
        { DSFLOW_NORM_DX, &dx }, { DSFLOW_NORM_DNORM, &dnorm },
        { DSFLOW_NORM_DRES, &whole.dres });
    assert_like(dx.f, whole.dx.f, dx.n, 6);
    layer_free(&whole);
    tensor_free(&dq);
    tensor_free(&dkv);
    tensor_free(&dxn);
    tensor_free(&dx);
    tensor_free(&dnorm);
    tensor_free(&shared);
    tensor_free(&grad);
}

static void check_sharings(void)
{
    check_shared(0);
    check_shared(1);
}

static void keys_that_parts_share_are_the_whole_s(void **state)
{
    with_every_isa(check_sharings);
}

static void what_does_not_agree_is_refused(void **state)
{
    struct dsflow_tile t = { .rows = 6,
                             .nseq = 2,
                             .width = 16,
                             .heads = 4,
                             .kv_heads = 2,
                             .head_dim = 4,
                             .ffn = 1,
                             .vocab = 1,
                             .context = 3,
                             .eps = 1e-5f };
    struct dsflow_qkv_args a = { t, 0, -1, -1, -1, -1, -1, -1, -1 };
    size_t elems[] = { 96, 512, 96, 96, 12, 250 };
    struct dsflow_err err;
    const struct dsflow_op *op = &dsf_op_qkv_forward;

    assert_int_equal(check_elems(op, elems, 4, &a, &err), DSFLOW_OK);
    assert_int_equal(check_elems(op, elems, 5, &a, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg,
                        "qkv.forward: rope: expected no such port with these "
                        "arguments");
    a.b = 512;
    assert_int_equal(check_elems(op, elems, 4, &a, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "qkv.forward: unit: 512 fp32: expected 544");
    a.b = -1;
    a.tile.rope = 1;
    assert_int_equal(check_elems(op, elems, 4, &a, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "qkv.forward: rope: is missing");
    assert_int_equal(check_elems(op, elems, 5, &a, &err), DSFLOW_OK);
    elems[4] = 11;
    assert_int_equal(check_elems(op, elems, 5, &a, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "qkv.forward: rope: 11 fp32: expected 12");
    elems[4] = 12;
    a.k = 0;
    assert_int_equal(check_elems(op, elems, 6, &a, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "qkv.forward: v: offset -1 in a unit");
    a.v = 128;
    assert_int_equal(check_elems(op, elems, 5, &a, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "qkv.forward: shared: is missing");
    assert_int_equal(check_elems(op, elems, 6, &a, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "qkv.forward: shared: 250 fp32: expected 256");
    elems[5] = 256;
    assert_int_equal(check_elems(op, elems, 6, &a, &err), DSFLOW_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_parts_together_are_the_whole),
        cmocka_unit_test(keys_that_parts_share_are_the_whole_s),
        cmocka_unit_test(what_does_not_agree_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
