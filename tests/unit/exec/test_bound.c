/* test_bound.c - one process of a machine binds its workers, until it ends. */
#include "exec/bound.h"

#include "lib/test.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* A run that is not of these tests may have the right. */
static void claim_or_skip(void)
{
    if (!dsf_bound_claim()) {
        print_message("another dsflow runs here\n");
        skip();
    }
}

/* In a process of its own, which tells whether it may, and waits to be ended.
 */
static pid_t other(bool *may)
{
    int told[2];
    pid_t pid;

    assert_int_equal(pipe(told), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        bool mine;

        dsf_bound_release(); /* what it has of its parent */
        mine = dsf_bound_claim();
        if (write(told[1], &mine, sizeof(mine)) == sizeof(mine))
            pause();
        _exit(0);
    }
    assert_int_equal(read(told[0], may, sizeof(*may)), sizeof(*may));
    close(told[0]);
    close(told[1]);
    return pid;
}

static void end(pid_t pid)
{
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void a_second_process_may_not(void **state)
{
    bool may;

    claim_or_skip();
    end(other(&may));
    assert_false(may);
    dsf_bound_release();
}

static void the_right_ends_with_its_process(void **state)
{
    bool may;
    pid_t pid;

    claim_or_skip();
    dsf_bound_release();
    pid = other(&may);
    if (may)
        assert_false(dsf_bound_claim());
    end(pid);
    claim_or_skip();
    dsf_bound_release();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_second_process_may_not),
        cmocka_unit_test(the_right_ends_with_its_process),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
