/* test_vec.c - the exponential and the logistic function. */
#include "unit/kernels/numeric.h"

enum { N = 1 << 16 };

static double exp_ref(double x)
{
    return exp(x);
}

static double sigmoid_ref(double x)
{
    return 1 / (1 + exp(-x));
}

/* The largest relative error of f over [from, to]. */
static double worst(void (*f)(const float *, float *, size_t),
                    double (*ref)(double), double from, double to)
{
    struct guarded x = guarded_new(N * sizeof(float));
    struct guarded y = guarded_new(N * sizeof(float));
    float *in = (float *)x.p, *out = (float *)y.p;
    double most = 0;

    for (int i = 0; i < N; i++)
        in[i] = (float)(from + (to - from) * i / (N - 1));
    f(in, out, N);
    for (int i = 0; i < N; i++) {
        double r = ref((double)in[i]);

        most = fmax(most, fabs((double)out[i] - r) / r);
    }
    guarded_free(&x);
    guarded_free(&y);
    return most;
}

static void check_precision(void)
{
    const struct dsf_loops *loops = dsf_loops();

    assert_true(worst(loops->exp, exp_ref, -86.9, 87.9) < 2e-7);
    assert_true(worst(loops->exp, exp_ref, -1, 1) < 2e-7);
    assert_true(worst(loops->exp, exp_ref, -1e-3, 1e-3) < 1e-7);
    assert_true(worst(loops->sigmoid, sigmoid_ref, -79, 80) < 3e-7);
    assert_true(worst(loops->sigmoid, sigmoid_ref, -2, 2) < 3e-7);
}

static void errors_are_a_few_units_in_the_last_place(void **state)
{
    with_every_isa(check_precision);
}

static void check_ends(void)
{
    const float in[] = { 0,      -0.0f,    -INFINITY, -87.1f, -1000, -1e30f,
                         1000,   INFINITY, NAN,       1e-30f, -87,   88,
                         -86.9f, 1,        -1,        2,      3 };
    float out[17];

    dsf_loops()->exp(in, out, 17);
    assert_true(out[0] == 1 && out[1] == 1 && out[9] == 1);
    for (int i = 2; i < 6; i++)
        assert_true(out[i] == 0);
    assert_true(out[6] == out[11] && out[7] == out[11]);
    assert_true(isnan(out[8]));
    assert_true(out[10] > 0);
    dsf_loops()->sigmoid(in, out, 17);
    assert_true(out[0] == 0.5f);
    assert_true(out[2] > 0 && out[2] < 1e-34f);
    assert_true(out[6] == 1 && out[7] == 1);
    assert_true(isnan(out[8]));
}

static void ends_of_the_range_are_what_is_said(void **state)
{
    with_every_isa(check_ends);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_are_a_few_units_in_the_last_place),
        cmocka_unit_test(ends_of_the_range_are_what_is_said),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
