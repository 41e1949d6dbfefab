/* exec_disk.c - data on NVMe: where it is in the store, the transfers that
 * tasks are, and a window for the program to look at it. */
#include "exec/exec_private.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/units.h"

#include <math.h>
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

        if (exec->calls[i].by_disk && !is_transfer(exec, t))
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
    /* What was changed there goes with the files. */
    dsf_io_free(d->window, d->window_bytes);
    free(d->at);
    d->io = NULL;
    d->window = NULL;
    d->at = NULL;
}

/* --- tasks ---------------------------------------------------------------- */

struct dsf_io_request dsf_exec_disk_request(const struct dsf_exec_call *call)
{
    const struct dsflow_exec *exec = call->exec;
    const dsflow_data_id *data = call->task->data;
    bool read = is_on_disk(exec, data[0]);
    dsflow_data_id home = data[!read], slot = data[read];
    size_t a = dsflow_graph_data(exec->graph, home)->bytes;
    size_t b = dsflow_graph_data(exec->graph, slot)->bytes;
    size_t bytes = a < b ? a : b;

    if (dsflow_exec_failed(exec, NULL) < 0)
        bytes = 0;
    return (struct dsf_io_request){ .op = read ? DSF_IO_READ : DSF_IO_WRITE,
                                    .memory = exec->mem[slot.i],
                                    .offset = exec->disk.at[home.i],
                                    .bytes = bytes };
}

void dsf_exec_disk_done(const struct dsf_exec_call *call,
                        const struct dsf_io_request *request, unsigned ring)
{
    struct dsflow_exec *exec = call->exec;
    struct dsf_exec_disk *d = &exec->disk;
    uint32_t task = (uint32_t)(call - exec->calls);
    double start = fmax(request->start - exec->opened, d->until[request->op]);
    double end = fmax(request->end - exec->opened, start);

    if (request->status < 0)
        dsf_exec_fail(exec, &request->err);
    d->until[request->op] = end;
    atomic_fetch_add_explicit(&d->tasks, 1, memory_order_relaxed);
    dsf_exec_note(
        exec, ring,
        &(struct dsf_span){
            .start = start,
            .end = end,
            .what = task,
            .step = dsf_exec_count_run(exec, task),
            .lane = (uint16_t)(d->lane + (request->op == DSF_IO_WRITE)),
            .rank = call->task->rank,
            .kind = DSF_SPAN_TASK });
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

/* --- the window ----------------------------------------------------------- */

/* There is one size, so that it is allocated once for all that can be mapped. */
static size_t window_bytes(const struct dsflow_exec *exec)
{
    size_t most = 0;

    for (uint32_t i = 0; i < dsflow_graph_ndata(exec->graph); i++)
        if (is_on_disk(exec, (dsflow_data_id){ i }) &&
            dsflow_graph_data(exec->graph, (dsflow_data_id){ i })->persistent &&
            dsf_exec_size(exec, i) > most)
            most = dsf_exec_size(exec, i);
    return most;
}

static int open_window(struct dsflow_exec *exec, struct dsflow_err *err)
{
    struct dsf_exec_disk *d = &exec->disk;

    if (d->window != NULL)
        return DSFLOW_OK;
    d->window_bytes = window_bytes(exec);
    d->window = dsf_io_alloc(d->window_bytes, err);
    return d->window != NULL ? DSFLOW_OK : DSFLOW_ENOMEM;
}

int dsf_exec_disk_put_back(struct dsflow_exec *exec, struct dsflow_err *err)
{
    struct dsf_exec_disk *d = &exec->disk;
    struct dsflow_err failure;

    if (d->dirty && dsf_io_write(d->io, d->window, d->at[d->shown],
                                 dsf_exec_size(exec, d->shown), &failure) < 0)
        dsf_exec_fail(exec, &failure);
    d->dirty = false;
    return dsflow_exec_failed(exec, err);
}

int dsf_exec_disk_unmap(struct dsflow_exec *exec, struct dsflow_err *err)
{
    struct dsf_exec_disk *d = &exec->disk;
    int status = dsf_exec_disk_put_back(exec, err);

    dsf_io_free(d->window, d->window_bytes);
    d->window = NULL;
    return status;
}

void *dsf_exec_disk_map(struct dsflow_exec *exec, uint32_t data,
                        enum dsflow_access access)
{
    struct dsf_exec_disk *d = &exec->disk;
    struct dsflow_err err;
    int status = dsf_exec_disk_put_back(exec, &err);

    if (status == DSFLOW_OK)
        status = open_window(exec, &err);
    if (status == DSFLOW_OK && (access & DSFLOW_R))
        status = dsf_io_read(d->io, d->window, d->at[data],
                             dsf_exec_size(exec, data), &err);
    if (status < 0) {
        dsf_exec_fail(exec, &err);
        return NULL;
    }
    d->shown = data;
    d->dirty = (access & DSFLOW_W) != 0;
    return d->window;
}
