/* exec.c - what every executor does alike: codelets, counting, failing. */
#include "exec/exec_direct.h"
#include "exec/exec_memory.h"
#include "exec/exec_private.h"
#include "exec/spread_private.h"

#include "base/alloc.h"
#include "base/units.h"
#include "codelets/call.h"
#include "codelets/messages.h"
#include "graph/task.h"

#include <stdlib.h>

int dsf_exec_find_codelets(struct dsflow_exec *exec, struct dsflow_err *err)
{
    uint32_t n = dsflow_graph_ntasks(exec->graph);

    exec->calls = dsf_xcalloc(n + 1, sizeof(*exec->calls));
    for (uint32_t i = 0; i < n; i++) {
        struct dsf_exec_call *call = &exec->calls[i];
        call->exec = exec;
        call->task = dsflow_graph_task(exec->graph, (dsflow_task_id){ i });
        call->codelet = i > 0 && call[-1].task->op == call->task->op
                            ? call[-1].codelet
                            : dsflow_codelet_find(call->task->op);
        if (call->task->collective != 0)
            return dsflow_fail(err, DSFLOW_ENOSYS,
                               "task %s: a collective: expected the copies and "
                               "sums that the policy collectives makes of it",
                               call->task->op->name);
        if (!dsf_is_message(call->task->op) &&
            (call->codelet == NULL || call->codelet->cpu == NULL))
            return dsflow_fail(err, DSFLOW_ENOSYS,
                               "task %s: no codelet for a CPU",
                               call->task->op->name);
        if (call->task->ndata > exec->most_ports)
            exec->most_ports = call->task->ndata;
    }
    return DSFLOW_OK;
}

size_t dsf_exec_most_scratch(const struct dsflow_exec *exec,
                             const struct dsf_device *device)
{
    size_t most = 0;

    for (uint32_t i = 0; i < dsflow_graph_ntasks(exec->graph); i++) {
        const struct dsf_exec_call *call = &exec->calls[i];
        size_t bytes = call->by == DSF_BY_DEVICE ? call->device == device
                                                 : device == exec->cpu;

        if (bytes > 0)
            bytes = device->class->scratch(exec->graph, call->task);
        most = bytes > most ? bytes : most;
    }
    return most;
}

bool dsf_exec_works_for(unsigned w, unsigned n, unsigned rank, unsigned ranks)
{
    return ranks <= n ? (uint64_t)w * ranks / n == rank : rank % n == w;
}

int dsf_exec_add_workers(struct dsflow_exec *exec, unsigned n,
                         struct dsflow_err *err)
{
    int status = DSFLOW_OK;

    exec->nworkers = n + exec->ndevices;
    exec->workers = dsf_xcalloc(exec->nworkers, sizeof(*exec->workers));
    for (unsigned w = 0; w < n; w++)
        exec->workers[w].bufs =
            dsf_xcalloc(exec->most_ports + 1, sizeof(struct dsflow_buf));
    dsf_exec_add_rings(exec);
    for (unsigned i = 0; i < exec->ndevices; i++)
        exec->workers[n + i].scratch =
            dsf_exec_scratch(exec, &exec->devices[i]);
    for (unsigned w = 0; w < n && status == DSFLOW_OK; w++) {
        exec->workers[w].scratch_bytes =
            dsf_exec_most_scratch(exec, exec->cpu);
        status = dsf_exec_take(exec->cpu, &exec->workers[w].scratch_bytes,
                               "the scratch of a worker",
                               &exec->workers[w].scratch, err);
    }
    return status;
}

static int has_failed(const struct dsflow_exec *exec)
{
    return atomic_load_explicit(&exec->failed, memory_order_acquire);
}

void dsf_exec_fail(struct dsflow_exec *exec, const struct dsflow_err *err)
{
    if (atomic_exchange(&exec->failing, 1))
        return;
    exec->failure = *err;
    atomic_store_explicit(&exec->failed, err->status, memory_order_release);
}

int dsflow_exec_failed(const struct dsflow_exec *exec, struct dsflow_err *err)
{
    int status = has_failed(exec);

    if (exec->spread != NULL)
        return dsflow_exec_failed(exec->spread->own, err);
    return status == DSFLOW_OK
               ? DSFLOW_OK
               : dsflow_fail(err, status, "%s", exec->failure.msg);
}

static void load_batch(void *user, const struct dsflow_batch *batch)
{
    const struct dsflow_exec *exec = user;

    exec->outer->load_batch(exec->outer->user, batch);
}

static void report(void *user, const struct dsflow_step_report *report)
{
    struct dsflow_exec *exec = user;

    pthread_mutex_lock(&exec->reporting);
    exec->outer->report(exec->outer->user, report);
    pthread_mutex_unlock(&exec->reporting);
}

uint32_t dsf_exec_count_run(struct dsflow_exec *exec, uint32_t task)
{
    return atomic_fetch_add_explicit(&exec->runs[task], 1,
                                     memory_order_relaxed);
}

void dsf_exec_set_use(struct dsflow_exec *exec, dsflow_task_id task,
                      const struct dsf_exec_use *use)
{
    exec->calls[task.i].use = use;
}

static bool is_skipped(const struct dsf_exec_call *call)
{
    return call->use != NULL && call->use->skipped;
}

void dsf_exec_prepare(const struct dsf_exec_call *call,
                      const struct dsflow_buf *bufs, struct dsflow_buf *by_port,
                      unsigned w, struct dsf_launch *launch)
{
    struct dsflow_exec *exec = call->exec;
    bool calls_host = call->codelet->host_only;
    double *worked = exec->worked;

    *launch = (struct dsf_launch){
        .codelet = !is_skipped(call) && (calls_host || !has_failed(exec))
                       ? call->codelet
                       : NULL,
        .side = call->side,
        .skip = dsf_skip_of(call->task, bufs),
        .worked = worked != NULL ? &worked[call - exec->calls] : NULL,
        .call = { .bufs = dsf_spread(call->task, bufs, by_port),
                  .nbufs = dsf_task_nports(call->task),
                  .args = call->use != NULL ? call->use->args
                                            : call->task->args,
                  .fresh = call->use != NULL ? call->use->fresh
                                             : call->task->fresh,
                  .scratch = exec->workers[w].scratch,
                  .host = &exec->host,
                  .program =
                      dsflow_graph_program(exec->graph, call->task->program) }
    };
}

void dsf_exec_run(const struct dsf_exec_call *call,
                  const struct dsflow_buf *bufs, unsigned w)
{
    struct dsflow_exec *exec = call->exec;
    struct dsf_exec_worker *worker = &exec->workers[w];
    uint32_t task = (uint32_t)(call - exec->calls);
    struct dsflow_buf by_port[DSF_SPREAD_PORTS];
    struct dsf_launch launch;

    atomic_store_explicit(&worker->runs, task + 1, memory_order_relaxed);
    dsf_exec_prepare(call, bufs, by_port, w, &launch);
    exec->cpu->class->launch(exec->cpu, &launch);
    atomic_store_explicit(&worker->runs, 0, memory_order_relaxed);
    dsf_exec_ran(call, w, &launch);
}

/* Devices are the last workers, and have the first lanes. */
static unsigned lane_of(const struct dsflow_exec *exec, unsigned w)
{
    return (w + exec->ndevices) % exec->nworkers;
}

void dsf_exec_ran(const struct dsf_exec_call *call, unsigned w,
                  const struct dsf_launch *launch)
{
    struct dsflow_exec *exec = call->exec;
    struct dsf_exec_worker *worker = &exec->workers[w];
    uint32_t task = (uint32_t)(call - exec->calls);

    if (launch->status < 0)
        dsf_exec_fail(exec, &launch->err);
    worker->busy += launch->end - launch->start;
    if (call->lacking)
        worker->lacking += launch->end - launch->start;
    atomic_fetch_add_explicit(&worker->tasks, 1, memory_order_relaxed);
    dsf_exec_note(exec, w,
                  &(struct dsf_span){ .start = launch->start - exec->opened,
                                      .end = launch->end - exec->opened,
                                      .what = task,
                                      .step = dsf_exec_count_run(exec, task),
                                      .lane = (uint16_t)lane_of(exec, w),
                                      .rank = call->task->rank,
                                      .kind = DSF_SPAN_TASK });
}

/* Behind workers and links; and those of messages behind them. */
static void find_other_lanes(struct dsflow_exec *exec)
{
    struct dsf_timeline t = { 0 };

    exec->class->lanes(exec, &t);
    dsf_exec_link_lanes(exec, &t);
    exec->disk.lane = t.nlanes;
    dsf_exec_disk_lanes(exec, &t);
    exec->wired.lane = t.nlanes;
    dsf_timeline_fini(&t);
}

static const struct dsf_exec_class *const classes[] = {
    [DSFLOW_SERIAL] = &dsf_exec_serial,
    [DSFLOW_STARPU] = &dsf_exec_starpu,
    [DSFLOW_IN_ORDER] = &dsf_exec_in_order,
};

int dsflow_exec_open(struct dsflow_graph *graph,
                     const struct dsflow_exec_options *options,
                     const struct dsflow_host *host, struct dsflow_exec **out,
                     struct dsflow_err *err)
{
    struct dsflow_exec *exec;
    int status;

    if (options->size != sizeof(*options))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "options of an executor: %u bytes: expected %zu",
                           options->size, sizeof(*options));
    if ((unsigned)options->kind >= sizeof(classes) / sizeof(*classes))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "options of an executor: kind %d: expected "
                           "DSFLOW_SERIAL, DSFLOW_STARPU or DSFLOW_IN_ORDER",
                           (int)options->kind);
    exec = dsf_xcalloc(1, sizeof(*exec));
    exec->graph = graph;
    if (options->part != NULL) {
        status = dsf_spread_open(exec, options, host, err);
        if (status < 0)
            dsflow_exec_close(exec);
        else
            *out = exec;
        return status;
    }
    exec->class = classes[options->kind];
    exec->lent = options->lent;
    exec->wire = options->wire;
    exec->outer = host;
    exec->host = (struct dsflow_host){ exec, load_batch, report };
    pthread_mutex_init(&exec->reporting, NULL);
    pthread_mutex_init(&exec->wired.lock, NULL);
    exec->opened = dsf_now();
    exec->submitted =
        dsf_xcalloc(dsflow_graph_nprograms(graph), sizeof(*exec->submitted));
    dsf_exec_find_ranks(exec);
    status = dsf_exec_find_codelets(exec, err);
    if (status == DSFLOW_OK)
        status = dsf_exec_open_devices(exec, options, err);
    if (status == DSFLOW_OK) {
        dsf_exec_place(exec);
        status = dsf_exec_wire_check(exec, err);
    }
    if (status == DSFLOW_OK)
        status = dsf_exec_allocate(exec, err);
    if (status == DSFLOW_OK)
        status = dsf_direct_open(exec, err);
    if (status == DSFLOW_OK)
        status = dsf_exec_disk_open(exec, &options->disk, err);
    if (status == DSFLOW_OK)
        status = exec->class->open(exec, options, err);
    if (status < 0) {
        dsflow_exec_close(exec);
        return status;
    }
    find_other_lanes(exec);
    *out = exec;
    return DSFLOW_OK;
}

void dsflow_exec_close(struct dsflow_exec *exec)
{
    if (exec == NULL)
        return;
    if (exec->spread != NULL) {
        dsf_spread_close(exec);
        free(exec);
        return;
    }
    exec->class->close(exec);
    dsf_direct_close(exec);
    for (unsigned w = 0; w < exec->nworkers; w++) {
        if (exec->workers[w].scratch_bytes > 0)
            exec->cpu->class->release(exec->cpu, exec->workers[w].scratch,
                                      exec->workers[w].scratch_bytes);
        free(exec->workers[w].bufs);
    }
    free(exec->workers);
    dsf_exec_disk_close(exec);
    dsf_exec_window_free(exec);
    dsf_exec_stage_close(exec);
    dsf_exec_free_memory(exec);
    dsf_exec_close_devices(exec);
    dsf_exec_free_rings(exec);
    pthread_mutex_destroy(&exec->reporting);
    pthread_mutex_destroy(&exec->wired.lock);
    free(exec->submitted);
    free(exec->calls);
    free(exec);
}

int dsflow_exec_submit(struct dsflow_exec *exec, dsflow_program program,
                       struct dsflow_err *err)
{
    unsigned nprograms = dsflow_graph_nprograms(exec->graph);
    uint32_t first, n;
    int status, handed;

    if (program >= nprograms)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "program %u: expected one of the %u of the graph",
                           program, nprograms);
    if (exec->spread != NULL)
        return dsf_spread_submit(exec, program, err);
    /* One of several processes runs it all the same, without computing: others
     * wait for its messages. */
    status = dsf_exec_window_unmap(exec, err);
    if (status < 0 && exec->wire == NULL)
        return status;
    if (exec->busy_since == 0)
        exec->busy_since = dsf_now();
    exec->submitted[program]++;
    n = dsflow_graph_program_tasks(exec->graph, program, &first);
    handed = exec->class->submit(exec, first, first + n,
                                 status == DSFLOW_OK ? err : NULL);
    return status == DSFLOW_OK ? handed : status;
}

int dsflow_exec_wait(struct dsflow_exec *exec, struct dsflow_err *err)
{
    int status;

    if (exec->spread != NULL)
        return dsf_spread_wait(exec, err);
    status = exec->class->wait(exec, err);
    if (exec->busy_since != 0)
        exec->wall += dsf_now() - exec->busy_since;
    exec->busy_since = 0;
    return status == DSFLOW_OK ? dsf_exec_window_put_back(exec, err) : status;
}

void *dsflow_exec_map(struct dsflow_exec *exec, dsflow_data_id id,
                      enum dsflow_access access)
{
    if (exec->spread != NULL)
        return dsf_spread_map(exec, id, access);
    return dsf_exec_is_near(exec, id) ? exec->mem[id.i]
                                      : dsf_exec_window_map(exec, id.i, access);
}

void dsflow_exec_stats(const struct dsflow_exec *exec,
                       struct dsflow_exec_stats *stats)
{
    /* Cores, where there are devices to compute on: the first ones. */
    unsigned beside = exec->ndevices > 0 ? exec->nworkers - exec->ndevices : 0;

    if (exec->spread != NULL) {
        dsflow_exec_stats(exec->spread->own, stats);
        return;
    }
    *stats =
        (struct dsflow_exec_stats){ .workers = exec->nworkers - beside,
                                    .wall_seconds = exec->wall,
                                    .tasks = exec->disk.tasks + exec->copied +
                                             exec->wired.tasks };
    if (exec->busy_since != 0)
        stats->wall_seconds += dsf_now() - exec->busy_since;
    for (unsigned w = 0; w < exec->nworkers; w++) {
        stats->kernel_seconds += w < beside ? 0 : exec->workers[w].busy;
        stats->tasks += exec->workers[w].tasks;
    }
}
