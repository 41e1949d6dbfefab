/* test_bench_disk.c - disks are measured in a moment, and soundly. */
#include "lib/test.h"

#include "measure/bench_disk.h"

#include <string.h>

/* Nothing is known of the disk here: only what no disk can be. */
static void a_disk_is_measured_in_a_moment(void **state)
{
    static const char *const paths[] = { ".", "." };
    static const struct {
        unsigned npaths, depth;
        size_t block;
    } cases[] = { { 1, 0, 0 }, { 2, 2, 256 << 10 }, { 1, 1, 512 << 20 } };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct dsf_machine_disk disk = { 0 };
        struct dsf_machine_scatter scatter = { 0 };
        struct dsflow_err err = { 0 };

        assert_int_equal(dsf_bench_disk(paths, cases[i].npaths, cases[i].block,
                                        cases[i].depth, &disk, &scatter, &err),
                         DSFLOW_OK);
        assert_true(scatter.read >= 0 && scatter.write >= 0);
        assert_in_range((uintmax_t)disk.read, 1000000, 1000000000000);
        assert_in_range((uintmax_t)disk.write, 1000000, 1000000000000);
        assert_true(disk.latency > 1e-7 && disk.latency < 10);
        assert_int_equal(disk.size, -1);
    }
}

static void rates_make_a_disk(void **state)
{
    assert_true(dsf_disk_of_rates(2e9, 1e9, 3e9, 1e-4).duplex);
    assert_false(dsf_disk_of_rates(2e9, 1e9, 2.9e9, 1e-4).duplex);
}

/* A disk that ends no write within the first looks at it, or ever. */
static double least_seconds, asked_seconds;

static int slow_disk(const struct dsf_disk_load *load, bool reads, bool writes,
                     struct dsf_disk_rate *rate, struct dsflow_err *err)
{
    asked_seconds += load->seconds;
    *rate = (struct dsf_disk_rate){ .read = reads ? 5e8 : 0, .scatter = 0.5 };
    if (writes && load->seconds >= least_seconds)
        rate->write = 2e8;
    return DSFLOW_OK;
}

static void a_disk_that_writes_nothing_is_looked_at_for_longer(void **state)
{
    struct dsf_disk_load load = { .seconds = 0.2 };
    struct dsf_disk_rate rate;
    struct dsflow_err err = { 0 };

    least_seconds = 0.8;
    asked_seconds = 0;
    assert_int_equal(
        dsf_disk_measure_rate(slow_disk, &load, false, true, &rate, &err),
        DSFLOW_OK);
    assert_float_equal(rate.write, 2e8, 0);
    assert_float_equal(asked_seconds, 0.2 + 0.4 + 0.8, 1e-9);

    asked_seconds = 0;
    assert_int_equal(
        dsf_disk_measure_rate(slow_disk, &load, true, false, &rate, &err),
        DSFLOW_OK);
    assert_float_equal(rate.read, 5e8, 0);
    assert_float_equal(asked_seconds, 0.2, 1e-9);

    least_seconds = 1e9;
    assert_int_equal(
        dsf_disk_measure_rate(slow_disk, &load, true, true, &rate, &err),
        DSFLOW_EFAIL);
    assert_string_equal(
        err.msg, "the disk: 5e+08 bytes a second read and 0 written in 3.2 s: "
                 "it is too slow, or others are busy with it");
}

static void what_is_no_folder_is_named(void **state)
{
    static const char *const paths[] = { "/nowhere" };
    struct dsf_machine_disk disk;
    struct dsf_machine_scatter scatter;
    struct dsflow_err err = { 0 };

    assert_int_equal(dsf_bench_disk(paths, 1, 0, 0, &disk, &scatter, &err),
                     DSFLOW_EINVAL);
    assert_non_null(strstr(err.msg, "/nowhere: "));
    assert_int_equal(dsf_bench_disk(paths, 0, 0, 0, &disk, &scatter, &err),
                     DSFLOW_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_disk_is_measured_in_a_moment),
        cmocka_unit_test(rates_make_a_disk),
        cmocka_unit_test(a_disk_that_writes_nothing_is_looked_at_for_longer),
        cmocka_unit_test(what_is_no_folder_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
