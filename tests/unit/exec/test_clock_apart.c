/* test_clock_apart.c - the distance of a clock that is far from this one and
 * drifts is known within the error that is stated. */
#include "exec/clock_apart.h"

#include "lib/test.h"

#include <math.h>

static const double OFFSET = -86400.5;

static double there(double now, double drift)
{
    return now + OFFSET + drift * now;
}

/* Pseudo-random, in 0..1. */
static double some(void)
{
    static unsigned long long state = 1;

    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (double)(state >> 40) / (double)(1 << 24);
}

static void the_error_is_as_stated(void **state)
{
    static const double drifts[] = { 0, 90e-6, -90e-6 };

    for (unsigned d = 0; d < 3; d++) {
        struct dsf_clock_apart c = { .known = false };
        double most = 0, now = 1;

        for (unsigned i = 0; i < 4000; i++) {
            /* Ways there and back differ, and some answers are late. */
            double go = 20e-6 + 50e-6 * some();
            double back = (i % 7 == 3 ? 20e-3 : 20e-6) * (1 + some());

            dsf_clock_heard(&c, now, there(now + go, drifts[d]),
                            now + go + back);
            now += go + back + 0.1 * some();
            assert_true(fabs(c.ahead - OFFSET - drifts[d] * now) <=
                        dsf_clock_within(&c, now) + 1e-9);
            most = fmax(most, dsf_clock_within(&c, now));
        }
        /* Of the late answers it would be 10 ms. */
        assert_true(most < 1e-3);
    }
}

static void a_late_answer_changes_nothing(void **state)
{
    struct dsf_clock_apart c = { .known = false };

    dsf_clock_heard(&c, 10, 510.5, 11);
    assert_true(c.known);
    assert_float_equal(c.ahead, 500, 1e-12);
    assert_float_equal(c.within, 0.5, 1e-12);
    dsf_clock_heard(&c, 20, 524, 24);
    assert_float_equal(c.ahead, 500, 1e-12);
    dsf_clock_heard(&c, 30, 530.2, 30.4);
    assert_float_equal(c.ahead, 500, 1e-9);
    assert_float_equal(c.within, 0.2, 1e-9);
}

static void what_is_old_gives_way(void **state)
{
    struct dsf_clock_apart c = { .known = false };

    dsf_clock_heard(&c, 10, 10, 10.0002);
    dsf_clock_heard(&c, 1000, 1000.1, 1000.2);
    assert_float_equal(c.asked, 1000.2, 1e-12);
    assert_float_equal(c.within, 0.1, 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_error_is_as_stated),
        cmocka_unit_test(a_late_answer_changes_nothing),
        cmocka_unit_test(what_is_old_gives_way),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
