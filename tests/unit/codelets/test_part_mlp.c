/* test_part_mlp.c - out and mlp by heads and columns, with the residual that
 * is added once: what the parts give together is what the whole gives. */
#include "unit/codelets/part.h"

struct mlp {
    struct dsflow_mlp_args args;
    struct tensor x, unit, h, y, dy, dh, dx, dnorm, grad, xn;
};

static struct mlp mlp_new(struct dsflow_tile t, int bias)
{
    struct mlp l = { .args.tile = t };
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
    l.grad = tensor_zero(at);
    l.xn = tensor_unset(rows * width);
    return l;
}

static void mlp_free(struct mlp *l)
{
    struct tensor *all[] = { &l->x,  &l->unit, &l->h,     &l->y,    &l->dy,
                             &l->dh, &l->dx,   &l->dnorm, &l->grad, &l->xn };

    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        tensor_free(all[i]);
}

/* Of a unit of the whole, what part `p` has: rows of W1 (of gate, and of up)
 * and of b1, columns of W2. */
static void take_unit(const struct mlp *whole, struct mlp *l, int parts, int p,
                      float *to, const float *from)
{
    const struct dsflow_mlp_args *a = &l->args, *b = &whole->args;
    size_t width = (size_t)a->tile.width, ffn = (size_t)a->tile.ffn;
    size_t all = ffn * (size_t)parts, at = ffn * (size_t)p;

    for (size_t g = 0; g < (a->tile.swiglu ? 2 : 1); g++) {
        copy_block(to + a->w1 + g * ffn * width, width,
                   from + b->w1 + (g * all + at) * width, width, ffn, width);
        if (a->b1 >= 0)
            copy_block(to + a->b1 + g * ffn, 1, from + b->b1 + g * all + at, 1,
                       ffn, 1);
    }
    copy_block(to + a->w2, ffn, from + b->w2 + at, all, width, ffn);
}

/* Columns `p` of h or dh (of gate, and of up) or of act. */
static void take_columns(struct tensor *to, const float *from, size_t rows,
                         size_t groups, size_t ffn, int parts, int p)
{
    for (size_t g = 0; g < groups; g++)
        copy_block(to->f + g * ffn, groups * ffn,
                   from + g * ffn * (size_t)parts + ffn * (size_t)p,
                   groups * ffn * (size_t)parts, rows, ffn);
}

static void check_columns(const struct tensor *part, const float *whole,
                          size_t rows, size_t groups, size_t ffn, int parts,
                          int p)
{
    struct tensor own = tensor_zero(rows * groups * ffn);

    take_columns(&own, whole, rows, groups, ffn, parts, p);
    assert_like(part->f, own.f, own.n, parts);
    tensor_free(&own);
}

/* y and dxn: the sums over the parts so far. */
static void check_mlp_part(struct mlp *whole, struct mlp *l, int parts, int p,
                           const struct tensor *h, struct tensor *y,
                           struct tensor *dxn)
{
    const struct dsflow_tile *t = &l->args.tile;
    const struct dsflow_mlp_args a = { .tile = *t,
                                       .w1 = l->args.w1,
                                       .b1 = l->args.b1,
                                       .w2 = l->args.w2,
                                       .b2 = -1,
                                       .norm_w = -1,
                                       .norm_b = -1 };
    size_t rows = (size_t)t->rows, width = (size_t)t->width;
    size_t ffn = (size_t)t->ffn, groups = t->swiglu ? 2 : 1;
    struct tensor one = tensor_unset(y->n), grad = tensor_zero(l->grad.n);

    take_unit(whole, l, parts, p, l->unit.f, whole->unit.f);
    RUN(&dsf_codelet_mlp_forward, &a, { DSFLOW_MLP_X, &whole->xn },
        { DSFLOW_MLP_UNIT, &l->unit }, { DSFLOW_MLP_H, &l->h },
        { DSFLOW_MLP_Y, &one });
    check_columns(&l->h, h->f, rows, groups, ffn, parts, p);
    add_floats(y->f, one.f, one.n);

    RUN(&dsf_codelet_mlp_backward_input, &a, { DSFLOW_MLP_DY, &whole->dy },
        { DSFLOW_MLP_UNIT, &l->unit }, { DSFLOW_MLP_H, &l->h },
        { DSFLOW_MLP_DH, &l->dh }, { DSFLOW_MLP_DX, &one });
    add_floats(dxn->f, one.f, one.n);
    check_columns(&l->h, whole->h.f, rows, 1, ffn, parts, p); /* act(h) */
    check_columns(&l->dh, whole->dh.f, rows, groups, ffn, parts, p);

    forget(&l->grad);
    RUN_FRESH(1u << DSFLOW_MLP_GRAD, &dsf_codelet_mlp_backward_weight, &a,
              { DSFLOW_MLP_DY, &whole->dy }, { DSFLOW_MLP_X, &whole->xn },
              { DSFLOW_MLP_H, &l->h }, { DSFLOW_MLP_DH, &l->dh },
              { DSFLOW_MLP_GRAD, &l->grad });
    take_unit(whole, l, parts, p, grad.f, whole->grad.f);
    assert_like(l->grad.f + a.w1, grad.f + a.w1, groups * ffn * width, parts);
    assert_like(l->grad.f + a.w2, grad.f + a.w2, ffn * width, parts);
    if (a.b1 >= 0)
        assert_like(l->grad.f + a.b1, grad.f + a.b1, groups * ffn, parts);
    tensor_free(&one);
    tensor_free(&grad);
}

static void check_mlp(struct dsflow_tile t, int bias, int parts)
{
    struct mlp whole = mlp_new(t, bias);
    const struct dsflow_mlp_args *a = &whole.args;
    const struct dsf_norm_args norm = { t, a->norm_w, a->norm_b, 0 };
    const struct dsf_norm_args back = { t, a->norm_w, a->norm_b, 1 };
    const struct dsf_residual_args residual = { t, a->b2 };
    struct tensor sum = tensor_zero(whole.x.n), y = tensor_unset(whole.x.n);
    struct tensor dxn = tensor_zero(whole.x.n), dx = tensor_unset(whole.x.n);
    struct tensor dnorm = tensor_unset(whole.dnorm.n), h;
    struct tensor grad = tensor_zero(whole.grad.n);

    RUN(&dsf_codelet_norm_forward, &norm, { DSFLOW_NORM_X, &whole.x },
        { DSFLOW_NORM_UNIT, &whole.unit }, { DSFLOW_NORM_Y, &whole.xn });
    RUN(&dsf_codelet_mlp_forward, a, { DSFLOW_MLP_X, &whole.x },
        { DSFLOW_MLP_UNIT, &whole.unit }, { DSFLOW_MLP_H, &whole.h },
        { DSFLOW_MLP_Y, &whole.y });
    h = tensor_copy(&whole.h);
    RUN(&dsf_codelet_mlp_backward_input, a, { DSFLOW_MLP_DY, &whole.dy },
        { DSFLOW_MLP_X, &whole.x }, { DSFLOW_MLP_UNIT, &whole.unit },
        { DSFLOW_MLP_H, &whole.h }, { DSFLOW_MLP_DH, &whole.dh },
        { DSFLOW_MLP_DX, &whole.dx }, { DSFLOW_MLP_DNORM, &whole.dnorm });
    RUN(&dsf_codelet_mlp_backward_weight, a, { DSFLOW_MLP_DY, &whole.dy },
        { DSFLOW_MLP_X, &whole.x }, { DSFLOW_MLP_UNIT, &whole.unit },
        { DSFLOW_MLP_H, &whole.h }, { DSFLOW_MLP_DH, &whole.dh },
        { DSFLOW_MLP_DNORM, &whole.dnorm }, { DSFLOW_MLP_GRAD, &whole.grad });
    for (int p = 0; p < parts; p++) {
        struct dsflow_tile cut = t;
        struct mlp l;

        cut.ffn /= parts;
        l = mlp_new(cut, bias);
        check_mlp_part(&whole, &l, parts, p, &h, &sum, &dxn);
        mlp_free(&l);
    }

    /* The product is added to x + b2, or x + b2 is what it starts from: not
     * the same order. */
    if (a->b2 >= 0)
        RUN(&dsf_codelet_residual_forward, &residual,
            { DSFLOW_RESIDUAL_X, &whole.x }, { DSFLOW_RESIDUAL_IN, &sum },
            { DSFLOW_RESIDUAL_Y, &y }, { DSFLOW_RESIDUAL_UNIT, &whole.unit });
    else
        RUN(&dsf_codelet_residual_forward, &residual,
            { DSFLOW_RESIDUAL_X, &whole.x }, { DSFLOW_RESIDUAL_IN, &sum },
            { DSFLOW_RESIDUAL_Y, &y });
    assert_like(y.f, whole.y.f, y.n, 2);
    RUN(&dsf_codelet_norm_backward_input, &back, { DSFLOW_NORM_DY, &dxn },
        { DSFLOW_NORM_X, &whole.x }, { DSFLOW_NORM_UNIT, &whole.unit },
        { DSFLOW_NORM_DX, &dx }, { DSFLOW_NORM_DNORM, &dnorm },
        { DSFLOW_NORM_DRES, &whole.dy });
    assert_like(dx.f, whole.dx.f, dx.n, parts);
    assert_like(dnorm.f, whole.dnorm.f, dnorm.n, parts);
    RUN(&dsf_codelet_norm_backward_weight, &norm, { DSFLOW_NORM_DNORM, &dnorm },
        { DSFLOW_NORM_GRAD, &grad });
    assert_like(grad.f + a->norm_w, whole.grad.f + a->norm_w, (size_t)t.width,
                parts);
    if (a->b2 >= 0) {
        RUN(&dsf_codelet_residual_backward_weight, &residual,
            { DSFLOW_RESIDUAL_DY, &whole.dy }, { DSFLOW_RESIDUAL_GRAD, &grad });
        assert_same_bits(grad.f + a->b2, whole.grad.f + a->b2, (size_t)t.width);
    }
    mlp_free(&whole);
    tensor_free(&sum);
    tensor_free(&y);
    tensor_free(&dxn);
    tensor_free(&dx);
    tensor_free(&dnorm);
    tensor_free(&h);
    tensor_free(&grad);
}

static const struct dsflow_tile shape = { .rows = 9,
                                          .nseq = 1,
                                          .width = 48,
                                          .heads = 1,
                                          .kv_heads = 1,
                                          .head_dim = 1,
                                          .ffn = 96,
                                          .vocab = 1,
                                          .context = 64,
                                          .eps = 1e-5f };

static void check_mlps(void)
{
    struct dsflow_tile t = shape;

    for (int parts = 1; parts <= 3; parts++) {
        check_mlp(t, 1, parts);
        check_mlp(t, 0, parts);
    }
    t.rows = 33;
    t.width = 65;
    t.ffn = 62;
    t.swiglu = 1;
    t.rms = 1;
    check_mlp(t, 0, 1);
    check_mlp(t, 0, 2);
    check_mlp(t, 1, 2);
}

static void columns_of_mlp_together_are_the_whole(void **state)
{
    with_every_isa(check_mlps);
}

static void check_out(struct dsflow_tile t, int parts)
{
    size_t rows = (size_t)t.rows, width = (size_t)t.width;
    size_t nq = dsf_tile_qwidth(&t), own = nq / (size_t)parts;
    struct dsflow_out_args whole = { t, 0, (int64_t)dsf_round16(nq * width),
                                     1 };
    const struct dsf_residual_args residual = { t, whole.b };
    struct dsflow_out_args a = { t, 0, -1, 0 };
    struct tensor unit = tensor_new((size_t)whole.b + width, 0.5, 1);
    struct tensor x = tensor_new(rows * width, 2, 2), y = tensor_unset(x.n);
    struct tensor att = tensor_new(rows * nq, 1, 3), sum = tensor_zero(x.n);
    struct tensor part = tensor_new(own * width, 0, 1), one = tensor_unset(x.n);
    struct tensor own_att = tensor_unset(rows * own);

    a.tile.heads /= parts;
    a.tile.kv_heads = 1;
    RUN(&dsf_codelet_out_forward, &whole, { DSFLOW_OUT_X, &x },
        { DSFLOW_OUT_ATT, &att }, { DSFLOW_OUT_UNIT, &unit },
        { DSFLOW_OUT_Y, &y });
    for (int p = 0; p < parts; p++) {
        copy_block(part.f, own, unit.f + own * (size_t)p, nq, width, own);
        copy_block(own_att.f, own, att.f + own * (size_t)p, nq, rows, own);
        RUN(&dsf_codelet_out_forward, &a, { DSFLOW_OUT_ATT, &own_att },
            { DSFLOW_OUT_UNIT, &part }, { DSFLOW_OUT_Y, &one });
        add_floats(sum.f, one.f, one.n);
    }
    RUN(&dsf_codelet_residual_forward, &residual, { DSFLOW_RESIDUAL_X, &x },
        { DSFLOW_RESIDUAL_IN, &sum }, { DSFLOW_RESIDUAL_Y, &one },
        { DSFLOW_RESIDUAL_UNIT, &unit });
    assert_like(one.f, y.f, y.n, 2);

    /* Backward, the kinds of the whole segment take a part. */
    struct tensor datt = tensor_unset(att.n),
                  own_datt = tensor_unset(own_att.n);
    struct tensor delta = tensor_unset(rows * (size_t)t.heads);
    struct tensor own_delta = tensor_unset(delta.n / (size_t)parts);
    struct tensor grad = tensor_zero(unit.n), own_grad = tensor_zero(part.n);

    RUN(&dsf_codelet_out_backward_input, &whole, { DSFLOW_OUT_DY, &x },
        { DSFLOW_OUT_ATT, &att }, { DSFLOW_OUT_UNIT, &unit },
        { DSFLOW_OUT_DATT, &datt }, { DSFLOW_OUT_DELTA, &delta });
    RUN(&dsf_codelet_out_backward_weight, &whole, { DSFLOW_OUT_DY, &x },
        { DSFLOW_OUT_ATT, &att }, { DSFLOW_OUT_GRAD, &grad });
    RUN(&dsf_codelet_out_backward_input, &a, { DSFLOW_OUT_DY, &x },
        { DSFLOW_OUT_ATT, &own_att }, { DSFLOW_OUT_UNIT, &part },
        { DSFLOW_OUT_DATT, &own_datt }, { DSFLOW_OUT_DELTA, &own_delta });
    RUN(&dsf_codelet_out_backward_weight, &a, { DSFLOW_OUT_DY, &x },
        { DSFLOW_OUT_ATT, &own_att }, { DSFLOW_OUT_GRAD, &own_grad });
    copy_block(own_att.f, own, datt.f + nq - own, nq, rows, own);
    assert_like(own_datt.f, own_att.f, own_att.n, parts);
    copy_block(part.f, own, grad.f + nq - own, nq, width, own);
    assert_like(own_grad.f, part.f, part.n, parts);
    tensor_free(&unit);
    tensor_free(&x);
    tensor_free(&y);
    tensor_free(&att);
    tensor_free(&sum);
    tensor_free(&part);
    tensor_free(&one);
    tensor_free(&own_att);
    tensor_free(&datt);
    tensor_free(&own_datt);
    tensor_free(&delta);
    tensor_free(&own_delta);
    tensor_free(&grad);
    tensor_free(&own_grad);
}

static void check_outs(void)
{
    struct dsflow_tile t = shape;

    t.heads = 6;
    t.head_dim = 10;
    for (int parts = 1; parts <= 3; parts++)
        check_out(t, parts);
}

static void heads_of_out_together_are_the_whole(void **state)
{
    with_every_isa(check_outs);
}

static void what_does_not_agree_is_refused(void **state)
{
    struct dsflow_mlp_args mlp = { .tile = shape,
                                   .b1 = -1,
                                   .w2 = 4608,
                                   .b2 = -1,
                                   .norm_w = -1,
                                   .norm_b = -1 };
    struct dsflow_out_args out = { shape, 0, 0, 0 };
    size_t elems[] = { 432, 9216, 864, 432 };
    size_t sizes[] = { 0, 9, 48, 432 };
    struct dsflow_err err;

    assert_int_equal(check_elems(&dsf_op_mlp_forward, elems, 4, &mlp, &err), 0);
    mlp.tile.swiglu = 1;
    assert_int_equal(check_elems(&dsf_op_mlp_forward, elems, 4, &mlp, &err),
                     DSFLOW_EINVAL);
    assert_string_equal(err.msg, "mlp.forward: h: 864 fp32: expected 1728");
    mlp.w2 = -1;
    assert_int_equal(check_elems(&dsf_op_mlp_forward, elems, 4, &mlp, &err),
                     DSFLOW_EINVAL);
    assert_string_equal(err.msg, "mlp.forward: w2: offset -1 in a unit");

    assert_int_equal(check_elems(&dsf_op_out_forward, sizes, 4, &out, &err),
                     DSFLOW_EINVAL);
    assert_string_equal(err.msg,
                        "out.forward: b: 0: expected -1, a part adds none");
    out.b = -1;
    assert_int_equal(check_elems(&dsf_op_out_forward, sizes, 4, &out, &err), 0);
    sizes[2] = 47;
    assert_int_equal(check_elems(&dsf_op_out_forward, sizes, 4, &out, &err),
                     DSFLOW_EINVAL);
    assert_string_equal(err.msg, "out.forward: unit: 47 fp32: expected 48");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_of_mlp_together_are_the_whole),
        cmocka_unit_test(heads_of_out_together_are_the_whole),
        cmocka_unit_test(what_does_not_agree_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
