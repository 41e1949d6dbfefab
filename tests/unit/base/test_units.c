/* test_units.c - sizes, times and messages. */
#include "base/units.h"

#include <dsflow/error.h>

#include "lib/test.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void sizes_have_units(void **state)
{
    int64_t n;

    assert_int_equal(dsf_parse_size("80GiB", &n), 0);
    assert_true(n == 80LL << 30);
    assert_int_equal(dsf_parse_size("1.5 GB", &n), 0);
    assert_true(n == 1500000000);
    assert_int_equal(dsf_parse_size("512", &n), 0);
    assert_int_equal(n, 512);
    assert_int_equal(dsf_parse_size("", &n), -1);
    assert_int_equal(dsf_parse_size("-1GiB", &n), -1);
    assert_int_equal(dsf_parse_size("1 parsec", &n), -1);
    assert_int_equal(dsf_parse_size("1e300", &n), -1);
    assert_int_equal(dsf_parse_size("9999999PiB", &n), -1);
}

static void times_have_units(void **state)
{
    double s;

    assert_int_equal(dsf_parse_time("30s", &s), 0);
    assert_true(s == 30);
    assert_int_equal(dsf_parse_time("5min", &s), 0);
    assert_true(s == 300);
    assert_int_equal(dsf_parse_time("5", &s), -1);
}

static void both_are_written_for_people(void **state)
{
    assert_string_equal(dsf_size_text(0).s, "0 B");
    assert_string_equal(dsf_size_text(1536).s, "1.5 KiB");
    assert_string_equal(dsf_size_text(3.2 * (1 << 30)).s, "3.2 GiB");
    assert_string_equal(dsf_size_beside(3072, 2048).s, "3.0 KiB");
    assert_string_equal(dsf_size_beside(3072, 3072).s, "3.0 KiB");
    assert_string_equal(dsf_size_beside(3072, 3073).s, "3072 B");
    assert_string_equal(dsf_time_text(0.41).s, "410 ms");
    assert_string_equal(dsf_time_text(125).s, "2 min 5 s");
    assert_string_equal(dsf_time_text(90000).s, "1 d 1 h");
}

static void counts_and_shares_are_short(void **state)
{
    assert_string_equal(dsf_count_text(999.4).s, "999");
    assert_string_equal(dsf_count_text(12345).s, "12.3k");
    assert_string_equal(dsf_count_text(4.56e6).s, "4.6M");
    assert_string_equal(dsf_percent_text(0.874).s, "87 %");
    assert_string_equal(dsf_percent_text(-NAN).s, "nan %");
}

static void a_time_is_set_beside_what_was_predicted(void **state)
{
    assert_string_equal(dsf_against_text(0.553, 0.111).s,
                        "5.0 x slower than predicted");
    assert_string_equal(dsf_against_text(0.111, 0.553).s,
                        "5.0 x faster than predicted");
    assert_string_equal(dsf_against_text(1.0, 1.04).s, "as predicted");
    assert_string_equal(dsf_against_text(1.04, 1.0).s, "as predicted");
    assert_string_equal(dsf_against_text(1.06, 1.0).s,
                        "1.1 x slower than predicted");
    assert_string_equal(dsf_against_text(33, 1).s,
                        "33 x slower than predicted");
    assert_string_equal(dsf_against_text(1e12, 1e-9).s,
                        "1000000 x slower than predicted");
    assert_string_equal(dsf_against_text(1, 0).s, "");
    assert_string_equal(dsf_against_text(0, 1).s, "");
    assert_string_equal(dsf_against_text(1, -1).s, "");
    assert_string_equal(dsf_against_text(NAN, 1).s, "");
}

static void a_message_is_one_clean_line(void **state)
{
    struct dsflow_err err;
    char longer[2000];

    assert_int_equal(dsflow_fail(&err, DSFLOW_EIO, "a\nb\033[31m %d", 7),
                     DSFLOW_EIO);
    assert_string_equal(err.msg, "a?b?[31m 7");
    assert_int_equal(dsflow_fail_in(&err, DSFLOW_EIO, "file"), DSFLOW_EIO);
    assert_string_equal(err.msg, "file: a?b?[31m 7");
    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    dsflow_fail(&err, DSFLOW_EINVAL, "%s", longer);
    assert_string_equal(err.msg + strlen(err.msg) - 4, "x...");
    assert_int_equal(dsflow_fail(NULL, DSFLOW_EFIT, "x"), DSFLOW_EFIT);
    errno = ENOENT;
    dsflow_fail(&err, DSFLOW_EIO, "x: %m");
    assert_string_equal(err.msg, "x: No such file or directory");
}

static void a_status_has_words_and_an_exit_status(void **state)
{
    assert_int_equal(dsflow_status_exit(DSFLOW_OK), 0);
    assert_int_equal(dsflow_status_exit(DSFLOW_EINVAL), 2);
    assert_int_equal(dsflow_status_exit(DSFLOW_EIO), 1);
    assert_string_equal(dsflow_status_str(DSFLOW_EFIT),
                        "does not fit on the machine");
    assert_string_equal(dsflow_status_str(-99), "unknown status");
}

static void a_nan_has_no_sign(void **state)
{
    double x = -NAN;

    assert_string_equal(dsf_size_text(x).s, "nan B");
    assert_string_equal(dsf_time_text(x).s, "nan s");
    assert_null(strchr(dsf_seconds_text(x).s, '-'));
    assert_false(signbit(dsf_unsigned_nan(x)));
    assert_true(dsf_unsigned_nan(-1.5) == -1.5);
}

static void a_number_reads_back_from_as_few_digits_as_that_takes(void **state)
{
    static const double odd[] = { 1.0 / 3, 0.1 + 0.2, 1e22 / 3, -5e-324 };

    assert_string_equal(dsf_real_text(0.1).s, "0.1");
    assert_string_equal(dsf_real_text(1e-5).s, "1e-05");
    assert_string_equal(dsf_real_text(0x1p24).s, "16777216");
    for (size_t i = 0; i < sizeof(odd) / sizeof(*odd); i++)
        assert_true(strtod(dsf_real_text(odd[i]).s, NULL) == odd[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_have_units),
        cmocka_unit_test(times_have_units),
        cmocka_unit_test(both_are_written_for_people),
        cmocka_unit_test(counts_and_shares_are_short),
        cmocka_unit_test(a_time_is_set_beside_what_was_predicted),
        cmocka_unit_test(a_message_is_one_clean_line),
        cmocka_unit_test(a_status_has_words_and_an_exit_status),
        cmocka_unit_test(a_nan_has_no_sign),
        cmocka_unit_test(a_number_reads_back_from_as_few_digits_as_that_takes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
