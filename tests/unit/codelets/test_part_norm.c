/* test_part_norm.c - norm and residual of the rows of one tensor rank. */
#include "unit/codelets/segment.h"

struct layer {
    struct dsf_norm_args args;
    struct tensor x, unit, y, dy, dres, dx, dnorm, grad;
    double *yy; /* of the reference */
};

static struct layer layer_new(struct dsflow_tile t)
{
    size_t width = (size_t)t.width, x = dsf_tile_x(&t), at = 0;
    struct layer l = { .args.tile = t };

    place(&at, 16); /* something else of the unit */
    l.args.norm_w = (int64_t)place(&at, width);
    l.args.norm_b = t.rms ? -1 : (int64_t)place(&at, width);
    l.x = tensor_new(x, 2, 1);
    l.unit = tensor_new(at, 0.5, 2);
    l.y = tensor_unset(x);
    l.dy = tensor_new(x, 1, 3);
    l.dres = tensor_new(x, 1, 4);
    l.dx = tensor_unset(x);
    l.dnorm = tensor_unset(2 * width);
    l.grad = tensor_new(at, 0, 5);
    l.yy = zeroes(x);
    return l;
}

static void layer_free(struct layer *l)
{
    tensor_free(&l->x);
    tensor_free(&l->unit);
    tensor_free(&l->y);
    tensor_free(&l->dy);
    tensor_free(&l->dres);
    tensor_free(&l->dx);
    tensor_free(&l->dnorm);
    tensor_free(&l->grad);
    free(l->yy);
}

static double objective(void *user)
{
    struct layer *l = user;
    const struct dsf_norm_args *a = &l->args;
    const double *u = l->unit.d;

    norm_ref(&a->tile, l->x.d, u + a->norm_w,
             a->norm_b < 0 ? NULL : u + a->norm_b, l->yy);
    return dot_ref(l->yy, l->dy.d, l->y.n) + dot_ref(l->x.d, l->dres.d, l->x.n);
}

static void check_layer(struct dsflow_tile t)
{
    struct layer l = layer_new(t);
    const struct dsf_norm_args *a = &l.args;
    struct dsf_norm_args added = *a;

    added.residual = 1;
    objective(&l);
    RUN(&dsf_codelet_norm_forward, a, { DSFLOW_NORM_X, &l.x },
        { DSFLOW_NORM_UNIT, &l.unit }, { DSFLOW_NORM_Y, &l.y });
    assert_close(l.y.f, l.yy, l.y.n, 1e-6);
    RUN(&dsf_codelet_norm_backward_input, &added, { DSFLOW_NORM_DY, &l.dy },
        { DSFLOW_NORM_X, &l.x }, { DSFLOW_NORM_UNIT, &l.unit },
        { DSFLOW_NORM_DX, &l.dx }, { DSFLOW_NORM_DNORM, &l.dnorm },
        { DSFLOW_NORM_DRES, &l.dres });
    memset(l.grad.f, 0xff, l.grad.n * sizeof(float));
    RUN_FRESH(1u << DSFLOW_NORM_GRAD, &dsf_codelet_norm_backward_weight, a,
              { DSFLOW_NORM_DNORM, &l.dnorm }, { DSFLOW_NORM_GRAD, &l.grad });
    check_gradient(objective, &l, l.x.d, l.dx.f, l.x.n, "x");
    check_gradient(objective, &l, l.unit.d, l.grad.f, l.unit.n, "unit");

    /* Without a residual, and what was in grad stays. */
    memset(l.dres.d, 0, l.dres.n * sizeof(double));
    RUN(&dsf_codelet_norm_backward_input, a, { DSFLOW_NORM_DY, &l.dy },
        { DSFLOW_NORM_X, &l.x }, { DSFLOW_NORM_UNIT, &l.unit },
        { DSFLOW_NORM_DX, &l.dx }, { DSFLOW_NORM_DNORM, &l.dnorm });
    RUN(&dsf_codelet_norm_backward_weight, a, { DSFLOW_NORM_DNORM, &l.dnorm },
        { DSFLOW_NORM_GRAD, &l.grad });
    check_gradient(objective, &l, l.x.d, l.dx.f, l.x.n, "x alone");
    for (size_t i = 0; i < l.grad.n; i++)
        l.grad.f[i] /= 2;
    check_gradient(objective, &l, l.unit.d, l.grad.f, l.unit.n, "unit twice");
    layer_free(&l);
}

static void check_shapes(void)
{
    /* Rows of several sequences, and not whole ones. */
    struct dsflow_tile t = { .rows = 7, .nseq = 2, .width = 48, .eps = 1e-5f };

    check_layer(t);
    t.rows = 33;
    t.width = 65;
    t.rms = 1;
    check_layer(t);
    t.rows = 1;
    t.width = 3;
    check_layer(t);
}

static void a_norm_and_its_gradients_are_those_of_double_precision(void **state)
{
    with_every_isa(check_shapes);
}

static void check_residual(int32_t rows, int32_t width, int bias)
{
    const struct dsf_residual_args a = { { .rows = rows, .width = width },
                                         bias ? 16 : -1 };
    const size_t w = (size_t)width, n = (size_t)rows * w;
    struct tensor x = tensor_new(n, 2, 1), in = tensor_new(n, 1, 2);
    struct tensor unit = tensor_new(16 + w, 1, 3), y = tensor_unset(n);
    struct tensor grad = tensor_new(16 + w, 1, 4);

    if (bias)
        RUN(&dsf_codelet_residual_forward, &a, { DSFLOW_RESIDUAL_X, &x },
            { DSFLOW_RESIDUAL_IN, &in }, { DSFLOW_RESIDUAL_Y, &y },
            { DSFLOW_RESIDUAL_UNIT, &unit });
    else
        RUN(&dsf_codelet_residual_forward, &a, { DSFLOW_RESIDUAL_X, &x },
            { DSFLOW_RESIDUAL_IN, &in }, { DSFLOW_RESIDUAL_Y, &y });
    for (size_t i = 0; i < n; i++) {
        float b = bias ? unit.f[16 + i % w] : 0;

        assert_true(y.f[i] == (x.f[i] + b) + in.f[i]);
    }
    if (bias) {
        RUN(&dsf_codelet_residual_backward_weight, &a,
            { DSFLOW_RESIDUAL_DY, &in }, { DSFLOW_RESIDUAL_GRAD, &grad });
        for (size_t i = 0; i < n; i++)
            grad.d[16 + i % w] += in.d[i];
        assert_close(grad.f, grad.d, grad.n, 1e-6);
    }
    tensor_free(&x);
    tensor_free(&in);
    tensor_free(&unit);
    tensor_free(&y);
    tensor_free(&grad);
}

static void check_residuals(void)
{
    check_residual(5, 48, 1);
    check_residual(33, 65, 0);
    check_residual(1, 3, 1);
}

static void a_residual_is_input_and_bias_and_product(void **state)
{
    with_every_isa(check_residuals);
}

static void what_does_not_agree_is_refused(void **state)
{
    struct dsf_norm_args norm = {
        { .rows = 4, .width = 8, .eps = 1e-5f }, 0, 8, 0
    };
    struct dsf_residual_args residual = { norm.tile, -1 };
    size_t elems[] = { 32, 16, 32, 32 };
    size_t sizes[] = { 32, 32, 32, 1 };
    struct dsflow_err err;

    assert_int_equal(check_elems(&dsf_op_norm_forward, elems, 3, &norm, &err),
                     0);
    elems[1] = 15;
    assert_int_equal(check_elems(&dsf_op_norm_forward, elems, 3, &norm, &err),
                     DSFLOW_EINVAL);
    assert_string_equal(err.msg, "norm.forward: unit: 15 fp32: expected 16");
    norm.tile.eps = NAN;
    assert_int_equal(check_elems(&dsf_op_norm_forward, elems, 3, &norm, &err),
                     DSFLOW_EINVAL);
    norm.tile.rows = 0;
    assert_int_equal(check_elems(&dsf_op_norm_forward, elems, 3, &norm, &err),
                     DSFLOW_EINVAL);
    assert_string_equal(err.msg,
                        "norm.forward: rows: 0: expected 1 to 16777216");

    /* Only a forward without a bias has nothing in the unit. */
    assert_int_equal(
        check_elems(&dsf_op_residual_forward, sizes, 3, &residual, &err), 0);
    assert_int_equal(
        check_elems(&dsf_op_residual_forward, sizes, 4, &residual, &err),
        DSFLOW_EINVAL);
    assert_string_equal(err.msg,
                        "residual.forward: unit: expected no such port with "
                        "these arguments");
    residual.b = 0;
    assert_int_equal(
        check_elems(&dsf_op_residual_forward, sizes, 4, &residual, &err),
        DSFLOW_EINVAL);
    assert_string_equal(err.msg, "residual.forward: unit: 1 fp32: expected 8");
    residual.b = -1;
    assert_int_equal(check_elems(&dsf_op_residual_backward_weight, sizes, 2,
                                 &residual, &err),
                     DSFLOW_EINVAL);
    assert_string_equal(err.msg,
                        "residual.backward_weight: b: offset -1 in a unit");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            a_norm_and_its_gradients_are_those_of_double_precision),
        cmocka_unit_test(a_residual_is_input_and_bias_and_product),
        cmocka_unit_test(what_does_not_agree_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
