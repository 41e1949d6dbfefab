/* test_part_head.c - cross entropy over a vocabulary in parts: loss and
 * gradients are those of the whole. */
#include "unit/codelets/part.h"

struct head {
    struct dsflow_head_args args;
    struct tensor x, norm, weight, batch, logits, loss, dx, dnorm, grad,
        norm_grad, xn, control;
};

static struct head head_new(struct dsflow_tile t)
{
    size_t rows = (size_t)t.rows, vocab = (size_t)t.vocab;
    size_t width = (size_t)t.width;
    struct head l = {
        .args = { .tile = t,
                  .norm_b = -1,
                  .whole = t.vocab,
                  .parts = 1,
                  .scale = 0.125f },
        .x = tensor_new(rows * width, 2, 1),
        .norm = tensor_new(width, 1, 2),
        .weight = tensor_new(vocab * width, 1, 3),
        .batch = tensor_unset(2 * rows),
        .logits = tensor_unset(rows * vocab),
        .loss = tensor_unset(2),
        .dx = tensor_unset(rows * width),
        .dnorm = tensor_unset(2 * width),
        .grad = tensor_zero(vocab * width),
        .norm_grad = tensor_zero(width),
        .xn = tensor_unset(rows * width),
        .control = control_of(48),
    };
    int32_t *targets = (int32_t *)l.batch.f + rows;

    for (size_t r = 0; r < rows; r++)
        targets[r] = r % 5 == 4 ? -1 : (int32_t)(r * 7919 % vocab);
    targets[0] = t.vocab - 1;
    return l;
}

static void head_free(struct head *l)
{
    struct tensor *all[] = {
        &l->x,  &l->norm,  &l->weight, &l->batch,     &l->logits, &l->loss,
        &l->dx, &l->dnorm, &l->grad,   &l->norm_grad, &l->xn,     &l->control
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        tensor_free(all[i]);
}

static void run_whole(struct head *l)
{
    const struct dsflow_head_args *a = &l->args;
    const struct dsf_norm_args norm = { a->tile, a->norm_w, a->norm_b, 0 };

    RUN(&dsf_codelet_norm_forward, &norm, { DSFLOW_NORM_X, &l->x },
        { DSFLOW_NORM_UNIT, &l->norm }, { DSFLOW_NORM_Y, &l->xn });
    RUN(&dsf_codelet_head_forward, a, { DSFLOW_HEAD_X, &l->x },
        { DSFLOW_HEAD_NORM, &l->norm }, { DSFLOW_HEAD_WEIGHT, &l->weight },
        { DSFLOW_HEAD_BATCH, &l->batch }, { DSFLOW_HEAD_LOGITS, &l->logits },
        { DSFLOW_HEAD_LOSS, &l->loss }, { DSFLOW_HEAD_CONTROL, &l->control });
    RUN(&dsf_codelet_head_backward_input, a, { DSFLOW_HEAD_LOGITS, &l->logits },
        { DSFLOW_HEAD_X, &l->x }, { DSFLOW_HEAD_NORM, &l->norm },
        { DSFLOW_HEAD_WEIGHT, &l->weight }, { DSFLOW_HEAD_DX, &l->dx },
        { DSFLOW_HEAD_DNORM, &l->dnorm });
    RUN_FRESH(1u << DSFLOW_HEAD_GRAD | 1u << DSFLOW_HEAD_NORM_GRAD,
              &dsf_codelet_head_backward_weight, a,
              { DSFLOW_HEAD_LOGITS, &l->logits }, { DSFLOW_HEAD_X, &l->x },
              { DSFLOW_HEAD_NORM, &l->norm }, { DSFLOW_HEAD_DNORM, &l->dnorm },
              { DSFLOW_HEAD_GRAD, &l->grad },
              { DSFLOW_HEAD_NORM_GRAD, &l->norm_grad });
}

struct part {
    struct dsflow_head_args args;
    struct tensor weight, logits, tops, grad;
};

/* Rows `first` on of the whole's matrix, behind something else. */
static struct part part_new(const struct head *whole, int32_t parts,
                            int32_t first, int32_t vocab)
{
    struct dsflow_head_args a = { .tile = whole->args.tile,
                                  .norm_w = -1,
                                  .norm_b = -1,
                                  .w = 16,
                                  .first = first,
                                  .whole = whole->args.tile.vocab,
                                  .parts = parts,
                                  .scale = whole->args.scale };
    size_t n = (size_t)vocab * (size_t)a.tile.width;
    size_t rows = (size_t)a.tile.rows;
    struct part p;

    a.tile.vocab = vocab;
    p = (struct part){
        .args = a,
        .weight = tensor_new(16 + n, 1, 9),
        .logits = tensor_unset(rows * (size_t)vocab + 3), /* a larger slot */
        .tops = tensor_unset(rows * dsf_head_blocks(&a.tile)),
        .grad = tensor_zero(16 + n),
    };
    memcpy(p.weight.f + 16,
           whole->weight.f + (size_t)first * (size_t)a.tile.width,
           n * sizeof(float));
    return p;
}

static void part_free(struct part *p)
{
    tensor_free(&p->weight);
    tensor_free(&p->logits);
    tensor_free(&p->tops);
    tensor_free(&p->grad);
}

static double number(const struct tensor *t)
{
    double d;

    memcpy(&d, t->f, sizeof(d));
    return d;
}

/* All parts forward, then, with what each said, all backward. */
static void check_head(struct head *whole, int32_t nparts)
{
    enum { MOST = 8 };
    const struct dsflow_tile *t = &whole->args.tile;
    const size_t rows = (size_t)t->rows, width = (size_t)t->width;
    const size_t each = rows * sizeof(struct dsflow_head_stats) / sizeof(float);
    struct tensor all = tensor_unset(each * (size_t)nparts);
    struct tensor stats = tensor_unset(each), loss = tensor_unset(2);
    struct tensor dxn = tensor_zero(whole->x.n), one = tensor_unset(dxn.n);
    struct tensor dx = tensor_unset(dxn.n), dnorm = tensor_unset(2 * width);
    struct tensor logits = tensor_zero(whole->logits.n);
    struct tensor grad = tensor_zero(whole->grad.n);
    const struct dsf_norm_args norm = { *t, 0, -1, 0 };
    struct part parts[MOST];
    int32_t first = 0;

    for (int32_t p = 0; p < nparts; p++) {
        int32_t n = t->vocab / nparts + (p < t->vocab % nparts);

        parts[p] = part_new(whole, nparts, first, n);
        RUN(&dsf_codelet_head_forward, &parts[p].args,
            { DSFLOW_HEAD_X, &whole->xn },
            { DSFLOW_HEAD_WEIGHT, &parts[p].weight },
            { DSFLOW_HEAD_BATCH, &whole->batch },
            { DSFLOW_HEAD_LOGITS, &parts[p].logits },
            { DSFLOW_HEAD_STATS, &stats },
            { DSFLOW_HEAD_TOPS, &parts[p].tops });
        memcpy(all.f + each * (size_t)p, stats.f, each * sizeof(float));
        first += n;
    }
    for (int32_t p = 0; p < nparts; p++) {
        const struct dsflow_head_args *a = &parts[p].args;
        size_t vocab = (size_t)a->tile.vocab;

        RUN(&dsf_codelet_head_loss, a, { DSFLOW_HEAD_LOGITS, &parts[p].logits },
            { DSFLOW_HEAD_BATCH, &whole->batch },
            { DSFLOW_HEAD_ALL_STATS, &all },
            { DSFLOW_HEAD_TOPS, &parts[p].tops }, { DSFLOW_HEAD_LOSS, &loss },
            { DSFLOW_HEAD_CONTROL, &whole->control });
        if (nparts == 1)
            assert_same_bits(loss.f, whole->loss.f, 2);
        else
            assert_true(fabs(number(&loss) - number(&whole->loss)) <=
                        1e-7 * fabs(number(&whole->loss)));
        if (p > 0)
            assert_true(number(&loss) == whole->loss.d[0]);
        whole->loss.d[0] = number(&loss);
        RUN(&dsf_codelet_head_backward_input, a,
            { DSFLOW_HEAD_LOGITS, &parts[p].logits },
            { DSFLOW_HEAD_WEIGHT, &parts[p].weight }, { DSFLOW_HEAD_DX, &one });
        add_floats(dxn.f, one.f, one.n);
        forget(&parts[p].grad);
        RUN_FRESH(1u << DSFLOW_HEAD_GRAD, &dsf_codelet_head_backward_weight, a,
                  { DSFLOW_HEAD_LOGITS, &parts[p].logits },
                  { DSFLOW_HEAD_X, &whole->xn },
                  { DSFLOW_HEAD_GRAD, &parts[p].grad });
        copy_block(logits.f + a->first, (size_t)t->vocab, parts[p].logits.f,
                   vocab, rows, vocab);
        memcpy(grad.f + (size_t)a->first * width, parts[p].grad.f + 16,
               vocab * width * sizeof(float));
        part_free(&parts[p]);
    }
    assert_like(logits.f, whole->logits.f, logits.n, nparts);
    assert_like(grad.f, whole->grad.f, grad.n, nparts);
    RUN(&dsf_codelet_norm_backward_input, &norm, { DSFLOW_NORM_DY, &dxn },
        { DSFLOW_NORM_X, &whole->x }, { DSFLOW_NORM_UNIT, &whole->norm },
        { DSFLOW_NORM_DX, &dx }, { DSFLOW_NORM_DNORM, &dnorm });
    assert_like(dx.f, whole->dx.f, dx.n, nparts);
    assert_like(dnorm.f, whole->dnorm.f, width, nparts);
    tensor_free(&all);
    tensor_free(&stats);
    tensor_free(&loss);
    tensor_free(&dxn);
    tensor_free(&one);
    tensor_free(&dx);
    tensor_free(&dnorm);
    tensor_free(&logits);
    tensor_free(&grad);
}

/* What the whole gives, `columns` at a time: in `part` tensor ranks' parts,
 * each of some of the vocabulary. */
static void check_columns(struct head *whole, int32_t nparts, int32_t columns)
{
    enum { MOST = 3 };
    const struct dsflow_tile *t = &whole->args.tile;
    const size_t rows = (size_t)t->rows, width = (size_t)t->width;
    const size_t each = rows * sizeof(struct dsflow_head_stats) / sizeof(float);
    struct tensor all = tensor_unset(each * (size_t)nparts);
    struct tensor stats = tensor_unset(each), sums = tensor_unset(each);
    struct tensor loss = tensor_unset(2), dxn = tensor_zero(whole->x.n);
    struct tensor one = tensor_unset(dxn.n), dx = tensor_unset(dxn.n);
    struct tensor dnorm = tensor_unset(2 * width);
    const struct dsf_norm_args norm = { *t, 0, -1, 0 };
    struct dsf_head_columns_args a[MOST];
    struct part parts[MOST];
    int32_t first = 0;

    for (int32_t p = 0; p < nparts; p++) {
        int32_t n = t->vocab / nparts + (p < t->vocab % nparts);

        parts[p] = part_new(whole, nparts, first, n);
        a[p] = (struct dsf_head_columns_args){ parts[p].args, columns, 0 };
        RUN(&dsf_codelet_head_forward_columns, &a[p],
            { DSFLOW_HEAD_X, &whole->xn },
            { DSFLOW_HEAD_WEIGHT, &parts[p].weight },
            { DSFLOW_HEAD_BATCH, &whole->batch },
            { DSFLOW_HEAD_STATS, &stats });
        memcpy(all.f + each * (size_t)p, stats.f, each * sizeof(float));
        first += n;
    }
    RUN(&dsf_codelet_head_loss_columns, &a[0],
        { DSFLOW_HEAD_BATCH, &whole->batch }, { DSFLOW_HEAD_ALL_STATS, &all },
        { DSFLOW_HEAD_LOSS, &loss }, { DSFLOW_HEAD_SUMS, &sums });
    assert_true(fabs(number(&loss) - number(&whole->loss)) <=
                1e-7 * fabs(number(&whole->loss)));
    for (int32_t p = 0; p < nparts; p++) {
        const size_t vocab = (size_t)a[p].head.tile.vocab;

        forget(&parts[p].grad);
        RUN_FRESH(1u << DSFLOW_HEAD_GRAD, &dsf_codelet_head_backward_columns,
                  &a[p], { DSFLOW_HEAD_X, &whole->xn },
                  { DSFLOW_HEAD_WEIGHT, &parts[p].weight },
                  { DSFLOW_HEAD_BATCH, &whole->batch },
                  { DSFLOW_HEAD_SUMS, &sums }, { DSFLOW_HEAD_DX, &one },
                  { DSFLOW_HEAD_GRAD, &parts[p].grad },
                  { DSFLOW_HEAD_CONTROL, &whole->control });
        add_floats(dxn.f, one.f, one.n);
        assert_like(parts[p].grad.f + 16,
                    whole->grad.f + (size_t)a[p].head.first * width,
                    vocab * width, 2);
        part_free(&parts[p]);
    }
    RUN(&dsf_codelet_norm_backward_input, &norm, { DSFLOW_NORM_DY, &dxn },
        { DSFLOW_NORM_X, &whole->x }, { DSFLOW_NORM_UNIT, &whole->norm },
        { DSFLOW_NORM_DX, &dx }, { DSFLOW_NORM_DNORM, &dnorm });
    assert_like(dx.f, whole->dx.f, dx.n, 2);
    tensor_free(&all);
    tensor_free(&stats);
    tensor_free(&sums);
    tensor_free(&loss);
    tensor_free(&dxn);
    tensor_free(&one);
    tensor_free(&dx);
    tensor_free(&dnorm);
}

/* Two tasks leave what head.backward_columns left here, bit for bit. */
static void check_whole_apart(struct head *whole,
                              const struct dsf_head_columns_args *a,
                              struct tensor *sums, struct tensor *dx,
                              struct tensor *dnorm, struct tensor *grad,
                              struct tensor *norm_grad)
{
    struct tensor x = tensor_unset(dx->n), norm = tensor_unset(dnorm->n);
    struct tensor g = tensor_copy(&whole->grad);
    struct tensor n = tensor_copy(&whole->norm_grad);

    RUN(&dsf_codelet_head_backward_input_columns, a,
        { DSFLOW_HEAD_X, &whole->x }, { DSFLOW_HEAD_NORM, &whole->norm },
        { DSFLOW_HEAD_WEIGHT, &whole->weight },
        { DSFLOW_HEAD_BATCH, &whole->batch }, { DSFLOW_HEAD_SUMS, sums },
        { DSFLOW_HEAD_DX, &x }, { DSFLOW_HEAD_DNORM, &norm },
        { DSFLOW_HEAD_CONTROL, &whole->control });
    RUN(&dsf_codelet_head_backward_weight_columns, a,
        { DSFLOW_HEAD_X, &whole->x }, { DSFLOW_HEAD_NORM, &whole->norm },
        { DSFLOW_HEAD_WEIGHT, &whole->weight },
        { DSFLOW_HEAD_BATCH, &whole->batch }, { DSFLOW_HEAD_SUMS, sums },
        { DSFLOW_HEAD_DNORM, &norm }, { DSFLOW_HEAD_GRAD, &g },
        { DSFLOW_HEAD_NORM_GRAD, &n },
        { DSFLOW_HEAD_CONTROL, &whole->control });
    assert_memory_equal(x.f, dx->f, x.n * sizeof(float));
    assert_memory_equal(norm.f, dnorm->f, norm.n * sizeof(float));
    assert_memory_equal(g.f, grad->f, g.n * sizeof(float));
    assert_memory_equal(n.f, norm_grad->f, n.n * sizeof(float));
    tensor_free(&x);
    tensor_free(&norm);
    tensor_free(&g);
    tensor_free(&n);
}

/* The same of one rank, with its norm: to gradients that have contents. */
static void check_whole_columns(struct head *whole, int32_t columns)
{
    const struct dsf_head_columns_args a = { whole->args, columns, 0 };
    const size_t rows = (size_t)a.head.tile.rows;
    struct tensor sums =
        tensor_unset(rows * sizeof(struct dsflow_head_stats) / sizeof(float));
    struct tensor loss = tensor_unset(2), dx = tensor_unset(whole->dx.n);
    struct tensor dnorm = tensor_unset(whole->dnorm.n);
    struct tensor grad = tensor_copy(&whole->grad);
    struct tensor norm_grad = tensor_copy(&whole->norm_grad);

    RUN(&dsf_codelet_head_forward_columns, &a, { DSFLOW_HEAD_X, &whole->x },
        { DSFLOW_HEAD_NORM, &whole->norm },
        { DSFLOW_HEAD_WEIGHT, &whole->weight },
        { DSFLOW_HEAD_BATCH, &whole->batch }, { DSFLOW_HEAD_LOSS, &loss },
        { DSFLOW_HEAD_SUMS, &sums });
    assert_true(fabs(number(&loss) - number(&whole->loss)) <=
                1e-7 * fabs(number(&whole->loss)));
    RUN(&dsf_codelet_head_backward_columns, &a, { DSFLOW_HEAD_X, &whole->x },
        { DSFLOW_HEAD_NORM, &whole->norm },
        { DSFLOW_HEAD_WEIGHT, &whole->weight },
        { DSFLOW_HEAD_BATCH, &whole->batch }, { DSFLOW_HEAD_SUMS, &sums },
        { DSFLOW_HEAD_DX, &dx }, { DSFLOW_HEAD_DNORM, &dnorm },
        { DSFLOW_HEAD_GRAD, &grad }, { DSFLOW_HEAD_NORM_GRAD, &norm_grad },
        { DSFLOW_HEAD_CONTROL, &whole->control });
    check_whole_apart(whole, &a, &sums, &dx, &dnorm, &grad, &norm_grad);
    for (size_t i = 0; i < grad.n; i++)
        grad.f[i] /= 2;
    for (size_t i = 0; i < norm_grad.n; i++)
        norm_grad.f[i] /= 2;
    assert_like(dx.f, whole->dx.f, dx.n, 2);
    assert_like(grad.f, whole->grad.f, grad.n, 2);
    assert_like(norm_grad.f, whole->norm_grad.f, norm_grad.n, 2);
    tensor_free(&sums);
    tensor_free(&loss);
    tensor_free(&dx);
    tensor_free(&dnorm);
    tensor_free(&grad);
    tensor_free(&norm_grad);
}

static const struct dsflow_tile shape = { .rows = 7,
                                          .nseq = 1,
                                          .width = 24,
                                          .heads = 1,
                                          .kv_heads = 1,
                                          .head_dim = 1,
                                          .ffn = 1,
                                          .vocab = 259,
                                          .context = 64,
                                          .rms = 1,
                                          .eps = 1e-5f };

static void check_vocab(int32_t vocab, int32_t rows)
{
    static const int32_t parts[] = { 1, 2, 3, 8 };
    struct dsflow_tile t = shape;
    struct head whole;

    t.vocab = vocab;
    t.rows = rows;
    whole = head_new(t);
    run_whole(&whole);
    for (int32_t columns = 3; columns < 2 * vocab; columns *= 5) {
        check_whole_columns(&whole, columns);
        check_columns(&whole, 1, columns);
        check_columns(&whole, 3, columns);
    }
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
        check_head(&whole, parts[i]);
    head_free(&whole);
}

static void check_shapes(void)
{
    check_vocab(8, 5);
    check_vocab(259, 7);
    check_vocab(4103, 13); /* more than a block in a part, or one and a bit */
}

static void loss_and_gradients_are_those_of_the_whole(void **state)
{
    with_every_isa(check_shapes);
}

/* A part that knows nothing of the largest logits. */
static void a_distant_maximum_in_another_part_is_no_trouble(void **state)
{
    struct dsflow_tile t = shape;
    struct head whole;

    t.vocab = 6000;
    whole = head_new(t);
    for (size_t i = 0; i < whole.weight.n; i++)
        whole.weight.f[i] *= i / 24 == 4321 ? 1000 : i < 48000 ? 1 : 100;
    run_whole(&whole);
    check_columns(&whole, 1, 1024);
    check_columns(&whole, 2, 4000);
    check_head(&whole, 1);
    check_head(&whole, 2);
    check_head(&whole, 5);
    head_free(&whole);
}

static void what_does_not_agree_is_refused(void **state)
{
    struct dsflow_head_args a = { .tile = shape,
                                  .norm_w = -1,
                                  .norm_b = -1,
                                  .whole = 259,
                                  .parts = 2,
                                  .scale = 1 };
    size_t elems[] = { 168, 0, 6216, 14, 1813, 0, 21, 7 };
    size_t sizes[] = { 14, 1813, 1, 7, 42 };
    const size_t columns[] = { 14, 1, 42, 21 };
    struct dsflow_err err;

    assert_int_equal(check_elems(&dsf_op_head_forward, elems, 8, &a, &err), 0);
    assert_int_equal(check_elems(&dsf_op_head_loss, sizes, 5, &a, &err), 0);
    a.parts = 3;
    assert_int_equal(check_elems(&dsf_op_head_loss, sizes, 5, &a, &err),
                     DSFLOW_EINVAL);
    assert_string_equal(err.msg, "head.loss: all_stats: 42 fp64: expected 63");
    a.parts = 0;
    assert_int_equal(check_elems(&dsf_op_head_loss, sizes, 5, &a, &err),
                     DSFLOW_EINVAL);
    assert_string_equal(err.msg, "head.loss: parts: 0: expected 1 to 4096");
    a.parts = 2;
    a.first = 64;
    assert_int_equal(check_elems(&dsf_op_head_forward, elems, 8, &a, &err),
                     DSFLOW_EINVAL);
    assert_string_equal(
        err.msg, "head.forward: 259 columns from 64 on: expected some of 259");
    a.first = 0;
    a.scale = INFINITY;
    assert_int_equal(check_elems(&dsf_op_head_forward, elems, 8, &a, &err),
                     DSFLOW_EINVAL);
    assert_string_equal(err.msg,
                        "head.forward: scale: inf: expected a finite number");
    a.scale = 1;
    assert_int_equal(check_elems(&dsf_op_head_loss_columns, columns, 4,
                                 &(struct dsf_head_columns_args){ a, 16, 0 },
                                 &err),
                     0);
    assert_int_equal(check_elems(&dsf_op_head_loss_columns, columns, 4,
                                 &(struct dsf_head_columns_args){ a, 0, 0 },
                                 &err),
                     DSFLOW_EINVAL);
    assert_string_equal(err.msg,
                        "head.loss_columns: columns: 0: expected 1 or more");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loss_and_gradients_are_those_of_the_whole),
        cmocka_unit_test(a_distant_maximum_in_another_part_is_no_trouble),
        cmocka_unit_test(what_does_not_agree_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
