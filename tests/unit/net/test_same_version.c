/* test_same_version.c - processes of one dsflow go on, and others are named. */
#include "net/same_version.h"

#include "lib/near_wire.h"
#include "lib/test.h"
#include "net/pass.h"

#include <pthread.h>
#include <string.h>

static void *says_first(void *wire)
{
    static struct dsflow_err err;

    return dsf_same_version(wire, "1.2", &err) == DSFLOW_OK ? NULL : &err;
}

static void all_of_one_version_go_on(void **state)
{
    struct near_wire *wires = near_wires_new(3);
    pthread_t others[2];
    struct dsflow_err err;

    for (int32_t p = 1; p < 3; p++)
        assert_int_equal(pthread_create(&others[p - 1], NULL, says_first,
                                        near_wire(wires, p)),
                         0);
    assert_int_equal(dsf_same_version(near_wire(wires, 0), "1.2", &err),
                     DSFLOW_OK);
    for (int p = 0; p < 2; p++) {
        void *failed;

        assert_int_equal(pthread_join(others[p], &failed), 0);
        assert_null(failed);
    }
    assert_int_equal(near_wires_free(wires), 0);
}

/* Its first message is this for good. */
static void one_of_another_version_is_named(void **state)
{
    struct near_wire *wires = near_wires_new(2);
    char hello[128] = "1.3";
    struct dsflow_err err;

    strcpy(hello + 64, "b");
    assert_int_equal(dsf_pass(near_wire(wires, 1), true, 0, DSF_OWN_TAGS + 8,
                              hello, sizeof(hello), &err),
                     DSFLOW_OK);
    assert_int_equal(dsf_same_version(near_wire(wires, 0), "1.2", &err),
                     DSFLOW_EINVAL);
    assert_string_equal(err.msg, "process 1 (host b): dsflow 1.3: expected "
                                 "1.2, as in process 0");
    assert_int_equal(near_wires_free(wires), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_of_one_version_go_on),
        cmocka_unit_test(one_of_another_version_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
