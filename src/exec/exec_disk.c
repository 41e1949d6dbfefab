/* exec_disk.c - data on NVMe: where it is in the store, and the transfers that
 * tasks are. */
#include "exec/exec_private.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/units.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>

static bool is_on_disk(const struct dsflow_exec *exec, dsflow_data_id data)
{
    return dsflow_graph_data(exec->graph, data)->tier == DSFLOW_NVME;
}

/* One after the other, in the graph's order: returns the bytes of the store. */
static int64_t lay_out(struct dsflow_exec *exec)
{
    uint32_t n = dsflow_graph_ndata(exec->graph);
    int64_t used = 0;

    exec->disk.at = dsf_xcalloc(n + 1, sizeof(*exec->disk.at));
    for (uint32_t i = 0; i < n; i++)
        if (is_on_disk(exec, (dsflow_data_id){ i })) {
            exec->disk.at[i] = used;
            used += (int64_t)dsf_exec_size(exec, i);
        }
    return used;
}

/* A disk copies between itself and memory, and does nothing else. */
static bool is_transfer(const struct dsflow_exec *exec,
                        const struct dsflow_task_spec *t)
{
    return t->op->swaps && t->ndata == 2 &&
           is_on_disk(exec, t->data[0]) != is_on_disk(exec, t->data[1]);
}

static int check_tasks(const struct dsflow_exec *exec, struct dsflow_err *err)
{
    for (uint32_t i = 0; i < dsflow_graph_ntasks(exec->graph); i++) {
        const struct dsflow_task_spec *t = exec->calls[i].task;

        if (exec->calls[i].by == DSF_BY_DISK && !is_transfer(exec, t))
            return dsflow_fail(
                err, DSFLOW_EINVAL,
                "task %s of %s: expected one of its data in "
                "memory, and the other on NVMe",
                t->op->name, dsflow_graph_data(exec->graph, t->data[0])->name);
    }
    return DSFLOW_OK;
}

int dsf_exec_disk_open(struct dsflow_exec *exec,
                       const struct dsflow_disk *options,
                       struct dsflow_err *err)
{
    struct dsf_io_options io = {
        .paths = options->paths,
        .npaths = options->npaths,
        .block = options->block,
        .depth = options->depth,
        .size = lay_out(exec),
        .verify = options->verify,
    };
    struct dsf_io_info info;
    int status;

    if (io.size == 0)
        return DSFLOW_OK;
    status = check_tasks(exec, err);
    if (status == DSFLOW_OK)
        status = dsf_io_open(&io, &exec->disk.io, err);
    if (status < 0)
        return status;
    dsf_io_info(exec->disk.io, &info);
    if (info.remark[0] != '\0')
        dsf_warn("%s", info.remark);
    return DSFLOW_OK;
}

void dsf_exec_disk_close(struct dsflow_exec *exec)
{
    struct dsf_exec_disk *d = &exec->disk;

    dsf_io_close(d->io);
    free(d->at);
    d->io = NULL;
    d->at = NULL;
}

/* --- tasks ---------------------------------------------------------------- */

/* One transfer; `slot` is the side in memory. */
struct transfer {
    struct dsf_io_request request;
    struct dsf_stage_wait wait; /* for a buffer, if the slot is on a device */
    const struct dsf_exec_call *call;
    dsf_ended_fn ended;
    void *user;
    uint32_t slot;
};

static void prepare(struct transfer *t, const struct dsf_exec_call *call)
{
    const struct dsflow_exec *exec = call->exec;
    const dsflow_data_id *data = call->task->data;
    bool read = is_on_disk(exec, data[0]);
    dsflow_data_id home = data[!read], slot = data[read];
    size_t a = dsflow_graph_data(exec->graph, home)->bytes;
    size_t b = dsflow_graph_data(exec->graph, slot)->bytes;

    t->call = call;
    t->slot = slot.i;
    t->request = (struct dsf_io_request){
        .op = read ? DSF_IO_READ : DSF_IO_WRITE,
        .memory = exec->mem[slot.i],
        .offset = exec->disk.at[home.i],
        .bytes = a < b ? a : b,
        .user = t,
    };
}

/* Note it, as ring `ring`, with its error if it has one. */
static void note(const struct transfer *t, unsigned ring)
{
    const struct dsf_exec_call *call = t->call;
    const struct dsf_io_request *r = &t->request;
    struct dsflow_exec *exec = call->exec;
    struct dsf_exec_disk *d = &exec->disk;
    uint32_t task = (uint32_t)(call - exec->calls);
    double start = fmax(r->start - exec->opened, d->until[r->op]);
    double end = fmax(r->end - exec->opened, start);

    if (r->status < 0)
        dsf_exec_fail(exec, &r->err);
    d->until[r->op] = end;
    atomic_fetch_add_explicit(&d->tasks, 1, memory_order_relaxed);
    dsf_exec_note(exec, ring,
                  &(struct dsf_span){
                      .start = start,
                      .end = end,
                      .what = task,
                      .step = dsf_exec_count_run(exec, task),
                      .lane = (uint16_t)(d->lane + (r->op == DSF_IO_WRITE)),
                      .rank = call->task->rank,
                      .kind = DSF_SPAN_TASK });
}

void dsf_exec_disk_run(const struct dsf_exec_call *call)
{
    struct dsf_io *io = call->exec->disk.io;
    struct transfer t;
    struct dsf_io_request *r = &t.request;

    prepare(&t, call);
    if (dsflow_exec_failed(call->exec, NULL) < 0)
        r->bytes = 0;
    r->start = dsf_now();
    r->status = r->op == DSF_IO_READ
                    ? dsf_io_read(io, r->memory, r->offset, r->bytes, &r->err)
                    : dsf_io_write(io, r->memory, r->offset, r->bytes, &r->err);
    r->end = dsf_now();
    note(&t, 0);
}

static void end_transfer(void *user)
{
    struct transfer *t = user;

    if (t->wait.buffer != NULL)
        dsf_exec_stage_give(t->call->exec, t->wait.buffer);
    t->ended(t->user);
    free(t);
}

/* Between the buffer and the slot. */
static void copy(struct transfer *t, bool in, dsf_ended_fn ended)
{
    struct dsflow_exec *exec = t->call->exec;

    dsf_exec_copy(
        exec, t->slot, 0,
        dsflow_graph_data(exec->graph, (dsflow_data_id){ t->slot })->bytes,
        t->wait.buffer, in, ended, t);
}

static void disk_done(struct dsf_io_request *request)
{
    struct transfer *t = request->user;
    struct dsflow_exec *exec = t->call->exec;

    note(t, exec->nworkers + DSF_RING_DISK);
    if (t->wait.buffer != NULL && request->op == DSF_IO_READ)
        copy(t, true, end_transfer);
    else
        end_transfer(t);
}

static void submit(void *user)
{
    struct transfer *t = user;

    t->request.done = disk_done;
    if (dsflow_exec_failed(t->call->exec, NULL) < 0)
        t->request.bytes = 0;
    dsf_io_submit(t->call->exec->disk.io, &t->request);
}

/* A disk does not reach the memory of a device: by way of a buffer. */
static void got_buffer(struct dsf_stage_wait *wait)
{
    struct transfer *t =
        (struct transfer *)((char *)wait - offsetof(struct transfer, wait));

    t->request.memory = wait->buffer;
    if (t->request.op == DSF_IO_READ)
        submit(t);
    else
        copy(t, false, submit);
}

void dsf_exec_disk_begin(const struct dsf_exec_call *call, dsf_ended_fn ended,
                         void *user)
{
    struct transfer *t = dsf_xcalloc(1, sizeof(*t));

    prepare(t, call);
    t->ended = ended;
    t->user = user;
    t->wait.got = got_buffer;
    if (call->staged)
        dsf_exec_stage_take(call->exec, &t->wait);
    else
        submit(t);
}

void dsf_exec_disk_lanes(const struct dsflow_exec *exec,
                         struct dsf_timeline *timeline)
{
    if (exec->disk.io == NULL)
        return;
    dsf_timeline_add_lane(timeline, DSF_LANE_DISK, DSFLOW_ANYWHERE,
                          "disk read");
    dsf_timeline_add_lane(timeline, DSF_LANE_DISK, DSFLOW_ANYWHERE,
                          "disk write");
}
