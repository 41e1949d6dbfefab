/* starpu_nowhere.c - the tasks that no worker of StarPU's does: those of devices
 * and of disks. StarPU keeps their place in the order: a task that is to run
 * nowhere is told when it is ready, in the callback before it would run. That
 * begins it and holds back its end, until it has ended, or where all that
 * follows is in the same queue of a device, until it is launched.
 *
 * A core that needs data of a device has such a task before its own, of the same
 * data, which brings what is on devices: nothing comes between the two, so that
 * who holds a buffer waits for nothing but a core. */
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

/* Of what a staged task does before and after it. */
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
    else
        dsf_exec_device_begin(call, release, task);
}

static void fetch(void *arg)
{
    struct starpu_task *task = arg;

    starpu_task_end_dep_add(task, 1);
    dsf_exec_staged_fetch(task->cl_arg, release_staged, task);
}

static struct starpu_task *new_task(const struct dsf_exec_call *call,
                                    starpu_data_handle_t *handles)
{
    struct starpu_task *task = starpu_task_create();

    task->cl = &nowhere;
    dsf_starpu_describe(task, call, handles);
    return task;
}

int dsf_starpu_submit_nowhere(struct dsf_exec_call *call,
                              starpu_data_handle_t *handles)
{
    struct starpu_task *task = new_task(call, handles);

    task->cl_arg = call;
    task->prologue_callback_pop_func = begin;
    task->prologue_callback_pop_arg = task;
    return starpu_task_submit(task);
}

int dsf_starpu_submit_fetch(struct dsf_staged *staged,
                            struct starpu_task *before,
                            starpu_data_handle_t *handles)
{
    struct starpu_task *task = new_task(dsf_exec_staged_call(staged), handles);

    task->cl_arg = staged;
    task->prologue_callback_pop_func = fetch;
    task->prologue_callback_pop_arg = task;
    starpu_task_declare_deps_array(before, 1, &task);
    return starpu_task_submit(task);
}

void dsf_starpu_run_staged(struct dsf_staged *staged)
{
    struct starpu_task *task = starpu_task_get_current();

    dsf_exec_staged_run(staged, dsf_starpu_worker());
    starpu_task_end_dep_add(task, 1);
    dsf_exec_staged_return(staged, release_staged, task);
}
