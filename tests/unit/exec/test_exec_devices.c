/* test_exec_devices.c - data on virtual devices: swaps, room, faults, and what is
 * done beside what. */
#include "timeline/bound.h"
#include "unit/exec/tiers.h"

static void virtual_devices_swap_too(void **state)
{
    struct dsflow_exec_options options =
        DSFLOW_EXEC_OPTIONS(.kind = DSFLOW_STARPU, .workers = 1, .virtuals = 1);

    run(options);
    options.scheduler = "dmdas";
    run(options);
    run_and_break(options, cut_files);
    options.virtuals = 2;
    options.virtual_memory = 3 << 20;
    options.virtual_link = 1 << 30;
    run(options);
    options.scheduler = NULL;
    options.workers = 2;
    run(options);
    run_and_break(options, lose_files);
}

/* The slots of two ranks on one device. */
static void what_a_device_has_no_room_for_is_refused(void **state)
{
    struct dsflow_exec_options options =
        DSFLOW_EXEC_OPTIONS(.kind = DSFLOW_STARPU, .workers = 1, .virtuals = 1,
                            .virtual_memory = 3 << 20, .disk = disk);
    struct dsflow_host host = { 0 };
    struct dsflow_exec *exec;
    struct dsflow_err err;
    struct program p;

    make_program(&p, 3);
    assert_int_equal(dsflow_exec_open(p.g, &options, &host, &exec, &err),
                     DSFLOW_EFIT);
    assert_string_equal(err.msg,
                        "machine: virtual_memory: device 0: 1.9 MiB for the "
                        "tensors of rank 1: 1.1 MiB of 3.0 MiB are free");
    free_program(&p);
}

static void unpin_main_memory(struct dsflow_exec *exec)
{
    const struct dsf_arena *arena = &exec->arenas[0][DSFLOW_HOST];
    struct dsf_device *device = &exec->devices[0];

    assert_true(arena->pinned > 0);
    device->class->unpin(device, arena->at, arena->pinned);
}

/* As with a disk: what was accepted runs to its end and is reported. */
static void a_copy_that_fails_ends_the_run(void **state)
{
    struct dsflow_exec_options options =
        DSFLOW_EXEC_OPTIONS(.kind = DSFLOW_STARPU, .workers = 1, .virtuals = 1);
    struct told told = { 0 };
    struct dsflow_host host = { &told, .report = report };
    struct dsflow_exec *exec;
    struct dsflow_err err;
    struct program p;

    make_program(&p, 3);
    exec = open_exec(p.g, options, &host);
    put_first_contents(&p, exec);
    unpin_main_memory(exec);
    assert_int_equal(dsflow_exec_submit(exec, DSFLOW_STEP, &err), DSFLOW_OK);
    assert_int_equal(dsflow_exec_wait(exec, &err), DSFLOW_EIO);
    assert_non_null(strstr(err.msg, "device 0: a copy of "));
    assert_non_null(strstr(err.msg, ": main memory that is not pinned"));
    assert_int_equal(told.n, 1);
    assert_int_equal(dsflow_exec_submit(exec, DSFLOW_STEP, &err), DSFLOW_EIO);
    dsflow_exec_close(exec);
    free_program(&p);
}

/* What touches nothing but data of kernels of its device need not have ended for
 * the next launch; what a copy or a core has to do with is waited for. */
static void what_only_kernels_touch_is_launched_ahead(void **state)
{
    static const char *const names[] = { "a", "b", "slot", "home" };
    static const struct {
        enum dsf_exec_by by;
        bool ahead, staged;
    } want[] = { { DSF_BY_DEVICE, true, false },
                 { DSF_BY_DEVICE, false, false },
                 { DSF_BY_DEVICE, false, false },
                 { DSF_BY_CORE, false, false },
                 { DSF_BY_CORE, false, true },
                 { DSF_BY_DEVICE, true, false } };
    struct program p = { .g = dsflow_graph_new(), .seed = 1 };
    struct dsflow_host host = { 0 };
    struct dsflow_exec *exec;
    dsflow_data_id d[4];

    for (int i = 0; i < 4; i++)
        d[i] = dsflow_graph_add_data(
            p.g, &DSFLOW_DATA(.name = names[i], .elems = 64, .persistent = 1,
                              .tier = i == 3 ? DSFLOW_HOST : DSFLOW_DEVICE));
    add_task(&p, &mix_op, 0, 3, d[0], d[1]);
    add_task(&p, &mix_op, 0, 3, d[2], d[1]);
    add_task(&p, &dsf_op_swap_out, 0, 0, d[2], d[3]);
    add_task(&p, &mix_op, 0, 3, d[3], d[3]);
    add_task(&p, &mix_op, 0, 3, d[3], d[2]);
    add_task(&p, &mix_op, 0, 3, d[1], d[0]);
    exec = open_exec(p.g,
                     DSFLOW_EXEC_OPTIONS(.kind = DSFLOW_STARPU, .workers = 1,
                                         .virtuals = 1),
                     &host);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(exec->calls[i].by, want[i].by);
        assert_int_equal(exec->calls[i].ahead, want[i].ahead);
        assert_int_equal(exec->calls[i].staged, want[i].staged);
    }
    dsflow_exec_close(exec);
    dsflow_graph_free(p.g);
}

/* Copies from rank 0 to itself, and to ranks 1 and 2, on two devices. */
static void a_copy_in_one_memory_goes_between_kernels(void **state)
{
    static const char *const names[] = { "in 0", "in 1", "in 2" };
    const struct dsf_range range = { .elems = 48, .at = 8, .from = 16 };
    struct dsflow_graph *g = dsflow_graph_new();
    struct dsflow_host host = { 0 };
    struct dsflow_exec *exec;
    struct dsflow_err err;
    dsflow_data_id from, into[3];
    uint32_t sent[16];

    fill(sent, sizeof(sent), 5);
    from = dsflow_graph_add_data(
        g, &DSFLOW_DATA(.name = "from", .elems = 64, .persistent = 1));
    for (int i = 0; i < 3; i++)
        into[i] = dsflow_graph_add_data(
            g, &DSFLOW_DATA(.name = names[i], .elems = 64, .persistent = 1,
                            .home = (int16_t)i));
    for (int i = 0; i < 3; i++)
        dsflow_graph_add_task(
            g, &DSFLOW_TASK(.op = &dsf_op_copy, .args = &range,
                            .rank = (int16_t)i, .ndata = 2,
                            .data = (dsflow_data_id[]){ into[i], from }));
    exec = open_exec(
        g,
        DSFLOW_EXEC_OPTIONS(.kind = DSFLOW_STARPU, .workers = 1, .virtuals = 2),
        &host);
    memcpy(dsflow_exec_map(exec, from, DSFLOW_W), sent, sizeof(sent));
    for (int i = 0; i < 3; i++) {
        const struct dsf_exec_call *call = &exec->calls[i];

        memset(dsflow_exec_map(exec, into[i], DSFLOW_W), 0, 64);
        assert_int_equal(call->by, DSF_BY_DEVICE);
        assert_ptr_equal(call->device, &exec->devices[i % 2]);
        assert_int_equal(call->queue, i % 2 ? DSF_QUEUE_IN : DSF_QUEUE_COMPUTE);
    }
    assert_int_equal(dsflow_exec_submit(exec, DSFLOW_STEP, &err), DSFLOW_OK);
    assert_int_equal(dsflow_exec_wait(exec, &err), DSFLOW_OK);
    for (int i = 0; i < 3; i++) {
        const char *got = dsflow_exec_map(exec, into[i], DSFLOW_R);

        assert_int_equal(got[7], 0);
        assert_memory_equal(got + 8, (char *)sent + 16, 48);
        assert_int_equal(got[56], 0);
    }
    dsflow_exec_close(exec);
    dsflow_graph_free(g);
}

/* The kernel waits for what a copy brings: one that went behind it in its queue,
 * or needed the core, would stand there for good. */
static void a_device_copies_while_it_computes(void **state)
{
    enum { WORDS = 1 << 14 };
    struct dsflow_data_spec d = DSFLOW_DATA(.elems = WORDS * sizeof(uint32_t),
                                            .persistent = 1, .unit = -1);
    struct dsflow_graph *g = dsflow_graph_new();
    struct dsflow_host host = { 0 };
    struct dsflow_exec *exec;
    struct dsflow_err err;
    dsflow_data_id home, slot, other;

    d.name = "other";
    other = dsflow_graph_add_data(g, &d);
    d.name = "slot";
    slot = dsflow_graph_add_data(g, &d);
    d.name = "home";
    d.tier = DSFLOW_HOST;
    home = dsflow_graph_add_data(g, &d);
    dsflow_graph_add_task(g, &DSFLOW_TASK(.op = &await_op, .priority = 1,
                                          .ndata = 1,
                                          .data = (dsflow_data_id[]){ other }));
    dsflow_graph_add_task(
        g, &DSFLOW_TASK(.op = &dsf_op_swap_in, .ndata = 2,
                        .data = (dsflow_data_id[]){ home, slot }));
    exec = open_exec(g,
                     DSFLOW_EXEC_OPTIONS(.kind = DSFLOW_STARPU, .workers = 1,
                                         .virtuals = 1),
                     &host);
    fill(dsflow_exec_map(exec, home, DSFLOW_W), WORDS * sizeof(uint32_t), 1);
    awaited = (uint32_t *)exec->mem[slot.i] + WORDS - 1;
    came = false;
    assert_int_equal(dsflow_exec_submit(exec, DSFLOW_STEP, &err), DSFLOW_OK);
    assert_int_equal(dsflow_exec_wait(exec, &err), DSFLOW_OK);
    assert_true(came);
    dsflow_exec_close(exec);
    dsflow_graph_free(g);
}

/* A kernel leaves squares in main memory, where a core needs nothing carried.
 */
static void a_core_adds_up_what_devices_leave(void **state)
{
    const struct dsf_square_args square = { .elems = 64 };
    struct dsflow_graph *g = dsflow_graph_new();
    struct dsflow_data_spec d = DSFLOW_DATA(.name = "grad", .persistent = 1,
                                            .dtype = DSFLOW_FP32, .elems = 64);
    struct dsflow_host host = { 0 };
    struct dsflow_exec *exec;
    dsflow_data_id grad, squares, sum;

    grad = dsflow_graph_add_data(g, &d);
    d = (struct dsflow_data_spec)DSFLOW_DATA(.name = "squares",
                                             .dtype = DSFLOW_FP64, .elems = 4,
                                             .role = DSFLOW_BUFFERS);
    squares = dsflow_graph_add_data(g, &d);
    d.name = "sum";
    d.elems = 1;
    sum = dsflow_graph_add_data(g, &d);
    dsflow_graph_add_task(
        g, &DSFLOW_TASK(.op = &dsf_op_square, .args = &square, .ndata = 2,
                        .data = (dsflow_data_id[]){ grad, squares }));
    dsflow_graph_add_task(
        g, &DSFLOW_TASK(.op = &dsf_op_sum, .fresh = 1, .ndata = 2,
                        .data = (dsflow_data_id[]){ sum, squares }));
    exec = open_exec(
        g,
        DSFLOW_EXEC_OPTIONS(.kind = DSFLOW_STARPU, .workers = 1, .virtuals = 1),
        &host);
    assert_int_equal(exec->calls[0].by, DSF_BY_DEVICE);
    assert_int_equal(exec->calls[1].by, DSF_BY_CORE);
    assert_false(exec->calls[1].staged);
    dsflow_exec_close(exec);
    dsflow_graph_free(g);
}

/* A graph of two kernels. */
static struct dsflow_graph *two_kernels(void)
{
    const struct dsf_square_args square = { .elems = 64 };
    struct dsflow_graph *g = dsflow_graph_new();

    for (int i = 0; i < 2; i++) {
        dsflow_data_id grad = dsflow_graph_add_data(
            g, &DSFLOW_DATA(.name = "grad", .persistent = 1,
                            .dtype = DSFLOW_FP32, .elems = 64));
        dsflow_data_id squares = dsflow_graph_add_data(
            g, &DSFLOW_DATA(.name = "squares", .dtype = DSFLOW_FP64, .elems = 4,
                            .role = DSFLOW_BUFFERS));

        dsflow_graph_add_task(
            g, &DSFLOW_TASK(.op = &dsf_op_square, .args = &square, .ndata = 2,
                            .data = (dsflow_data_id[]){ grad, squares }));
    }
    return g;
}

/* The cores beside a device take nothing off it: the least time of a step is
 * that of all its kernels. */
static void cores_do_no_kernels_of_a_device(void **state)
{
    struct dsflow_graph *g = two_kernels();
    struct dsf_timeline t = { 0 };
    struct dsflow_host host = { 0 };
    struct dsflow_exec *exec;
    struct dsflow_err err;
    struct dsf_teams teams;
    struct dsf_load load;
    enum dsf_bound what;

    exec = open_exec(
        g,
        DSFLOW_EXEC_OPTIONS(.kind = DSFLOW_STARPU, .workers = 2, .virtuals = 1),
        &host);
    assert_int_equal(dsflow_exec_submit(exec, DSFLOW_STEP, &err), DSFLOW_OK);
    assert_int_equal(dsflow_exec_wait(exec, &err), DSFLOW_OK);
    dsf_exec_lanes(exec, &t);
    assert_int_equal(dsf_exec_drain(exec, &t), 0);
    assert_int_equal(t.workers, 1);
    assert_string_equal(t.lanes[0].name, "device 0");
    assert_string_equal(t.lanes[1].name, "core 0");
    assert_string_equal(t.lanes[2].name, "core 1");
    dsf_teams_init(&teams, &t, true);
    dsf_load_init(&load, &teams);
    assert_int_equal(t.n, 2);
    for (size_t i = 0; i < t.n; i++)
        dsf_load_add(&load, t.v[i].lane, 3, t.v[i].rank >= 0);
    assert_float_equal(dsf_bound_seconds(&load, 3, &what), 6, 0);
    assert_int_equal(what, DSF_BOUND_WORK);
    dsf_load_fini(&load);
    dsf_teams_fini(&teams);
    dsf_timeline_fini(&t);
    dsflow_exec_close(exec);
    dsflow_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(virtual_devices_swap_too),
        cmocka_unit_test(what_a_device_has_no_room_for_is_refused),
        cmocka_unit_test(a_copy_that_fails_ends_the_run),
        cmocka_unit_test(a_copy_in_one_memory_goes_between_kernels),
        cmocka_unit_test(a_device_copies_while_it_computes),
        cmocka_unit_test(what_only_kernels_touch_is_launched_ahead),
        cmocka_unit_test(a_core_adds_up_what_devices_leave),
        cmocka_unit_test(cores_do_no_kernels_of_a_device),
    };

    if (register_tiers())
        return 99;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
