/* test_measured.c - figures that cannot be are measured again, and scatter is
 * seen. */
#include "measure/measured.h"

#include "lib/test.h"

#include <math.h>
#include <string.h>

/* Measurements as they are told, one after the other; then the last one. */
struct told {
    double v[16];
    unsigned n, asked;
    double seconds;
};

static int tell(void *user, double seconds, double *value,
                struct dsflow_err *err)
{
    struct told *t = user;

    *value = t->v[t->asked < t->n ? t->asked : t->n - 1];
    t->asked++;
    t->seconds += seconds;
    return DSFLOW_OK;
}

static void the_middle_one_counts_and_the_others_are_scatter(void **state)
{
    struct told t = { { 2e9, 1e9, 4e9 }, 3, 0, 0 };
    struct dsf_measured got;
    struct dsflow_err err;

    assert_int_equal(dsf_measure("x", tell, &t, 0.3, &got, &err), DSFLOW_OK);
    assert_float_equal(got.value, 2e9, 0);
    assert_float_equal(got.scatter, 1.5, 1e-12);
    assert_int_equal(t.asked, 3);
    assert_float_equal(t.seconds, 0.3, 1e-12);
}

static void what_cannot_be_is_measured_again(void **state)
{
    struct told t = { { 0, 1e9, NAN, -5, 1e9, INFINITY, 1e9 }, 7, 0, 0 };
    struct dsf_measured got;
    struct dsflow_err err;

    assert_int_equal(dsf_measure("x", tell, &t, 0.3, &got, &err), DSFLOW_OK);
    assert_float_equal(got.value, 1e9, 0);
    assert_float_equal(got.scatter, 0, 0);
    assert_int_equal(t.asked, 7);

    t = (struct told){ { 1e9, 0 }, 2, 0, 0 };
    assert_int_equal(dsf_measure("memory", tell, &t, 0.3, &got, &err),
                     DSFLOW_EFAIL);
    assert_string_equal(err.msg,
                        "memory: measured 0 a second: expected 10000 or more; "
                        "measure again when nothing else runs");
}

/* A machine whose disk is written at each of these rates in turn. */
static void tell_machine(void *user, struct dsf_machine_model *m)
{
    struct dsflow_err err;

    dsf_machine_model_init(m);
    m->disk.read = 1e9;
    tell(user, 0, &m->disk.write, &err);
}

static void a_machine_is_measured_until_its_rates_can_be(void **state)
{
    struct told t = { { 0, 3e8 }, 2, 0, 0 };
    struct dsf_machine_model m;
    struct dsflow_err err;

    assert_true(dsf_measure_machine(tell_machine, &t, &m));
    assert_int_equal(t.asked, 2);
    assert_float_equal(m.disk.write, 3e8, 0);
    dsf_machine_model_fini(&m);

    /* Never: something is assumed, and what is assumed is not to be kept. */
    t = (struct told){ { NAN }, 1, 0, 0 };
    assert_false(dsf_measure_machine(tell_machine, &t, &m));
    assert_int_equal(t.asked, 3);
    assert_float_equal(m.disk.write, 1e9, 0);
    assert_int_equal(dsf_machine_model_check(&m, &err), DSFLOW_OK);
    dsf_machine_model_fini(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_middle_one_counts_and_the_others_are_scatter),
        cmocka_unit_test(what_cannot_be_is_measured_again),
        cmocka_unit_test(a_machine_is_measured_until_its_rates_can_be),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
