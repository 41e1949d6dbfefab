/* test_step.c - the state of a step: begin, clip, finish. */
#include "codelets/codelets.h"
#include "tasks/tasks.h"

#include "lib/test.h"

#include <math.h>
#include <stdbool.h>

static void call(const struct dsflow_codelet *codelet, const void *args,
                 unsigned n, void *const *ports)
{
    struct dsflow_buf bufs[4];

    for (unsigned i = 0; i < n; i++)
        bufs[i] = (struct dsflow_buf){ .ptr = ports[i] };
    codelet->cpu(
        &(struct dsflow_call){ .bufs = bufs, .nbufs = n, .args = args });
}

static const struct dsf_begin_args begin = {
    .schedule = "warmup",
    .keys = { .lr = 1e-2, .warmup = 10 },
    .beta1 = 0.9,
    .beta2 = 0.5,
};

/* One step; `c` as its updates see it is returned. Without `scale`, losses are
 * not scaled. */
static struct dsflow_control
scaled_step(struct dsflow_control *c, const struct dsf_loss_scale *scale,
            struct dsf_scaler *scaler, enum dsf_nonfinite nonfinite,
            double norm2, double loss)
{
    struct dsf_clip_args clip = { .limit = 1, .nonfinite = nonfinite };
    struct dsf_begin_args first = begin;
    struct dsflow_control seen;
    unsigned last = scale != NULL;

    if (scale != NULL)
        first.scale = clip.scale = *scale;
    call(&dsf_codelet_begin, &first, 1 + last, (void *[]){ c, scaler });
    call(&dsf_codelet_clip, &clip, 3 + last,
         (void *[]){ &norm2, &loss, c, scaler });
    seen = *c;
    call(&dsf_codelet_finish, NULL, 1, (void *[]){ c });
    return seen;
}

static struct dsflow_control step(struct dsflow_control *c,
                                  enum dsf_nonfinite nonfinite, double norm2,
                                  double loss)
{
    return scaled_step(c, NULL, NULL, nonfinite, norm2, loss);
}

static void a_step_that_updates_counts(void **state)
{
    struct dsflow_control c = { 0 }, seen;

    for (int i = 0; i < 5; i++) {
        seen = step(&c, DSF_NONFINITE_SKIP, 16, 1);
        assert_int_equal(seen.step, i + 1);
        assert_true(fabs(seen.lr - 1e-3 * i) < 1e-12);
        assert_true(fabs(seen.correction2 - (1 - pow(0.5, i + 1))) < 1e-12);
        assert_true(seen.norm == 4 && fabs(seen.scale - 0.25) < 1e-6);
        assert_true(seen.loss_scale == 1);
        assert_int_equal(seen.skip, 0);
    }
    assert_int_equal(c.updates, 5);
    assert_int_equal(c.skipped, 0);
}

static void a_step_that_is_skipped_changes_nothing_of_the_next(void **state)
{
    static const struct {
        double norm2, loss;
    } bad[] = { { INFINITY, 1 }, { NAN, 1 }, { 1, NAN }, { 1, -INFINITY } };
    struct dsflow_control c = { 0 }, plain = { 0 }, a, b;

    for (unsigned i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        a = step(&c, DSF_NONFINITE_SKIP, bad[i].norm2, bad[i].loss);
        assert_int_equal(a.skip, 1);
        assert_int_equal(c.skipped, i + 1);
        a = step(&c, DSF_NONFINITE_SKIP, 2, 1);
        b = step(&plain, DSF_NONFINITE_SKIP, 2, 1);
        a.skipped = 0;
        assert_memory_equal(&a, &b, sizeof(a));
    }
    assert_int_equal(c.updates, plain.updates);
}

static void after_a_stop_no_step_updates(void **state)
{
    struct dsflow_control c = { 0 }, seen;

    step(&c, DSF_NONFINITE_STOP, 1, 1);
    assert_int_equal(c.updates, 1);
    step(&c, DSF_NONFINITE_STOP, NAN, 1);
    seen = step(&c, DSF_NONFINITE_STOP, 1, 1);
    assert_int_equal(seen.skip, DSFLOW_SKIP_REST);
    assert_int_equal(c.updates, 1);
}

/* Its updates are done when the norm is known. */
static void what_did_not_wait_is_not_skipped(void **state)
{
    struct dsflow_control c = { 0 }, seen;

    seen = step(&c, DSF_NONFINITE_KEEP, NAN, NAN);
    assert_int_equal(seen.skip, 0);
    assert_int_equal(c.updates, 1);
}

static const struct dsf_loss_scale scale = {
    .initial = 1024, .least = 256, .window = 2, .hysteresis = 1
};

/* Also in the step after which it doubles. */
static void a_step_is_unscaled_by_what_its_loss_was_scaled_by(void **state)
{
    static const double scales[] = { 1024, 1024, 1024, 2048, 2048, 4096 };
    struct dsf_scaler scaler = { 0 };
    struct dsflow_control c = { 0 }, seen;

    for (int i = 0; i < 6; i++) {
        double norm = i % 2 == 0 ? 4 : 0.5, clip = i % 2 == 0 ? 0.25 : 1;

        seen = scaled_step(&c, &scale, &scaler, DSF_NONFINITE_STOP,
                           norm * norm * scales[i] * scales[i], 1);
        assert_true(seen.loss_scale == scales[i] && seen.norm == norm);
        assert_true(fabs(seen.scale * scales[i] - clip) < 1e-6);
    }
}

/* Nor are they counted: rate and corrections are those of the plain run. */
static void overflows_stop_no_run_while_a_smaller_scale_is_left(void **state)
{
    struct dsflow_control c = { 0 }, plain = { 0 }, a, b;
    struct dsf_scaler scaler = { 0 };

    for (int i = 0; i < 2; i++) {
        a = scaled_step(&c, &scale, &scaler, DSF_NONFINITE_STOP, INFINITY, 1);
        assert_int_equal(a.skip, DSFLOW_SKIP_STEP);
        a = scaled_step(&c, &scale, &scaler, DSF_NONFINITE_STOP, 1, 1);
        b = step(&plain, DSF_NONFINITE_STOP, 1, 1);
        assert_int_equal(a.skip, DSFLOW_SKIP_NONE);
        assert_true(a.lr == b.lr && a.correction2 == b.correction2);
        assert_int_equal(a.step, b.step);
        assert_int_equal(scaler.overflows, i + 1);
    }
    assert_true(scaler.scale == 256);
    a = scaled_step(&c, &scale, &scaler, DSF_NONFINITE_STOP, NAN, 1);
    assert_int_equal(a.skip, DSFLOW_SKIP_REST);
    a = scaled_step(&c, &scale, &scaler, DSF_NONFINITE_STOP, 1, 1);
    assert_int_equal(a.skip, DSFLOW_SKIP_REST);
    assert_int_equal(c.updates, 2);
}

static void at_the_least_scale_a_job_may_go_on_skipping(void **state)
{
    static const struct dsf_loss_scale fixed = { .fixed = 8 };
    struct dsf_scaler scaler = { .scale = 256 };
    struct dsflow_control c = { 0 }, seen;

    for (int i = 0; i < 3; i++) {
        seen = scaled_step(&c, &scale, &scaler, DSF_NONFINITE_SKIP, INFINITY,
                           1);
        assert_int_equal(seen.skip, DSFLOW_SKIP_STEP);
        assert_true(scaler.scale == 256);
    }
    seen = scaled_step(&c, &scale, &scaler, DSF_NONFINITE_SKIP, 1, 1);
    assert_int_equal(seen.skip, DSFLOW_SKIP_NONE);
    seen = scaled_step(&c, &fixed, &scaler, DSF_NONFINITE_SKIP, INFINITY, 1);
    assert_int_equal(seen.skip, DSFLOW_SKIP_STEP);
    seen = scaled_step(&c, &fixed, &scaler, DSF_NONFINITE_STOP, INFINITY, 1);
    assert_int_equal(seen.skip, DSFLOW_SKIP_REST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_that_updates_counts),
        cmocka_unit_test(a_step_that_is_skipped_changes_nothing_of_the_next),
        cmocka_unit_test(after_a_stop_no_step_updates),
        cmocka_unit_test(what_did_not_wait_is_not_skipped),
        cmocka_unit_test(a_step_is_unscaled_by_what_its_loss_was_scaled_by),
        cmocka_unit_test(overflows_stop_no_run_while_a_smaller_scale_is_left),
        cmocka_unit_test(at_the_least_scale_a_job_may_go_on_skipping),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
