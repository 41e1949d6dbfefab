/* exec_device.c - what the executor launches on devices: tasks, and copies for
 * those that are done elsewhere. */
#include "exec/exec_private.h"

#include "base/alloc.h"
#include "codelets/call.h"
#include "codelets/copies.h"
#include "graph/task.h"

#include <semaphore.h>
#include <stdlib.h>

int dsf_exec_open_devices(struct dsflow_exec *exec,
                          const struct dsflow_exec_options *options,
                          struct dsflow_err *err)
{
    bool gpus = options->gpus > 0;
    unsigned all = gpus ? options->gpus : options->virtuals, n = all;
    unsigned own = exec->nranks - exec->first_rank;
    int status = DSFLOW_OK;

    if (gpus && options->virtuals > 0)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "GPUs beside virtual devices: expected one of them");
    if (options->kind != DSFLOW_STARPU)
        n = 0;
    /* Those of its ranks: other processes have the others. */
    if (exec->wire != NULL && n > own)
        n = own;
    exec->devices = dsf_xcalloc(n + 1, sizeof(*exec->devices));
    exec->cpu = &exec->devices[n];
    exec->cpu->class = &dsf_device_cpu;
    for (unsigned i = 0; i < n && status == DSFLOW_OK; i++) {
        exec->devices[i] = (struct dsf_device){
            .class = gpus ? &dsf_device_cuda : &dsf_device_virtual,
            .index = (exec->first_rank + i) % all,
            .first = exec->first_rank % all,
            .beside = n,
            .all = all,
            .limit = gpus ? 0 : options->virtual_memory,
            .rate = gpus ? 0 : (double)options->virtual_link,
        };
        status = dsf_device_open(&exec->devices[i], err);
        exec->ndevices += status == DSFLOW_OK;
    }
    return status;
}

void dsf_exec_wait_devices(struct dsflow_exec *exec)
{
    for (unsigned i = 0; i < exec->ndevices; i++)
        dsf_device_wait(&exec->devices[i]);
}

void dsf_exec_close_devices(struct dsflow_exec *exec)
{
    for (unsigned i = 0; i < exec->ndevices; i++)
        dsf_device_close(&exec->devices[i]);
    free(exec->devices);
}

static unsigned position(const struct dsflow_exec *exec,
                         const struct dsf_device *device)
{
    return (unsigned)(device - exec->devices);
}

/* Devices are the last workers. */
static unsigned worker_of(const struct dsflow_exec *exec,
                          const struct dsf_device *device)
{
    return exec->nworkers - exec->ndevices + position(exec, device);
}

static const char *const directions[] = { "into", "out of" };

void dsf_exec_link_lanes(const struct dsflow_exec *exec,
                         struct dsf_timeline *timeline)
{
    for (unsigned i = 0; i < 2 * exec->ndevices; i++)
        dsf_timeline_add_lane(timeline, DSF_LANE_LINK, DSFLOW_ANYWHERE,
                              "%s device %u", directions[i % 2],
                              exec->devices[i / 2].index);
}

/* Of a copy: on the lane, and from the thread, of its queue. */
static void note_copy(struct dsflow_exec *exec, const struct dsf_device *device,
                      const struct dsf_launch *launch, struct dsf_span span)
{
    unsigned i = 2 * position(exec, device) + (launch->queue == DSF_QUEUE_OUT);

    span.start = launch->start - exec->opened;
    span.end = launch->end - exec->opened;
    span.lane = (uint16_t)(exec->nworkers + i);
    dsf_exec_note(exec, exec->nworkers + DSF_NOTHER_RINGS + i, &span);
}

/* --- tasks ---------------------------------------------------------------- */

struct flight {
    struct dsf_launch launch;
    const struct dsf_exec_call *call;
    dsf_ended_fn ended; /* NULL: what follows has begun already */
    void *user;
    struct dsf_copy *copies;
    struct dsflow_buf bufs[]; /* of the task; then by port */
};

/* How sure it is where something went wrong. */
static const char *place(const struct dsf_launch *launch)
{
    return launch->after ? "at or after " : "";
}

/* What went wrong, with the task that it went wrong in. */
static void name_task(const struct dsf_exec_call *call,
                      struct dsf_launch *launch)
{
    struct dsflow_err why = launch->err;

    if (launch->status < 0)
        dsflow_fail(&launch->err, launch->status, "%stask %s of rank %d: %s",
                    place(launch), call->task->op->name, call->task->rank,
                    why.msg);
}

static void end_task(struct dsf_launch *launch)
{
    struct flight *f = (struct flight *)launch;
    const struct dsf_exec_call *call = f->call;
    struct dsflow_exec *exec = call->exec;
    uint32_t task = (uint32_t)(call - exec->calls);

    name_task(call, launch);
    if (launch->queue == DSF_QUEUE_COMPUTE)
        dsf_exec_ran(call, worker_of(exec, call->device), launch);
    else {
        if (launch->status < 0)
            dsf_exec_fail(exec, &launch->err);
        note_copy(exec, call->device, launch,
                  (struct dsf_span){ .what = task,
                                     .step = dsf_exec_count_run(exec, task),
                                     .rank = call->task->rank,
                                     .kind = DSF_SPAN_TASK });
        atomic_fetch_add_explicit(&exec->copied, 1, memory_order_relaxed);
    }
    if (f->ended != NULL)
        f->ended(f->user);
    free(f->copies);
    free(f);
}

/* Its ports as copies between memories. */
static void list_copies(struct flight *f)
{
    const struct dsf_exec_call *call = f->call;
    const struct dsflow_exec *exec = call->exec;
    const struct dsflow_task_spec *t = call->task;
    struct dsf_port_copy *v = dsf_xcalloc(2 * (size_t)t->ndata, sizeof(*v));
    unsigned n = dsf_copies(t->op, &f->launch.call, v);

    f->copies = dsf_xcalloc(n, sizeof(*f->copies));
    for (unsigned i = 0; i < n; i++)
        f->copies[i] = (struct dsf_copy){
            .to = (char *)f->bufs[v[i].to].ptr + v[i].to_at,
            .from = (char *)f->bufs[v[i].from].ptr + v[i].from_at,
            .bytes = v[i].bytes,
            .to_device = exec->on[t->data[v[i].to].i],
            .from_device = exec->on[t->data[v[i].from].i],
            .rows = v[i].rows,
            .to_apart = v[i].to_apart,
            .from_apart = v[i].from_apart,
        };
    free(v);
    f->launch.ncopies = f->launch.codelet != NULL ? n : 0;
    f->launch.copies = f->copies;
    f->launch.codelet = NULL;
}

/* What a kernel takes of other devices. */
static size_t read_elsewhere(const struct dsf_exec_call *call)
{
    const struct dsflow_exec *exec = call->exec;
    const struct dsflow_task_spec *t = call->task;
    double bytes = 0;

    for (unsigned p = 0; p < t->ndata; p++)
        if (exec->on[t->data[p].i] != call->device)
            bytes += dsf_task_moves(exec->graph, t, p);
    return (size_t)bytes;
}

/* Libraries and plug-ins may load kernels when they are first launched,
 * whatever CUDA was told (cuda_module.h). */
static bool is_first_beside_messages(const struct dsf_exec_call *call)
{
    const struct dsflow_exec *exec = call->exec;

    return exec->direct != NULL &&
           atomic_load_explicit(&exec->runs[call - exec->calls],
                                memory_order_relaxed) == 0;
}

void dsf_exec_device_begin(const struct dsf_exec_call *call, dsf_ended_fn ended,
                           void *user)
{
    struct dsflow_exec *exec = call->exec;
    uint32_t n = call->task->ndata;
    struct flight *f = dsf_xcalloc(
        1, sizeof(*f) + (n + DSF_SPREAD_PORTS) * sizeof(*f->bufs));

    f->call = call;
    f->ended = call->ahead ? NULL : ended;
    f->user = user;
    for (unsigned p = 0; p < n; p++)
        f->bufs[p] = dsf_exec_buf(call, p, exec->mem[call->task->data[p].i]);
    dsf_exec_prepare(call, f->bufs, f->bufs + n, worker_of(exec, call->device),
                     &f->launch);
    f->launch.queue = call->queue;
    if (dsf_only_copies(call->task->op)) {
        list_copies(f);
    } else {
        f->launch.reads = read_elsewhere(call);
        f->launch.alone = is_first_beside_messages(call);
    }
    f->launch.launched = call->ahead ? ended : NULL;
    f->launch.done = end_task;
    f->launch.user = user;
    dsf_device_launch(call->device, &f->launch);
}

/* --- copies for others ---------------------------------------------------- */

struct carry {
    struct dsf_launch launch;
    struct dsf_copy copy;
    struct dsflow_exec *exec;
    struct dsf_device *device;
    uint32_t data;
    dsf_ended_fn ended;
    void *user;
};

static void end_copy(struct dsf_launch *launch)
{
    struct carry *c = (struct carry *)launch;
    struct dsflow_exec *exec = c->exec;

    if (launch->status < 0) {
        struct dsflow_err why = launch->err;

        dsflow_fail(&launch->err, why.status, "%sthe copy of %s: %s",
                    place(launch),
                    dsflow_graph_data(exec->graph, (dsflow_data_id){ c->data })
                        ->name,
                    why.msg);
        dsf_exec_fail(exec, &launch->err);
    }
    note_copy(exec, c->device, launch,
              (struct dsf_span){ .what = c->data,
                                 .rank = (int16_t)dsf_exec_home(exec, c->data),
                                 .kind = DSF_SPAN_TRANSFER });
    c->ended(c->user);
    free(c);
}

void dsf_exec_copy(struct dsflow_exec *exec, uint32_t data, size_t at,
                   size_t bytes, void *near, bool in, dsf_ended_fn ended,
                   void *user)
{
    struct carry *c = dsf_xcalloc(1, sizeof(*c));
    char *there = (char *)exec->mem[data] + at;

    c->exec = exec;
    c->device = exec->on[data];
    c->data = data;
    c->ended = ended;
    c->user = user;
    c->copy = in ? (struct dsf_copy){ there, near, bytes, c->device, NULL }
                 : (struct dsf_copy){ near, there, bytes, NULL, c->device };
    c->launch = (struct dsf_launch){
        .queue = in ? DSF_QUEUE_IN : DSF_QUEUE_OUT,
        .copies = &c->copy,
        .ncopies = dsflow_exec_failed(exec, NULL) == DSFLOW_OK,
        .done = end_copy,
    };
    dsf_device_launch(c->device, &c->launch);
}

static void post(void *ended)
{
    sem_post(ended);
}

int dsf_exec_copy_now(struct dsflow_exec *exec, uint32_t data, void *near,
                      bool in, struct dsflow_err *err)
{
    sem_t ended;

    sem_init(&ended, 0, 0);
    dsf_exec_copy(
        exec, data, 0,
        dsflow_graph_data(exec->graph, (dsflow_data_id){ data })->bytes, near,
        in, post, &ended);
    while (sem_wait(&ended) != 0)
        ;
    sem_destroy(&ended);
    return dsflow_exec_failed(exec, err);
}
