/* test_fatal.c - what ends the process goes to the log, or to who asks for it.
 */
#include "base/alloc.h"
#include "base/fatal.h"

#include "lib/test.h"

#include <dsflow/log.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
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
    said[0] = '\0';
    dsf_fatal_set(note);
    if (setjmp(back) == 0)
        dsf_fatal("bug: %d", 7);
    dsf_fatal_set(NULL);
    assert_string_equal(said, "bug: 7");
}

/* Nothing that malloc gives is left in a process that may have no more. */
static void a_text_that_there_is_no_memory_for_ends_the_process(void **state)
{
    static void **all; /* as what jumps back may lose others */
    struct rlimit was, none;
    char *text = NULL;
    void **p;
    size_t bytes;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* it needs memory itself */
#endif
    said[0] = '\0';
    getrlimit(RLIMIT_AS, &was);
    none = (struct rlimit){ 1 << 20, was.rlim_max };
    dsf_fatal_set(note);
    assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
    for (size_t n = 1 << 20; n >= sizeof(p); n /= 2)
        while ((p = malloc(n)) != NULL) {
            *p = all;
            all = p;
        }
    if (setjmp(back) == 0)
        fclose(dsf_xmemstream(&text, &bytes));
    for (; all != NULL; all = p) {
        p = *all;
        free(all);
    }
    setrlimit(RLIMIT_AS, &was);
    dsf_fatal_set(NULL);
    assert_non_null(strstr(said, "not enough memory: "));
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
        cmocka_unit_test(a_text_that_there_is_no_memory_for_ends_the_process),
        cmocka_unit_test(without_one_it_is_logged_and_the_process_aborted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
