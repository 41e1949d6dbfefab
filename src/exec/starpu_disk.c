/* starpu_disk.c - the tasks that a disk does. StarPU keeps their place in the
 * order, and no worker runs them: a task that is to run nowhere is told when it
 * is ready, in the callback before it would run. That begins the transfer and
 * holds back the end of the task, until the engine's thread lets go of it.
 *
 * Such a task gets no copies of its data. Where there are devices, a task
 * before it brings the slot to main memory or, if it is to be written, makes
 * the copy there the only one; no other task comes between the two. */
#include "config.h"

#include "exec/starpu_private.h"

#include "base/alloc.h"

#include <stdlib.h>

struct transfer {
    struct dsf_io_request request;
    const struct dsf_exec_call *call;
    struct starpu_task *task;
};

static void end_transfer(struct dsf_io_request *request)
{
    struct transfer *transfer = request->user;
    struct starpu_task *task = transfer->task;

    dsf_exec_disk_done(transfer->call, request,
                       transfer->call->exec->nworkers + DSF_RING_DISK);
    free(transfer);
    starpu_task_end_dep_release(task);
}

static void begin_transfer(void *arg)
{
    struct starpu_task *task = arg;
    const struct dsf_exec_call *call = task->cl_arg;
    struct transfer *transfer = dsf_xcalloc(1, sizeof(*transfer));

    transfer->request = dsf_exec_disk_request(call);
    transfer->request.done = end_transfer;
    transfer->request.user = transfer;
    transfer->call = call;
    transfer->task = task;
    starpu_task_end_dep_add(task, 1);
    dsf_io_submit(call->exec->disk.io, &transfer->request);
}

void dsf_starpu_disk_init(struct dsf_starpu_disk *disk)
{
    starpu_codelet_init(&disk->transfer);
    disk->transfer.name = "transfer";
    disk->transfer.where = STARPU_NOWHERE;
    disk->transfer.nbuffers = STARPU_VARIABLE_NBUFFERS;

    starpu_codelet_init(&disk->fetch);
    disk->fetch.name = "fetch";
    disk->fetch.where = STARPU_NOWHERE;
    disk->fetch.nbuffers = STARPU_VARIABLE_NBUFFERS;
    disk->fetch.specific_nodes = 1;
    disk->fetch.nodes[0] = STARPU_MAIN_RAM;
}

static struct starpu_task *new_task(struct starpu_codelet *cl,
                                    struct dsf_exec_call *call)
{
    struct starpu_task *task = starpu_task_create();

    task->cl = cl;
    task->name = call->task->op->name;
    task->cl_arg = call;
    task->priority = call->task->priority;
    return task;
}

static void add_buffer(struct starpu_task *task, starpu_data_handle_t handle,
                       enum dsflow_access access)
{
    STARPU_TASK_SET_HANDLE(task, handle, task->nbuffers);
    STARPU_TASK_SET_MODE(task, dsf_starpu_mode(access), task->nbuffers);
    task->nbuffers++;
}

static struct starpu_task *new_fetch(struct dsf_starpu_disk *disk,
                                     struct dsf_exec_call *call,
                                     starpu_data_handle_t *handles)
{
    const struct dsflow_task_spec *t = call->task;
    struct starpu_task *task = new_task(&disk->fetch, call);

    for (unsigned p = 0; p < t->ndata; p++)
        if (call->exec->mem[t->data[p].i] != NULL)
            add_buffer(task, handles[t->data[p].i], dsflow_task_access(t, p));
    return task;
}

int dsf_starpu_disk_submit(struct dsf_starpu_disk *disk,
                           struct dsf_exec_call *call,
                           starpu_data_handle_t *handles)
{
    const struct dsflow_task_spec *t = call->task;
    struct starpu_task *task = new_task(&disk->transfer, call), *fetch;
    int ret;

    for (unsigned p = 0; p < t->ndata; p++)
        add_buffer(task, handles[t->data[p].i], dsflow_task_access(t, p));
    task->prologue_callback_pop_func = begin_transfer;
    task->prologue_callback_pop_arg = task;
    if (starpu_memory_nodes_get_count() > 1) {
        fetch = new_fetch(disk, call, handles);
        starpu_task_declare_deps_array(task, 1, &fetch);
        ret = starpu_task_submit(fetch);
        if (ret != 0)
            return ret;
    }
    return starpu_task_submit(task);
}
