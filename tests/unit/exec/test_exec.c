/* test_exec.c - both executors run a graph in an order that its data allow,
 * and give the same numbers. */
#include <dsflow/exec.h>

#include "machine/schedulers.h"
#include "exec/exec_trace.h"
#include "lib/test.h"
#include "machine/machine.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

/* x = x * args + y + …: the order of such tasks shows in the result. */
static int check(const struct dsflow_case *c, struct dsflow_err *err)
{
    return DSFLOW_OK;
}

static void cost(const struct dsflow_case *c, struct dsflow_cost *cost)
{
    cost->flops = 2.0 * (double)c->shapes[0].bytes;
    cost->bytes = (double)c->shapes[0].bytes;
}

static size_t scratch(const struct dsflow_case *c)
{
    return c->shapes[0].bytes;
}

static void mix_cpu(const struct dsflow_call *call)
{
    uint32_t *x = call->bufs[0].ptr;
    const uint32_t *y = call->bufs[1].ptr;
    uint32_t *tmp = call->scratch;
    uint32_t k = *(const uint32_t *)call->args;
    size_t n = call->bufs[0].bytes / sizeof(*x);

    memcpy(tmp, x, call->bufs[0].bytes);
    for (size_t i = 0; i < n; i++)
        x[i] = tmp[i] * k + y[i] + (uint32_t)i;
    for (unsigned p = 2; p < call->nbufs; p++)
        for (size_t i = 0; i < n; i++)
            x[i] = x[i] * p + ((const uint32_t *)call->bufs[p].ptr)[i];
}

static void tell_cpu(const struct dsflow_call *call)
{
    const struct dsflow_step_report report = {
        .size = sizeof(report), .loss = *(const uint32_t *)call->bufs[0].ptr
    };

    call->host->report(call->host->user, &report);
}

static const struct dsflow_op mix = {
    .abi = DSFLOW_OP_ABI,
    .name = "test_mix",
    .summary = "x = x * k + y + …",
    .args_size = sizeof(uint32_t),
    .repeats = 1,
    DSFLOW_PORTS({ "x", DSFLOW_RW }, { "y", DSFLOW_R }),
    .check = check,
    .cost = cost,
    .scratch = scratch,
};
static const struct dsflow_op tell = {
    .abi = DSFLOW_OP_ABI,
    .name = "test_tell",
    .summary = "report x[0]",
    DSFLOW_PORTS({ "x", DSFLOW_R }),
    .check = check,
    .cost = cost,
};
static const struct dsflow_codelet mix_codelet = {
    .abi = DSFLOW_CODELET_ABI, .op = &mix, .cpu = mix_cpu
};
static const struct dsflow_codelet tell_codelet = { .abi = DSFLOW_CODELET_ABI,
                                                    .op = &tell,
                                                    .cpu = tell_cpu,
                                                    .host_only = 1 };

/* More data than StarPU has room for in a task that is not told. */
enum { NDATA = 20, NTASKS = 400, WORDS = 3000, STEPS = 3 };

struct told {
    double last;
    unsigned n;
};

static void report(void *user, const struct dsflow_step_report *of)
{
    struct told *told = user;

    told->last = of->loss;
    told->n++;
}

/* A tangle of tasks over a few data, some of them over all, the same for the
 * same seed. */
static struct dsflow_graph *tangle(unsigned seed)
{
    struct dsflow_graph *g = dsflow_graph_new();
    dsflow_data_id d[NDATA];

    for (int i = 0; i < NDATA; i++) {
        char name[16];

        snprintf(name, sizeof(name), "d%d", i);
        d[i] = dsflow_graph_add_data(
            g, &DSFLOW_DATA(.name = name, .elems = WORDS * sizeof(uint32_t),
                            .persistent = 1));
    }
    for (int i = 0; i < NTASKS; i++) {
        unsigned x = (seed = seed * 1103515245 + 12345) >> 16;
        uint32_t k = 2 * (x % 1000) + 3;
        unsigned a = x % NDATA, step = 1 + x / 16 % (NDATA - 1);
        dsflow_data_id ids[NDATA] = { d[a], d[(a + step) % NDATA] };

        for (unsigned p = 2; p < NDATA; p++)
            ids[p] = d[(a + (step + p - 2) % (NDATA - 1) + 1) % NDATA];
        dsflow_graph_add_task(g, &DSFLOW_TASK(.op = &mix, .args = &k,
                                              .priority = (int32_t)(x % 50),
                                              .ndata = i % 50 == 49 ? NDATA : 2,
                                              .data = ids));
    }
    dsflow_graph_add_task(g, &DSFLOW_TASK(.op = &tell, .ndata = 1,
                                          .data = (dsflow_data_id[]){ d[0] }));
    return g;
}

/* Every task once in each step, after what it depends on; nothing overlaps on
 * a lane; transfers only where there are several memories. */
static void assert_timeline_is_sound(struct dsflow_exec *exec,
                                     struct dsflow_graph *g, bool memories)
{
    static double start[STEPS][NTASKS + 1], end[STEPS][NTASKS + 1];
    struct dsf_timeline t = { 0 };
    double *until;
    size_t tasks = 0;

    dsf_exec_lanes(exec, &t);
    assert_true(t.workers >= 1 && (t.nlanes > t.workers) == memories);
    until = calloc(t.nlanes, sizeof(*until));
    assert_int_equal(dsf_exec_drain(exec, &t), 0);
    dsf_timeline_sort(&t);
    memset(end, 0, sizeof(end));
    for (size_t i = 0; i < t.n; i++) {
        const struct dsf_span *s = &t.v[i];

        assert_true(s->start >= 0 && s->start <= s->end);
        assert_true(s->lane < t.nlanes && s->start >= until[s->lane]);
        until[s->lane] = s->end;
        if (s->kind == DSF_SPAN_TRANSFER) {
            assert_true(memories && s->what < NDATA && s->lane >= t.workers);
            continue;
        }
        assert_true(s->what <= NTASKS && s->step < STEPS);
        assert_true(t.lanes[s->lane].kind ==
                    (s->lane < t.workers ? DSF_LANE_WORKER : DSF_LANE_HOST));
        assert_true(end[s->step][s->what] == 0);
        start[s->step][s->what] = s->start;
        end[s->step][s->what] = s->end;
        tasks++;
    }
    assert_int_equal(tasks, STEPS * (NTASKS + 1));
    for (uint32_t i = 0; i <= NTASKS; i++) {
        const dsflow_task_id *preds;
        uint32_t n = dsflow_graph_preds(g, (dsflow_task_id){ i }, &preds);

        for (int step = 0; step < STEPS; step++)
            for (uint32_t k = 0; k < n; k++)
                assert_true(end[step][preds[k].i] <= start[step][i]);
    }
    t.n = 0;
    assert_int_equal(dsf_exec_drain(exec, &t), 0);
    assert_int_equal(t.n, 0);
    dsf_timeline_fini(&t);
    free(until);
}

/* Run three steps and give the bytes of all data, freed by the caller. */
static uint32_t *run(const struct dsflow_exec_options *options,
                     struct told *told)
{
    struct dsflow_graph *g = tangle(42);
    struct dsflow_host host = { .user = told, .report = report };
    struct dsflow_exec *exec;
    struct dsflow_exec_stats stats;
    struct dsflow_err err;
    uint32_t *all = calloc(NDATA * WORDS, sizeof(*all));

    *told = (struct told){ 0 };
    if (dsflow_exec_open(g, options, &host, &exec, &err) < 0)
        fail_msg("%s", err.msg);
    for (uint32_t i = 0; i < NDATA; i++) {
        uint32_t *x = dsflow_exec_map(exec, (dsflow_data_id){ i }, DSFLOW_RW);

        for (int k = 0; k < WORDS; k++)
            x[k] += i * 77;
    }
    for (int step = 0; step < STEPS; step++)
        assert_int_equal(dsflow_exec_submit(exec, DSFLOW_STEP, &err), 0);
    assert_int_equal(dsflow_exec_wait(exec, &err), DSFLOW_OK);
    for (uint32_t i = 0; i < NDATA; i++)
        memcpy(all + i * WORDS,
               dsflow_exec_map(exec, (dsflow_data_id){ i }, DSFLOW_R),
               WORDS * sizeof(*all));
    dsflow_exec_stats(exec, &stats);
    assert_int_equal(stats.tasks, STEPS * (NTASKS + 1));
    assert_timeline_is_sound(exec, g, options->virtuals > 0);
    assert_true(stats.kernel_seconds > 0 && stats.wall_seconds > 0);
    assert_int_equal(told->n, STEPS);
    assert_true(told->last == all[0]);
    dsflow_exec_close(exec);
    dsflow_graph_free(g);
    return all;
}

static void assert_same_as_serial(struct dsflow_exec_options options)
{
    struct told told;
    uint32_t *want = run(&DSFLOW_EXEC_OPTIONS(.kind = DSFLOW_SERIAL), &told);
    uint32_t *got;

    options.kind = DSFLOW_STARPU;
    got = run(&options, &told);
    assert_memory_equal(want, got, NDATA * WORDS * sizeof(*got));
    free(want);
    free(got);
}

static void starpu_gives_the_serial_result(void **state)
{
    assert_same_as_serial(DSFLOW_EXEC_OPTIONS(.workers = 1));
    assert_same_as_serial(DSFLOW_EXEC_OPTIONS(.workers = 2));
}

/* `make check` says that no worker is bound to a core. */
static void let_workers_be_bound(bool may_be)
{
    if (may_be)
        unsetenv("STARPU_WORKERS_NOBIND");
    else
        setenv("STARPU_WORKERS_NOBIND", "1", 1);
}

/* With workers that look for tasks without pause, and with some that sleep. */
static void every_scheduler_gives_the_serial_result(void **state)
{
    for (unsigned i = 0; dsf_scheduler_at(i) != NULL; i++)
        for (int may_be = 1; may_be >= 0; may_be--) {
            let_workers_be_bound(may_be);
            assert_same_as_serial(
                DSFLOW_EXEC_OPTIONS(.workers = 2,
                                    .scheduler = dsf_scheduler_at(i)));
        }
}

static unsigned more_workers_than_cores(void)
{
    struct dsf_machine machine;

    assert_int_equal(dsf_machine_probe(&machine, NULL), DSFLOW_OK);
    if (machine.cores > 100)
        skip(); /* StarPU has 128 workers at most */
    return machine.cores + 6;
}

static void more_workers_than_cores_give_the_serial_result(void **state)
{
    for (unsigned i = 0; dsf_scheduler_at(i) != NULL; i++)
        assert_same_as_serial(
            DSFLOW_EXEC_OPTIONS(.workers = more_workers_than_cores(),
                                .scheduler = dsf_scheduler_at(i)));
}

/* How often the other threads of this process went to sleep: a number that is
 * asked for again and again, as nothing tells when it grows. */
static long sleeps_of_others(void)
{
    struct rusage all, own;

    getrusage(RUSAGE_SELF, &all);
    getrusage(RUSAGE_THREAD, &own);
    return all.ru_nvcsw - own.ru_nvcsw;
}

/* A worker that looks for a task without pause keeps the core from another. */
static void assert_idle_workers_sleep(unsigned workers)
{
    enum { MILLISECONDS = 300000, ENOUGH = 100 };
    struct dsflow_graph *g = tangle(3);
    struct told told = { 0 };
    struct dsflow_host host = { &told, .report = report };
    struct dsflow_exec *exec;
    struct dsflow_err err;
    long before;
    int i = 0;

    assert_int_equal(
        dsflow_exec_open(
            g,
            &DSFLOW_EXEC_OPTIONS(.kind = DSFLOW_STARPU, .workers = workers),
            &host, &exec, &err),
        DSFLOW_OK);
    assert_int_equal(dsflow_exec_submit(exec, DSFLOW_STEP, &err), DSFLOW_OK);
    assert_int_equal(dsflow_exec_wait(exec, &err), DSFLOW_OK);
    before = sleeps_of_others();
    while (sleeps_of_others() < before + ENOUGH && i++ < MILLISECONDS)
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    assert_true(sleeps_of_others() >= before + ENOUGH);
    dsflow_exec_close(exec);
    dsflow_graph_free(g);
}

static void workers_that_share_cores_sleep_while_they_are_idle(void **state)
{
    assert_idle_workers_sleep(1); /* bound to none */
    let_workers_be_bound(true);
    assert_idle_workers_sleep(more_workers_than_cores());
    let_workers_be_bound(false);
}

/* What the core reports is brought from the device. */
static void virtual_devices_give_the_serial_result(void **state)
{
    struct dsflow_exec_options options =
        DSFLOW_EXEC_OPTIONS(.kind = DSFLOW_STARPU, .workers = 1, .virtuals = 1);

    assert_same_as_serial(options);
    options.virtuals = 2;
    options.scheduler = "random";
    assert_same_as_serial(options);
    options.scheduler = "dmdas";
    options.virtual_memory = 1 << 20;
    options.virtual_link = 1 << 30;
    assert_same_as_serial(options);
}

static void options_that_are_none_are_refused(void **state)
{
    struct dsflow_graph *g = tangle(1);
    struct dsflow_exec_options old = DSFLOW_EXEC_OPTIONS(.kind = DSFLOW_SERIAL);
    struct dsflow_exec *exec;
    struct dsflow_err err;

    for (int kind = -1; kind <= 3; kind += 4) {
        assert_int_equal(
            dsflow_exec_open(
                g, &DSFLOW_EXEC_OPTIONS(.kind = (enum dsflow_exec_kind)kind),
                NULL, &exec, &err),
            DSFLOW_EINVAL);
        assert_non_null(strstr(err.msg, "expected DSFLOW_SERIAL"));
    }
    old.size = 8;
    assert_int_equal(dsflow_exec_open(g, &old, NULL, &exec, &err),
                     DSFLOW_EINVAL);
    assert_non_null(strstr(err.msg, "8 bytes: expected"));
    dsflow_graph_free(g);
}

static void what_nobody_takes_out_is_counted(void **state)
{
    struct dsflow_graph *g = tangle(3);
    struct told told = { 0 };
    struct dsflow_host host = { &told, .report = report };
    struct dsflow_exec *exec;
    struct dsf_timeline t = { 0 };
    struct dsflow_err err;
    enum { MANY = 12 };
    uint64_t lost;

    assert_int_equal(
        dsflow_exec_open(g, &DSFLOW_EXEC_OPTIONS(.kind = DSFLOW_SERIAL), &host,
                         &exec, &err),
        DSFLOW_OK);
    for (int step = 0; step < MANY; step++)
        dsflow_exec_submit(exec, DSFLOW_STEP, &err);
    lost = dsf_exec_drain(exec, &t);
    assert_true(lost > 0 && t.n > 0);
    assert_int_equal(lost + t.n, MANY * (NTASKS + 1));
    /* There is room again. */
    dsflow_exec_submit(exec, DSFLOW_STEP, &err);
    t.n = 0;
    assert_int_equal(dsf_exec_drain(exec, &t), 0);
    assert_int_equal(t.n, NTASKS + 1);
    assert_int_equal(t.v[0].step, MANY);
    dsf_timeline_fini(&t);
    dsflow_exec_close(exec);
    dsflow_graph_free(g);
}

/* Thirty milliseconds in which the thread has nothing to do. */
static void report_late(void *user, const struct dsflow_step_report *of)
{
    struct timespec left = { .tv_nsec = 30000000 };

    while (nanosleep(&left, &left) < 0)
        ;
}

static void check_worked(struct dsflow_exec_options options)
{
    static double worked[NTASKS + 1];
    struct dsflow_graph *g = tangle(3);
    struct dsflow_host host = { .report = report_late };
    struct dsf_timeline t = { 0 };
    struct dsflow_exec *exec;
    struct dsflow_err err;
    double all = 0;

    assert_int_equal(dsflow_exec_open(g, &options, &host, &exec, &err),
                     DSFLOW_OK);
    dsf_exec_time_tasks(exec, worked);
    assert_int_equal(dsflow_exec_submit(exec, DSFLOW_STEP, &err), DSFLOW_OK);
    assert_int_equal(dsflow_exec_wait(exec, &err), DSFLOW_OK);
    assert_int_equal(dsf_exec_drain(exec, &t), 0);
    for (size_t i = 0; i < t.n; i++) {
        const struct dsf_span *s = &t.v[i];

        /* Of some microseconds that clock may see nothing. */
        assert_true(worked[s->what] >= 0);
        all += worked[s->what];
        /* What it sleeps is no work. */
        if (s->what == NTASKS)
            assert_true(worked[s->what] < s->end - s->start - 0.015);
    }
    assert_true(all > 0);
    dsf_timeline_fini(&t);
    dsflow_exec_close(exec);
    dsflow_graph_free(g);
}

static void what_a_task_works_is_less_than_it_takes(void **state)
{
    check_worked(DSFLOW_EXEC_OPTIONS(.kind = DSFLOW_SERIAL));
    check_worked(DSFLOW_EXEC_OPTIONS(.kind = DSFLOW_STARPU, .workers = 2));
    check_worked(DSFLOW_EXEC_OPTIONS(.kind = DSFLOW_STARPU, .workers = 1,
                                     .virtuals = 1));
}

struct caller {
    _Atomic int inside;
    _Atomic unsigned calls, together;
};

static void report_slowly(void *user, const struct dsflow_step_report *of)
{
    struct caller *c = user;

    if (atomic_fetch_add(&c->inside, 1) > 0)
        c->together++;
    for (int i = 0; i < 20000; i++)
        atomic_signal_fence(memory_order_seq_cst);
    atomic_fetch_sub(&c->inside, 1);
    c->calls++;
}

/* As codelet.h promises, though nothing in this graph orders the calls. */
static void reports_come_one_at_a_time(void **state)
{
    enum { CALLS = 500 };
    struct dsflow_graph *g = dsflow_graph_new();
    struct caller caller = { 0 };
    struct dsflow_host host = { &caller, .report = report_slowly };
    struct dsflow_exec *exec;
    struct dsflow_err err;
    dsflow_data_id d = dsflow_graph_add_data(
        g,
        &DSFLOW_DATA(.name = "d", .elems = sizeof(uint32_t), .persistent = 1));

    for (int i = 0; i < CALLS; i++)
        dsflow_graph_add_task(g, &DSFLOW_TASK(.op = &tell, .ndata = 1,
                                              .data = (dsflow_data_id[]){ d }));
    assert_int_equal(
        dsflow_exec_open(
            g, &DSFLOW_EXEC_OPTIONS(.kind = DSFLOW_STARPU, .workers = 2), &host,
            &exec, &err),
        DSFLOW_OK);
    assert_int_equal(dsflow_exec_submit(exec, DSFLOW_STEP, &err), DSFLOW_OK);
    assert_int_equal(dsflow_exec_wait(exec, &err), DSFLOW_OK);
    assert_int_equal(caller.calls, CALLS);
    assert_int_equal(caller.together, 0);
    dsflow_exec_close(exec);
    dsflow_graph_free(g);
}

static void ask_cpu(const struct dsflow_call *call)
{
    call->host->load_batch(
        call->host->user,
        &(struct dsflow_batch){ .size = sizeof(struct dsflow_batch),
                                .program = call->program });
}

static const struct dsflow_op ask = {
    .abi = DSFLOW_OP_ABI,
    .name = "test_ask",
    .summary = "asks for a batch",
    DSFLOW_PORTS({ "x", DSFLOW_RW }),
    .check = check,
    .cost = cost,
};
static const struct dsflow_codelet ask_codelet = {
    .abi = DSFLOW_CODELET_ABI, .op = &ask, .cpu = ask_cpu, .host_only = 1
};

struct meeting {
    pthread_mutex_t lock;
    pthread_cond_t came;
    unsigned inside;
    bool met, named;
};

/* Waits for another call; a minute, so that a fault is none of the test. */
static void load_together(void *user, const struct dsflow_batch *b)
{
    struct meeting *m = user;
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 60;
    pthread_mutex_lock(&m->lock);
    m->named |= strcmp(b->program, "step") == 0;
    m->met |= ++m->inside == 2;
    pthread_cond_broadcast(&m->came);
    while (!m->met && pthread_cond_timedwait(&m->came, &m->lock, &until) == 0)
        ;
    m->inside--;
    pthread_mutex_unlock(&m->lock);
}

static void batches_are_loaded_by_several_workers_at_once(void **state)
{
    struct dsflow_graph *g = dsflow_graph_new();
    struct meeting m = { .lock = PTHREAD_MUTEX_INITIALIZER,
                         .came = PTHREAD_COND_INITIALIZER };
    struct dsflow_host host = { &m, .load_batch = load_together };
    struct dsflow_exec *exec;
    struct dsflow_err err;

    for (int i = 0; i < 2; i++) {
        dsflow_data_id d =
            dsflow_graph_add_data(g, &DSFLOW_DATA(.name = i == 0 ? "a" : "b",
                                                  .elems = 4, .persistent = 1));

        dsflow_graph_add_task(g, &DSFLOW_TASK(.op = &ask, .ndata = 1,
                                              .data = (dsflow_data_id[]){ d }));
    }
    assert_int_equal(
        dsflow_exec_open(
            g, &DSFLOW_EXEC_OPTIONS(.kind = DSFLOW_STARPU, .workers = 2), &host,
            &exec, &err),
        DSFLOW_OK);
    assert_int_equal(dsflow_exec_submit(exec, DSFLOW_STEP, &err), DSFLOW_OK);
    assert_int_equal(dsflow_exec_wait(exec, &err), DSFLOW_OK);
    assert_true(m.met);
    assert_true(m.named);
    dsflow_exec_close(exec);
    dsflow_graph_free(g);
}

/* Its workers would be those of the first one, however few. */
static void a_second_one_of_starpu_is_refused(void **state)
{
    struct dsflow_graph *g = tangle(1);
    struct dsflow_host host = { 0 };
    struct dsflow_exec *first, *second;
    struct dsflow_err err;

    for (unsigned workers = 1; workers <= 2; workers++) {
        assert_int_equal(
            dsflow_exec_open(
                g,
                &DSFLOW_EXEC_OPTIONS(.kind = DSFLOW_STARPU, .workers = workers),
                &host, &first, &err),
            DSFLOW_OK);
        assert_int_equal(
            dsflow_exec_open(
                g, &DSFLOW_EXEC_OPTIONS(.kind = DSFLOW_STARPU, .workers = 2),
                &host, &second, &err),
            DSFLOW_EFAIL);
        assert_non_null(strstr(err.msg, "already: expected it to be closed"));
        /* Others do not need it. */
        assert_int_equal(
            dsflow_exec_open(g, &DSFLOW_EXEC_OPTIONS(.kind = DSFLOW_SERIAL),
                             &host, &second, &err),
            DSFLOW_OK);
        dsflow_exec_close(second);
        dsflow_exec_close(first);
    }
    dsflow_graph_free(g);
}

/* Whatever the environment says to StarPU. */
static void signals_stay_those_of_the_program(void **state)
{
    static const int signals[] = { SIGINT, SIGSEGV, SIGABRT, SIGTRAP };
    struct dsflow_graph *g = tangle(1);
    struct dsflow_host host = { 0 };
    struct dsflow_exec *exec;
    struct dsflow_err err;
    struct sigaction before[4], now;

    setenv("STARPU_CATCH_SIGNALS", "1", 1);
    for (int i = 0; i < 4; i++)
        sigaction(signals[i], NULL, &before[i]);
    assert_int_equal(
        dsflow_exec_open(
            g, &DSFLOW_EXEC_OPTIONS(.kind = DSFLOW_STARPU, .workers = 1), &host,
            &exec, &err),
        DSFLOW_OK);
    for (int i = 0; i < 4; i++) {
        sigaction(signals[i], NULL, &now);
        assert_true(now.sa_handler == before[i].sa_handler);
    }
    assert_string_equal(getenv("STARPU_CATCH_SIGNALS"), "1");
    unsetenv("STARPU_CATCH_SIGNALS");
    dsflow_exec_close(exec);
    dsflow_graph_free(g);
}

static void an_unknown_scheduler_is_named_with_those_there_are(void **state)
{
    struct dsflow_graph *g = tangle(1);
    struct dsflow_host host = { 0 };
    struct dsflow_exec *exec;
    struct dsflow_err err;
    int status = dsflow_exec_open(g,
                                  &DSFLOW_EXEC_OPTIONS(.kind = DSFLOW_STARPU,
                                                       .workers = 1,
                                                       .scheduler = "fifo"),
                                  &host, &exec, &err);

    assert_int_equal(status, DSFLOW_EINVAL);
    assert_non_null(
        strstr(err.msg, "machine: scheduler: fifo: expected one of "));
    for (unsigned i = 0; dsf_scheduler_at(i) != NULL; i++)
        assert_non_null(strstr(err.msg, dsf_scheduler_at(i)));
    /* One of StarPU's that does not keep to a task's workers. */
    assert_int_equal(dsf_scheduler_check("heteroprio", &err), DSFLOW_EINVAL);
    assert_int_equal(dsf_scheduler_check(NULL, &err), DSFLOW_OK);
    dsflow_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(virtual_devices_give_the_serial_result),
        cmocka_unit_test(starpu_gives_the_serial_result),
        cmocka_unit_test(every_scheduler_gives_the_serial_result),
        cmocka_unit_test(more_workers_than_cores_give_the_serial_result),
        cmocka_unit_test(workers_that_share_cores_sleep_while_they_are_idle),
        cmocka_unit_test(options_that_are_none_are_refused),
        cmocka_unit_test(what_nobody_takes_out_is_counted),
        cmocka_unit_test(what_a_task_works_is_less_than_it_takes),
        cmocka_unit_test(reports_come_one_at_a_time),
        cmocka_unit_test(batches_are_loaded_by_several_workers_at_once),
        cmocka_unit_test(a_second_one_of_starpu_is_refused),
        cmocka_unit_test(signals_stay_those_of_the_program),
        cmocka_unit_test(an_unknown_scheduler_is_named_with_those_there_are),
    };

    if (dsflow_op_register(&mix, NULL) < 0 ||
        dsflow_op_register(&tell, NULL) < 0 ||
        dsflow_op_register(&ask, NULL) < 0 ||
        dsflow_codelet_register(&ask_codelet, NULL) < 0 ||
        dsflow_codelet_register(&mix_codelet, NULL) < 0 ||
        dsflow_codelet_register(&tell_codelet, NULL) < 0)
        return 99;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
