/* test_exec_tiers.c - swaps between all memories of several ranks; and disks that
 * fail. */
#include "unit/exec/tiers.h"

static void serial_swaps_are_copies(void **state)
{
    run(DSFLOW_EXEC_OPTIONS(.kind = DSFLOW_SERIAL));
}

static void starpu_swaps_are_copies(void **state)
{
    static const char *const schedulers[] = { NULL, "dmdas", "prio", "eager" };

    for (unsigned i = 0; i < 4; i++)
        run(DSFLOW_EXEC_OPTIONS(.kind = DSFLOW_STARPU, .workers = 1 + i % 3,
                                .scheduler = schedulers[i]));
}

/* --- faults --------------------------------------------------------------- */

static void a_disk_that_fails_ends_the_run(void **state)
{
    struct dsflow_exec_options options =
        DSFLOW_EXEC_OPTIONS(.kind = DSFLOW_SERIAL);

    run_and_break(options, cut_files);
    run_and_break(options, lose_files);
    options.kind = DSFLOW_STARPU;
    for (options.workers = 1; options.workers <= 2; options.workers++) {
        run_and_break(options, cut_files);
        run_and_break(options, lose_files);
    }
}

/* The window of dsflow_exec_map fails, and what was changed there is lost. */
static void what_cannot_be_put_back_is_a_failure(void **state)
{
    struct dsflow_host host = { 0 };
    struct dsflow_exec *exec;
    struct dsflow_err err;
    struct program p;

    make_program(&p, 3);
    exec = open_exec(p.g, DSFLOW_EXEC_OPTIONS(.kind = DSFLOW_SERIAL), &host);
    assert_non_null(dsflow_exec_map(exec, p.places[0][0].nvme[0], DSFLOW_RW));
    lose_files(exec);
    assert_int_equal(dsflow_exec_submit(exec, DSFLOW_STEP, &err), DSFLOW_EIO);
    assert_non_null(strstr(err.msg, "write of "));
    dsflow_exec_close(exec);
    free_program(&p);
}

static void a_folder_that_is_not_there_is_refused_at_once(void **state)
{
    static const char *const nowhere[] = { "no/such/folder" };
    struct dsflow_exec_options options =
        DSFLOW_EXEC_OPTIONS(.kind = DSFLOW_SERIAL,
                            .disk = { .paths = nowhere, .npaths = 1 });
    struct dsflow_host host = { 0 };
    struct dsflow_exec *exec;
    struct dsflow_err err;
    struct program p;

    make_program(&p, 3);
    assert_int_equal(dsflow_exec_open(p.g, &options, &host, &exec, &err),
                     DSFLOW_EINVAL);
    assert_non_null(strstr(err.msg, "no/such/folder"));
    options.disk = (struct dsflow_disk){ 0 };
    assert_int_equal(dsflow_exec_open(p.g, &options, &host, &exec, &err),
                     DSFLOW_EINVAL);
    free_program(&p);
}

static void a_disk_does_not_copy_to_itself(void **state)
{
    struct dsflow_host host = { 0 };
    struct dsflow_exec *exec;
    struct dsflow_err err;
    struct program p;

    make_program(&p, 3);
    add_task(&p, &dsf_op_swap_in, 0, 0, p.places[0][0].nvme[0],
             p.places[0][0].nvme[1]);
    assert_int_equal(
        dsflow_exec_open(
            p.g, &DSFLOW_EXEC_OPTIONS(.kind = DSFLOW_SERIAL, .disk = disk),
            &host, &exec, &err),
        DSFLOW_EINVAL);
    assert_string_equal(err.msg,
                        "task swap_in of nvme0.0.0: expected one of its "
                        "data in memory, and the other on NVMe");
    free_program(&p);
}

/* --- together ------------------------------------------------------------- */

/* The worker waits for what the disk brings: a swap that needed a worker would
 * stand behind it for good. */
static void a_disk_works_while_the_only_worker_is_busy(void **state)
{
    enum { WORDS = 1 << 14 };
    struct dsflow_data_spec d = DSFLOW_DATA(.elems = WORDS * sizeof(uint32_t),
                                            .persistent = 1, .unit = -1);
    struct dsflow_graph *g = dsflow_graph_new();
    struct dsflow_host host = { 0 };
    struct dsf_timeline t = { 0 };
    struct dsflow_exec *exec;
    struct dsflow_err err;
    dsflow_data_id home, slot, other;
    uint32_t *words;

    d.name = "other";
    other = dsflow_graph_add_data(g, &d);
    d.name = "slot";
    slot = dsflow_graph_add_data(g, &d);
    d.name = "home";
    d.tier = DSFLOW_NVME;
    home = dsflow_graph_add_data(g, &d);
    dsflow_graph_add_task(g, &DSFLOW_TASK(.op = &await_op, .priority = 1,
                                          .ndata = 1,
                                          .data = (dsflow_data_id[]){ other }));
    dsflow_graph_add_task(
        g, &DSFLOW_TASK(.op = &dsf_op_swap_in, .ndata = 2,
                        .data = (dsflow_data_id[]){ home, slot }));
    exec = open_exec(
        g, DSFLOW_EXEC_OPTIONS(.kind = DSFLOW_STARPU, .workers = 1), &host);
    words = dsflow_exec_map(exec, home, DSFLOW_W);
    fill(words, WORDS * sizeof(*words), 1);
    awaited = (uint32_t *)exec->mem[slot.i] + WORDS - 1;
    assert_int_equal(dsflow_exec_submit(exec, DSFLOW_STEP, &err), DSFLOW_OK);
    assert_int_equal(dsflow_exec_wait(exec, &err), DSFLOW_OK);
    assert_true(came);
    dsf_exec_drain(exec, &t);
    assert_int_equal(t.n, 2);
    dsf_timeline_fini(&t);
    dsflow_exec_close(exec);
    dsflow_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(serial_swaps_are_copies),
        cmocka_unit_test(starpu_swaps_are_copies),
        cmocka_unit_test(a_disk_that_fails_ends_the_run),
        cmocka_unit_test(what_cannot_be_put_back_is_a_failure),
        cmocka_unit_test(a_folder_that_is_not_there_is_refused_at_once),
        cmocka_unit_test(a_disk_does_not_copy_to_itself),
        cmocka_unit_test(a_disk_works_while_the_only_worker_is_busy),
    };

    if (register_tiers())
        return 99;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
