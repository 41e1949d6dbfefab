/* tiers.h - a program whose data is in all memories of several ranks, and what
 * it computes, beside a plain copy of it in arrays. */
#ifndef TESTS_UNIT_EXEC_TIERS_H
#define TESTS_UNIT_EXEC_TIERS_H

#include <dsflow/exec.h>

#include "base/units.h"
#include "exec/exec_private.h"
#include "exec/exec_trace.h"
#include "graph/task.h"
#include "lib/test.h"
#include "tasks/tasks.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline int check(const struct dsflow_case *c, struct dsflow_err *err)
{
    return DSFLOW_OK;
}

/* x = x * k + y, which shows in what order such tasks ran. */
static inline void mix(uint32_t *x, const uint32_t *y, size_t n, uint32_t k)
{
    for (size_t i = 0; i < n; i++)
        x[i] = x[i] * k + y[i] + (uint32_t)i;
}

static inline void mix_cpu(const struct dsflow_call *call)
{
    mix(call->bufs[0].ptr, call->bufs[1].ptr,
        call->bufs[0].bytes / sizeof(uint32_t), *(const uint32_t *)call->args);
}

static inline void tell_cpu(const struct dsflow_call *call)
{
    const struct dsflow_step_report report = {
        .size = sizeof(report), .loss = *(const uint32_t *)call->bufs[0].ptr
    };

    call->host->report(call->host->user, &report);
}

/* Holds its worker until a disk has brought another number than 0, which it has
 * to look for: the worker is not to learn of it by a lock. To ThreadSanitizer
 * that is a race. */
static const volatile uint32_t *awaited;
static bool came;

__attribute__((no_sanitize("thread"))) static inline void
await_cpu(const struct dsflow_call *call)
{
    double since = dsf_now();

    while (*awaited == 0 && dsf_now() < since + 300)
        usleep(100);
    came = *awaited != 0;
}

static const struct dsflow_op mix_op = {
    .abi = DSFLOW_OP_ABI,
    .name = "tiers_mix",
    .summary = "x = x * k + y",
    .args_size = sizeof(uint32_t),
    DSFLOW_PORTS({ "x", DSFLOW_RW }, { "y", DSFLOW_R }),
    .check = check,
};
static const struct dsflow_op tell_op = {
    .abi = DSFLOW_OP_ABI,
    .name = "tiers_tell",
    .summary = "report x[0]",
    DSFLOW_PORTS({ "x", DSFLOW_R }),
    .check = check,
};
static const struct dsflow_op await_op = {
    .abi = DSFLOW_OP_ABI,
    .name = "tiers_await",
    .summary = "keep a worker busy",
    DSFLOW_PORTS({ "x", DSFLOW_RW }),
    .check = check,
};
/* What enqueues the same on a GPU, where a test has such a function. */
#ifndef TIERS_MIX_CUDA
#define TIERS_MIX_CUDA NULL
#endif
static const struct dsflow_codelet mix_codelet = { .abi = DSFLOW_CODELET_ABI,
                                                   .op = &mix_op,
                                                   .cpu = mix_cpu,
                                                   .cuda = TIERS_MIX_CUDA };
static const struct dsflow_codelet tell_codelet = {
    .abi = DSFLOW_CODELET_ABI, .op = &tell_op, .cpu = tell_cpu, .host_only = 1
};
static const struct dsflow_codelet await_codelet = { .abi = DSFLOW_CODELET_ABI,
                                                     .op = &await_op,
                                                     .cpu = await_cpu };

/* --- a program, and what it computes ----------------------------------------
 */

/* Sizes that are no whole pages, and one of several blocks. */
enum { NSIZES = 3, NRANKS = 2, NHOMES = 4, NSLOTS = 3, STEPS = 3 };
static const size_t words_of[NSIZES] = { 100, 3000, 163841 };
static const int rounds_of[NSIZES] = { 250, 100, 6 };

/* Of one rank and size. */
struct place {
    dsflow_data_id nvme[NHOMES], host[NHOMES];     /* homes */
    dsflow_data_id device[NSLOTS], staged[NSLOTS]; /* slots; of tier host */
};

struct program {
    struct dsflow_graph *g;
    struct place places[NRANKS][NSIZES];
    uint32_t *words[NRANKS * NSIZES * 2 * (NHOMES + NSLOTS)]; /* by data */
    unsigned seed;
};

static inline unsigned any(struct program *p, unsigned n)
{
    return (p->seed = p->seed * 1103515245 + 12345) / 65536 % n;
}

static inline dsflow_data_id add_data(struct program *p, const char *what,
                                      int rank, int size, int i,
                                      enum dsflow_tier tier, bool persistent)
{
    size_t bytes = words_of[size] * sizeof(uint32_t);
    dsflow_data_id id;
    char name[48];

    snprintf(name, sizeof(name), "%s%d.%d.%d", what, rank, size, i);
    id = dsflow_graph_add_data(
        p->g, &DSFLOW_DATA(.name = name, .elems = bytes, .home = (int16_t)rank,
                           .tier = (uint8_t)tier, .persistent = persistent,
                           .unit = -1));
    p->words[id.i] = calloc(words_of[size], sizeof(uint32_t));
    return id;
}

static inline void add_task(struct program *p, const struct dsflow_op *op,
                            int rank, uint32_t k, dsflow_data_id a,
                            dsflow_data_id b)
{
    dsflow_graph_add_task(
        p->g,
        &DSFLOW_TASK(.op = op, .args = op == &mix_op ? &k : NULL,
                     .rank = (int16_t)rank, .priority = (int32_t)any(p, 9),
                     .ndata = op == &tell_op ? 1 : 2,
                     .data = (dsflow_data_id[]){ a, b }));
}

static inline void load(struct program *p, int rank, struct place *at,
                 dsflow_data_id slot)
{
    add_task(p, &dsf_op_swap_in, rank, 0,
             any(p, 2) ? at->nvme[any(p, NHOMES)] : at->host[any(p, NHOMES)],
             slot);
}

/* Swaps, mixes on the device and mixes in main memory. */
static inline void add_round(struct program *p, int rank, struct place *at)
{
    unsigned a = any(p, NSLOTS), b = (a + 1 + any(p, NSLOTS - 1)) % NSLOTS;
    dsflow_data_id *slots = any(p, 3) ? at->device : at->staged;

    load(p, rank, at, slots[a]);
    add_task(p, &mix_op, rank, 2 * any(p, 500) + 3, slots[a], slots[b]);
    add_task(p, &dsf_op_swap_out, rank, 0, slots[any(p, NSLOTS)],
             any(p, 2) ? at->nvme[any(p, NHOMES)] : at->host[any(p, NHOMES)]);
}

static inline void make_program(struct program *p, unsigned seed)
{
    *p = (struct program){ .g = dsflow_graph_new(), .seed = seed };
    for (int rank = 0; rank < NRANKS; rank++)
        for (int size = 0; size < NSIZES; size++) {
            struct place *at = &p->places[rank][size];

            for (int i = 0; i < NHOMES; i++) {
                at->nvme[i] =
                    add_data(p, "nvme", rank, size, i, DSFLOW_NVME, true);
                at->host[i] =
                    add_data(p, "host", rank, size, i, DSFLOW_HOST, true);
            }
            for (int i = 0; i < NSLOTS; i++) {
                at->device[i] =
                    add_data(p, "slot", rank, size, i, DSFLOW_DEVICE, false);
                at->staged[i] =
                    add_data(p, "staged", rank, size, i, DSFLOW_HOST, false);
                load(p, rank, at, at->device[i]);
                load(p, rank, at, at->staged[i]);
            }
        }
    for (int round = 0; round < rounds_of[0]; round++)
        for (int size = 0; size < NSIZES; size++)
            for (int rank = 0; rank < NRANKS && round < rounds_of[size]; rank++)
                add_round(p, rank, &p->places[rank][size]);
    add_task(p, &tell_op, 0, 0, p->places[0][1].device[0],
             (dsflow_data_id){ 0 });
}

static inline void free_program(struct program *p)
{
    for (uint32_t i = 0; i < dsflow_graph_ndata(p->g); i++)
        free(p->words[i]);
    dsflow_graph_free(p->g);
}

static inline const struct dsflow_data_spec *spec(const struct program *p,
                                                  uint32_t i)
{
    return dsflow_graph_data(p->g, (dsflow_data_id){ i });
}

static inline void fill(uint32_t *words, size_t bytes, uint32_t i)
{
    for (size_t k = 0; k < bytes / sizeof(*words); k++)
        words[k] = (uint32_t)k * 7 + i * 1000003;
}

/* One step, in plain arrays. */
static inline void compute(struct program *p)
{
    for (uint32_t i = 0; i < dsflow_graph_ntasks(p->g); i++) {
        const struct dsflow_task_spec *t =
            dsflow_graph_task(p->g, (dsflow_task_id){ i });
        uint32_t *a = p->words[t->data[0].i];
        uint32_t *b = t->ndata > 1 ? p->words[t->data[1].i] : NULL;
        size_t bytes = spec(p, t->data[0].i)->bytes;

        if (t->op == &mix_op)
            mix(a, b, bytes / sizeof(*a), *(const uint32_t *)t->args);
        else if (t->op != &tell_op)
            memcpy(b, a, bytes);
    }
}

/* --- running it ----------------------------------------------------------- */

struct told {
    double last;
    unsigned n;
};

static inline void report(void *user, const struct dsflow_step_report *of)
{
    struct told *told = user;

    told->last = of->loss;
    told->n++;
}

static const char *const folders[] = { ".", "." };
static const struct dsflow_disk disk = {
    .paths = folders, .npaths = 2, .block = 64 << 10, .depth = 3, .verify = 1
};

static inline struct dsflow_exec *open_exec(struct dsflow_graph *g,
                                     struct dsflow_exec_options options,
                                     const struct dsflow_host *host)
{
    struct dsflow_exec *exec;
    struct dsflow_err err;

    options.disk = disk;
    options.ranks = NRANKS;
    if (dsflow_exec_open(g, &options, host, &exec, &err) < 0)
        fail_msg("%s", err.msg);
    return exec;
}

static inline void put_first_contents(struct program *p, struct dsflow_exec *exec)
{
    for (uint32_t i = 0; i < dsflow_graph_ndata(p->g); i++) {
        if (!spec(p, i)->persistent)
            continue;
        fill(p->words[i], spec(p, i)->bytes, i);
        fill(dsflow_exec_map(exec, (dsflow_data_id){ i }, DSFLOW_W),
             spec(p, i)->bytes, i);
    }
}

static inline void assert_contents(struct program *p, struct dsflow_exec *exec)
{
    for (uint32_t i = 0; i < dsflow_graph_ndata(p->g); i++)
        if (spec(p, i)->persistent)
            assert_memory_equal(
                dsflow_exec_map(exec, (dsflow_data_id){ i }, DSFLOW_R),
                p->words[i], spec(p, i)->bytes);
}

/* Disk tasks are on the lanes of the disk, those that bring data to a device, or
 * take it from there, on the lane for that, and those that work in main memory on
 * cores. */
static inline void assert_lane(const struct program *p,
                               const struct dsflow_exec *exec,
                               const struct dsf_timeline *t,
                               const struct dsf_span *s)
{
    const struct dsflow_task_spec *task =
        dsflow_graph_task(p->g, (dsflow_task_id){ s->what });
    const struct dsf_lane *lane = &t->lanes[s->lane];

    if (exec->ndevices > 0 && task->op->swaps &&
        dsf_task_uses(p->g, task, DSFLOW_DEVICE) &&
        !dsf_task_uses(p->g, task, DSFLOW_NVME)) {
        assert_int_equal(lane->kind, DSF_LANE_LINK);
        assert_memory_equal(
            lane->name, task->op == &dsf_op_swap_in ? "into" : "out ", 4);
    } else if (dsf_task_uses(p->g, task, DSFLOW_NVME)) {
        assert_int_equal(lane->kind, DSF_LANE_DISK);
        assert_int_equal(s->lane == t->nlanes - 1,
                         task->op == &dsf_op_swap_out);
    } else {
        bool core = memcmp(lane->name, "core", 4) == 0;

        assert_int_equal(lane->kind, core && exec->ndevices > 0
                                         ? DSF_LANE_HOST
                                         : DSF_LANE_WORKER);
        if (task->op == &mix_op && dsf_task_uses(p->g, task, DSFLOW_HOST))
            assert_true(core);
    }
}

/* Nothing on a lane overlaps, and nothing runs before what it needs. */
static inline void assert_timeline(struct program *p, struct dsflow_exec *exec)
{
    uint32_t ntasks = dsflow_graph_ntasks(p->g);
    double *start = calloc((size_t)STEPS * ntasks, sizeof(*start));
    double *end = calloc((size_t)STEPS * ntasks, sizeof(*end)), *until;
    struct dsf_timeline t = { 0 };
    size_t n = 0;

    dsf_exec_lanes(exec, &t);
    assert_string_equal(t.lanes[t.nlanes - 2].name, "disk read");
    assert_string_equal(t.lanes[t.nlanes - 1].name, "disk write");
    until = calloc(t.nlanes, sizeof(*until));
    assert_int_equal(dsf_exec_drain(exec, &t), 0);
    dsf_timeline_sort(&t);
    for (size_t i = 0; i < t.n; i++) {
        const struct dsf_span *s = &t.v[i];

        assert_true(s->start >= until[s->lane] && s->end >= s->start);
        until[s->lane] = s->end;
        if (s->kind == DSF_SPAN_TRANSFER)
            continue;
        assert_true(s->step < STEPS && s->what < ntasks);
        assert_true(end[s->step * ntasks + s->what] == 0);
        start[s->step * ntasks + s->what] = s->start;
        end[s->step * ntasks + s->what] = s->end;
        n++;
        assert_lane(p, exec, &t, s);
    }
    assert_int_equal(n, (size_t)STEPS * ntasks);
    for (uint32_t i = 0; i < ntasks; i++) {
        const dsflow_task_id *preds;
        uint32_t npreds =
            dsflow_graph_preds(p->g, (dsflow_task_id){ i }, &preds);

        for (uint32_t at = i; at < STEPS * ntasks; at += ntasks)
            for (uint32_t k = 0; k < npreds; k++)
                assert_true(end[at - i + preds[k].i] <= start[at]);
    }
    dsf_timeline_fini(&t);
    free(start);
    free(end);
    free(until);
}

/* Each rank has as much as the graph says, but for what is in main memory
 * beside its device. None of the tasks here wants scratch. */
static inline void assert_memories(struct program *p, struct dsflow_exec *exec)
{
    for (unsigned rank = 0; rank < NRANKS; rank++) {
        size_t bytes[DSFLOW_NTIERS] = { 0 }, pages[DSFLOW_NTIERS] = { 0 };

        for (uint32_t i = 0; i < dsflow_graph_ndata(p->g); i++)
            if (spec(p, i)->home == (int)rank &&
                (exec->ndevices == 0 || exec->place[i] != DSF_PLACE_NEAR)) {
                bytes[spec(p, i)->tier] += spec(p, i)->bytes;
                pages[spec(p, i)->tier] += (spec(p, i)->bytes + 4095) / 4096;
            }
        for (int tier = 0; tier < DSFLOW_NVME; tier++)
            assert_in_range(dsflow_exec_resident(exec, rank, tier), bytes[tier],
                            (pages[tier] + 1) * 4096);
        assert_int_equal(dsflow_exec_resident(exec, rank, DSFLOW_NVME),
                         pages[DSFLOW_NVME] * 4096);
    }
}

static inline void run(struct dsflow_exec_options options)
{
    struct told told = { 0 };
    struct dsflow_host host = { &told, .report = report };
    struct dsflow_exec_stats stats;
    struct dsflow_exec *exec;
    struct dsflow_err err;
    struct program p;

    make_program(&p, 5 + options.workers + 10 * options.virtuals);
    assert_int_equal(dsflow_graph_check(p.g, &err), DSFLOW_OK);
    exec = open_exec(p.g, options, &host);
    put_first_contents(&p, exec);
    for (int step = 0; step < STEPS; step++) {
        assert_int_equal(dsflow_exec_submit(exec, DSFLOW_STEP, &err),
                         DSFLOW_OK);
        compute(&p);
    }
    assert_int_equal(dsflow_exec_wait(exec, &err), DSFLOW_OK);
    assert_int_equal(dsflow_exec_failed(exec, &err), DSFLOW_OK);
    assert_contents(&p, exec);
    assert_true(told.last == p.words[p.places[0][1].device[0].i][0]);
    assert_int_equal(told.n, STEPS);
    dsflow_exec_stats(exec, &stats);
    assert_int_equal(stats.tasks, STEPS * dsflow_graph_ntasks(p.g));
    assert_timeline(&p, exec);
    assert_memories(&p, exec);
    dsflow_exec_close(exec);
    free_program(&p);
}

/* --- disks that fail -------------------------------------------------------- */

static inline void cut_files(struct dsflow_exec *exec)
{
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(ftruncate(dsf_io_fd(exec->disk.io, i), 0), 0);
}

static inline void lose_files(struct dsflow_exec *exec)
{
    int fd = open("/dev/null", O_RDONLY);

    for (unsigned i = 0; i < 2; i++)
        assert_true(dup2(fd, dsf_io_fd(exec->disk.io, i)) >= 0);
    close(fd);
}

/* All that was accepted runs to its end, and says so; then nothing more is. */
static inline void run_and_break(struct dsflow_exec_options options,
                          void (*breaks)(struct dsflow_exec *exec))
{
    struct told told = { 0 };
    struct dsflow_host host = { &told, .report = report };
    struct dsflow_exec *exec;
    struct dsflow_err err, again;
    struct program p;
    unsigned accepted = 1;
    int status = DSFLOW_OK;

    make_program(&p, 3);
    exec = open_exec(p.g, options, &host);
    put_first_contents(&p, exec);
    assert_int_equal(dsflow_exec_submit(exec, DSFLOW_STEP, &err), DSFLOW_OK);
    assert_int_equal(dsflow_exec_wait(exec, &err), DSFLOW_OK);
    breaks(exec);
    for (int step = 0; step < 3 && status == DSFLOW_OK; step++) {
        status = dsflow_exec_submit(exec, DSFLOW_STEP, &err);
        accepted += status == DSFLOW_OK;
    }
    assert_int_equal(dsflow_exec_wait(exec, &err), DSFLOW_EIO);
    assert_int_equal(told.n, accepted);
    assert_non_null(strstr(err.msg, ".: "));
    assert_true(strstr(err.msg, "read of ") || strstr(err.msg, "write of "));
    assert_int_equal(dsflow_exec_failed(exec, &again), DSFLOW_EIO);
    assert_string_equal(again.msg, err.msg);
    assert_int_equal(dsflow_exec_submit(exec, DSFLOW_STEP, &err), DSFLOW_EIO);
    assert_int_equal(dsflow_exec_wait(exec, &err), DSFLOW_EIO);
    assert_int_equal(told.n, accepted);
    assert_null(dsflow_exec_map(exec, p.places[0][0].nvme[0], DSFLOW_R));
    dsflow_exec_close(exec);
    free_program(&p);
}

static inline int register_tiers(void)
{
    return dsflow_op_register(&mix_op, NULL) < 0 ||
           dsflow_op_register(&tell_op, NULL) < 0 ||
           dsflow_op_register(&await_op, NULL) < 0 ||
           dsflow_codelet_register(&mix_codelet, NULL) < 0 ||
           dsflow_codelet_register(&tell_codelet, NULL) < 0 ||
           dsflow_codelet_register(&await_codelet, NULL) < 0;
}

#endif
