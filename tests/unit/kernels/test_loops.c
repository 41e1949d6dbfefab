/* test_loops.c - the fused loops one by one, and that where their buffers
 * stand does not change a bit. */
#include "unit/kernels/reference.h"

static const size_t rows_of[] = { 1, 7, 33 }, widths[] = { 1, 4, 48, 65, 300 };

#define EACH_SHAPE(r, n)                                                       \
    for (size_t r_ = 0, r, n; r_ < 3; r_++)                                    \
        for (size_t n_ = 0; n_ < 5 && (r = rows_of[r_], n = widths[n_], 1);    \
             n_++)

static void check_sums(void)
{
    EACH_SHAPE(r, n)
    {
        struct tensor x = tensor_new(r * n, 1, 1), b = tensor_new(n, 1, 2);
        struct tensor y = tensor_unset(r * n), s = tensor_new(n, 1, 3);

        dsf_residual(y.f, x.f, b.f, r, n);
        dsf_column_sums(s.f, x.f, r, n);
        for (size_t i = 0; i < r * n; i++) {
            assert_true(y.f[i] == x.f[i] + b.f[i % n]);
            s.d[i % n] += x.d[i];
        }
        assert_close(s.f, s.d, n, 1e-6);
        dsf_add_bias(x.f, b.f, r, n);
        assert_memory_equal(x.f, y.f, r * n * sizeof(float));
        dsf_residual(y.f, x.f, NULL, r, n);
        assert_memory_equal(x.f, y.f, r * n * sizeof(float));
        dsf_scale(y.f, 3, r * n);
        dsf_add(y.f, x.f, r * n);
        dsf_sum(s.f, b.f, x.f, n);
        for (size_t i = 0; i < n; i++) {
            assert_true(y.f[i] == 3 * x.f[i] + x.f[i]);
            assert_true(s.f[i] == b.f[i] + x.f[i]);
        }
        tensor_free(&x);
        tensor_free(&b);
        tensor_free(&y);
        tensor_free(&s);
    }
}

static void sums_and_residuals_are_exact_to_rounding(void **state)
{
    with_every_isa(check_sums);
}

/* And whichever rows are asked for, each has its bits. */
static void check_row_products(void)
{
    EACH_SHAPE(n, k)
    {
        struct tensor x = tensor_new(k, 1, 1), w = tensor_new(n * k, 1, 2);
        struct tensor y = tensor_new(n, 1, 3), part = tensor_new(n, 1, 3);
        double want[64];

        for (size_t j = 0; j < n; j++) {
            want[j] = 0.5 * y.d[j];
            for (size_t i = 0; i < k; i++)
                want[j] += w.d[j * k + i] * x.d[i];
        }
        dsf_row_product(x.f, w.f, n, k, 0.5f, y.f);
        assert_close(y.f, want, n, 1e-5);
        dsf_row_product(x.f, w.f, n / 3, k, 0.5f, part.f);
        dsf_row_product(x.f, w.f + n / 3 * k, n - n / 3, k, 0.5f,
                        part.f + n / 3);
        assert_memory_equal(part.f, y.f, n * sizeof(float));
        y.f[0] = NAN;
        dsf_row_product(x.f, w.f, n, k, 0, y.f);
        dsf_row_product(x.f, w.f, 1, k, 0, part.f);
        assert_memory_equal(part.f, y.f, sizeof(float));
        tensor_free(&x);
        tensor_free(&w);
        tensor_free(&y);
        tensor_free(&part);
    }
}

static void a_product_of_a_row_is_that_of_each_of_its_numbers(void **state)
{
    with_every_isa(check_row_products);
}

static void check_norm(size_t r, size_t n, int rms, double shift)
{
    struct tensor x = tensor_new(r * n, 2, 1), dy = tensor_new(r * n, 1, 2);
    struct tensor w = tensor_new(n, 1, 3), b = tensor_new(n, 1, 4);
    struct tensor y = tensor_unset(r * n), dx = tensor_unset(r * n);
    struct tensor dres = tensor_new(r * n, 1, 5);
    struct tensor dnorm = tensor_unset(2 * n);
    struct dsf_norm norm = { w.f, rms ? NULL : b.f, n, 1e-3f, rms };
    const struct norm_ref ref = { w.d, rms ? NULL : b.d, n, 1e-3f, rms };

    for (size_t i = 0; i < x.n; i++)
        x.f[i] += (float)shift;
    tensor_from_floats(&x);
    memcpy(dx.d, dres.d, dres.n * sizeof(double));
    memset(dnorm.d, 0, 2 * n * sizeof(double));
    for (size_t i = 0; i < r; i++)
        norm_row_ref(&ref, x.d + i * n, dy.d + i * n, y.d + i * n,
                     dx.d + i * n, dnorm.d);
    dsf_norm_forward(&norm, x.f, y.f, r);
    dsf_norm_backward(&norm, x.f, dy.f, dres.f, dx.f, dnorm.f, r);
    assert_close(y.f, y.d, y.n, 1e-6 + 1e-6 * shift);
    assert_close(dx.f, dx.d, dx.n, 2e-6 + 1e-6 * shift);
    assert_close(dnorm.f, dnorm.d, 2 * n, 1e-6 + 1e-6 * shift);
    dsf_norm_backward(&norm, x.f, dy.f, NULL, dx.f, dnorm.f, r);
    for (size_t i = 0; i < dx.n; i++)
        dx.d[i] -= dres.d[i];
    assert_close(dx.f, dx.d, dx.n, 1e-5 + 1e-5 * shift);
    tensor_free(&x);
    tensor_free(&dy);
    tensor_free(&w);
    tensor_free(&b);
    tensor_free(&y);
    tensor_free(&dx);
    tensor_free(&dres);
    tensor_free(&dnorm);
}

static void check_norms(void)
{
    EACH_SHAPE(r, n)
    {
        if (n == 1)
            continue; /* a constant, and no gradient */
        check_norm(r, n, 1, 0);
        check_norm(r, n, 0, 0);
        check_norm(r, n, 0, 30); /* a mean far from 0 */
    }
}

static void norms_are_those_of_double_precision(void **state)
{
    with_every_isa(check_norms);
}

static void check_gelu(void)
{
    EACH_SHAPE(r, n)
    {
        struct tensor h = tensor_new(r * n, 12, 1), b = tensor_new(n, 1, 2);
        struct tensor act = tensor_unset(r * n), dh = tensor_new(r * n, 1, 3);

        dsf_gelu_forward(h.f, b.f, act.f, r, n);
        for (size_t i = 0; i < r * n; i++) {
            double slope;

            assert_true(h.f[i] == (float)h.d[i] + b.f[i % n]);
            gelu_ref((double)h.f[i], &act.d[i], &slope);
            dh.d[i] *= slope;
        }
        assert_close(act.f, act.d, r * n, 1e-6);
        dsf_gelu_backward(h.f, dh.f, r * n);
        assert_close(dh.f, dh.d, r * n, 1e-6);
        assert_memory_equal(h.f, act.f, r * n * sizeof(float));
        tensor_free(&h);
        tensor_free(&b);
        tensor_free(&act);
        tensor_free(&dh);
    }
}

static void check_swiglu(void)
{
    EACH_SHAPE(r, n)
    {
        struct tensor h = tensor_new(2 * r * n, 12, 1);
        struct tensor act = tensor_unset(r * n);
        struct tensor dh = tensor_new(2 * r * n, 1, 3);

        dsf_swiglu_forward(h.f, NULL, act.f, r, n);
        for (size_t i = 0; i < r * n; i++) {
            size_t at = i / n * 2 * n + i % n;

            act.d[i] = swiglu_ref(h.d[at], h.d[at + n], dh.d[at], &dh.d[at],
                                  &dh.d[at + n]);
        }
        assert_close(act.f, act.d, r * n, 1e-6);
        dsf_swiglu_backward(h.f, dh.f, r, n);
        assert_close(dh.f, dh.d, 2 * r * n, 1e-6);
        assert_memory_equal(h.f, act.f, r * n * sizeof(float));
        tensor_free(&h);
        tensor_free(&act);
        tensor_free(&dh);
    }
}

static void activations_are_those_of_double_precision(void **state)
{
    with_every_isa(check_gelu);
    with_every_isa(check_swiglu);
}

static void check_rotation(size_t rows, size_t heads, size_t d)
{
    const size_t ld = heads * d + 3;
    struct tensor x = tensor_new(rows * ld, 1, 1);
    struct tensor table = tensor_new(rows * d, 3, 2);

    for (size_t i = 0; i < rows * d; i += 2) {
        table.f[i] = (float)cos(table.d[i]);
        table.f[i + 1] = (float)sin(table.d[i]);
    }
    tensor_from_floats(&table);
    dsf_rotate(x.f, ld, rows, heads, d, table.f, 0);
    for (size_t r = 0; r < rows; r++) {
        for (size_t i = 0; i < heads * d / 2; i++) {
            size_t half = d / 2, p = i % half;
            double c = table.d[r * d + 2 * p], s = table.d[r * d + 2 * p + 1];
            double *a = x.d + r * ld + i / half * d + p, u = *a;

            a[0] = u * c - a[half] * s;
            a[half] = a[half] * c + u * s;
        }
    }
    assert_close(x.f, x.d, x.n, 1e-6);
    /* What is between the rows is as it was, to the bit. */
    for (size_t r = 0; r < rows; r++)
        assert_true(x.f[r * ld + ld - 1] == (float)x.d[r * ld + ld - 1]);
    dsf_rotate(x.f, ld, rows, heads, d, table.f, 1);
    tensor_free(&table);
    table = tensor_new(rows * ld, 1, 1);
    assert_close(x.f, table.d, x.n, 1e-6);
    tensor_free(&x);
    tensor_free(&table);
}

static void check_rotations(void)
{
    check_rotation(1, 1, 2);
    check_rotation(7, 3, 4);
    check_rotation(5, 2, 80);
    check_rotation(3, 1, 300);
}

static void rotations_turn_and_turn_back(void **state)
{
    with_every_isa(check_rotations);
}

static void check_columns(void)
{
    EACH_SHAPE(r, n)
    {
        size_t ld = n + 5;
        struct tensor x = tensor_new(r * ld, 9, 1);
        struct tensor top = tensor_unset(r);
        double *sum = zeroes(r);

        dsf_exp_columns(x.f, ld, r, n, top.f, sum);
        for (size_t i = 0; i < r; i++) {
            double most = -INFINITY, total = 0;

            for (size_t j = 0; j < n; j++)
                most = fmax(most, x.d[i * ld + j]);
            for (size_t j = 0; j < n; j++)
                total += x.d[i * ld + j] = exp(x.d[i * ld + j] - most);
            assert_true((double)top.f[i] == most);
            assert_true(fabs(sum[i] - total) < 1e-6 * total);
        }
        assert_close(x.f, x.d, x.n, 1e-6);
        tensor_free(&x);
        tensor_free(&top);
        free(sum);
    }
}

static void columns_are_exponentials_below_their_maximum(void **state)
{
    with_every_isa(check_columns);
}

#define FLOATS(p) ((struct dsf_numbers){ p, DSFLOW_FP32 })

/* Every loop once, on buffers that start `at` bytes from a page; what they
 * wrote is in the same memory. */
static float *run_all(size_t at, size_t total)
{
    enum { R = 37, N = 77, D = 12, H = 3 };
    float *mem = aligned_alloc(4096, (total * sizeof(float) + 8191) & ~4095u);
    float *f = mem + at / sizeof(float), *p[16];
    uint64_t seed = 77;
    struct dsf_attention a = { 1, R, R, H, 1, D, 24, 64, .3f, 1, 1, 1, 1, 1 };
    struct dsf_adam_step adam = { 1, 1e-3f, 1, .9f, .95f, 1e-8f, 1e-3f, 0 };
    double sums[R];

    assert_non_null(mem);
    for (size_t i = 0; i < total; i++)
        f[i] = (float)noise(&seed);
    for (size_t i = 0; i < 16; i++)
        p[i] = f + i * total / 16;
    dsf_norm_forward(&(struct dsf_norm){ p[0], p[1], N, 1e-5f, 0 }, p[2], p[3],
                     R);
    dsf_norm_backward(&(struct dsf_norm){ p[0], p[1], N, 1e-5f, 0 }, p[2], p[3],
                      p[4], p[5], p[6], R);
    dsf_gelu_forward(p[3], p[0], p[7], R, N);
    dsf_gelu_backward(p[3], p[5], R * N);
    dsf_column_sums(p[6], p[5], R, N);
    dsf_adam_update(&adam, p[4], p[3], p[5], p[7], R * N);
    p[8][0] = (float)dsf_square_sum(p[5], R * N);
    dsf_exp_columns(p[9], N, R, N, p[8] + 1, sums);
    for (size_t i = 0; i < R; i++)
        p[8][64 + i] = (float)sums[i];
    dsf_head_dots(p[9], p[10], p[8] + 200, R, H, D);
    dsf_attention_forward(&a, FLOATS(p[10]), FLOATS(p[11]), FLOATS(p[12]),
                          p[13], p[14]);
    dsf_attention_backward(&a, FLOATS(p[10]), FLOATS(p[11]), FLOATS(p[9]),
                           p[13], p[8] + 200, FLOATS(p[12]), FLOATS(p[11]),
                           p[14]);
    memmove(mem, f, 14 * total / 16 * sizeof(float)); /* without scratch */
    return mem;
}

static void check_places(void)
{
    const size_t total = 16 * 8192;
    float *first = run_all(0, total);

    for (size_t at = 4; at < 4096; at = at * 2 + (at == 4 ? 56 : 0)) {
        float *other = run_all(at, total);

        assert_memory_equal(first, other, 14 * total / 16 * sizeof(float));
        free(other);
    }
    free(first);
}

static void the_place_of_buffers_changes_no_bit(void **state)
{
    with_every_isa(check_places);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_and_residuals_are_exact_to_rounding),
        cmocka_unit_test(a_product_of_a_row_is_that_of_each_of_its_numbers),
        cmocka_unit_test(norms_are_those_of_double_precision),
        cmocka_unit_test(activations_are_those_of_double_precision),
        cmocka_unit_test(rotations_turn_and_turn_back),
        cmocka_unit_test(columns_are_exponentials_below_their_maximum),
        cmocka_unit_test(the_place_of_buffers_changes_no_bit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
