/* serial.c - the tasks one after the other, in the graph's order, on the
 * calling thread: the reference that every other executor must equal. */
#include "exec/exec_private.h"

static int serial_open(struct dsflow_exec *exec,
                       const struct dsflow_exec_options *options,
                       struct dsflow_err *err)
{
    return dsf_exec_add_workers(exec, 1, err);
}

static void serial_close(struct dsflow_exec *exec)
{
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
        if (exec->calls[i].by == DSF_BY_DISK)
            dsf_exec_disk_run(&exec->calls[i]);
        else if (exec->calls[i].by == DSF_BY_WIRE)
            dsf_exec_wire_run(&exec->calls[i]);
        else
            run(&exec->calls[i]);
    return DSFLOW_OK;
}

static int serial_wait(struct dsflow_exec *exec, struct dsflow_err *err)
{
    return DSFLOW_OK;
}

static void serial_lanes(const struct dsflow_exec *exec,
                         struct dsf_timeline *timeline)
{
    dsf_timeline_add_lane(timeline, DSF_LANE_WORKER, DSFLOW_ANYWHERE, "core 0");
}

const struct dsf_exec_class dsf_exec_serial = {
    .open = serial_open,
    .close = serial_close,
    .submit = serial_submit,
    .wait = serial_wait,
    .lanes = serial_lanes,
};
