/* test_out.c - projection of the attention's output, and residual. */
#include "unit/codelets/segment.h"

struct layer {
    struct dsflow_out_args args;
    struct tensor x, att, unit, y, dy, datt, delta, grad;
    double *yy; /* of the reference */
};

static double objective(void *user)
{
    struct layer *l = user;
    const struct dsflow_out_args *a = &l->args;
    const double *u = l->unit.d;

    linear_ref((size_t)a->tile.rows, dsf_tile_qwidth(&a->tile),
               (size_t)a->tile.width, l->att.d, u + a->w,
               a->b < 0 ? NULL : u + a->b, l->yy);
    for (size_t i = 0; i < l->y.n; i++)
        l->yy[i] += l->x.d[i];
    return dot_ref(l->yy, l->dy.d, l->y.n);
}

/* delta is the product of a head's output and its gradient. */
static void check_delta(struct layer *l)
{
    size_t d = (size_t)l->args.tile.head_dim;

    tensor_from_floats(&l->datt);
    for (size_t i = 0; i < l->delta.n; i++)
        l->delta.d[i] = dot_ref(l->datt.d + i * d, l->att.d + i * d, d);
    assert_close(l->delta.f, l->delta.d, l->delta.n, 1e-6);
}

static void check_layer(struct dsflow_tile t, int bias)
{
    size_t rows = (size_t)t.rows, width = (size_t)t.width;
    size_t nq = dsf_tile_qwidth(&t), nw = dsf_round16(width * nq);
    size_t n = nw + (bias ? width : 0);
    struct layer l = {
        .args = { t, 0, bias ? (int64_t)nw : -1, 1 },
        .x = tensor_new(rows * width, 1, 1),
        .att = tensor_new(rows * nq, 1, 2),
        .unit = tensor_new(n, 1, 3),
        .y = tensor_unset(rows * width),
        .dy = tensor_new(rows * width, 1, 4),
        .datt = tensor_unset(rows * nq),
        .delta = tensor_unset(rows * (size_t)t.heads),
        .grad = tensor_new(n, 0, 5),
        .yy = zeroes(rows * width),
    };

    objective(&l);
    RUN(&dsf_codelet_out_forward, &l.args, { DSFLOW_OUT_X, &l.x },
        { DSFLOW_OUT_ATT, &l.att }, { DSFLOW_OUT_UNIT, &l.unit },
        { DSFLOW_OUT_Y, &l.y });
    assert_close(l.y.f, l.yy, l.y.n, 1e-6);
    RUN(&dsf_codelet_out_backward_input, &l.args, { DSFLOW_OUT_DY, &l.dy },
        { DSFLOW_OUT_ATT, &l.att }, { DSFLOW_OUT_UNIT, &l.unit },
        { DSFLOW_OUT_DATT, &l.datt }, { DSFLOW_OUT_DELTA, &l.delta });
    soil(&l.grad);
    RUN_FRESH(1u << DSFLOW_OUT_GRAD, &dsf_codelet_out_backward_weight, &l.args,
              { DSFLOW_OUT_DY, &l.dy }, { DSFLOW_OUT_ATT, &l.att },
              { DSFLOW_OUT_GRAD, &l.grad });
    check_delta(&l);
    check_gradient(objective, &l, l.att.d, l.datt.f, l.att.n, "att");
    check_gradient(objective, &l, l.unit.d, l.grad.f, l.unit.n, "unit");
    if (bias)
        check_gradient(objective, &l, l.unit.d + nw, l.grad.f + nw, width, "b");
    tensor_free(&l.x);
    tensor_free(&l.att);
    tensor_free(&l.unit);
    tensor_free(&l.y);
    tensor_free(&l.dy);
    tensor_free(&l.datt);
    tensor_free(&l.delta);
    tensor_free(&l.grad);
    free(l.yy);
}

static void check_shapes(void)
{
    struct dsflow_tile t = { .rows = 7,
                             .nseq = 1,
                             .width = 48,
                             .heads = 4,
                             .kv_heads = 4,
                             .head_dim = 12,
                             .ffn = 1,
                             .vocab = 1,
                             .context = 64,
                             .eps = 1e-5f };

    check_layer(t, 1);
    t.rows = 33;
    t.width = 65;
    t.head_dim = 17;
    check_layer(t, 0);
    t.rows = 1;
    check_layer(t, 1);
}

static void outputs_and_gradients_are_those_of_double_precision(void **state)
{
    with_every_isa(check_shapes);
}

/* datt and delta in double precision, of numbers that have no rounding left. */
static void back_ref(const struct layer *l, double *datt, double *delta)
{
    const struct dsflow_tile *t = &l->args.tile;
    size_t width = (size_t)t->width, nq = dsf_tile_qwidth(t);
    size_t d = (size_t)t->head_dim;

    for (size_t i = 0; i < l->att.n; i++) {
        const double *dy = l->dy.d + i / nq * width, *w = l->unit.d + i % nq;

        datt[i] = 0;
        for (size_t j = 0; j < width; j++)
            datt[i] += dy[j] * w[j * nq];
        delta[i / d] += datt[i] * l->att.d[i];
    }
}

/* What is stored in bf16 or fp16 is off by half of its last bit at most; sums
 * are not. */
static void check_narrow(struct dsflow_tile t, int bias, int residual,
                         enum dsflow_dtype type, enum dsflow_dtype y_type)
{
    const double once = type == DSFLOW_BF16 ? 0x1.01p-9 : 0x1.01p-12;
    size_t rows = (size_t)t.rows, width = (size_t)t.width;
    size_t nq = dsf_tile_qwidth(&t), nw = dsf_round16(width * nq);
    size_t n = nw + (bias ? width : 0);
    struct layer l = {
        .args = { t, 0, bias ? (int64_t)nw : -1, residual },
        .x = tensor_new(rows * width, residual, 1),
        .att = tensor_new(rows * nq, 1, 2),
        .unit = tensor_new(n, 1, 3),
        .y = tensor_unset(rows * width),
        .dy = tensor_new(rows * width, 1, 4),
        .datt = tensor_unset(rows * nq),
        .delta = tensor_unset(rows * (size_t)t.heads),
        .grad = tensor_new(n, 0, 5),
        .yy = zeroes(rows * width),
    };
    struct tensor *const all[] = { &l.x, &l.att, &l.unit, &l.dy };
    double *datt = zeroes(l.datt.n), *delta = zeroes(l.delta.n);
    const struct on forward[] = { { DSFLOW_OUT_ATT, &l.att, type },
                                  { DSFLOW_OUT_UNIT, &l.unit, type },
                                  { DSFLOW_OUT_Y, &l.y, y_type },
                                  { DSFLOW_OUT_X, &l.x, type } };

    for (size_t i = 0; i < 4; i++)
        tensor_round(all[i], type);
    objective(&l);
    run(&dsf_codelet_out_forward, &l.args, 0, residual ? 4 : 3, forward);
    assert_close(l.y.f, l.yy, l.y.n, y_type == DSFLOW_FP32 ? 1e-6 : once);
    back_ref(&l, datt, delta);
    RUN(&dsf_codelet_out_backward_input, &l.args,
        { DSFLOW_OUT_DY, &l.dy, type }, { DSFLOW_OUT_ATT, &l.att, type },
        { DSFLOW_OUT_UNIT, &l.unit, type }, { DSFLOW_OUT_DATT, &l.datt, type },
        { DSFLOW_OUT_DELTA, &l.delta });
    assert_close(l.datt.f, datt, l.datt.n, once);
    assert_close(l.delta.f, delta, l.delta.n, 2e-6);
    soil(&l.grad);
    RUN_FRESH(1u << DSFLOW_OUT_GRAD, &dsf_codelet_out_backward_weight, &l.args,
              { DSFLOW_OUT_DY, &l.dy, type }, { DSFLOW_OUT_ATT, &l.att, type },
              { DSFLOW_OUT_GRAD, &l.grad });
    /* The second time, it is added to. */
    RUN(&dsf_codelet_out_backward_weight, &l.args,
        { DSFLOW_OUT_DY, &l.dy, type }, { DSFLOW_OUT_ATT, &l.att, type },
        { DSFLOW_OUT_GRAD, &l.grad });
    for (size_t i = 0; i < n; i++)
        l.grad.f[i] /= 2;
    check_gradient(objective, &l, l.unit.d, l.grad.f, l.unit.n, "unit");
    for (size_t i = 0; i < 4; i++)
        tensor_free(all[i]);
    tensor_free(&l.y);
    tensor_free(&l.datt);
    tensor_free(&l.delta);
    tensor_free(&l.grad);
    free(l.yy);
    free(datt);
    free(delta);
}

static void check_narrow_shapes(void)
{
    static const enum dsflow_dtype types[] = { DSFLOW_BF16, DSFLOW_FP16 };
    struct dsflow_tile t = { .nseq = 1,
                             .heads = 4,
                             .kv_heads = 4,
                             .head_dim = 12,
                             .ffn = 1,
                             .vocab = 1,
                             .context = 64,
                             .eps = 1e-5f };

    for (size_t i = 0; i < 2; i++) {
        t.rows = 7;
        t.width = 48;
        t.head_dim = 12;
        check_narrow(t, 1, 1, types[i], types[i]);
        /* Of a part; and in front of segments in fp32. */
        check_narrow(t, 0, 0, types[i], DSFLOW_FP32);
        check_narrow(t, 1, 1, types[i], DSFLOW_FP32);
        t.rows = 33;
        t.width = 65;
        t.head_dim = 17;
        check_narrow(t, 0, 1, types[i], types[i]);
        check_narrow(t, 0, 1, types[i], DSFLOW_FP32);
        check_narrow(t, 0, 0, types[i], types[i]);
        t.rows = 1;
        check_narrow(t, 1, 1, types[i], types[i]);
    }
}

static void narrow_results_are_rounded_once(void **state)
{
    with_every_isa(check_narrow_shapes);
}

static void what_does_not_agree_is_refused(void **state)
{
    struct dsflow_tile t = { .rows = 2,
                             .nseq = 1,
                             .width = 8,
                             .heads = 2,
                             .kv_heads = 1,
                             .head_dim = 4,
                             .ffn = 1,
                             .vocab = 1,
                             .context = 4,
                             .eps = 1e-5f };
    struct dsflow_out_args a = { t, 0, 64, 1 };
    size_t forward[] = { 16, 16, 72, 16 };
    size_t back[] = { 16, 72, 16, 16, 4 };
    size_t weight[] = { 16, 16, 71 };
    struct dsflow_err err;

    assert_int_equal(check_elems(&dsf_op_out_forward, forward, 4, &a, &err), 0);
    assert_int_equal(check_elems(&dsf_op_out_backward_input, back, 5, &a, &err),
                     0);
    assert_int_equal(
        check_elems(&dsf_op_out_backward_weight, weight, 3, &a, &err),
        DSFLOW_EINVAL);
    assert_string_equal(err.msg,
                        "out.backward_weight: grad: 71 fp32: expected 72");
    back[4] = 3;
    assert_int_equal(check_elems(&dsf_op_out_backward_input, back, 5, &a, &err),
                     DSFLOW_EINVAL);
    assert_string_equal(err.msg,
                        "out.backward_input: delta: 3 fp32: expected 4");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outputs_and_gradients_are_those_of_double_precision),
        cmocka_unit_test(narrow_results_are_rounded_once),
        cmocka_unit_test(what_does_not_agree_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
