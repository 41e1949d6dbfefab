/* test_exec_waiting.c - what has not ended, and what for. */
#include "exec/exec_waiting.h"

#include "unit/exec/blocked.h"

static void what_waits_is_listed_with_what_for(void **state)
{
    struct dsflow_graph *g = blocked_graph();
    struct dsflow_host host = { 0 };
    struct dsflow_exec *exec = blocked_exec(g, &host, 2);
    struct dsf_waiting v[4];
    uint64_t before = dsf_exec_ended(exec);
    dsflow_program program = 99;
    uint32_t step = 99;
    unsigned n;

    /* Task 2, which nothing holds back, may have run before task 0 began. */
    assert_true(before <= 1);
    assert_int_equal(dsf_exec_waiting(exec, &program, &step, v, 4, &n),
                     4 - before);
    assert_int_equal(program, DSFLOW_STEP);
    assert_int_equal(step, 0);
    assert_int_equal(n, 4 - before);
    assert_int_equal(v[0].task, 0);
    assert_int_equal(v[0].what, DSF_WAITING_END);
    assert_int_equal(v[0].on, 0);
    if (before == 0) {
        assert_int_equal(v[1].task, 2);
        assert_int_equal(v[1].what, DSF_WAITING_WORKER);
    }
    assert_int_equal(v[n - 2].task, 1);
    assert_int_equal(v[n - 2].what, DSF_WAITING_TASK);
    assert_int_equal(v[n - 2].on, 0);
    assert_int_equal(v[n - 1].task, 3);
    assert_int_equal(v[n - 1].on, 1);
    /* Of a few, those that wait for no other come first. */
    assert_int_equal(dsf_exec_waiting(exec, &program, &step, v, 1, &n),
                     4 - before);
    assert_int_equal(n, 1);
    assert_int_equal(v[0].task, 0);

    sem_post(&let_go);
    sem_wait(&began); /* of the second step: the first has ended but for 2 */
    dsf_exec_waiting(exec, &program, &step, v, 4, &n);
    assert_true(step <= 1 && n >= 1);
    let_all_go(exec, 1);
    assert_int_equal(dsf_exec_ended(exec), 8);
    assert_int_equal(dsf_exec_waiting(exec, &program, &step, v, 4, &n), 0);
    assert_int_equal(n, 0);
    dsflow_exec_close(exec);
    dsflow_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_waits_is_listed_with_what_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
