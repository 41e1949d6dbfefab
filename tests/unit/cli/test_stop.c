/* test_stop.c - a signal is taken up between any two lines. */
#include "cli/stop.h"

#include "lib/test.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void the_handler_has_a_stack_of_its_own(void **state)
{
    static const int all[] = { SIGINT, SIGTERM, SIGHUP };
    struct sigaction action;
    stack_t own;

    signal(SIGHUP, SIG_DFL);
    dsf_stop_catch();
    dsf_stop_prepare(false, true);
    for (unsigned i = 0; i < 3; i++) {
        sigaction(all[i], NULL, &action);
        assert_true(action.sa_handler != SIG_DFL);
        assert_true(action.sa_flags & SA_ONSTACK);
    }
    sigaltstack(NULL, &own);
    assert_false(own.ss_flags & SS_DISABLE);
    assert_true(own.ss_size >= 32768);
}

static void no_step_begins_after_a_signal(void **state)
{
    assert_true(dsf_stop_claim(1));
    assert_int_equal(dsf_stop_signal(), 0);
    raise(SIGTERM);
    assert_int_equal(dsf_stop_signal(), SIGTERM);
    assert_false(dsf_stop_claim(2));
    /* A second one at once is the same. */
    raise(SIGINT);
    assert_int_equal(dsf_stop_stage(DSF_STOP_ENDING), SIGTERM);
}

static void before_the_first_step_it_ends_the_process(void **state)
{
    int status;
    pid_t child = fork();

    if (child == 0) {
        dsf_stop_catch();
        dsf_stop_prepare(false, true);
        raise(SIGHUP);
        _exit(0);
    }
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 128 + SIGHUP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(before_the_first_step_it_ends_the_process),
        cmocka_unit_test(the_handler_has_a_stack_of_its_own),
        cmocka_unit_test(no_step_begins_after_a_signal),
    };

    signal(SIGHUP, SIG_DFL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
