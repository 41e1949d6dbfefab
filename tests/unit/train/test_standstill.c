/* test_standstill.c - when no task ends any more, it is said, with the reason.
 */
#include "train/standstill.h"

#include "unit/exec/blocked.h"

#include <dsflow/log.h>

#include <string.h>

static char said[4096];

static void hear(void *user, enum dsflow_log_level level, const char *line)
{
    size_t n = strlen(said);

    snprintf(said + n, sizeof(said) - n, "%s\n", line);
}

static void it_is_said_once_and_again_after_twice_the_time(void **state)
{
    struct dsflow_graph *g = blocked_graph();
    struct dsflow_host host = { 0 };
    struct dsflow_exec *exec = blocked_exec(g, &host, 1);
    struct dsf_standstill s;
    double times[4];
    unsigned n = 0;

    dsf_standstill_init(&s, 10);
    for (int now = 1; now < 100; now++)
        if (dsf_standstill_look(&s, exec, now)) {
            assert_true(n < 4);
            times[n++] = s.silent;
        }
    assert_int_equal(n, 4);
    for (unsigned i = 0; i < n; i++)
        assert_true(times[i] == 10 << i);
    let_all_go(exec, 1);
    assert_false(dsf_standstill_look(&s, exec, 1000));
    assert_true(s.silent == 0);
    dsflow_exec_close(exec);
    dsflow_graph_free(g);
}

static void time_during_which_the_program_was_stopped_is_none(void **state)
{
    struct dsflow_graph *g = blocked_graph();
    struct dsflow_host host = { 0 };
    struct dsflow_exec *exec = blocked_exec(g, &host, 1);
    struct dsf_standstill s;

    dsf_standstill_init(&s, 10);
    assert_false(dsf_standstill_look(&s, exec, 1));
    assert_false(dsf_standstill_look(&s, exec, 3600));
    let_all_go(exec, 1);
    dsflow_exec_close(exec);
    dsflow_graph_free(g);
}

static void the_tasks_are_named(void **state)
{
    struct dsflow_graph *g = blocked_graph();
    struct dsflow_host host = { 0 };
    struct dsflow_exec *exec = blocked_exec(g, &host, 1);
    struct dsf_standstill s;

    dsflow_log_sink_set(hear, NULL);
    dsf_standstill_init(&s, 10);
    s.silent = 42;
    dsf_standstill_say(&s, g, exec);
    assert_non_null(strstr(said, "no task has ended for 42"));
    assert_non_null(strstr(said, "test_block (task 0) runs on worker 0\n"));
    assert_non_null(strstr(said, "test_pass (task 1, layer 7) waits for "
                                 "test_block (task 0)\n"));
    assert_non_null(strstr(said, "test_pass (task 3, rank 0) waits for "
                                 "test_pass (task 1, layer 7)\n"));
    let_all_go(exec, 1);
    said[0] = '\0';
    dsf_standstill_say(&s, g, exec);
    assert_string_equal(said, "");
    dsflow_log_sink_set(NULL, NULL);
    dsflow_exec_close(exec);
    dsflow_graph_free(g);
}

static void patience_is_many_steps_and_never_short(void **state)
{
    assert_true(dsf_standstill_patience(0.001) >= 10);
    assert_true(dsf_standstill_patience(60) >= 10 * 60);
    assert_true(dsf_standstill_patience(0) >= 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_said_once_and_again_after_twice_the_time),
        cmocka_unit_test(time_during_which_the_program_was_stopped_is_none),
        cmocka_unit_test(the_tasks_are_named),
        cmocka_unit_test(patience_is_many_steps_and_never_short),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
