/* starpu_nowhere.c - the tasks that no worker of StarPU's does: those of
 * devices and of disks, and messages. StarPU keeps their place in the order: a
 * task that is to run nowhere is told when it is ready, in the callback before
 * it would run. That begins it and holds back its end, until it has ended, or
 * where all that follows is in the same queue of a device, until it is
 * launched.
 *
 * A core that needs data of a device has such a task before its own and one
 * behind it, of the same data, which bring what is on devices and take it back:
 * nothing comes between the three, so that who holds a buffer waits for nothing
 * but a core. And what a core does ends on that core: schedulers count on it.
 */
#include "exec/races.h"
#include "exec/starpu_private.h"

static struct starpu_codelet nowhere = {
    .name = "nowhere",
    .where = STARPU_NOWHERE,
    .nbuffers = STARPU_VARIABLE_NBUFFERS,
};

/* Of a task: it has ended. */
static void release(void *arg)
{
    struct starpu_task *task = arg;

    dsf_races_end(task->cl_arg);
    starpu_task_end_dep_release(task);
}

/* Of what is done before and behind a staged task. */
static void release_staged(void *task)
{
    starpu_task_end_dep_release(task);
}

static void begin(void *arg)
{
    struct starpu_task *task = arg;
    const struct dsf_exec_call *call = task->cl_arg;

    starpu_task_end_dep_add(task, 1);
    dsf_races_begin(call);
    if (call->by == DSF_BY_DISK)
        dsf_exec_disk_begin(call, release, task);
    else if (call->by == DSF_BY_WIRE)
        dsf_exec_wire_begin(call, release, task);
    else
        dsf_exec_device_begin(call, release, task);
}

static void fetch(void *arg)
{
    struct starpu_task *task = arg;

    starpu_task_end_dep_add(task, 1);
    dsf_exec_staged_fetch(task->cl_arg, release_staged, task);
}

static void give_back(void *arg)
{
    struct starpu_task *task = arg;

    starpu_task_end_dep_add(task, 1);
    dsf_exec_staged_return(task->cl_arg, release_staged, task);
}

static struct starpu_task *new_task(const struct dsf_exec_call *call,
                                    starpu_data_handle_t *handles)
{
    struct starpu_task *task = starpu_task_create();

    task->cl = &nowhere;
    dsf_starpu_describe(task, call, handles);
    return task;
}

static int submit(struct starpu_task *task, void *of, void (*start)(void *task))
{
    task->cl_arg = of;
    task->prologue_callback_pop_func = start;
    task->prologue_callback_pop_arg = task;
    return starpu_task_submit(task);
}

int dsf_starpu_submit_nowhere(struct dsf_exec_call *call,
                              starpu_data_handle_t *handles)
{
    return submit(new_task(call, handles), call, begin);
}

int dsf_starpu_submit_staged(struct starpu_task *task,
                             starpu_data_handle_t *handles)
{
    const struct dsf_exec_call *call = task->cl_arg;
    struct dsf_staged *staged = dsf_exec_staged_new(call);
    struct starpu_task *before = new_task(call, handles);
    struct starpu_task *behind = new_task(call, handles);
    int ret;

    task->cl_arg = staged;
    starpu_task_declare_deps_array(task, 1, &before);
    starpu_task_declare_deps_array(behind, 1, &task);
    ret = submit(before, staged, fetch);
    if (ret == 0)
        ret = starpu_task_submit(task);
    return ret == 0 ? submit(behind, staged, give_back) : ret;
}
