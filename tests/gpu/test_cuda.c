/* test_cuda.c - the executor on GPUs that are not there, with a kernel of its
 * own: order where streams are late, what is allocated and pinned, and what
 * ends a run. */
#include <dsflow/codelet.h>

static const char *mix_cuda(const struct dsflow_call *call, void *stream);
#define TIERS_MIX_CUDA mix_cuda
#include "exec/clock_drift.h"
#include "exec/cuda_module.h"
#include "exec/exec_memory.h"
#include "gpu/runtime/counts.h"
#include "unit/exec/tiers.h"

#include <dlfcn.h>
#include <math.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

static void (*count)(struct emulated_runtime_counts *counts);
static void (*run_on)(void *stream, void (*what)(void *arg), void *arg);

/* Kept until the end, as a GPU that has failed runs nothing any more. */
struct mixing {
    uint32_t *x;
    const uint32_t *y;
    size_t n;
    uint32_t k;
    struct mixing *next;
};
static struct mixing *all_mixing;

/* What CUDA says of its launches; NULL: nothing. */
static const char *refused;

static void mix_there(void *arg)
{
    const struct mixing *m = arg;

    mix(m->x, m->y, m->n, m->k);
}

static const char *mix_cuda(const struct dsflow_call *call, void *stream)
{
    struct mixing *m = malloc(sizeof(*m));

    *m = (struct mixing){ call->bufs[0].ptr, call->bufs[1].ptr,
                          call->bufs[0].bytes / sizeof(uint32_t),
                          *(const uint32_t *)call->args, NULL };
    run_on(stream, mix_there, m);
    /* Of one GPU after the other; the launcher of each is a thread. */
    do
        m->next = all_mixing;
    while (!__atomic_compare_exchange_n(&all_mixing, &m->next, m, 1,
                                        __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
    return refused;
}

static struct emulated_runtime_counts counts_now(void)
{
    struct emulated_runtime_counts c;

    count(&c);
    return c;
}

static struct dsflow_exec_options options_of(unsigned gpus)
{
    return DSFLOW_EXEC_OPTIONS(.kind = DSFLOW_STARPU, .workers = 2,
                               .gpus = gpus);
}

static void step(struct program *p, struct dsflow_exec *exec)
{
    struct dsflow_err err;

    assert_int_equal(dsflow_exec_submit(exec, DSFLOW_STEP, &err), DSFLOW_OK);
    compute(p);
}

/* What devices reach of the arenas, the buffers of staged tasks, and what the
 * program looks at. */
static uint64_t pinned_by(const struct dsflow_exec *exec)
{
    uint64_t bytes = exec->stage.bytes +
                     (exec->window.at != NULL ? exec->window.bytes : 0);

    for (unsigned r = 0; r < exec->nranks; r++)
        for (unsigned p = 0; p < DSF_NPLACES; p++)
            bytes += exec->arenas[r][p].pinned;
    return bytes;
}

/* What a plan counts before there is an executor is what one takes. */
static void assert_planned(struct dsflow_graph *g,
                           const struct dsflow_exec *exec, unsigned gpus)
{
    struct dsf_exec_needs needs;
    struct dsflow_err err;
    size_t device = 0, host = exec->stage.bytes, used = 0;

    assert_int_equal(
        dsf_exec_needs_find(g, &DSFLOW_EXEC_OPTIONS(.gpus = gpus, .workers = 2),
                            &needs, &err),
        DSFLOW_OK);
    assert_int_equal(needs.nranks, NRANKS);
    for (unsigned r = 0; r < NRANKS; r++)
        device += needs.ranks[r].device;
    for (unsigned i = 0; i < gpus; i++)
        used += counts_now().used[i];
    assert_int_equal(device, used);
    assert_int_equal(dsf_exec_on_devices(exec), used);
    for (unsigned w = 0; w < 2; w++)
        host += exec->workers[w].scratch_bytes;
    for (unsigned r = 0; r < NRANKS; r++)
        host += exec->arenas[r][DSF_PLACE_NEAR].bytes;
    assert_in_range(needs.host, host - NRANKS * 4096, host);
    assert_int_equal(exec->stage.bytes,
                     dsf_exec_stage_count(exec->stage.each, 2) *
                         exec->stage.each);
    dsf_exec_needs_fini(&needs);
}

static void assert_lanes(const struct program *p, struct dsflow_exec *exec)
{
    struct dsf_timeline t = { 0 };
    size_t tasks = 0;

    dsf_exec_lanes(exec, &t);
    assert_int_equal(dsf_exec_drain(exec, &t), 0);
    for (size_t i = 0; i < t.n; i++)
        if (t.v[i].kind == DSF_SPAN_TASK) {
            assert_lane(p, exec, &t, &t.v[i]);
            tasks++;
        }
    assert_int_equal(tasks, (size_t)STEPS * dsflow_graph_ntasks(p->g));
    dsf_timeline_fini(&t);
}

/* With each step submitted while the one before is under way; nothing is
 * allocated, freed or waited for but at the beginning, and nothing copied that
 * is not pinned. */
static void run_steps(unsigned gpus, unsigned seed)
{
    struct emulated_runtime_counts before = counts_now(), first, last;
    struct told told = { 0 };
    struct dsflow_host host = { &told, .report = report };
    struct dsflow_exec *exec;
    struct dsflow_err err;
    struct program p;

    make_program(&p, seed);
    exec = open_exec(p.g, options_of(gpus), &host);
    put_first_contents(&p, exec);
    step(&p, exec);
    first = counts_now();
    assert_planned(p.g, exec, gpus);
    for (int i = 1; i < STEPS; i++)
        step(&p, exec);
    assert_int_equal(dsflow_exec_wait(exec, &err), DSFLOW_OK);
    last = counts_now();
    assert_contents(&p, exec);
    assert_lanes(&p, exec);
    assert_int_equal(told.n, STEPS);
    assert_int_equal(first.allocations - before.allocations, NRANKS);
    /* Each is cleared before anybody uses it. */
    assert_int_equal(first.waits - before.waits, NRANKS);
    for (unsigned i = 0; i < gpus; i++)
        assert_true(first.used[i] > 0);
    assert_int_equal(last.allocations, first.allocations);
    assert_int_equal(last.frees, before.frees);
    assert_int_equal(last.waits, first.waits);
    assert_int_equal(last.unpinned, 0);
    assert_int_equal(counts_now().pinned, pinned_by(exec));
    assert_true(last.launches > before.launches);
    assert_true(last.copies > first.copies);
    dsflow_exec_close(exec);
    last = counts_now();
    assert_int_equal(last.frees - before.frees, NRANKS);
    assert_int_equal(last.pinned, 0);
    free_program(&p);
}

static void kernels_copies_cores_and_disks_keep_their_order(void **state)
{
    run_steps(1, 11);
    run_steps(2, 12);
    assert_int_equal(counts_now().peers, 2);
    setenv("DSFLOW_EMULATED_LATE", "0", 1);
    run_steps(2, 13);
}

/* No byte more is taken than is asked for, in one piece for each rank. */
static void one_page_less_is_refused_before_the_run(void **state)
{
    struct dsflow_exec_options options = options_of(1);
    struct dsflow_host host = { 0 };
    struct dsflow_exec *exec;
    struct dsflow_err err;
    struct program p;
    char text[32];
    uint64_t used;

    options.disk = disk;
    make_program(&p, 3);
    exec = open_exec(p.g, options, &host);
    used = counts_now().used[0];
    assert_int_equal(used, exec->devices[0].used);
    dsflow_exec_close(exec);
    assert_int_equal(counts_now().used[0], 0);

    snprintf(text, sizeof(text), "%llu", (unsigned long long)used);
    setenv("DSFLOW_EMULATED_MEMORY", text, 1);
    exec = open_exec(p.g, options, &host);
    dsflow_exec_close(exec);

    snprintf(text, sizeof(text), "%llu", (unsigned long long)used - 4096);
    setenv("DSFLOW_EMULATED_MEMORY", text, 1);
    assert_int_equal(dsflow_exec_open(p.g, &options, &host, &exec, &err),
                     DSFLOW_EFIT);
    assert_non_null(strstr(err.msg, "machine: gpus: GPU 0: "));
    assert_non_null(strstr(err.msg, " for the tensors of rank 1: "));
    assert_int_equal(counts_now().used[0], 0);
    unsetenv("DSFLOW_EMULATED_MEMORY");
    free_program(&p);
}

/* Two numbers on the GPU, one mixed with the other a few times. */
static struct program kernels_of(int ranks)
{
    struct program p = { .g = dsflow_graph_new(), .seed = 1 };
    dsflow_data_id d[2];

    for (int rank = 0; rank < ranks; rank++) {
        d[0] = add_data(&p, "a", rank, 0, 0, DSFLOW_DEVICE, true);
        d[1] = add_data(&p, "b", rank, 0, 0, DSFLOW_DEVICE, true);
        for (uint32_t k = 0; k < 5; k++)
            add_task(&p, &mix_op, rank, k, d[0], d[1]);
    }
    return p;
}

static struct program kernels_only(void)
{
    return kernels_of(1);
}

static void assert_steps(struct program *p, struct dsflow_exec *exec)
{
    struct dsflow_err err;

    put_first_contents(p, exec);
    for (int i = 0; i < STEPS; i++)
        step(p, exec);
    assert_int_equal(dsflow_exec_wait(exec, &err), DSFLOW_OK);
    assert_contents(p, exec);
}

/* Nothing else orders these: they are over as soon as they are launched. */
static void a_stream_orders_what_only_its_kernels_touch(void **state)
{
    struct program p = kernels_only();
    struct dsflow_host host = { 0 };
    struct dsflow_exec *exec = open_exec(p.g, options_of(1), &host);

    assert_steps(&p, exec);
    assert_int_equal(counts_now().unpinned, 0);
    dsflow_exec_close(exec);
    free_program(&p);
}

/* Data on the GPU that kernels write and copies take out, or that copies bring
 * and kernels read, from two homes in turn. */
static struct program copied_one_way(bool out)
{
    enum { SIZE = 2, TURNS = 6 };
    struct program p = { .g = dsflow_graph_new(), .seed = 1 };
    dsflow_data_id x = add_data(&p, "x", 0, SIZE, 0, DSFLOW_DEVICE, true);
    dsflow_data_id y = add_data(&p, "y", 0, SIZE, 0, DSFLOW_DEVICE, true);
    dsflow_data_id home[2];

    for (int i = 0; i < 2; i++)
        home[i] = add_data(&p, "home", 0, SIZE, i, DSFLOW_HOST, true);
    for (uint32_t k = 0; k < TURNS; k++) {
        if (!out)
            add_task(&p, &dsf_op_swap_in, 0, 0, home[k % 2], y);
        add_task(&p, &mix_op, 0, k, x, y);
        if (out)
            add_task(&p, &dsf_op_swap_out, 0, 0, x, home[k % 2]);
    }
    return p;
}

/* Kernels and copies are in streams of their own: what is copied in one
 * direction only has to wait for the kernels, too, and they for it. */
static void copies_of_one_direction_wait_for_kernels(void **state)
{
    setenv("DSFLOW_EMULATED_LATE", "2000", 1);
    for (int out = 0; out < 2; out++) {
        struct program p = copied_one_way(out);
        struct dsflow_host host = { 0 };
        struct dsflow_exec *exec = open_exec(p.g, options_of(1), &host);

        assert_steps(&p, exec);
        dsflow_exec_close(exec);
        free_program(&p);
    }
    setenv("DSFLOW_EMULATED_LATE", "0", 1);
}

static void no_core_can_touch_the_memory_of_a_gpu(void **state)
{
    struct program p = kernels_only();
    struct dsflow_host host = { 0 };
    struct dsflow_exec *exec = open_exec(p.g, options_of(1), &host);
    int status = 0;
    pid_t child;

    put_first_contents(&p, exec);
    fflush(NULL);
    child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        _exit(*(const volatile char *)exec->mem[0] == 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    dsflow_exec_close(exec);
    free_program(&p);
}

/* What is free may be in pieces. */
static void memory_that_cuda_refuses_is_told_as_memory(void **state)
{
    struct program p = kernels_only();
    struct dsflow_exec_options options = options_of(1);
    struct dsflow_host host = { 0 };
    struct dsflow_exec *exec;
    struct dsflow_err err;

    options.disk = disk;
    setenv("DSFLOW_EMULATED_LARGEST", "100", 1);
    assert_int_equal(dsflow_exec_open(p.g, &options, &host, &exec, &err),
                     DSFLOW_EFIT);
    assert_non_null(strstr(err.msg, "machine: gpus: GPU 0: "));
    assert_non_null(strstr(err.msg, " for the tensors of rank 0: "));
    assert_non_null(strstr(err.msg, " are free: out of memory"));
    unsetenv("DSFLOW_EMULATED_LARGEST");
    free_program(&p);
}

/* As CUDA's manual has it: memory that is pinned in part, and memory that
 * overlaps, is not copied; and no page is pinned twice. */
static void memory_that_cuda_would_not_copy_is_not_copied(void **state)
{
    enum { PIECE = 4096, APART = 64 };
    const struct dsf_gpu *gpu = dsf_cuda_module(NULL);
    char *host = mmap(NULL, 4 * PIECE, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct dsf_gpu_copy copy = { .from = host, .bytes = PIECE, .from_gpu = -1 };
    const uint64_t pins = counts_now().pins;
    void *at, *stream;

    assert_true(host != MAP_FAILED);
    assert_null(gpu->use(0));
    assert_null(gpu->stream_new(&stream));
    assert_null(gpu->allocate(2 * PIECE, &at));
    assert_null(gpu->pin(host, PIECE + PIECE / 2));
    copy.to = at;
    assert_null(gpu->copy(&copy, stream));
    copy.from = host + PIECE;
    assert_string_equal(gpu->copy(&copy, stream), "invalid argument");
    /* The other half of the page is as it was. */
    assert_null(gpu->pin(host + PIECE + PIECE / 2, PIECE));
    assert_int_equal(counts_now().pins, pins + 1);
    assert_non_null(gpu->pin(host, 0));

    copy = (struct dsf_gpu_copy){ (char *)at + APART, at, APART };
    assert_null(gpu->copy(&copy, stream));
    copy.bytes++;
    assert_string_equal(gpu->copy(&copy, stream), "invalid argument");
    copy = (struct dsf_gpu_copy){ (char *)at + PIECE, at, 1, 0, 0, 1,
                                  (size_t)1 << 31,    1 };
    assert_non_null(gpu->copy(&copy, stream));

    assert_null(gpu->stream_free(stream));
    assert_null(gpu->release(at));
    assert_null(gpu->unpin(host));
    munmap(host, 4 * PIECE);
}

/* A sum of two ranks would read what it cannot reach. */
static void gpus_that_do_not_reach_each_other_are_named(void **state)
{
    struct program p = kernels_only();
    struct dsflow_exec_options options = options_of(2);
    struct dsflow_host host = { 0 };
    struct dsflow_exec *exec;
    struct dsflow_err err;

    setenv("DSFLOW_EMULATED_PEERS", "0", 1);
    assert_int_equal(dsflow_exec_open(p.g, &options, &host, &exec, &err),
                     DSFLOW_ENOSYS);
    assert_string_equal(err.msg,
                        "machine: gpus: GPU 0 does not reach the memory of GPU "
                        "1 (no peer access): expected GPUs that do, a process "
                        "for each of them (-n), or machine.gpus = 1");
    exec = open_exec(p.g, options_of(1), &host);
    dsflow_exec_close(exec);
    unsetenv("DSFLOW_EMULATED_PEERS");
    free_program(&p);
}

/* A clock that loses 100 microseconds a second, seen late by some 10 to 40. */
static void a_clock_that_drifts_is_put_right(void **state)
{
    struct dsf_clock_drift drift = { 0 };
    double ahead = 0;

    for (int i = 0; i < 60000; i++) {
        double now = 1 + 0.01 * i, late = 1e-6 * (10 + i * 7919 % 30);

        ahead += dsf_clock_drift(&drift, now, late + 1e-4 * (now - 1) - ahead);
        assert_true(i < 9000 || fabs(ahead - 1e-4 * (now - 1)) < 7e-3);
    }
    assert_true(ahead > 0.05);
}

static void a_launch_that_cuda_refuses_ends_the_run(void **state)
{
    struct program p = kernels_only();
    struct dsflow_host host = { 0 };
    struct dsflow_exec *exec = open_exec(p.g, options_of(1), &host);
    struct dsflow_err err;

    put_first_contents(&p, exec);
    assert_int_equal(dsflow_exec_wait(exec, &err), DSFLOW_OK);
    refused = "invalid configuration argument";
    assert_int_equal(dsflow_exec_submit(exec, DSFLOW_STEP, &err), DSFLOW_OK);
    assert_int_equal(dsflow_exec_wait(exec, &err), DSFLOW_EIO);
    assert_string_equal(err.msg, "task tiers_mix of rank 0: GPU 0: invalid "
                                 "configuration argument");
    refused = NULL;
    dsflow_exec_close(exec);
    free_program(&p);
}

/* The kernel or copy that comes next, but for `after` of them. */
static void let_fail(int after)
{
    const struct emulated_runtime_counts c = counts_now();
    char text[32];

    snprintf(text, sizeof(text), "%llu",
             (unsigned long long)(c.copies + c.launches) + 1 +
                 (unsigned long long)after);
    setenv("DSFLOW_EMULATED_FAIL", text, 1);
}

/* GPU 1 is of no use to the process any more then. */
static void a_copy_that_fails_is_named_and_ends_the_run(void **state)
{
    struct program p = kernels_of(2);
    struct dsflow_host host = { 0 };
    struct dsflow_exec *exec = open_exec(p.g, options_of(2), &host);
    const dsflow_data_id last = { dsflow_graph_ndata(p.g) - 1 };
    struct dsflow_err err;

    put_first_contents(&p, exec);
    assert_int_equal(dsflow_exec_wait(exec, &err), DSFLOW_OK);
    let_fail(0);
    assert_null(dsflow_exec_map(exec, last, DSFLOW_R));
    assert_int_equal(dsflow_exec_submit(exec, DSFLOW_STEP, &err), DSFLOW_EIO);
    assert_string_equal(err.msg, "at or after the copy of b1.0.0: GPU 1: an "
                                 "illegal memory access was encountered");
    dsflow_exec_close(exec);
    free_program(&p);
}

/* The last: GPU 0 is of none either. */
static void a_kernel_that_fails_is_named_and_ends_the_run(void **state)
{
    struct program p = kernels_only();
    struct dsflow_host host = { 0 };
    struct dsflow_exec *exec = open_exec(p.g, options_of(1), &host);
    struct dsflow_err err;

    put_first_contents(&p, exec);
    assert_int_equal(dsflow_exec_wait(exec, &err), DSFLOW_OK);
    let_fail(2);
    assert_int_equal(dsflow_exec_submit(exec, DSFLOW_STEP, &err), DSFLOW_OK);
    assert_int_equal(dsflow_exec_wait(exec, &err), DSFLOW_EIO);
    assert_string_equal(err.msg, "at or after task tiers_mix of rank 0: GPU 0: "
                                 "an illegal memory access was encountered");
    assert_int_equal(dsflow_exec_submit(exec, DSFLOW_STEP, &err), DSFLOW_EIO);
    dsflow_exec_close(exec);
    free_program(&p);
}

static void free_mixing(void)
{
    while (all_mixing != NULL) {
        struct mixing *m = all_mixing;

        all_mixing = m->next;
        free(m);
    }
}

int main(void)
{
    static const char path[] = "tests/gpu/.libs/dsflow-cuda-bare.so";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_copies_cores_and_disks_keep_their_order),
        cmocka_unit_test(one_page_less_is_refused_before_the_run),
        cmocka_unit_test(a_stream_orders_what_only_its_kernels_touch),
        cmocka_unit_test(copies_of_one_direction_wait_for_kernels),
        cmocka_unit_test(no_core_can_touch_the_memory_of_a_gpu),
        cmocka_unit_test(memory_that_cuda_refuses_is_told_as_memory),
        cmocka_unit_test(memory_that_cuda_would_not_copy_is_not_copied),
        cmocka_unit_test(gpus_that_do_not_reach_each_other_are_named),
        cmocka_unit_test(a_clock_that_drifts_is_put_right),
        cmocka_unit_test(a_launch_that_cuda_refuses_ends_the_run),
        cmocka_unit_test(a_copy_that_fails_is_named_and_ends_the_run),
        cmocka_unit_test(a_kernel_that_fails_is_named_and_ends_the_run),
    };
    void *module = dlopen(path, RTLD_NOW);
    int failed;

    setenv("DSFLOW_CUDA", path, 1);
    setenv("DSFLOW_EMULATED_KERNELS", "0", 1); /* whole.sh has them */
    if (module == NULL || register_tiers()) {
        fprintf(stderr, "%s\n", module == NULL ? dlerror() : "");
        return 99;
    }
    *(void **)&count = dlsym(module, "emulated_runtime_count");
    *(void **)&run_on = dlsym(module, "emulated_runtime_run");
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    free_mixing();
    return failed;
}
