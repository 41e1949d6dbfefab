/* test_narrow.c - the loops for bf16 and fp16: conversions to the bit, and all
 * else against double precision. */
#include "unit/kernels/narrow.h"

static const size_t rows_of[] = { 1, 7, 33 }, widths[] = { 1, 4, 48, 65, 300 };

#define EACH_SHAPE(r, n)                                                       \
    for (size_t r_ = 0, r, n; r_ < 3; r_++)                                    \
        for (size_t n_ = 0; n_ < 5 && (r = rows_of[r_], n = widths[n_], 1);    \
             n_++)

static void narrow_flat(enum dsflow_dtype type, const float *in, uint16_t *out,
                        size_t n)
{
    dsf_narrow(type)->narrow(in, n, NULL, out, n, 1, n);
}

enum { ALL = 1 << 16 };
static uint16_t bits[ALL], back[ALL];
static float wide[ALL];

static void check_all_numbers(enum dsflow_dtype type)
{
    for (unsigned i = 0; i < ALL; i++)
        bits[i] = (uint16_t)i;
    dsf_narrow(type)->widen(bits, wide, ALL);
    narrow_flat(type, wide, back, ALL);
    for (unsigned i = 0; i < ALL; i++) {
        float x = from16(type, (uint16_t)i);

        if (isnan(x)) {
            assert_true(isnan(wide[i]));
            assert_int_equal(back[i], type == DSFLOW_BF16 ? 0x7fc0 : 0x7e00);
            continue;
        }
        assert_int_equal(dsf_bits_of(wide[i]), dsf_bits_of(x));
        assert_int_equal(back[i], i);
    }
}

static void every_number_is_widened_exactly_and_comes_back(void **state)
{
    with_every_type(check_all_numbers);
}

/* Between each number and the next one, which is infinity after the largest:
 * the middle goes to the even one, what is beside it to the nearer. */
static void check_middles(enum dsflow_dtype type)
{
    const uint16_t infinity = type == DSFLOW_BF16 ? 0x7f80 : 0x7c00;
    const float beyond = type == DSFLOW_BF16 ? 0x1p127f : 0x1p15f;

    for (int sign = 1; sign >= -1; sign -= 2) {
        for (uint16_t i = 0; i < infinity; i++) {
            float low = from16(type, i), middle, around[3];
            uint16_t minus = sign < 0 ? 0x8000 : 0, out[3];

            /* Halves do not overflow. */
            middle = low / 2 +
                     (i + 1 == infinity ? beyond : from16(type, i + 1) / 2);
            if (type == DSFLOW_BF16 && i < 0x100) /* but they do underflow */
                middle = dsf_float_of(((uint32_t)i << 16) + 0x8000);
            around[0] = (float)sign * middle;
            around[1] = (float)sign * nextafterf(middle, 0);
            around[2] = (float)sign * nextafterf(middle, INFINITY);
            narrow_flat(type, around, out, 3);
            assert_int_equal(out[0], minus | (i + (i & 1)));
            assert_int_equal(out[1], minus | i);
            assert_int_equal(out[2], minus | (i + 1));
        }
    }
}

static void ties_go_to_the_even_number(void **state)
{
    with_every_type(check_middles);
}

static void check_sums(enum dsflow_dtype type)
{
    const struct dsf_narrow_loops *loops = dsf_narrow(type);

    EACH_SHAPE(r, n)
    {
        const size_t ld = n + 3;
        struct tensor in = tensor_new(r * n, 1, 1);
        struct tensor16 x = tensor16_new(type, r * n, 1, 2);
        struct tensor16 b = tensor16_new(type, n, 1, 3);
        struct tensor16 y = tensor16_unset(type, r * n);
        struct tensor16 apart = tensor16_new(type, r * ld, 0, 4);
        struct tensor sums = tensor_new(n, 1, 5);

        loops->residual(in.f, x.h, b.h, y.h, r, n);
        loops->column_sums(sums.f, x.h, r, n);
        loops->narrow(in.f, n, b.h, apart.h, ld, r, n);
        for (size_t i = 0; i < r * n; i++) {
            y.d[i] = x.d[i] + b.d[i % n] + in.d[i];
            sums.d[i % n] += x.d[i];
            apart.d[i / n * ld + i % n] = in.d[i] + b.d[i % n];
        }
        assert_rounded(&y, 1e-6);
        assert_rounded(&apart, 1e-6); /* what is between rows is still 0 */
        assert_close(sums.f, sums.d, n, 1e-6);
        loops->residual(in.f, x.h, NULL, y.h, r, n);
        for (size_t i = 0; i < r * n; i++)
            y.d[i] = x.d[i] + in.d[i];
        assert_rounded(&y, 1e-6);
        loops->sum2(x.h, x.h, y.h, r * n);
        for (size_t i = 0; i < r * n; i++)
            x.d[i] += (double)from16(type, y.h[i]);
        assert_rounded(&x, 1e-6);
        tensor_free(&in);
        tensor16_free(&x);
        tensor16_free(&b);
        tensor16_free(&y);
        tensor16_free(&apart);
        tensor_free(&sums);
    }
}

static void sums_are_rounded_once(void **state)
{
    with_every_type(check_sums);
}

static void check_dots(enum dsflow_dtype type)
{
    const size_t dims[] = { 1, 12, 64, 80 };

    for (size_t i = 0; i < 4; i++) {
        size_t d = dims[i], n = 5 * 3;
        struct tensor a = tensor_new(n * d, 1, 1), out = tensor_unset(n);
        struct tensor16 b = tensor16_new(type, n * d, 1, 2);

        dsf_narrow(type)->head_dots(a.f, b.h, out.f, 5, 3, d);
        for (size_t j = 0; j < n; j++)
            out.d[j] = dot_ref(a.d + j * d, b.d + j * d, d);
        assert_close(out.f, out.d, n, 1e-6);
        tensor_free(&a);
        tensor_free(&out);
        tensor16_free(&b);
    }
}

static void heads_are_multiplied_in_fp32(void **state)
{
    with_every_type(check_dots);
}

static void check_rows(enum dsflow_dtype type)
{
    const struct dsf_narrow_loops *loops = dsf_narrow(type);

    EACH_SHAPE(n, k)
    {
        struct tensor x = tensor_new(k, 1, 1), y = tensor_new(n, 1, 3);
        struct tensor part = tensor_new(n, 1, 3);
        struct tensor16 w = tensor16_new(type, n * k, 1, 2);

        loops->row_product(x.f, w.h, n, k, 1, y.f);
        for (size_t j = 0; j < n; j++)
            y.d[j] += dot_ref(w.d + j * k, x.d, k);
        assert_close(y.f, y.d, n, 1e-5);
        loops->row_product(x.f, w.h, n / 3, k, 1, part.f);
        loops->row_product(x.f, w.h + n / 3 * k, n - n / 3, k, 1,
                           part.f + n / 3);
        assert_memory_equal(part.f, y.f, n * sizeof(float));
        tensor_free(&x);
        tensor_free(&y);
        tensor_free(&part);
        tensor16_free(&w);
    }
}

static void a_product_of_a_row_is_that_of_each_of_its_numbers(void **state)
{
    with_every_type(check_rows);
}

/* A norm with all of its data. */
struct norm_case {
    struct tensor16 x, w, b, dres, y, dx;
    struct tensor dy, dnorm;
};

static struct norm_case norm_case_new(enum dsflow_dtype type, size_t r,
                                      size_t n)
{
    struct norm_case c = { .x = tensor16_new(type, r * n, 2, 1),
                           .w = tensor16_new(type, n, 1, 2),
                           .b = tensor16_new(type, n, 1, 3),
                           .dres = tensor16_new(type, r * n, 1, 4),
                           .y = tensor16_unset(type, r * n),
                           .dx = tensor16_unset(type, r * n),
                           .dy = tensor_new(r * n, 1, 5),
                           .dnorm = tensor_unset(2 * n) };

    memset(c.dnorm.d, 0, 2 * n * sizeof(double));
    return c;
}

static void norm_case_free(struct norm_case *c)
{
    tensor16_free(&c->x);
    tensor16_free(&c->w);
    tensor16_free(&c->b);
    tensor16_free(&c->dres);
    tensor16_free(&c->y);
    tensor16_free(&c->dx);
    tensor_free(&c->dy);
    tensor_free(&c->dnorm);
}

static void check_norm(enum dsflow_dtype type, size_t r, size_t n, int rms)
{
    const struct dsf_narrow_loops *loops = dsf_narrow(type);
    struct norm_case c = norm_case_new(type, r, n);
    const struct norm_ref ref = { c.w.d, rms ? NULL : c.b.d, n, 1e-3f, rms };
    const struct dsf_narrow_norm norm = { c.w.h, rms ? NULL : c.b.h, n, 1e-3f,
                                          rms };

    memcpy(c.dx.d, c.dres.d, r * n * sizeof(double));
    for (size_t i = 0; i < r; i++)
        norm_row_ref(&ref, c.x.d + i * n, c.dy.d + i * n, c.y.d + i * n,
                     c.dx.d + i * n, c.dnorm.d);
    loops->norm_forward(&norm, c.x.h, c.y.h, r);
    assert_rounded(&c.y, 2e-6);
    loops->norm_backward(&norm, c.x.h, c.dy.f, c.dres.h, c.dx.h, c.dnorm.f, r);
    assert_rounded(&c.dx, 1e-5);
    assert_close(c.dnorm.f, c.dnorm.d, 2 * n, 2e-6);
    loops->norm_backward(&norm, c.x.h, c.dy.f, NULL, c.dx.h, c.dnorm.f, r);
    for (size_t i = 0; i < r * n; i++)
        c.dx.d[i] -= c.dres.d[i];
    assert_rounded(&c.dx, 1e-5);
    assert_close(c.dnorm.f, c.dnorm.d, 2 * n, 2e-6);
    norm_case_free(&c);
}

static void check_norms(enum dsflow_dtype type)
{
    EACH_SHAPE(r, n)
    {
        if (n == 1)
            continue; /* a constant, and no gradient */
        check_norm(type, r, n, 0);
        check_norm(type, r, n, 1);
    }
}

static void norms_are_those_of_double_precision(void **state)
{
    with_every_type(check_norms);
}

/* `acts` rows of `hidden` columns, and what an activation makes of them. */
struct act_case {
    struct tensor in, dact;
    struct tensor16 b, h, act, dh;
};

static struct act_case act_case_new(enum dsflow_dtype type, size_t rows,
                                    size_t hidden, size_t acts)
{
    struct act_case c = { .in = tensor_new(rows * hidden, 8, 1),
                          .dact = tensor_new(rows * acts, 1, 2),
                          .b = tensor16_new(type, hidden, 1, 3),
                          .h = tensor16_unset(type, rows * hidden),
                          .act = tensor16_unset(type, rows * acts),
                          .dh = tensor16_unset(type, rows * hidden) };

    for (size_t i = 0; i < rows * hidden; i++)
        c.h.d[i] = c.in.d[i] + c.b.d[i % hidden];
    return c;
}

/* What backward reads: h is what was stored. */
static void act_case_turn(struct act_case *c)
{
    for (size_t i = 0; i < c->h.n; i++)
        c->h.d[i] = (double)from16(c->h.type, c->h.h[i]);
}

/* After backward h has the activation at its start. */
static void act_case_end(struct act_case *c)
{
    struct tensor16 again = c->h;

    again.n = c->act.n;
    again.d = c->act.d;
    assert_rounded(&again, 1e-6);
    assert_rounded(&c->dh, 1e-6);
    tensor_free(&c->in);
    tensor_free(&c->dact);
    tensor16_free(&c->b);
    tensor16_free(&c->h);
    tensor16_free(&c->act);
    tensor16_free(&c->dh);
}

static void check_gelu(enum dsflow_dtype type)
{
    const struct dsf_narrow_loops *loops = dsf_narrow(type);
    double slope;

    EACH_SHAPE(r, n)
    {
        struct act_case c = act_case_new(type, r, n, n);

        loops->gelu_forward(c.in.f, c.b.h, c.h.h, c.act.h, r, n);
        for (size_t i = 0; i < r * n; i++)
            gelu_ref(c.h.d[i], &c.act.d[i], &slope);
        assert_rounded(&c.h, 1e-6);
        assert_rounded(&c.act, 1e-6);
        act_case_turn(&c);
        loops->gelu_backward(c.h.h, c.dact.f, c.dh.h, r * n);
        for (size_t i = 0; i < r * n; i++) {
            gelu_ref(c.h.d[i], &c.act.d[i], &slope);
            c.dh.d[i] = c.dact.d[i] * slope;
        }
        act_case_end(&c);
    }
}

static void check_swiglu(enum dsflow_dtype type)
{
    const struct dsf_narrow_loops *loops = dsf_narrow(type);
    double none;

    EACH_SHAPE(r, n)
    {
        struct act_case c = act_case_new(type, r, 2 * n, n);

        loops->swiglu_forward(c.in.f, c.b.h, c.h.h, c.act.h, r, n);
        for (size_t i = 0; i < r * n; i++) {
            const double *h = c.h.d + i / n * 2 * n + i % n;

            c.act.d[i] = swiglu_ref(h[0], h[n], 0, &none, &none);
        }
        assert_rounded(&c.h, 1e-6);
        assert_rounded(&c.act, 1e-6);
        act_case_turn(&c);
        loops->swiglu_backward(c.h.h, c.dact.f, n, c.dh.h, r, n);
        for (size_t i = 0; i < r * n; i++) {
            size_t at = i / n * 2 * n + i % n;

            c.act.d[i] = swiglu_ref(c.h.d[at], c.h.d[at + n], c.dact.d[i],
                                    &c.dh.d[at], &c.dh.d[at + n]);
        }
        act_case_end(&c);
    }
}

static void activations_are_those_of_double_precision(void **state)
{
    with_every_type(check_gelu);
    with_every_type(check_swiglu);
}

/* The fp32 updates of `one` and the same of `two`, with a copy. */
static void update(enum dsflow_dtype type, int rule, struct tensor one[4],
                   struct tensor two[4], uint16_t *copy)
{
    const struct dsf_narrow_loops *loops = dsf_narrow(type);
    const struct dsf_adam_step adam = {
        .9, .95, .5f, 1e-2f, 1, 1e-8f, 1e-3f, 0
    };
    const struct dsf_sgd_step sgd = {
        .5f, .1f, rule == 1 ? .9f : 0, .01f, 1, 0
    };
    const struct dsf_lion_step lion = { .9, .99, 2, 1e-2f, 1e-3f };
    const struct dsf_adagrad_step adagrad = { .5f, .1f, 1e-8f, .01f };
    const size_t n = one[0].n;
    float *p = one[0].f, *g = one[1].f, *m = one[2].f, *v = one[3].f;

    if (rule == 0)
        dsf_adam_update(&adam, p, g, m, v, n);
    else if (rule < 3)
        dsf_sgd_update(&sgd, p, g, rule == 1 ? m : NULL, n);
    else if (rule == 3)
        dsf_lion_update(&lion, p, g, m, n);
    else
        dsf_adagrad_update(&adagrad, p, g, v, n);
    p = two[0].f, g = two[1].f, m = two[2].f, v = two[3].f;
    if (rule == 0)
        loops->adam(&adam, p, g, m, v, copy, n);
    else if (rule < 3)
        loops->sgd(&sgd, p, g, rule == 1 ? m : NULL, copy, n);
    else if (rule == 3)
        loops->lion(&lion, p, g, m, copy, n);
    else
        loops->adagrad(&adagrad, p, g, v, copy, n);
}

static void check_updates(enum dsflow_dtype type)
{
    for (size_t w = 0; w < 5; w++) {
        const size_t n = widths[w];
        struct tensor one[4], two[4];
        struct tensor16 copy = tensor16_unset(type, n);

        for (uint64_t i = 0; i < 4; i++) {
            one[i] = tensor_new(n, 1, i + 1);
            two[i] = tensor_new(n, 1, i + 1);
        }
        for (size_t i = 0; i < n; i++) /* a second moment */
            one[3].f[i] = two[3].f[i] = fabsf(one[3].f[i]);
        for (int rule = 0; rule < 5; rule++) {
            update(type, rule, one, two, copy.h);
            for (size_t i = 0; i < 4; i++)
                assert_memory_equal(one[i].f, two[i].f, n * sizeof(float));
            for (size_t i = 0; i < n; i++)
                assert_int_equal(copy.h[i], to16(type, one[0].f[i]));
        }
        for (size_t i = 0; i < 4; i++) {
            tensor_free(&one[i]);
            tensor_free(&two[i]);
        }
        tensor16_free(&copy);
    }
}

static void updates_are_those_of_fp32_and_leave_a_copy(void **state)
{
    with_every_type(check_updates);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_is_widened_exactly_and_comes_back),
        cmocka_unit_test(ties_go_to_the_even_number),
        cmocka_unit_test(sums_are_rounded_once),
        cmocka_unit_test(heads_are_multiplied_in_fp32),
        cmocka_unit_test(a_product_of_a_row_is_that_of_each_of_its_numbers),
        cmocka_unit_test(norms_are_those_of_double_precision),
        cmocka_unit_test(activations_are_those_of_double_precision),
        cmocka_unit_test(updates_are_those_of_fp32_and_leave_a_copy),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
