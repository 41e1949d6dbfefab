/* test_machine.c - this machine, whatever it is, makes sense. */
#include "machine/machine.h"

#include "lib/test.h"

#include <sched.h>
#include <string.h>

static void a_machine_has_cores_and_memory(void **state)
{
    struct dsf_machine m;
    struct dsflow_err err;

    assert_int_equal(dsf_machine_probe(&m, &err), DSFLOW_OK);
    assert_true(m.cores >= 1);
    assert_true(m.memory > 0);
    assert_true(m.available > 0 && m.available <= m.memory);
    assert_true(strlen(m.isa) > 0);
}

static void only_cores_that_may_be_used_are_counted(void **state)
{
    struct dsf_machine m;
    cpu_set_t all, one;

    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &all)) {
            CPU_SET(i, &one);
            break;
        }
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    assert_int_equal(dsf_machine_probe(&m, NULL), DSFLOW_OK);
    assert_int_equal(m.cores, 1);
    sched_setaffinity(0, sizeof(all), &all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_machine_has_cores_and_memory),
        cmocka_unit_test(only_cores_that_may_be_used_are_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
