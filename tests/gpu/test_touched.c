/* test_touched.c - what cores write first in an update is there when the GPU
 * has computed the step. */
#include <dsflow/codelet.h>
#include <dsflow/exec.h>

#include "base/units.h"

#include "lib/test.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum { MIB = 1 << 20, STATES = 48 * MIB, FEW = 4096 };

static void (*run_on)(void *stream, void (*what)(void *arg), void *arg);

/* --- a GPU that waits for pages, and a core that adds --------------------- */

static struct dsflow_exec *exec;
static size_t awaited, seen;

static void hold_there(void *arg)
{
    const double since = dsf_now();

    while ((seen = dsflow_exec_resident(exec, 0, DSFLOW_HOST)) < awaited &&
           dsf_now() < since + 60)
        usleep(1000);
}

static const char *hold_cuda(const struct dsflow_call *call, void *stream)
{
    run_on(stream, hold_there, NULL);
    return NULL;
}

static void add_cpu(const struct dsflow_call *call)
{
    uint32_t *to = call->bufs[0].ptr;
    const uint32_t *from = call->bufs[1].ptr;

    for (size_t i = 0; i < call->bufs[0].bytes / sizeof(*to); i++)
        to[i] += from[i % (call->bufs[1].bytes / sizeof(*from))] + 1;
}

static void nothing_cpu(const struct dsflow_call *call)
{
}

static int check(const struct dsflow_case *c, struct dsflow_err *err)
{
    return DSFLOW_OK;
}

static const struct dsflow_op hold_op = {
    .abi = DSFLOW_OP_ABI,
    .name = "touched_hold",
    .summary = "until memory is there",
    DSFLOW_PORTS({ "x", DSFLOW_RW }),
    .check = check,
};
static const struct dsflow_op add_op = {
    .abi = DSFLOW_OP_ABI,
    .name = "touched_add",
    .summary = "to = to + from + 1",
    DSFLOW_PORTS({ "to", DSFLOW_RW }, { "from", DSFLOW_R }),
    .check = check,
};
static const struct dsflow_codelet hold_codelet = { .abi = DSFLOW_CODELET_ABI,
                                                    .op = &hold_op,
                                                    .cpu = nothing_cpu,
                                                    .cuda = hold_cuda };
static const struct dsflow_codelet add_codelet = { .abi = DSFLOW_CODELET_ABI,
                                                   .op = &add_op,
                                                   .cpu = add_cpu };

/* --- a step --------------------------------------------------------------- */

static dsflow_data_id add_data(struct dsflow_graph *g, const char *name,
                               size_t bytes, enum dsflow_tier tier)
{
    return dsflow_graph_add_data(
        g, &DSFLOW_DATA(.name = name, .elems = (int64_t)bytes,
                        .tier = (uint8_t)tier, .persistent = 1, .unit = -1));
}

static void add_task(struct dsflow_graph *g, const struct dsflow_op *op,
                     dsflow_data_id a, dsflow_data_id b)
{
    dsflow_graph_add_task(g, &DSFLOW_TASK(.op = op,
                                          .ndata = op == &hold_op ? 1 : 2,
                                          .data = (dsflow_data_id[]){ a, b }));
}

/* States, what they are made of, and what has to do with no update. */
static void a_step_touches_what_its_updates_write(void **state)
{
    const struct dsflow_exec_options options =
        DSFLOW_EXEC_OPTIONS(.kind = DSFLOW_STARPU, .gpus = 1, .workers = 2);
    const struct dsflow_host host = { 0 };
    struct dsflow_graph *g = dsflow_graph_new();
    dsflow_data_id x = add_data(g, "x", FEW, DSFLOW_DEVICE);
    dsflow_data_id read = add_data(g, "read", STATES, DSFLOW_HOST);
    dsflow_data_id states = add_data(g, "states", STATES, DSFLOW_HOST);
    struct dsflow_err err;
    uint32_t *at;

    add_task(g, &hold_op, x, x);
    add_task(g, &add_op, states, x);
    add_task(g, &add_op, states, read);
    assert_int_equal(dsflow_exec_open(g, &options, &host, &exec, &err), 0);
    at = dsflow_exec_map(exec, states, DSFLOW_W);
    at[0] = at[STATES / sizeof(*at) - 1] = 7;

    awaited = STATES - 4 * MIB; /* at both ends there may be others' */
    assert_int_equal(dsflow_exec_submit(exec, DSFLOW_STEP, &err), DSFLOW_OK);
    assert_int_equal(dsflow_exec_wait(exec, &err), DSFLOW_OK);
    assert_in_range(seen, awaited, STATES + 4 * MIB);

    at = dsflow_exec_map(exec, states, DSFLOW_R);
    for (size_t i = 0; i < STATES / sizeof(*at); i++)
        assert_int_equal(at[i],
                         i == 0 || i == STATES / sizeof(*at) - 1 ? 9 : 2);
    dsflow_exec_close(exec);
    dsflow_graph_free(g);
}

/* What nobody has come to by then is let be. */
static void a_run_may_end_meanwhile(void **state)
{
    const struct dsflow_exec_options options =
        DSFLOW_EXEC_OPTIONS(.kind = DSFLOW_STARPU, .gpus = 1, .workers = 1,
                            .scheduler = "dmda");
    const struct dsflow_host host = { 0 };
    struct dsflow_graph *g = dsflow_graph_new();
    dsflow_data_id x = add_data(g, "x", FEW, DSFLOW_DEVICE);
    dsflow_data_id states = add_data(g, "states", STATES, DSFLOW_HOST);
    struct dsflow_err err;

    add_task(g, &hold_op, x, x);
    add_task(g, &add_op, states, x);
    assert_int_equal(dsflow_exec_open(g, &options, &host, &exec, &err), 0);
    awaited = 0;
    assert_int_equal(dsflow_exec_submit(exec, DSFLOW_STEP, &err), DSFLOW_OK);
    dsflow_exec_close(exec);
    dsflow_graph_free(g);
}

static int kernel_can(void)
{
    void *at = mmap(NULL, FEW, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return madvise(at, FEW, MADV_POPULATE_WRITE) == 0;
}

int main(void)
{
    static const char path[] = "tests/gpu/.libs/dsflow-cuda-bare.so";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_touches_what_its_updates_write),
        cmocka_unit_test(a_run_may_end_meanwhile),
    };
    void *module = dlopen(path, RTLD_NOW);
    struct dsflow_err err;

    if (!kernel_can())
        return 77;
    setenv("DSFLOW_CUDA", path, 1);
    if (module == NULL || dsflow_op_register(&hold_op, &err) < 0 ||
        dsflow_op_register(&add_op, &err) < 0 ||
        dsflow_codelet_register(&hold_codelet, &err) < 0 ||
        dsflow_codelet_register(&add_codelet, &err) < 0) {
        fprintf(stderr, "%s\n", module == NULL ? dlerror() : err.msg);
        return 99;
    }
    *(void **)&run_on = dlsym(module, "emulated_runtime_run");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
