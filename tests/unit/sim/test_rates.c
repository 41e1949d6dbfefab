/* test_rates.c - rates that are known are found again in times. */
#include "sim/rates.h"

#include "lib/test.h"

#include <stdlib.h>

static void add(struct dsf_samples *samples, const char *kind,
                struct dsf_work work, double seconds)
{
    dsf_samples_add(
        samples, &(struct dsf_rate_sample){
                     .kind = kind, .work = work, .seconds = seconds, .n = 1 });
}

static void rates_are_found_in_exact_times(void **state)
{
    const struct dsf_kind_rate truth = {
        .fixed = 3e-6, .per_flop = 1e-11, .per_byte = 2e-10, .per_score = 5e-10
    };
    struct dsf_samples samples = { 0 };
    struct dsf_machine_model m;
    const struct dsf_kind_rate *rate;

    dsf_machine_model_init(&m);
    for (int i = 1; i <= 12; i++) {
        struct dsf_work w = { 1e6 * i * i, 1e5 * i, 3e4 * (i % 4) };

        add(&samples, "attention", w, dsf_rate_seconds(&truth, &w));
        add(&samples, "copy", (struct dsf_work){ 0, 1e6 * i, 0 }, 1e-4 * i);
    }
    dsf_rates_fit(&samples, &m);
    rate = dsf_machine_model_kind(&m, "attention", false, DSFLOW_BYTES);
    assert_float_equal(rate->fixed / truth.fixed, 1, 1e-6);
    assert_float_equal(rate->per_flop / truth.per_flop, 1, 1e-6);
    assert_float_equal(rate->per_byte / truth.per_byte, 1, 1e-6);
    assert_float_equal(rate->per_score / truth.per_score, 1, 1e-6);
    rate = dsf_machine_model_kind(&m, "copy", false, DSFLOW_BYTES);
    assert_float_equal(rate->per_byte / 1e-10, 1, 1e-6);
    assert_true(rate->per_flop == 0 && rate->fixed < 1e-12);
    assert_null(dsf_machine_model_kind(&m, "other", false, DSFLOW_BYTES));
    free(samples.v);
    dsf_machine_model_fini(&m);
}

static void a_kind_has_rates_of_its_own_in_a_narrow_type(void **state)
{
    struct dsf_samples samples = { 0 };
    struct dsf_machine_model m;
    struct dsf_rate_sample s = { .kind = "mlp", .n = 1 };

    dsf_machine_model_init(&m);
    for (int i = 1; i <= 8; i++) {
        s.work = (struct dsf_work){ 1e6 * i, 0, 0 };
        s.dtype = DSFLOW_BYTES;
        s.seconds = 4e-3 * i;
        dsf_samples_add(&samples, &s);
        s.dtype = DSFLOW_BF16;
        s.seconds = 1e-3 * i;
        dsf_samples_add(&samples, &s);
    }
    assert_int_equal(samples.n, 16);
    assert_float_equal(dsf_samples_flops(&samples, DSFLOW_BF16) / 1e9, 1, 1e-9);
    assert_float_equal(dsf_samples_flops(&samples, DSFLOW_FP16), 0, 0);
    dsf_rates_fit(&samples, &m);
    assert_int_equal(m.nkinds, 2);
    assert_float_equal(
        dsf_machine_model_kind(&m, "mlp", false, DSFLOW_FP32)->per_flop / 4e-9,
        1, 1e-6);
    assert_float_equal(
        dsf_machine_model_kind(&m, "mlp", false, DSFLOW_BF16)->per_flop / 1e-9,
        1, 1e-6);
    free(samples.v);
    dsf_machine_model_fini(&m);
}

static void what_has_a_rate_is_not_new(void **state)
{
    struct dsf_samples samples = { 0 };
    struct dsf_machine_model m;

    dsf_machine_model_init(&m);
    dsf_machine_model_add_kind(&m, "adam", false, DSFLOW_BYTES);
    add(&samples, "adam", (struct dsf_work){ 1, 2, 0 }, 1e-3);
    add(&samples, "cast", (struct dsf_work){ 1, 2, 0 }, 1e-3);
    dsf_samples_add(&samples,
                    &(struct dsf_rate_sample){
                        .kind = "adam", .seconds = 1, .dtype = DSFLOW_BF16 });
    dsf_samples_keep_new(&samples, &m);
    assert_int_equal(samples.n, 2);
    assert_string_equal(samples.v[0].kind, "cast");
    assert_int_equal(samples.v[1].dtype, DSFLOW_BF16);
    free(samples.v);
    dsf_machine_model_fini(&m);
}

/* Of tasks that are long, and many: by their time. */
static void scatter_is_the_spread_of_long_tasks(void **state)
{
    struct dsf_samples samples = { 0 };
    struct dsf_rate_sample s = { .kind = "a", .seconds = 1e-3, .n = 4 };

    assert_float_equal(dsf_samples_scatter(&samples), 0, 0);
    s.spread = 1e-4;
    dsf_samples_add(&samples, &s);
    s = (struct dsf_rate_sample){ "b", { 1, 1, 1 }, 2e-3, 8e-4, 8 };
    dsf_samples_add(&samples, &s);
    /* One of a moment, and one that came once. */
    s = (struct dsf_rate_sample){ "c", { 1, 1, 1 }, 1e-5, 1e-3, 100 };
    dsf_samples_add(&samples, &s);
    s = (struct dsf_rate_sample){ "d", { 1, 1, 1 }, 1, 5, 1 };
    dsf_samples_add(&samples, &s);
    assert_float_equal(dsf_samples_scatter(&samples),
                       (4 * 1e-4 + 8 * 8e-4) / (4 * 1e-3 + 8 * 2e-3), 1e-12);
    /* What was measured again, and faster, has its own. */
    s = (struct dsf_rate_sample){ "b", { 1, 1, 1 }, 1e-3, 0, 0 };
    dsf_samples_add(&samples, &s);
    assert_float_equal(dsf_samples_scatter(&samples),
                       4 * 1e-4 / (4 * 1e-3 + 8 * 1e-3), 1e-12);
    free(samples.v);
}

/* Times that fall with the size would ask for a rate below zero. */
static void no_rate_is_below_zero(void **state)
{
    struct dsf_samples samples = { 0 };
    struct dsf_machine_model m;
    const struct dsf_kind_rate *rate;

    dsf_machine_model_init(&m);
    for (int i = 1; i <= 5; i++)
        add(&samples, "odd", (struct dsf_work){ 1e6 * i, 1e6 / i, 0 },
            1e-3 - 1e-4 * i);
    dsf_rates_fit(&samples, &m);
    rate = dsf_machine_model_kind(&m, "odd", false, DSFLOW_BYTES);
    assert_non_null(rate);
    assert_true(rate->fixed >= 0 && rate->per_flop >= 0 &&
                rate->per_byte >= 0 && rate->per_score >= 0);
    free(samples.v);
    dsf_machine_model_fini(&m);
}

static void of_two_times_of_the_same_the_shorter_counts(void **state)
{
    struct dsf_samples samples = { 0 };

    add(&samples, "adam", (struct dsf_work){ 1, 2, 0 }, 3e-3);
    add(&samples, "adam", (struct dsf_work){ 1, 2, 0 }, 2e-3);
    add(&samples, "adam", (struct dsf_work){ 1, 2, 0 }, 4e-3);
    add(&samples, "adam", (struct dsf_work){ 1, 3, 0 }, 4e-3);
    assert_int_equal(samples.n, 2);
    assert_true(samples.v[0].seconds == 2e-3);
    assert_int_equal(samples.v[0].n, 3);
    free(samples.v);
}

static void one_sample_is_enough_for_its_size(void **state)
{
    struct dsf_samples samples = { 0 };
    struct dsf_machine_model m;
    struct dsf_work w = { 1e6, 0, 0 };

    dsf_machine_model_init(&m);
    add(&samples, "clip", w, 1e-6);
    dsf_rates_fit(&samples, &m);
    assert_float_equal(
        dsf_rate_seconds(
            dsf_machine_model_kind(&m, "clip", false, DSFLOW_BYTES), &w) /
            1e-6,
        1, 1e-9);
    free(samples.v);
    dsf_machine_model_fini(&m);
}

/* What is small takes as long as a launch, and one large task of another kind
 * is fast: a large one of this kind is no faster. */
static void no_kind_is_faster_on_a_gpu_than_the_fastest(void **state)
{
    for (int gpu = 0; gpu < 2; gpu++) {
        const struct dsf_work large = { 1e12, 1e9, 0 };
        struct dsf_samples samples = { 0 };
        struct dsf_machine_model m;
        const struct dsf_kind_rate *rate;

        dsf_machine_model_init(&m);
        m.main.kind = gpu ? DSF_MACHINE_GPU : DSF_MACHINE_CPU;
        add(&samples, "small", (struct dsf_work){ 1e6, 0, 0 }, 2e-5);
        add(&samples, "small", (struct dsf_work){ 1e7, 0, 0 }, 2e-5);
        add(&samples, "large", (struct dsf_work){ 1e12, 0, 0 }, 1e-2);
        dsf_rates_fit(&samples, &m);
        rate = dsf_machine_model_kind(&m, "small", false, DSFLOW_BYTES);
        assert_non_null(rate);
        assert_true((dsf_rate_seconds(rate, &large) >= 1e-2) == (gpu == 1));
        assert_float_equal(
            dsf_rate_seconds(rate, &(struct dsf_work){ 1e7, 0, 0 }), 2e-5,
            1e-6);
        free(samples.v);
        dsf_machine_model_fini(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_are_found_in_exact_times),
        cmocka_unit_test(scatter_is_the_spread_of_long_tasks),
        cmocka_unit_test(no_rate_is_below_zero),
        cmocka_unit_test(of_two_times_of_the_same_the_shorter_counts),
        cmocka_unit_test(one_sample_is_enough_for_its_size),
        cmocka_unit_test(a_kind_has_rates_of_its_own_in_a_narrow_type),
        cmocka_unit_test(what_has_a_rate_is_not_new),
        cmocka_unit_test(no_kind_is_faster_on_a_gpu_than_the_fastest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
