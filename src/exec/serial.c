/* serial.c - the tasks one after the other, in the graph's order, on the
 * calling thread: the reference that every other executor must equal. */
#include "exec/exec_private.h"

#include "base/units.h"

static int serial_open(struct dsflow_exec *exec,
                       const struct dsflow_exec_options *options,
                       struct dsflow_err *err)
{
    return dsf_exec_add_workers(exec, 1, err);
}

static void serial_close(struct dsflow_exec *exec)
{
}

static void transfer(const struct dsf_exec_call *call)
{
    struct dsf_io *io = call->exec->disk.io;
    struct dsf_io_request r = dsf_exec_disk_request(call);

    r.start = dsf_now();
    r.status = r.op == DSF_IO_READ
                   ? dsf_io_read(io, r.memory, r.offset, r.bytes, &r.err)
                   : dsf_io_write(io, r.memory, r.offset, r.bytes, &r.err);
    r.end = dsf_now();
    dsf_exec_disk_done(call, &r, 0);
}

static void run(const struct dsf_exec_call *call)
{
    const struct dsflow_exec *exec = call->exec;
    const struct dsflow_task_spec *t = call->task;
    struct dsflow_buf *bufs = exec->workers[0].bufs;

    for (unsigned p = 0; p < t->ndata; p++)
        bufs[p] = dsf_exec_buf(call, p, exec->mem[t->data[p].i]);
    dsf_exec_run(call, bufs, 0);
}

static int serial_submit(struct dsflow_exec *exec, uint32_t first,
                         uint32_t last, struct dsflow_err *err)
{
    for (uint32_t i = first; i < last; i++)
        if (exec->calls[i].by_disk)
            transfer(&exec->calls[i]);
        else
            run(&exec->calls[i]);
    return DSFLOW_OK;
}

static int serial_wait(struct dsflow_exec *exec, struct dsflow_err *err)
{
    return DSFLOW_OK;
}

static void *serial_map(struct dsflow_exec *exec, uint32_t data,
                        enum dsflow_access access)
{
    return exec->mem[data];
}

static void serial_lanes(const struct dsflow_exec *exec,
                         struct dsf_timeline *timeline)
{
    dsf_timeline_add_lane(timeline, DSF_LANE_WORKER, DSFLOW_ANYWHERE, "core 0");
}

const struct dsf_exec_class dsf_exec_serial = {
    .name = "serial",
    .open = serial_open,
    .close = serial_close,
    .submit = serial_submit,
    .wait = serial_wait,
    .map = serial_map,
    .lanes = serial_lanes,
};
