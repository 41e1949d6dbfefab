/* test_update.c - optimizers and the small tasks around them, against the
 * formulas in double precision. */
#include "base/half.h"
#include "codelets/codelets.h"

#include "kernels/kernels.h"
#include "lib/test.h"
#include "tasks/tasks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 205, DECAY = 96, STEPS = 10 };

struct numbers {
    double p[N], m[N], v[N];
};

struct tensors {
    _Alignas(64) float g[N];
    _Alignas(64) float p[N];
    _Alignas(64) float m[N];
    _Alignas(64) float v[N];
    struct dsflow_control c;
};

static double gradient(int i, int step)
{
    return sin(i * 0.7 + step * 1.3) * (1 + i % 5);
}

static void run_fresh(const struct dsflow_codelet *codelet, const void *args,
                      unsigned n, void **ptrs, const size_t *bytes,
                      unsigned fresh)
{
    const struct dsflow_op *op = codelet->op;
    struct dsflow_shape shapes[DSFLOW_TRIAL_PORTS];
    struct dsflow_buf bufs[DSFLOW_TRIAL_PORTS];
    struct dsflow_err err;

    for (unsigned i = 0; i < n; i++) {
        unsigned p = i < op->nports ? i : op->nports - 1;
        bool control = strcmp(op->ports[p].name, "control") == 0;
        enum dsflow_dtype dtype = control                  ? DSFLOW_BYTES
                                  : op->ports[p].dtype > 0 ? op->ports[p].dtype
                                                           : DSFLOW_FP32;

        shapes[i] = dsflow_shape_of(
            dtype, (int64_t)(bytes[i] / dsflow_dtype_bytes(dtype, 1)));
        bufs[i] =
            (struct dsflow_buf){ ptrs[i], bytes[i], shapes[i].elems, dtype };
    }
    if (op->check(&(struct dsflow_case){ op, shapes, n, args }, &err) < 0)
        fail_msg("%s", err.msg);
    codelet->cpu(&(struct dsflow_call){ .bufs = bufs,
                                        .nbufs = n,
                                        .args = args,
                                        .fresh = fresh });
}

static void run(const struct dsflow_codelet *codelet, const void *args,
                unsigned n, void **ptrs, const size_t *bytes)
{
    run_fresh(codelet, args, n, ptrs, bytes, 0);
}

typedef void (*rule_fn)(struct numbers *x, int i, double g,
                        const struct dsf_update_args *a,
                        const struct dsflow_control *c);

static void adam_rule(struct numbers *x, int i, double g,
                      const struct dsf_update_args *a,
                      const struct dsflow_control *c)
{
    double wd = i < DECAY ? (double)a->weight_decay : 0;
    double b1 = a->beta1, b2 = a->beta2;

    if (!a->decoupled)
        g += wd * x->p[i];
    else
        x->p[i] *= 1 - c->lr * wd;
    x->m[i] = b1 * x->m[i] + (1 - b1) * g;
    x->v[i] = b2 * x->v[i] + (1 - b2) * g * g;
    if (a->uncorrected)
        x->p[i] -= c->lr * x->m[i] / (sqrt(x->v[i]) + a->eps);
    else
        x->p[i] -= c->lr / c->correction1 * x->m[i] /
                   (sqrt(x->v[i]) / sqrt(c->correction2) + a->eps);
}

static void sgd_rule(struct numbers *x, int i, double g,
                     const struct dsf_update_args *a,
                     const struct dsflow_control *c)
{
    g += (i < DECAY ? (double)a->weight_decay : 0) * x->p[i];
    if (a->momentum > 0) {
        x->m[i] = c->step == 1 ? g : (double)a->momentum * x->m[i] + g;
        g = a->nesterov ? g + (double)a->momentum * x->m[i] : x->m[i];
    }
    x->p[i] -= c->lr * g;
}

static void lion_rule(struct numbers *x, int i, double g,
                      const struct dsf_update_args *a,
                      const struct dsflow_control *c)
{
    double wd = i < DECAY ? (double)a->weight_decay : 0;
    double u = a->beta1 * x->m[i] + (1 - a->beta1) * g;

    x->p[i] *= 1 - c->lr * wd;
    x->p[i] -= c->lr * (u > 0 ? 1 : u < 0 ? -1 : 0);
    x->m[i] = a->beta2 * x->m[i] + (1 - a->beta2) * g;
}

static void adagrad_rule(struct numbers *x, int i, double g,
                         const struct dsf_update_args *a,
                         const struct dsflow_control *c)
{
    g += (i < DECAY ? (double)a->weight_decay : 0) * x->p[i];
    x->m[i] += g * g;
    x->p[i] -= c->lr * g / (sqrt(x->m[i]) + (double)a->eps);
}

static void compare(const struct dsflow_codelet *codelet, rule_fn rule,
                    const struct dsf_update_args *args, unsigned nports)
{
    static struct tensors t;
    static struct numbers x;
    void *ptrs[] = { &t.c, t.g, t.p, t.m, t.v };
    size_t bytes[] = { sizeof(t.c), sizeof(t.g), sizeof(t.p), sizeof(t.m),
                       sizeof(t.v) };

    memset(&t, 0, sizeof(t));
    memset(&x, 0, sizeof(x));
    for (int i = 0; i < N; i++)
        x.p[i] = t.p[i] = (float)cos(i);
    for (int step = 1; step <= STEPS; step++) {
        t.c.step = step;
        t.c.lr = 0.01;
        t.c.correction1 = 1 - pow(args->beta1, step);
        t.c.correction2 = 1 - pow(args->beta2, step);
        t.c.scale = 0.5;
        for (int i = 0; i < N; i++) {
            t.g[i] = (float)gradient(i, step);
            rule(&x, i, 0.5 * (double)t.g[i], args, &t.c);
        }
        run(codelet, args, nports, ptrs, bytes);
    }
    for (int i = 0; i < N; i++)
        if (fabs((double)t.p[i] - x.p[i]) > 2e-5 * (1 + fabs(x.p[i])))
            fail_msg("%s: element %d: %.8g, not %.8g", codelet->op->name, i,
                     (double)t.p[i], x.p[i]);
}

static const struct dsf_update_args usual = { .at = { .elems = N,
                                                      .decay = DECAY },
                                              .beta1 = 0.9,
                                              .beta2 = 0.95,
                                              .eps = 1e-8f,
                                              .weight_decay = 0.1f };

static void adam_follows_its_formula(void **state)
{
    struct dsf_update_args a = usual;

    compare(&dsf_codelet_adam, adam_rule, &a, 5);
    a.decoupled = 1;
    compare(&dsf_codelet_adam, adam_rule, &a, 5);
    a.uncorrected = 1;
    compare(&dsf_codelet_adam, adam_rule, &a, 5);
}

static void sgd_follows_its_formula(void **state)
{
    struct dsf_update_args a = usual;

    compare(&dsf_codelet_sgd, sgd_rule, &a, 3);
    a.momentum = 0.9f;
    compare(&dsf_codelet_sgd, sgd_rule, &a, 4);
    a.nesterov = 1;
    compare(&dsf_codelet_sgd, sgd_rule, &a, 4);
}

static void lion_follows_its_formula(void **state)
{
    compare(&dsf_codelet_lion, lion_rule, &usual, 4);
}

static void adagrad_follows_its_formula(void **state)
{
    compare(&dsf_codelet_adagrad, adagrad_rule, &usual, 4);
}

static void the_norm_is_that_of_all_units_and_limits_the_gradient(void **state)
{
    _Alignas(64) float g[N];
    double squares[3], total, want = 0;
    struct dsflow_control c = { .step = 1, .loss_scale = 1 };
    struct dsf_square_args square = { N, 0 };
    struct dsf_clip_args clip = { .limit = 2 };
    double loss = 1;

    for (int u = 0; u < 3; u++) {
        for (int i = 0; i < N; i++) {
            g[i] = (float)gradient(i, u);
            want += (double)g[i] * (double)g[i];
        }
        run(&dsf_codelet_square, &square, 2, (void *[]){ g, &squares[u] },
            (size_t[]){ sizeof(g), sizeof(double) });
    }
    run_fresh(&dsf_codelet_sum, NULL, 4,
              (void *[]){ &total, &squares[0], &squares[1], &squares[2] },
              (size_t[]){ 8, 8, 8, 8 }, 1);
    run(&dsf_codelet_clip, &clip, 3, (void *[]){ &total, &loss, &c },
        (size_t[]){ 8, 8, sizeof(c) });
    assert_true(fabs(c.norm - sqrt(want)) < 1e-6 * sqrt(want));
    assert_true(fabs(c.scale - 2 / (sqrt(want) + 1e-6)) < 1e-9);
    clip.limit = 1e9;
    run(&dsf_codelet_clip, &clip, 3, (void *[]){ &total, &loss, &c },
        (size_t[]){ 8, 8, sizeof(c) });
    assert_true(c.scale == 1);
    clip.limit = 0;
    run(&dsf_codelet_clip, &clip, 3, (void *[]){ &total, &loss, &c },
        (size_t[]){ 8, 8, sizeof(c) });
    assert_true(c.scale == 1);
}

static void one_gradient_is_added_to_another(void **state)
{
    _Alignas(64) float into[N], from[N];
    struct dsf_sum_args a = { .elems = N };

    for (int i = 0; i < N; i++) {
        into[i] = (float)i;
        from[i] = 2;
    }
    run(&dsf_codelet_add, &a, 2, (void *[]){ into, from },
        (size_t[]){ sizeof(into), sizeof(from) });
    for (int i = 0; i < N; i++)
        assert_true(into[i] == (float)(i + 2) && from[i] == 2);
    run_fresh(&dsf_codelet_add, &a, 2, (void *[]){ into, from },
              (size_t[]){ sizeof(into), sizeof(from) }, 1);
    for (int i = 0; i < N; i++)
        assert_true(into[i] == 2);
}

/* Two shards with states of their own, in one gradient and one parameter. */
static void a_shard_is_updated_like_the_whole(void **state)
{
    static struct tensors whole, shards;
    struct dsf_update_args a = usual;
    const int cut = 16;

    for (int i = 0; i < N; i++) {
        whole.p[i] = shards.p[i] = (float)cos(i);
        whole.g[i] = shards.g[i] = (float)gradient(i, 1);
    }
    whole.c = shards.c = (struct dsflow_control){ .step = 1,
                                                  .lr = 0.01,
                                                  .correction1 = 0.1,
                                                  .correction2 = 0.05,
                                                  .scale = 1 };
    run(&dsf_codelet_adam, &a, 5,
        (void *[]){ &whole.c, whole.g, whole.p, whole.m, whole.v },
        (size_t[]){ sizeof(whole.c), sizeof(whole.g), sizeof(whole.p),
                    sizeof(whole.m), sizeof(whole.v) });
    for (int s = 0; s < 2; s++) {
        int from = s * cut, n = s == 0 ? cut : N - cut;
        int decay = DECAY - from < 0 ? 0 : DECAY - from;

        a.at.elems = n;
        a.at.decay = decay < n ? decay : n;
        a.at.grad_at = a.at.param_at = from;
        run(&dsf_codelet_adam, &a, 5,
            (void *[]){ &shards.c, shards.g, shards.p, shards.m + from,
                        shards.v + from },
            (size_t[]){ sizeof(shards.c), sizeof(shards.g), sizeof(shards.p),
                        (size_t)n * sizeof(float), (size_t)n * sizeof(float) });
    }
    assert_memory_equal(whole.p, shards.p, sizeof(whole.p));
    assert_memory_equal(whole.m, shards.m, sizeof(whole.m));
    assert_memory_equal(whole.v, shards.v, sizeof(whole.v));
}

static void squares_of_shards_are_those_of_the_whole(void **state)
{
    enum { BLOCK = 16, BLOCKS = 6 };
    _Alignas(64) float g[BLOCK * BLOCKS];
    double all[BLOCKS], some[BLOCKS];
    struct dsf_square_args a = { BLOCK * BLOCKS, 0 };

    for (int i = 0; i < BLOCK * BLOCKS; i++)
        g[i] = (float)gradient(i, 3);
    run(&dsf_codelet_square, &a, 2, (void *[]){ g, all },
        (size_t[]){ sizeof(g), sizeof(all) });
    for (int b = 0; b < BLOCKS; b += 2) {
        a = (struct dsf_square_args){ 2 * BLOCK, b * BLOCK };
        run(&dsf_codelet_square, &a, 2, (void *[]){ g, some + b },
            (size_t[]){ sizeof(g), 2 * sizeof(double) });
    }
    assert_memory_equal(all, some, sizeof(all));
}

/* Longer than what is widened at a time. */
enum { LONG = 5003 };

struct long_tensors {
    float wide[LONG], p[LONG], m[LONG], v[LONG];
    uint16_t g[LONG];
};

static void update_long(const struct dsflow_codelet *codelet,
                        enum dsflow_dtype type, struct long_tensors *t)
{
    struct dsflow_control c = { .step = 2,
                                .lr = 0.01,
                                .correction1 = 0.1,
                                .correction2 = 0.05,
                                .scale = 0.5 };
    const struct dsf_update_args args = {
        .at = { .elems = LONG - 3, .decay = 4000, .grad_at = 3 },
        .beta1 = 0.9,
        .beta2 = 0.95,
        .eps = 1e-8f,
        .weight_decay = 0.1f,
        .momentum = 0.9f
    };
    void *const g = type == DSFLOW_FP32 ? (void *)t->wide : (void *)t->g;
    const struct dsflow_buf bufs[] = {
        { &c, sizeof(c), sizeof(c), DSFLOW_BYTES },
        { g, dsflow_dtype_bytes(type, LONG), LONG, type },
        { t->p, sizeof(t->p), LONG, DSFLOW_FP32 },
        { t->m, sizeof(t->m), LONG, DSFLOW_FP32 },
        { t->v, sizeof(t->v), LONG, DSFLOW_FP32 },
    };

    for (int i = 0; i < LONG; i++) {
        t->g[i] = dsf_to_bf16((float)gradient(i, 1));
        t->wide[i] = dsf_from_bf16(t->g[i]);
        t->p[i] = (float)cos(i);
        t->m[i] = (float)sin(i);
        t->v[i] = 1 + t->m[i];
    }
    codelet->cpu(&(struct dsflow_call){
        .bufs = bufs, .nbufs = codelet->op->nports - 1, .args = &args });
}

/* The same bits as of the same numbers in fp32. */
static void a_gradient_may_be_in_bf16(void **state)
{
    static const struct dsflow_codelet *const codelets[] = {
        &dsf_codelet_adam, &dsf_codelet_sgd, &dsf_codelet_lion,
        &dsf_codelet_adagrad
    };
    static struct long_tensors wide, narrow;

    for (size_t i = 0; i < sizeof(codelets) / sizeof(*codelets); i++) {
        update_long(codelets[i], DSFLOW_FP32, &wide);
        update_long(codelets[i], DSFLOW_BF16, &narrow);
        assert_memory_equal(wide.p, narrow.p, sizeof(wide.p));
        assert_memory_equal(wide.m, narrow.m, sizeof(wide.m));
        assert_memory_equal(wide.v, narrow.v, sizeof(wide.v));
    }
}

/* A block in bf16 is summed in pieces, one after the other. */
static void squares_of_a_long_block_in_bf16(void **state)
{
    enum { PIECE = 2048 };
    static float wide[LONG];
    static uint16_t g[LONG];
    const struct dsf_square_args args = { LONG, 0 };
    double sum, expected = 0;

    for (int i = 0; i < LONG; i++) {
        g[i] = dsf_to_bf16((float)gradient(i, 2));
        wide[i] = dsf_from_bf16(g[i]);
    }
    for (int i = 0; i < LONG; i += PIECE)
        expected += dsf_square_sum(
            wide + i, (size_t)(LONG - i < PIECE ? LONG - i : PIECE));
    dsf_codelet_square.cpu(&(struct dsflow_call){
        .bufs = (struct dsflow_buf[]){ { g, sizeof(g), LONG, DSFLOW_BF16 },
                                       { &sum, sizeof(sum), 1, DSFLOW_FP64 } },
        .nbufs = 2,
        .args = &args });
    assert_memory_equal(&expected, &sum, sizeof(sum));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adam_follows_its_formula),
        cmocka_unit_test(sgd_follows_its_formula),
        cmocka_unit_test(lion_follows_its_formula),
        cmocka_unit_test(adagrad_follows_its_formula),
        cmocka_unit_test(the_norm_is_that_of_all_units_and_limits_the_gradient),
        cmocka_unit_test(one_gradient_is_added_to_another),
        cmocka_unit_test(a_shard_is_updated_like_the_whole),
        cmocka_unit_test(squares_of_shards_are_those_of_the_whole),
        cmocka_unit_test(squares_of_a_long_block_in_bf16),
        cmocka_unit_test(a_gradient_may_be_in_bf16),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
