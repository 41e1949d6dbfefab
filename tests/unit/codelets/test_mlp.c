/* test_mlp.c - norm, two projections and an activation, residual. */
#include "unit/codelets/segment.h"

struct layer {
    struct dsflow_mlp_args args;
    struct tensor x, unit, h, y, dy, dh, dx, dnorm, grad;
    double *yh, *yact, *yy; /* of the reference */
};

static struct layer layer_new(struct dsflow_tile t, int bias)
{
    struct layer l = { .args.tile = t };
    size_t width = (size_t)t.width, rows = (size_t)t.rows, at = 0;
    size_t ffn = (size_t)t.ffn, nh = dsf_tile_hwidth(&t);

    l.args.w1 = (int64_t)place(&at, nh * width);
    l.args.w2 = (int64_t)place(&at, ffn * width);
    l.args.b1 = bias ? (int64_t)place(&at, nh) : -1;
    l.args.b2 = bias ? (int64_t)place(&at, width) : -1;
    l.args.norm_w = (int64_t)place(&at, width);
    l.args.norm_b = t.rms ? -1 : (int64_t)place(&at, width);
    l.x = tensor_new(rows * width, 2, 1);
    l.unit = tensor_new(at, 0.5, 2);
    l.h = tensor_unset(rows * nh);
    l.y = tensor_unset(rows * width);
    l.dy = tensor_new(rows * width, 1, 3);
    l.dh = tensor_unset(rows * nh);
    l.dx = tensor_unset(rows * width);
    l.dnorm = tensor_unset(2 * width);
    l.grad = tensor_new(at, 0, 4);
    l.yh = zeroes(rows * nh);
    l.yact = zeroes(rows * ffn);
    l.yy = zeroes(rows * width);
    return l;
}

static void layer_free(struct layer *l)
{
    tensor_free(&l->x);
    tensor_free(&l->unit);
    tensor_free(&l->h);
    tensor_free(&l->y);
    tensor_free(&l->dy);
    tensor_free(&l->dh);
    tensor_free(&l->dx);
    tensor_free(&l->dnorm);
    tensor_free(&l->grad);
    free(l->yh);
    free(l->yact);
    free(l->yy);
}

static double activate(const struct dsflow_tile *t, const double *h, size_t i)
{
    double g = h[i];

    if (t->swiglu)
        return g / (1 + exp(-g)) * h[(size_t)t->ffn + i];
    return 0.5 * g *
           (1 + tanh(sqrt(2 / acos(-1)) * (g + 0.044715 * g * g * g)));
}

static double objective(void *user)
{
    struct layer *l = user;
    const struct dsflow_mlp_args *a = &l->args;
    const struct dsflow_tile *t = &a->tile;
    const double *u = l->unit.d;
    size_t width = (size_t)t->width, rows = (size_t)t->rows;
    size_t ffn = (size_t)t->ffn, nh = dsf_tile_hwidth(t);
    double *normed = zeroes(rows * width);

    norm_ref(t, l->x.d, u + a->norm_w, a->norm_b < 0 ? NULL : u + a->norm_b,
             normed);
    linear_ref(rows, width, nh, normed, u + a->w1, a->b1 < 0 ? NULL : u + a->b1,
               l->yh);
    for (size_t r = 0; r < rows; r++) {
        for (size_t i = 0; i < ffn; i++)
            l->yact[r * ffn + i] = activate(t, l->yh + r * nh, i);
    }
    linear_ref(rows, ffn, width, l->yact, u + a->w2,
               a->b2 < 0 ? NULL : u + a->b2, l->yy);
    for (size_t i = 0; i < rows * width; i++)
        l->yy[i] += l->x.d[i];
    free(normed);
    return dot_ref(l->yy, l->dy.d, l->y.n);
}

static void check_layer(struct dsflow_tile t, int bias)
{
    struct layer l = layer_new(t, bias);
    struct tensor again = tensor_new(l.h.n, 1, 9);
    const struct dsflow_mlp_args *a = &l.args;
    const struct {
        const char *name;
        int64_t at;
        size_t n;
    } small[] = {
        { "b1", a->b1, dsf_tile_hwidth(&t) },
        { "b2", a->b2, (size_t)t.width },
        { "norm_w", a->norm_w, (size_t)t.width },
        { "norm_b", a->norm_b, (size_t)t.width },
    };

    objective(&l);
    RUN(&dsf_codelet_mlp_forward, a, { DSFLOW_MLP_X, &l.x },
        { DSFLOW_MLP_UNIT, &l.unit }, { DSFLOW_MLP_H, &l.h },
        { DSFLOW_MLP_Y, &l.y });
    assert_close(l.h.f, l.yh, l.h.n, 1e-6);
    RUN(&dsf_codelet_mlp_hidden, a, { DSFLOW_MLP_X, &l.x },
        { DSFLOW_MLP_UNIT, &l.unit }, { DSFLOW_MLP_H, &again });
    assert_memory_equal(again.f, l.h.f, l.h.n * sizeof(float));
    tensor_free(&again);
    assert_close(l.y.f, l.yy, l.y.n, 1e-6);
    RUN(&dsf_codelet_mlp_backward_input, a, { DSFLOW_MLP_DY, &l.dy },
        { DSFLOW_MLP_X, &l.x }, { DSFLOW_MLP_UNIT, &l.unit },
        { DSFLOW_MLP_H, &l.h }, { DSFLOW_MLP_DH, &l.dh },
        { DSFLOW_MLP_DX, &l.dx }, { DSFLOW_MLP_DNORM, &l.dnorm });
    assert_close(l.h.f, l.yact, (size_t)t.rows * (size_t)t.ffn, 2e-6);
    soil(&l.grad);
    RUN_FRESH(1u << DSFLOW_MLP_GRAD, &dsf_codelet_mlp_backward_weight, a,
              { DSFLOW_MLP_DY, &l.dy }, { DSFLOW_MLP_X, &l.x },
              { DSFLOW_MLP_UNIT, &l.unit }, { DSFLOW_MLP_H, &l.h },
              { DSFLOW_MLP_DH, &l.dh }, { DSFLOW_MLP_DNORM, &l.dnorm },
              { DSFLOW_MLP_GRAD, &l.grad });
    check_gradient(objective, &l, l.x.d, l.dx.f, l.x.n, "x");
    check_gradient(objective, &l, l.unit.d, l.grad.f, l.unit.n, "unit");
    for (size_t i = 0; i < 4; i++) {
        if (small[i].at >= 0)
            check_gradient(objective, &l, l.unit.d + small[i].at,
                           l.grad.f + small[i].at, small[i].n, small[i].name);
    }
    layer_free(&l);
}

static void check_shapes(void)
{
    struct dsflow_tile t = { .rows = 7,
                             .nseq = 1,
                             .width = 48,
                             .heads = 1,
                             .kv_heads = 1,
                             .head_dim = 1,
                             .ffn = 96,
                             .vocab = 1,
                             .context = 64,
                             .eps = 1e-5f };

    check_layer(t, 1);
    t.rows = 33;
    t.width = 65;
    t.ffn = 31;
    check_layer(t, 0);
    t.swiglu = 1;
    t.rms = 1;
    check_layer(t, 0);
    t.rows = 1;
    t.ffn = 80;
    check_layer(t, 1);
    t.rows = 16;
    t.width = 3;
    t.ffn = 1;
    check_layer(t, 1);
}

static void outputs_and_gradients_are_those_of_double_precision(void **state)
{
    with_every_isa(check_shapes);
}

static void what_does_not_agree_is_refused(void **state)
{
    struct dsflow_tile t = { .rows = 4,
                             .nseq = 1,
                             .width = 8,
                             .heads = 1,
                             .kv_heads = 1,
                             .head_dim = 1,
                             .ffn = 16,
                             .vocab = 1,
                             .context = 4,
                             .eps = 1e-5f };
    struct dsflow_mlp_args a = { t, 0, -1, 128, -1, 256, -1 };
    size_t elems[] = { 32, 264, 64, 32 };
    struct dsflow_err err;
    const struct dsflow_op *op = &dsf_op_mlp_forward;

    assert_int_equal(check_elems(op, elems, 4, &a, &err), DSFLOW_OK);
    assert_int_equal(check_elems(op, elems, 3, &a, &err), DSFLOW_EINVAL);
    a.tile.swiglu = 1;
    assert_int_equal(check_elems(op, elems, 4, &a, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "mlp.forward: h: 64 fp32: expected 128");
    a.tile.swiglu = 0;
    a.b2 = 264;
    assert_int_equal(check_elems(op, elems, 4, &a, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "mlp.forward: unit: 264 fp32: expected 272");
    a.b2 = -2;
    assert_int_equal(check_elems(op, elems, 4, &a, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "mlp.forward: b2: offset -2 in a unit");
    a.b2 = -1;
    a.tile.ffn = 0;
    assert_int_equal(check_elems(op, elems, 4, &a, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "mlp.forward: ffn: 0: expected 1 to 16777216");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outputs_and_gradients_are_those_of_double_precision),
        cmocka_unit_test(what_does_not_agree_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
