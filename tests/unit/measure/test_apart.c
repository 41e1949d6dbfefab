/* test_apart.c - what is measured in a process of its own comes back; what ends
 * that process, or changes it, changes nothing here. */
#include "measure/apart.h"

#include "lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct answer {
    double seconds[100];
    int n;
};

static int here; /* what the other process writes to its own */

static int measure(void *user, void *answer, struct dsflow_err *err)
{
    struct answer *a = answer;

    here = 7;
    fprintf(stderr, "this is lost\n");
    for (int i = 0; i < 100; i++)
        a->seconds[i] += i; /* it was zero */
    a->n = *(const int *)user;
    return DSFLOW_OK;
}

static int fail_there(void *user, void *answer, struct dsflow_err *err)
{
    *(char *)answer = 1;
    return dsflow_fail(err, DSFLOW_EFIT, "a machine with %d arms",
                       *(const int *)user);
}

/* Is a file that is open there open here? */
static int look_at(void *user, void *answer, struct dsflow_err *err)
{
    *(bool *)answer = fcntl(*(const int *)user, F_GETFD) >= 0;
    return DSFLOW_OK;
}

static int leave(void *user, void *answer, struct dsflow_err *err)
{
    _exit(0);
}

static int be_killed(void *user, void *answer, struct dsflow_err *err)
{
    abort();
}

static void the_answer_comes_back(void **state)
{
    struct answer a = { .n = -1 };
    struct dsflow_err err;
    int n = 42;

    assert_int_equal(dsf_apart(measure, &n, &a, sizeof(a), &err), DSFLOW_OK);
    assert_int_equal(a.n, 42);
    for (int i = 0; i < 100; i++)
        assert_true(a.seconds[i] == i);
    assert_int_equal(here, 0);
}

static void so_does_what_went_wrong(void **state)
{
    struct dsflow_err err;
    char answer = 9;
    int n = 3;

    assert_int_equal(dsf_apart(fail_there, &n, &answer, 1, &err), DSFLOW_EFIT);
    assert_string_equal(err.msg, "a machine with 3 arms");
    assert_int_equal(answer, 9);
}

static void a_process_that_ends_early_is_an_error(void **state)
{
    static const dsf_apart_fn ends[] = { leave, be_killed };

    for (int i = 0; i < 2; i++) {
        struct dsflow_err err;
        char answer = 9;

        assert_int_equal(dsf_apart(ends[i], NULL, &answer, 1, &err),
                         DSFLOW_EFAIL);
        assert_string_equal(err.msg,
                            "StarPU does not start (dsflow run says why)");
        assert_int_equal(answer, 9);
    }
}

/* Who waits for a lock of this process would wait for the other one too. */
static void files_stay_here(void **state)
{
    struct dsflow_err err;
    bool open_there = true;
    int pipes[2];

    assert_int_equal(pipe(pipes), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(dsf_apart(look_at, &pipes[i], &open_there,
                                   sizeof(open_there), &err),
                         DSFLOW_OK);
        assert_false(open_there);
        assert_true(fcntl(pipes[i], F_GETFD) >= 0);
        close(pipes[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_answer_comes_back),
        cmocka_unit_test(files_stay_here),
        cmocka_unit_test(so_does_what_went_wrong),
        cmocka_unit_test(a_process_that_ends_early_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
