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
        cmocka_unit_test(what_does_not_agree_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
