/* test_pace.c - how fast a run is, smoothed over steps. */
#include "train/pace.h"

#include "lib/step.h"
#include "lib/test.h"

#include <math.h>

static void add(struct dsf_pace *p, double seconds, double efficiency)
{
    struct dsf_step s = step_of(p->nsteps + 1, 1);

    s.seconds = seconds;
    s.tokens = 100;
    s.efficiency = efficiency;
    dsf_pace_add(p, &s);
}

static void nothing_is_known_before_the_first_step(void **state)
{
    struct dsf_pace p = { .nsteps = 0 };

    assert_true(p.rate == 0);
    assert_false(dsf_pace_has_shares(&p));
}

/* It touches memory for the first time. */
static void the_first_step_says_nothing_of_the_others(void **state)
{
    struct dsf_pace p = { .nsteps = 0 };

    add(&p, 10, 0.1);
    assert_float_equal(p.rate, 10, 1e-12);
    add(&p, 0.5, 0.8);
    assert_float_equal(p.step_seconds, 0.5, 1e-12);
    assert_float_equal(p.efficiency, 0.8, 1e-12);
    assert_float_equal(p.rate, 200, 1e-9);
    assert_true(dsf_pace_has_shares(&p));
}

/* Over all steps at the start, then over ten, or over a second of them. */
static void steps_are_smoothed(void **state)
{
    struct dsf_pace p = { .nsteps = 0 }, quick = { .nsteps = 0 };

    add(&p, 1, 0.5);
    add(&p, 1, 0.5);
    add(&p, 4, 0.5);
    assert_float_equal(p.step_seconds, 2.5, 1e-12);
    for (int i = 0; i < 100; i++)
        add(&p, 1, 0.5);
    assert_float_equal(p.step_seconds, 1, 1e-3);
    add(&p, 2, 0.5);
    assert_float_equal(p.step_seconds, 1.1, 1e-3);

    for (int i = 0; i < 2000; i++)
        add(&quick, 0.001, 0.5);
    add(&quick, 0.003, 0.5);
    assert_float_equal(quick.step_seconds, 0.001 + 0.003 * 0.002, 1e-9);
}

static void a_step_that_was_not_measured_changes_nothing(void **state)
{
    struct dsf_pace p = { .nsteps = 0 };
    struct dsf_step unknown = step_of(3, NAN);

    add(&p, 1, 0.5);
    assert_true(dsf_pace_has_shares(&p));
    add(&p, 1, 0.5);
    unknown.seconds = NAN;
    dsf_pace_add(&p, &unknown);
    assert_float_equal(p.step_seconds, 1, 1e-12);
    assert_float_equal(p.efficiency, 0.5, 1e-12);
    assert_true(dsf_pace_has_shares(&p));

    p = (struct dsf_pace){ .nsteps = 0 };
    dsf_pace_add(&p, &unknown);
    assert_true(p.rate == 0);
    assert_false(dsf_pace_has_shares(&p));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_known_before_the_first_step),
        cmocka_unit_test(the_first_step_says_nothing_of_the_others),
        cmocka_unit_test(steps_are_smoothed),
        cmocka_unit_test(a_step_that_was_not_measured_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
