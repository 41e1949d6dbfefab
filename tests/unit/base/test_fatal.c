/* test_fatal.c - what ends the process goes to the log, or to who asks for it.
 */
#include "base/fatal.h"

#include "lib/test.h"

#include <dsflow/log.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static jmp_buf back;
static char said[200];

static void note(const char *line)
{
    strncat(said, line, sizeof(said) - 1);
    longjmp(back, 1);
}

static void who_asks_for_it_gets_the_line(void **state)
{
    dsf_fatal_set(note);
    if (setjmp(back) == 0)
        dsf_fatal("bug: %d", 7);
    dsf_fatal_set(NULL);
    assert_string_equal(said, "bug: 7");
}

static void tell(void *user, enum dsflow_log_level level, const char *line)
{
    if (write(*(int *)user, line, strlen(line)) < 0)
        _exit(1);
}

static void without_one_it_is_logged_and_the_process_aborted(void **state)
{
    char line[200] = "";
    int fd[2], status;
    pid_t child;

    assert_int_equal(pipe(fd), 0);
    child = fork();
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        dsflow_log_sink_set(tell, &fd[1]);
        dsf_fatal("no memory");
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_true(read(fd[0], line, sizeof(line) - 1) > 0);
    assert_string_equal(line, "no memory");
    close(fd[0]);
    close(fd[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_asks_for_it_gets_the_line),
        cmocka_unit_test(without_one_it_is_logged_and_the_process_aborted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
