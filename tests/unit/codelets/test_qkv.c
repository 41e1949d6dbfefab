/* test_qkv.c - norm and projection to queries, keys and values. */
#include "unit/codelets/segment.h"

struct layer {
    struct dsflow_qkv_args args;
    struct tensor x, unit, q, kv, dq, dkv, dres, dx, dnorm, grad, rope;
    double *yq, *ykv; /* of the reference */
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
    l.grad = tensor_new(at, 0, 6);
    l.rope = tensor_new((size_t)t.context * (size_t)t.head_dim, 1, 7);
    for (size_t i = 0; i + 1 < l.rope.n; i += 2) {
        double angle = l.rope.d[i] * 3;

        l.rope.f[i] = (float)cos(angle);
        l.rope.f[i + 1] = (float)sin(angle);
    }
    tensor_from_floats(&l.rope);
    l.yq = zeroes(rows * nq);
    l.ykv = zeroes(rows * nkv);
    return l;
}

static void layer_free(struct layer *l)
{
    tensor_free(&l->x);
    tensor_free(&l->unit);
    tensor_free(&l->q);
    tensor_free(&l->kv);
    tensor_free(&l->dq);
    tensor_free(&l->dkv);
    tensor_free(&l->dres);
    tensor_free(&l->dx);
    tensor_free(&l->dnorm);
    tensor_free(&l->grad);
    tensor_free(&l->rope);
    free(l->yq);
    free(l->ykv);
}

static void rotate_ref(const struct layer *l, double *x, size_t heads,
                       size_t ld)
{
    const struct dsflow_tile *t = &l->args.tile;
    size_t d = (size_t)t->head_dim, length = dsf_tile_length(t);

    for (size_t r = 0; r < (size_t)t->rows; r++) {
        const double *table = l->rope.d + ((size_t)t->pos + r % length) * d;

        for (size_t h = 0; h < heads; h++) {
            for (size_t i = 0; i < d / 2; i++) {
                double *a = x + r * ld + h * d + i, *b = a + d / 2;
                double c = table[2 * i], s = table[2 * i + 1], u = *a, v = *b;

                *a = u * c - v * s;
                *b = v * c + u * s;
            }
        }
    }
}

static void forward_ref(struct layer *l)
{
    const struct dsflow_qkv_args *a = &l->args;
    const struct dsflow_tile *t = &a->tile;
    const double *u = l->unit.d, *b = a->b < 0 ? NULL : u + a->b;
    size_t width = (size_t)t->width, rows = (size_t)t->rows;
    size_t nq = dsf_tile_qwidth(t), nkv = dsf_tile_kvwidth(t);
    double *normed = zeroes(rows * width);

    norm_ref(t, l->x.d, u + a->norm_w, a->norm_b < 0 ? NULL : u + a->norm_b,
             normed);
    linear_ref(rows, width, nq, normed, u + a->w, b, l->yq);
    linear_ref(rows, width, nkv, normed, u + a->w + nq * width, b ? b + nq : b,
               l->ykv);
    if (t->rope) {
        rotate_ref(l, l->yq, (size_t)t->heads, nq);
        rotate_ref(l, l->ykv, (size_t)t->kv_heads, nkv);
    }
    free(normed);
}

static double objective(void *user)
{
    struct layer *l = user;

    forward_ref(l);
    return dot_ref(l->yq, l->dq.d, l->q.n) +
           dot_ref(l->ykv, l->dkv.d, l->kv.n) +
           dot_ref(l->x.d, l->dres.d, l->x.n);
}

static void check_layer(struct dsflow_tile t, int bias)
{
    struct layer l = layer_new(t, bias);
    const struct dsflow_qkv_args *a = &l.args;

    forward_ref(&l);
    if (t.rope)
        RUN(&dsf_codelet_qkv_forward, a, { DSFLOW_QKV_X, &l.x },
            { DSFLOW_QKV_UNIT, &l.unit }, { DSFLOW_QKV_Q, &l.q },
            { DSFLOW_QKV_KV, &l.kv }, { DSFLOW_QKV_ROPE, &l.rope });
    else
        RUN(&dsf_codelet_qkv_forward, a, { DSFLOW_QKV_X, &l.x },
            { DSFLOW_QKV_UNIT, &l.unit }, { DSFLOW_QKV_Q, &l.q },
            { DSFLOW_QKV_KV, &l.kv });
    assert_close(l.q.f, l.yq, l.q.n, 1e-6);
    assert_close(l.kv.f, l.ykv, l.kv.n, 1e-6);

    if (t.rope)
        RUN(&dsf_codelet_qkv_backward_input, a, { DSFLOW_QKV_DQ, &l.dq },
            { DSFLOW_QKV_DKV, &l.dkv }, { DSFLOW_QKV_X, &l.x },
            { DSFLOW_QKV_UNIT, &l.unit }, { DSFLOW_QKV_DRES, &l.dres },
            { DSFLOW_QKV_DX, &l.dx }, { DSFLOW_QKV_DNORM, &l.dnorm },
            { DSFLOW_QKV_ROPE, &l.rope });
    else
        RUN(&dsf_codelet_qkv_backward_input, a, { DSFLOW_QKV_DQ, &l.dq },
            { DSFLOW_QKV_DKV, &l.dkv }, { DSFLOW_QKV_X, &l.x },
            { DSFLOW_QKV_UNIT, &l.unit }, { DSFLOW_QKV_DRES, &l.dres },
            { DSFLOW_QKV_DX, &l.dx }, { DSFLOW_QKV_DNORM, &l.dnorm });
    soil(&l.grad);
    RUN_FRESH(1u << DSFLOW_QKV_GRAD, &dsf_codelet_qkv_backward_weight, a,
              { DSFLOW_QKV_DQ, &l.dq }, { DSFLOW_QKV_DKV, &l.dkv },
              { DSFLOW_QKV_X, &l.x }, { DSFLOW_QKV_UNIT, &l.unit },
              { DSFLOW_QKV_DNORM, &l.dnorm }, { DSFLOW_QKV_GRAD, &l.grad });
    check_gradient(objective, &l, l.x.d, l.dx.f, l.x.n, "x");
    check_gradient(objective, &l, l.unit.d, l.grad.f, l.unit.n, "unit");
    check_gradient(objective, &l, l.unit.d + a->norm_w, l.grad.f + a->norm_w,
                   (size_t)t.width, "norm_w");
    if (a->norm_b >= 0)
        check_gradient(objective, &l, l.unit.d + a->norm_b,
                       l.grad.f + a->norm_b, (size_t)t.width, "norm_b");
    if (a->b >= 0)
        check_gradient(objective, &l, l.unit.d + a->b, l.grad.f + a->b,
                       dsf_tile_qwidth(&t) + dsf_tile_kvwidth(&t), "b");
    layer_free(&l);
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

    check_layer(gpt2, 1);
    check_layer(llama, 0);
    llama.rows = 1;
    llama.nseq = 1;
    llama.pos = 39;
    check_layer(llama, 1);
    llama.rows = 9;
    llama.pos = 4;
    llama.head_dim = 80;
    check_layer(llama, 0);
}

static void outputs_and_gradients_are_those_of_double_precision(void **state)
{
    with_every_isa(check_shapes);
}

static void a_gradient_is_added_to_what_was_there(void **state)
{
    struct dsflow_tile t = { .rows = 5,
                             .nseq = 1,
                             .width = 17,
                             .heads = 1,
                             .kv_heads = 1,
                             .head_dim = 4,
                             .ffn = 1,
                             .vocab = 1,
                             .context = 8,
                             .eps = 1e-5f };
    struct layer once = layer_new(t, 1), twice = layer_new(t, 1);

    for (int i = 0; i < 3; i++) {
        struct layer *l = i == 0 ? &once : &twice;

        memcpy(l->dnorm.f, l->x.f, l->dnorm.n * sizeof(float));
        RUN(&dsf_codelet_qkv_backward_weight, &l->args,
            { DSFLOW_QKV_DQ, &l->dq }, { DSFLOW_QKV_DKV, &l->dkv },
            { DSFLOW_QKV_X, &l->x }, { DSFLOW_QKV_UNIT, &l->unit },
            { DSFLOW_QKV_DNORM, &l->dnorm }, { DSFLOW_QKV_GRAD, &l->grad });
    }
    for (size_t i = 0; i < once.grad.n; i++)
        once.grad.d[i] = 2 * (double)once.grad.f[i];
    assert_close(twice.grad.f, once.grad.d, once.grad.n, 1e-6);
    layer_free(&once);
    layer_free(&twice);
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
    struct dsflow_qkv_args a = { t, 0, -1, 512, -1, -1, -1, -1, -1 };
    size_t elems[] = { 96, 528, 96, 96, 262144 };
    struct dsflow_err err;
    const struct dsflow_op *op = &dsf_op_qkv_forward;

    assert_int_equal(check_elems(op, elems, 4, &a, &err), DSFLOW_OK);
    assert_int_equal(check_elems(op, elems, 5, &a, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg,
                        "qkv.forward: rope: expected no such port with these "
                        "arguments");
    elems[1] = 527;
    assert_int_equal(check_elems(op, elems, 4, &a, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "qkv.forward: unit: 527 fp32: expected 528");
    elems[1] = 528;
    a.tile.kv_heads = 3;
    assert_int_equal(check_elems(op, elems, 4, &a, &err), DSFLOW_EINVAL);
    assert_string_equal(
        err.msg, "qkv.forward: kv_heads: 3: expected a divisor of 4 heads");
    a.tile.kv_heads = 2;
    a.tile.context = 2;
    assert_int_equal(check_elems(op, elems, 4, &a, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg,
                        "qkv.forward: tokens 0 to 3 in a context of 2");
    a.tile.context = 3;
    a.tile.rope = 1;
    assert_int_equal(check_elems(op, elems, 4, &a, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "qkv.forward: rope: is missing");
    a.tile.rope = 0;
    a.tile.eps = NAN;
    assert_int_equal(check_elems(op, elems, 4, &a, &err), DSFLOW_EINVAL);
    a.tile.eps = 1e-5f;
    a.norm_w = -2;
    assert_int_equal(check_elems(op, elems, 4, &a, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "qkv.forward: norm_w: offset -2 in a unit");
    a.norm_w = 512;
    a.tile.rows = 7;
    assert_int_equal(check_elems(op, elems, 4, &a, &err), DSFLOW_EINVAL);
    assert_string_equal(
        err.msg, "qkv.forward: 7 rows for 2 sequences: expected a multiple");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outputs_and_gradients_are_those_of_double_precision),
        cmocka_unit_test(a_gradient_is_added_to_what_was_there),
        cmocka_unit_test(what_does_not_agree_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
