/* test_loss_scale.c - the loss scale of fp16, beside sequences that were taken
 * from DeepSpeed's and beside a plain model of it. */
#include "tasks/tasks.h"

#include "base/random.h"
#include "lib/test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct dsf_loss_scale small = {
    .initial = 16, .least = 1, .window = 3, .hysteresis = 1
};

/* One step; the scale that the next one has. */
static double step(const struct dsf_loss_scale *s, struct dsf_scaler *c,
                   bool overflows, bool *helps)
{
    dsf_loss_scale_begin(s, c);
    *helps = dsf_loss_scale_note(s, c, overflows);
    return c->scale;
}

/* 'o' overflows, '.' does not; after each step, the scale is this one. */
static void check_sequence(const struct dsf_loss_scale *s, const char *steps,
                           const double *expected)
{
    struct dsf_scaler c = { 0 };
    bool helps;

    for (int i = 0; steps[i] != '\0'; i++) {
        double scale = step(s, &c, steps[i] == 'o', &helps);

        if (scale != expected[i] || !helps)
            fail_msg("%s: step %d: %g, expected %g", steps, i, scale,
                     expected[i]);
    }
}

static void it_is_that_of_deepspeed(void **state)
{
    struct dsf_loss_scale two = small, in_a_row;

    two.hysteresis = 2;
    in_a_row = two;
    in_a_row.consecutive = 1;
    check_sequence(&small, "....o...o.......",
                   (double[]){ 16, 16, 16, 32, 16, 16, 16, 16, 8, 8, 8, 8, 16,
                               16, 16, 32 });
    check_sequence(&small, "oooo", (double[]){ 8, 4, 2, 1 });
    check_sequence(&two, "o.o...o...o",
                   (double[]){ 16, 16, 8, 8, 8, 8, 4, 4, 4, 4, 2 });
    check_sequence(&in_a_row, "o.o.oo",
                   (double[]){ 16, 16, 16, 16, 16, 8 });
}

static void the_least_scale_is_the_last_that_helps(void **state)
{
    struct dsf_scaler c = { 0 };
    bool helps;

    for (int i = 0; i < 4; i++)
        step(&small, &c, true, &helps);
    assert_true(helps);
    assert_true(step(&small, &c, true, &helps) == 1);
    assert_false(helps);
    assert_int_equal(c.overflows, 5);
    step(&small, &c, false, &helps);
    assert_true(helps);
}

/* The rule as a person would count it. */
struct plain {
    int log2, least; /* of the scale, which doubles and is halved */
    int tolerated;   /* overflows, before the next one counts */
    int clean;       /* steps in a row without one; the first counts for none */
};

static bool plain_step(struct plain *p, const struct dsf_loss_scale *s,
                       bool overflows)
{
    bool helps = true;

    if (overflows) {
        if (p->tolerated > 0)
            p->tolerated--;
        else if (p->log2 > p->least)
            p->log2--;
        else
            helps = false;
        p->clean = 0;
        return helps;
    }
    p->clean++;
    if (s->consecutive)
        p->tolerated = s->hysteresis - 1;
    if (p->clean > 1 && (p->clean - 1) % s->window == 0) {
        p->log2++;
        p->tolerated = s->hysteresis - 1;
    }
    return helps;
}

static int any(uint64_t *state, int least, int most)
{
    return least + (int)(dsf_random(state) % (uint64_t)(most - least + 1));
}

static void check_random(uint64_t seed)
{
    uint64_t state = seed;
    int first = any(&state, 0, 6), odds = any(&state, 1, 8);
    const struct dsf_loss_scale s = {
        .initial = ldexp(1, first),
        .least = ldexp(1, any(&state, -2, 0)),
        .window = any(&state, 1, 6),
        .hysteresis = any(&state, 1, 4),
        .consecutive = any(&state, 0, 1),
    };
    struct plain p = { .log2 = first,
                       .least = ilogb(s.least),
                       .tolerated = s.hysteresis - 1 };
    struct dsf_scaler c = { 0 };
    int overflows = 0;

    for (int i = 0; i < 48; i++) {
        bool is = any(&state, 0, odds) == 0, helps;

        assert_true(dsf_loss_scale_begin(&s, &c) == ldexp(1, p.log2));
        helps = dsf_loss_scale_note(&s, &c, is);
        overflows += is;
        if (helps != plain_step(&p, &s, is) ||
            c.scale != ldexp(1, p.log2) || c.overflows != overflows)
            fail_msg("seed %llu, step %d: %g, expected %g",
                     (unsigned long long)seed, i, c.scale,
                     ldexp(1, p.log2));
    }
}

static void any_sequence_is_that_of_a_plain_model(void **state)
{
    for (uint64_t seed = 1; seed <= 100000; seed++)
        check_random(seed);
}

static void a_fixed_scale_stays(void **state)
{
    const struct dsf_loss_scale fixed = { .fixed = 128 };
    struct dsf_scaler c = { 0 };
    bool helps;

    for (int i = 0; i < 5; i++) {
        step(&fixed, &c, i == 3, &helps);
        assert_true(dsf_loss_scale_begin(&fixed, &c) == 128);
        assert_int_equal(helps, i != 3);
    }
    assert_int_equal(c.overflows, 1);
    /* Nothing of it is left in a scale that is not fixed any more. */
    assert_true(dsf_loss_scale_begin(&small, &c) == 16);
}

static void a_larger_least_scale_counts_at_once(void **state)
{
    struct dsf_loss_scale s = small;
    struct dsf_scaler c = { 0 };
    bool helps;

    step(&s, &c, true, &helps);
    step(&s, &c, true, &helps);
    s.least = 8;
    assert_true(dsf_loss_scale_begin(&s, &c) == 8);
}

/* What `begin` with so many ports says of it. */
static int check(const struct dsf_loss_scale *s, unsigned ports,
                 struct dsflow_err *err)
{
    const struct dsf_begin_args args = { .schedule = "constant", .scale = *s };
    const struct dsflow_shape shapes[] = {
        dsflow_shape_of(DSFLOW_BYTES, sizeof(struct dsflow_control)),
        dsflow_shape_of(DSFLOW_BYTES, sizeof(struct dsf_scaler)),
    };

    return dsf_op_begin.check(
        &(struct dsflow_case){ &dsf_op_begin, shapes, ports, &args }, err);
}

static void numbers_that_no_scale_follows_are_refused(void **state)
{
    static const struct dsf_loss_scale wrong[] = {
        { .fixed = -1 },
        { .fixed = INFINITY },
        { .initial = NAN },
        { .initial = 16, .least = 0, .window = 1, .hysteresis = 1 },
        { .initial = 16, .least = 32, .window = 1, .hysteresis = 1 },
        { .initial = 16, .least = 1, .window = 0, .hysteresis = 1 },
        { .initial = 16, .least = 1, .window = 1, .hysteresis = 0 },
    };
    static const struct dsf_loss_scale none;
    struct dsflow_err err;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
        assert_int_equal(check(&wrong[i], 2, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg,
                        "begin: loss scale: fixed 0, initial 16, least 1, "
                        "window 1, hysteresis 0: expected positive numbers, "
                        "and none below the least");
    assert_int_equal(check(&small, 2, &err), DSFLOW_OK);
    assert_int_equal(check(&none, 1, &err), DSFLOW_OK);
    assert_int_equal(check(&none, 2, &err), DSFLOW_EINVAL);
    assert_int_equal(check(&small, 1, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "begin: scaler: expected it where losses are "
                                 "scaled, and only there");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_that_of_deepspeed),
        cmocka_unit_test(the_least_scale_is_the_last_that_helps),
        cmocka_unit_test(any_sequence_is_that_of_a_plain_model),
        cmocka_unit_test(a_fixed_scale_stays),
        cmocka_unit_test(a_larger_least_scale_counts_at_once),
        cmocka_unit_test(numbers_that_no_scale_follows_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
