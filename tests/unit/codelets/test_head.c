/* test_head.c - norm, logits, loss and its gradient. */
#include "unit/codelets/segment.h"

struct layer {
    struct dsflow_head_args args;
    struct tensor x, norm, weight, batch, logits, loss, dx, dnorm, grad,
        norm_grad;
    int32_t *targets;
    double *y, ref_loss; /* logits of the reference, then their gradient */
};

static struct layer layer_new(struct dsflow_tile t, int64_t w)
{
    size_t width = (size_t)t.width, rows = (size_t)t.rows;
    size_t vocab = (size_t)t.vocab, nw = dsf_round16(width);
    size_t nnorm = nw + (t.rms ? 0 : width);
    struct layer l = {
        .args = { .tile = t,
                  .w = w,
                  .norm_b = t.rms ? -1 : (int64_t)nw,
                  .whole = t.vocab,
                  .parts = 1,
                  .scale = 0.125f },
        .x = tensor_new(rows * width, 2, 1),
        .norm = tensor_new(nnorm, 1, 2),
        .weight = tensor_new((size_t)w + vocab * width, 1, 3),
        .batch = tensor_unset(2 * rows),
        .logits = tensor_unset(rows * vocab),
        .loss = tensor_unset(2),
        .dx = tensor_unset(rows * width),
        .dnorm = tensor_unset(2 * width),
        .grad = tensor_new((size_t)w + vocab * width, 0, 4),
        .norm_grad = tensor_new(nnorm, 0, 5),
        .y = zeroes(rows * vocab),
    };

    l.targets = (int32_t *)l.batch.f + rows;
    for (size_t r = 0; r < rows; r++)
        l.targets[r] = r % 5 == 4 ? -1 : (int32_t)(r * 7919 % vocab);
    l.targets[0] = t.vocab - 1;
    return l;
}

static void layer_free(struct layer *l)
{
    tensor_free(&l->x);
    tensor_free(&l->norm);
    tensor_free(&l->weight);
    tensor_free(&l->batch);
    tensor_free(&l->logits);
    tensor_free(&l->loss);
    tensor_free(&l->dx);
    tensor_free(&l->dnorm);
    tensor_free(&l->grad);
    tensor_free(&l->norm_grad);
    free(l->y);
}

/* The loss times the scale. */
static double objective(void *user)
{
    struct layer *l = user;
    const struct dsflow_head_args *a = &l->args;
    const struct dsflow_tile *t = &a->tile;
    const double *n = l->norm.d;
    size_t rows = (size_t)t->rows, vocab = (size_t)t->vocab;
    double *normed = zeroes(l->x.n), loss = 0;

    norm_ref(t, l->x.d, n, a->norm_b < 0 ? NULL : n + a->norm_b, normed);
    linear_ref(rows, (size_t)t->width, vocab, normed, l->weight.d + a->w, NULL,
               l->y);
    for (size_t r = 0; r < rows; r++) {
        double *y = l->y + r * vocab, sum = 0, top = y[0], own;

        if (l->targets[r] < 0)
            continue;
        own = y[l->targets[r]];
        for (size_t i = 0; i < vocab; i++)
            top = fmax(top, y[i]);
        for (size_t i = 0; i < vocab; i++)
            sum += exp(y[i] - top);
        loss += top + log(sum) - own;
    }
    free(normed);
    l->ref_loss = loss;
    return loss * (double)a->scale;
}

/* The gradient of the logits that objective() left. */
static void logits_gradient(struct layer *l)
{
    size_t vocab = (size_t)l->args.tile.vocab;

    for (size_t r = 0; r < (size_t)l->args.tile.rows; r++) {
        double *y = l->y + r * vocab, sum = 0, top = y[0];

        for (size_t i = 0; i < vocab; i++)
            top = fmax(top, y[i]);
        for (size_t i = 0; i < vocab; i++)
            sum += exp(y[i] - top);
        for (size_t i = 0; i < vocab; i++) {
            double g = exp(y[i] - top) / sum - ((int)i == l->targets[r]);

            y[i] = l->targets[r] < 0 ? 0 : g * (double)l->args.scale;
        }
    }
}

static void check_layer(struct dsflow_tile t, int64_t w, int differentiate)
{
    struct layer l = layer_new(t, w);
    const struct dsflow_head_args *a = &l.args;
    double loss;

    objective(&l);
    RUN(&dsf_codelet_head_forward, a, { DSFLOW_HEAD_X, &l.x },
        { DSFLOW_HEAD_NORM, &l.norm }, { DSFLOW_HEAD_WEIGHT, &l.weight },
        { DSFLOW_HEAD_BATCH, &l.batch }, { DSFLOW_HEAD_LOGITS, &l.logits },
        { DSFLOW_HEAD_LOSS, &l.loss });
    memcpy(&loss, l.loss.f, sizeof(loss));
    assert_true(fabs(loss - l.ref_loss) <= 1e-6 * l.ref_loss);
    logits_gradient(&l);
    assert_close(l.logits.f, l.y, l.logits.n, 5e-6);
    RUN(&dsf_codelet_head_backward_input, a, { DSFLOW_HEAD_LOGITS, &l.logits },
        { DSFLOW_HEAD_X, &l.x }, { DSFLOW_HEAD_NORM, &l.norm },
        { DSFLOW_HEAD_WEIGHT, &l.weight }, { DSFLOW_HEAD_DX, &l.dx },
        { DSFLOW_HEAD_DNORM, &l.dnorm });
    soil(&l.grad);
    soil(&l.norm_grad);
    RUN_FRESH(1u << DSFLOW_HEAD_GRAD | 1u << DSFLOW_HEAD_NORM_GRAD,
              &dsf_codelet_head_backward_weight, a,
              { DSFLOW_HEAD_LOGITS, &l.logits }, { DSFLOW_HEAD_X, &l.x },
              { DSFLOW_HEAD_NORM, &l.norm }, { DSFLOW_HEAD_DNORM, &l.dnorm },
              { DSFLOW_HEAD_GRAD, &l.grad },
              { DSFLOW_HEAD_NORM_GRAD, &l.norm_grad });
    if (differentiate) {
        check_gradient(objective, &l, l.x.d, l.dx.f, l.x.n, "x");
        check_gradient(objective, &l, l.weight.d, l.grad.f, l.weight.n,
                       "weight");
        check_gradient(objective, &l, l.norm.d, l.norm_grad.f, l.norm.n,
                       "norm");
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
                             .ffn = 1,
                             .vocab = 259,
                             .context = 64,
                             .eps = 1e-5f };

    check_layer(t, 0, 1);
    t.rows = 33;
    t.width = 65;
    t.vocab = 2051;
    t.rms = 1;
    check_layer(t, 32, 1);
    t.rows = 1;
    t.vocab = 1;
    check_layer(t, 0, 1);
    t.rows = 4;
    t.width = 16;
    t.vocab = 50257;
    check_layer(t, 0, 0);
}

static void loss_and_gradients_are_those_of_double_precision(void **state)
{
    with_every_isa(check_shapes);
}

/* Columns whose logits are far from each other, in different blocks. */
static void a_distant_maximum_is_no_trouble(void **state)
{
    struct dsflow_tile t = { .rows = 2,
                             .nseq = 1,
                             .width = 4,
                             .heads = 1,
                             .kv_heads = 1,
                             .head_dim = 1,
                             .ffn = 1,
                             .vocab = 5000,
                             .context = 64,
                             .eps = 1e-5f };
    struct layer l = layer_new(t, 0);
    double loss;

    for (size_t i = 0; i < l.weight.n; i++)
        l.weight.f[i] *= i / 4 == 4321 ? 1000 : i < 16000 ? 1 : 100;
    l.targets[1] = 17;
    tensor_from_floats(&l.weight);
    objective(&l);
    RUN(&dsf_codelet_head_forward, &l.args, { DSFLOW_HEAD_X, &l.x },
        { DSFLOW_HEAD_NORM, &l.norm }, { DSFLOW_HEAD_WEIGHT, &l.weight },
        { DSFLOW_HEAD_BATCH, &l.batch }, { DSFLOW_HEAD_LOGITS, &l.logits },
        { DSFLOW_HEAD_LOSS, &l.loss });
    memcpy(&loss, l.loss.f, sizeof(loss));
    assert_true(fabs(loss - l.ref_loss) <= 1e-6 * l.ref_loss);
    logits_gradient(&l);
    assert_close(l.logits.f, l.y, l.logits.n, 1e-4);
    layer_free(&l);
}

/* Gradients are multiplied, exactly where it is a power of two; the loss is as
 * it was. */
static void the_loss_scale_is_in_the_gradients_only(void **state)
{
    static const double scales[] = { 1, 65536, 0.25, 3 };
    struct dsflow_tile t = { .rows = 9,
                             .nseq = 1,
                             .width = 24,
                             .heads = 1,
                             .kv_heads = 1,
                             .head_dim = 1,
                             .ffn = 1,
                             .vocab = 3001,
                             .context = 64,
                             .eps = 1e-5f };
    struct layer l = layer_new(t, 0);
    struct tensor logits = tensor_unset(l.logits.n), loss = tensor_unset(2);

    RUN(&dsf_codelet_head_forward, &l.args, { DSFLOW_HEAD_X, &l.x },
        { DSFLOW_HEAD_NORM, &l.norm }, { DSFLOW_HEAD_WEIGHT, &l.weight },
        { DSFLOW_HEAD_BATCH, &l.batch }, { DSFLOW_HEAD_LOGITS, &l.logits },
        { DSFLOW_HEAD_LOSS, &l.loss });
    for (int i = 0; i < 4; i++) {
        struct tensor control = control_of(scales[i]);
        float scale = (float)scales[i];

        RUN(&dsf_codelet_head_forward, &l.args, { DSFLOW_HEAD_X, &l.x },
            { DSFLOW_HEAD_NORM, &l.norm }, { DSFLOW_HEAD_WEIGHT, &l.weight },
            { DSFLOW_HEAD_BATCH, &l.batch }, { DSFLOW_HEAD_LOGITS, &logits },
            { DSFLOW_HEAD_LOSS, &loss }, { DSFLOW_HEAD_CONTROL, &control });
        assert_memory_equal(loss.f, l.loss.f, sizeof(double));
        for (size_t k = 0; k < logits.n; k++) {
            float want = l.logits.f[k] * scale;

            assert_true(i == 3 ? fabsf(logits.f[k] - want) <= 1e-6f * scale
                               : logits.f[k] == want);
        }
        tensor_free(&control);
    }
    tensor_free(&logits);
    tensor_free(&loss);
    layer_free(&l);
}

static void what_does_not_agree_is_refused(void **state)
{
    struct dsflow_tile t = { .rows = 2,
                             .nseq = 1,
                             .width = 8,
                             .heads = 1,
                             .kv_heads = 1,
                             .head_dim = 1,
                             .ffn = 1,
                             .vocab = 10,
                             .context = 4,
                             .eps = 1e-5f };
    struct dsflow_head_args a = {
        .tile = t, .norm_b = 8, .whole = t.vocab, .parts = 1, .scale = 1
    };
    size_t elems[] = { 16, 16, 80, 4, 20, 1 };
    struct dsflow_err err;

    assert_int_equal(check_elems(&dsf_op_head_forward, elems, 6, &a, &err), 0);
    elems[5] = 0;
    assert_int_equal(check_elems(&dsf_op_head_forward, elems, 6, &a, &err),
                     DSFLOW_EINVAL);
    assert_string_equal(err.msg, "head.forward: loss: is missing");
    elems[5] = 1;
    a.scale = INFINITY;
    assert_int_equal(check_elems(&dsf_op_head_forward, elems, 6, &a, &err),
                     DSFLOW_EINVAL);
    assert_string_equal(err.msg,
                        "head.forward: scale: inf: expected a finite number");
    a.scale = 1;
    a.w = 1;
    assert_int_equal(check_elems(&dsf_op_head_forward, elems, 6, &a, &err),
                     DSFLOW_EINVAL);
    assert_string_equal(err.msg, "head.forward: weight: 80 fp32: expected 81");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loss_and_gradients_are_those_of_double_precision),
        cmocka_unit_test(a_distant_maximum_is_no_trouble),
        cmocka_unit_test(the_loss_scale_is_in_the_gradients_only),
        cmocka_unit_test(what_does_not_agree_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
