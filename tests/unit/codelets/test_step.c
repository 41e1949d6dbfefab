/* test_step.c - the state of a step: begin, clip, finish. */
#include "codelets/codelets.h"
#include "tasks/tasks.h"

#include "lib/test.h"

#include <math.h>
#include <stdbool.h>

static void call(const struct dsflow_codelet *codelet, const void *args,
                 unsigned n, void *const *ports)
{
    struct dsflow_buf bufs[3];

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

/* One step; `c` as its updates see it is returned. */
static struct dsflow_control step(struct dsflow_control *c,
                                  enum dsf_nonfinite nonfinite, double norm2,
                                  double loss)
{
    const struct dsf_clip_args clip = { .limit = 1, .nonfinite = nonfinite };
    struct dsflow_control seen;

    call(&dsf_codelet_begin, &begin, 1, (void *[]){ c });
    call(&dsf_codelet_clip, &clip, 3, (void *[]){ &norm2, &loss, c });
    seen = *c;
    call(&dsf_codelet_finish, NULL, 1, (void *[]){ c });
    return seen;
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
    assert_int_equal(seen.skip, 1);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_that_updates_counts),
        cmocka_unit_test(a_step_that_is_skipped_changes_nothing_of_the_next),
        cmocka_unit_test(after_a_stop_no_step_updates),
        cmocka_unit_test(what_did_not_wait_is_not_skipped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
