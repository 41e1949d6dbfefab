/* test_loops_update.c - sums of squares, and the rules of the optimizers. */
#include "unit/kernels/numeric.h"

#include "base/random.h"

#include <stdbool.h>

static const size_t sizes[] = { 1, 3, 16, 33, 100, 4097 };

enum { NSIZES = sizeof(sizes) / sizeof(*sizes), STEPS = 6 };

/* A shard: parameters, gradient and two states, as floats and as doubles. */
struct shard {
    struct tensor p, g, m, v;
};

static struct shard shard_new(size_t n)
{
    return (struct shard){ tensor_new(n, 1, 1), tensor_new(n, 0, 2),
                           tensor_new(n, 0, 3), tensor_new(n, 0, 4) };
}

static void new_gradient(struct shard *s, int step)
{
    uint64_t seed = 100 + (uint64_t)step;

    for (size_t i = 0; i < s->g.n; i++) {
        /* Every seventh is 0, as for tokens that did not come. */
        s->g.f[i] = i % 7 == 3 ? 0 : (float)noise(&seed);
        s->g.d[i] = (double)s->g.f[i];
    }
}

static void check_shard(struct shard *s)
{
    assert_close(s->p.f, s->p.d, s->p.n, 1e-6);
    assert_close(s->m.f, s->m.d, s->m.n, 1e-6);
    assert_close(s->v.f, s->v.d, s->v.n, 1e-6);
}

static void shard_free(struct shard *s)
{
    tensor_free(&s->p);
    tensor_free(&s->g);
    tensor_free(&s->m);
    tensor_free(&s->v);
}

static void adam_ref(struct shard *s, int step, double l2, double decay)
{
    double b1 = 0.9, b2 = 0.95, lr = 1e-2;
    double c1 = 1 - pow(b1, step), c2 = 1 - pow(b2, step);

    for (size_t i = 0; i < s->p.n; i++) {
        double *p = &s->p.d[i], *m = &s->m.d[i], *v = &s->v.d[i];
        double g = s->g.d[i] * 0.25 + l2 * *p;

        *m = b1 * *m + (1 - b1) * g;
        *v = b2 * *v + (1 - b2) * g * g;
        *p = *p * (1 - decay) -
             lr / c1 * *m / (sqrt(*v) / sqrt(c2) + (double)1e-6f);
    }
}

static void check_adam(size_t n, float l2, float decay)
{
    struct shard s = shard_new(n);

    for (int step = 1; step <= STEPS; step++) {
        struct dsf_adam_step a = {
            .scale = 0.25f,
            .lr1 = (float)(1e-2 / (1 - pow(0.9, step))),
            .root2 = (float)sqrt(1 - pow(0.95, step)),
            .beta1 = 0.9,
            .beta2 = 0.95,
            .eps = 1e-6f,
            .decay = decay,
            .l2 = l2,
        };

        new_gradient(&s, step);
        adam_ref(&s, step, (double)l2, (double)decay);
        dsf_adam_update(&a, s.p.f, s.g.f, s.m.f, s.v.f, n);
        check_shard(&s);
    }
    shard_free(&s);
}

static void check_adams(void)
{
    for (size_t i = 0; i < NSIZES; i++) {
        check_adam(sizes[i], 0, 0);
        check_adam(sizes[i], 0.1f, 0);
        check_adam(sizes[i], 0, 1e-3f);
    }
}

static void adam_follows_its_rule(void **state)
{
    with_every_isa(check_adams);
}

static void check_sgd(size_t n, float momentum, int nesterov)
{
    struct shard s = shard_new(n);

    for (int step = 1; step <= STEPS; step++) {
        struct dsf_sgd_step a = { 0.5f,  0.1f,     momentum,
                                  0.01f, nesterov, step == 1 };

        new_gradient(&s, step);
        for (size_t i = 0; i < n; i++) {
            double g = s.g.d[i] * 0.5 + (double)0.01f * s.p.d[i];

            if (momentum > 0) {
                s.m.d[i] = step == 1 ? g : (double)momentum * s.m.d[i] + g;
                g = nesterov ? g + (double)momentum * s.m.d[i] : s.m.d[i];
            }
            s.p.d[i] -= (double)0.1f * g;
        }
        if (step == 1)
            s.m.f[0] = NAN; /* `first` does not read it */
        dsf_sgd_update(&a, s.p.f, s.g.f, momentum > 0 ? s.m.f : NULL, n);
        if (momentum == 0)
            s.m.f[0] = 0;
        check_shard(&s);
    }
    shard_free(&s);
}

static void check_sgds(void)
{
    for (size_t i = 0; i < NSIZES; i++) {
        check_sgd(sizes[i], 0, 0);
        check_sgd(sizes[i], 0.9f, 0);
        check_sgd(sizes[i], 0.9f, 1);
    }
}

static void sgd_follows_its_rule(void **state)
{
    with_every_isa(check_sgds);
}

static void check_lion(size_t n)
{
    const struct dsf_lion_step a = { 0.9, 0.99, 2, 1e-2f, 1e-3f };
    const double b1 = 0.9, b2 = 0.99;
    struct shard s = shard_new(n);

    for (int step = 1; step <= STEPS; step++) {
        new_gradient(&s, step);
        for (size_t i = 0; i < n; i++) {
            double g = s.g.d[i] * 2, c = b1 * s.m.d[i] + (1 - b1) * g;
            double sign = c > 0 ? 1 : c < 0 ? -1 : 0;

            s.p.d[i] = s.p.d[i] * (1 - (double)a.decay) - (double)a.lr * sign;
            s.m.d[i] = b2 * s.m.d[i] + (1 - b2) * g;
        }
        dsf_lion_update(&a, s.p.f, s.g.f, s.m.f, n);
        check_shard(&s);
    }
    shard_free(&s);
}

static void check_lions(void)
{
    for (size_t i = 0; i < NSIZES; i++)
        check_lion(sizes[i]);
}

static void lion_follows_its_rule(void **state)
{
    with_every_isa(check_lions);
}

static void check_adagrad(size_t n)
{
    const struct dsf_adagrad_step a = { 0.5f, 0.1f, 1e-10f, 0.01f };
    struct shard s = shard_new(n);

    for (int step = 1; step <= STEPS; step++) {
        new_gradient(&s, step);
        for (size_t i = 0; i < n; i++) {
            double g = s.g.d[i] * 0.5 + (double)a.l2 * s.p.d[i];

            s.m.d[i] += g * g;
            s.p.d[i] -= (double)a.lr * g / (sqrt(s.m.d[i]) + (double)a.eps);
        }
        dsf_adagrad_update(&a, s.p.f, s.g.f, s.m.f, n);
        check_shard(&s);
    }
    shard_free(&s);
}

static void check_adagrads(void)
{
    for (size_t i = 0; i < NSIZES; i++)
        check_adagrad(sizes[i]);
}

static void adagrad_follows_its_rule(void **state)
{
    with_every_isa(check_adagrads);
}

/* Any floats: of all sizes, zeroes, infinities and NaNs. */
static void any_floats(float *v, size_t n, uint64_t seed)
{
    static const float odd[] = { 0,   -0.0f,     INFINITY,  -INFINITY,
                                 NAN, 0x1p-149f, 0x1p-126f, 0x1.fffffep127f };

    for (size_t i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)dsf_random(&seed);
        uint64_t kind = dsf_random(&seed) % 8;

        /* Most exponents close to each other, so that sums cancel. */
        if (kind > 1)
            bits = (bits & 0x83ffffff) | 0x3c000000;
        memcpy(&v[i], &bits, sizeof(bits));
        if (kind == 0)
            v[i] = odd[dsf_random(&seed) % 8];
    }
}

/* NaNs are NaNs, whatever their bits. */
static void assert_same(const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(a + i, b + i, sizeof(*a)) != 0 &&
            !(isnan(a[i]) && isnan(b[i])))
            fail_msg("number %zu: %a, not %a (%s)", i, (double)b[i],
                     (double)a[i], dsf_kernels_isa());
}

enum { MANY = 20001, RULES = 6 };

/* p, m and v after a step of each rule, of the first set of instructions. */
static float after[RULES][3][MANY];

static void run_rule(int rule, float *p, const float *g, float *m, float *v)
{
    const struct dsf_adam_step adam = { 0.9,  0.95,  0.3f,  3e-3f,
                                        0.7f, 1e-8f, 1e-3f, 0.01f };
    const struct dsf_sgd_step sgd = { 0.7f, 0.03f, 0.9f, 0.01f, rule == 2, 0 };
    const struct dsf_lion_step lion = { 0.9, 0.99, 0.7f, 1e-2f, 1e-3f };
    const struct dsf_adagrad_step adagrad = { 0.7f, 1e-2f, 1e-8f, 1e-3f };

    if (rule == 0)
        dsf_adam_update(&adam, p, g, m, v, MANY);
    else if (rule == 4)
        dsf_lion_update(&lion, p, g, m, MANY);
    else if (rule == 5)
        dsf_adagrad_update(&adagrad, p, g, v, MANY);
    else
        dsf_sgd_update(&sgd, p, g, rule == 3 ? NULL : m, MANY);
}

static void check_same_bits(void)
{
    static float p[MANY], g[MANY], m[MANY], v[MANY];
    const bool is_first = strcmp(dsf_kernels_isa(), "portable") == 0;

    for (int rule = 0; rule < RULES; rule++) {
        float *const all[] = { p, m, v };

        any_floats(p, MANY, 1);
        any_floats(g, MANY, 2);
        any_floats(m, MANY, 3);
        any_floats(v, MANY, 4);
        run_rule(rule, p, g, m, v);
        for (int k = 0; k < 3; k++)
            if (is_first)
                memcpy(after[rule][k], all[k], sizeof(p));
            else
                assert_same(after[rule][k], all[k], MANY);
    }
}

static void all_instructions_give_the_same_bits(void **state)
{
    with_every_isa(check_same_bits);
}

/* p - lr g, which is all that is left of SGD here. */
static void check_one_rounding(void)
{
    const struct dsf_sgd_step sgd = { .scale = 1, .lr = 0x1.234566p-3f };
    static float p[MANY], g[MANY], expected[MANY];

    any_floats(p, MANY, 5);
    any_floats(g, MANY, 6);
    for (size_t i = 0; i < MANY; i++) {
        if (!isfinite(p[i])) /* 0 p is no number */
            p[i] = 1;
        expected[i] = fmaf(-sgd.lr, g[i], p[i]);
    }
    dsf_sgd_update(&sgd, p, g, NULL, MANY);
    assert_same(expected, p, MANY);
}

/* -lr g ends p + -lr g a little below, or above, the middle between two floats:
 * less than double shows. */
static void check_halfway(void)
{
    static const struct {
        float minus_lr, g, p;
    } cases[] = {
        { 0x1.000002p-24f, 0x1.fffffcp-1f, 0x1.000002p+0f },
        { 0x1.001p-24f, 0x1.ffe002p-1f, 1 },
    };

    for (int k = 0; k < 2; k++) {
        const struct dsf_sgd_step sgd = { .scale = 1,
                                          .lr = -cases[k].minus_lr };
        float p[37], g[37], expected[37];

        for (int i = 0; i < 37; i++) {
            const float sign = i % 3 == 1 ? -1 : 1;

            g[i] = sign * cases[k].g;
            p[i] = i % 5 == 0 ? 0.5f : sign * cases[k].p;
            expected[i] = fmaf(-sgd.lr, g[i], p[i]);
            if (i % 5 != 0)
                assert_true((float)(-(double)sgd.lr * g[i] + p[i]) !=
                            expected[i]);
        }
        dsf_sgd_update(&sgd, p, g, NULL, 37);
        assert_same(expected, p, 37);
    }
}

static void a_product_is_added_and_rounded_once(void **state)
{
    with_every_isa(check_one_rounding);
    with_every_isa(check_halfway);
}

/* As kernels.h says it. */
static double squares_ref(const float *x, size_t n)
{
    const size_t part = (n + 127) / 128 * 16;
    double sum[8][16] = { { 0 } };

    for (size_t i = 0; i < n; i++)
        sum[i / part][i % part % 16] += (double)x[i] * (double)x[i];
    for (size_t p = 0; p < 8; p++)
        for (size_t half = 8; half > 0; half /= 2)
            for (size_t k = 0; k < half; k++)
                sum[p][k] += sum[p][k + half];
    for (size_t half = 4; half > 0; half /= 2)
        for (size_t p = 0; p < half; p++)
            sum[p][0] += sum[p + half][0];
    return sum[0][0];
}

static void check_squares(void)
{
    for (size_t n = 1; n < 3000; n += n < 300 ? 1 : 131) {
        struct tensor a = tensor_new(n, 1e3, n);
        double squares = squares_ref(a.f, n);

        assert_memory_equal(&squares, &(double){ dsf_square_sum(a.f, n) },
                            sizeof(squares));
        tensor_free(&a);
    }
}

static void squares_are_summed_in_the_order_of_their_lanes(void **state)
{
    with_every_isa(check_squares);
}

static void check_sums(void)
{
    for (size_t i = 0; i < NSIZES; i++) {
        struct tensor a = tensor_new(sizes[i], 1e3, 1);
        double squares = dot_ref(a.d, a.d, a.n);

        assert_true(fabs(dsf_square_sum(a.f, a.n) - squares) <=
                    1e-13 * squares);
        tensor_free(&a);
    }
}

static void sums_are_those_of_double_precision(void **state)
{
    with_every_isa(check_sums);
    assert_true(dsf_square_sum(NULL, 0) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adam_follows_its_rule),
        cmocka_unit_test(sgd_follows_its_rule),
        cmocka_unit_test(lion_follows_its_rule),
        cmocka_unit_test(adagrad_follows_its_rule),
        cmocka_unit_test(all_instructions_give_the_same_bits),
        cmocka_unit_test(a_product_is_added_and_rounded_once),
        cmocka_unit_test(squares_are_summed_in_the_order_of_their_lanes),
        cmocka_unit_test(sums_are_those_of_double_precision),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
