/* exec_place.c - in whose memory each piece of data is, and who does each task:
 * a core, a device, an engine of a device that copies, or a disk. */
#include "exec/exec_memory.h"
#include "exec/exec_private.h"

#include "base/alloc.h"
#include "codelets/codelets.h"
#include "codelets/copies.h"
#include "codelets/messages.h"
#include "graph/task.h"

#include <limits.h>
#include <stdlib.h>

static const struct dsflow_data_spec *spec_of(const struct dsflow_exec *exec,
                                              uint32_t data)
{
    return dsflow_graph_data(exec->graph, (dsflow_data_id){ data });
}

static unsigned home_of(const struct dsflow_graph *graph, uint32_t data)
{
    int home = dsflow_graph_data(graph, (dsflow_data_id){ data })->home;

    return home < 0 ? 0 : (unsigned)home;
}

unsigned dsf_exec_home(const struct dsflow_exec *exec, uint32_t data)
{
    return home_of(exec->graph, data);
}

/* Does it call the host, or go to another process, or is a core done with it
 * before a device begins? */
static bool stays_near(const struct dsf_exec_call *call)
{
    return dsf_is_message(call->task->op) || call->codelet->host_only ||
           dsf_takes_few(call->task->op);
}

/* Tokens, learning rates, losses, sums of squares: what the host or a core
 * reads and writes stays near it, and the kernels of a device reach it there;
 * what comes from other processes, and goes there, is in main memory, too, but
 * for what goes from GPU to GPU. */
static void find_near(struct dsflow_exec *exec)
{
    for (uint32_t i = 0; i < dsflow_graph_ntasks(exec->graph); i++) {
        const struct dsf_exec_call *call = &exec->calls[i];

        for (unsigned p = 0; stays_near(call) && p < call->task->ndata; p++) {
            uint32_t data = call->task->data[p].i;

            if (spec_of(exec, data)->tier == DSFLOW_DEVICE &&
                spec_of(exec, data)->role == DSFLOW_BUFFERS)
                exec->place[data] = DSF_PLACE_NEAR;
        }
    }
    for (uint32_t i = 0; i < dsflow_graph_ntasks(exec->graph); i++)
        if (dsf_is_direct(exec->calls[i].task))
            exec->place[exec->calls[i].task->data[0].i] = DSFLOW_DEVICE;
}

void dsf_exec_ranks_of(const struct dsflow_graph *graph, unsigned *first,
                       unsigned *end)
{
    const uint32_t n = dsflow_graph_ndata(graph);

    *first = n > 0 ? UINT_MAX : 0;
    *end = 1;
    for (uint32_t i = 0; i < n; i++) {
        unsigned home = home_of(graph, i);

        if (home < *first)
            *first = home;
        if (home >= *end)
            *end = home + 1;
    }
}

void dsf_exec_find_ranks(struct dsflow_exec *exec)
{
    dsf_exec_ranks_of(exec->graph, &exec->first_rank, &exec->nranks);
}

struct dsf_device *dsf_exec_device_of(const struct dsflow_exec *exec,
                                      unsigned rank)
{
    unsigned n = exec->ndevices;

    return &exec->devices[(rank + n - exec->first_rank % n) % n];
}

static void place_data(struct dsflow_exec *exec)
{
    uint32_t n = dsflow_graph_ndata(exec->graph);

    exec->place = dsf_xcalloc(n + 1, sizeof(*exec->place));
    exec->on = dsf_xcalloc((size_t)n + 1, sizeof(struct dsf_device *));
    for (uint32_t i = 0; i < n; i++)
        exec->place[i] = spec_of(exec, i)->tier;
    if (exec->ndevices == 0)
        return;
    find_near(exec);
    for (uint32_t i = 0; i < n; i++)
        if (exec->place[i] == DSFLOW_DEVICE)
            exec->on[i] = dsf_exec_device_of(exec, dsf_exec_home(exec, i));
}

/* The first of a task's data that is on a device: there, or NULL. */
static struct dsf_device *any_device(const struct dsf_exec_call *call)
{
    for (unsigned p = 0; p < call->task->ndata; p++)
        if (call->exec->on[call->task->data[p].i] != NULL)
            return call->exec->on[call->task->data[p].i];
    return NULL;
}

static bool is_all_on(const struct dsf_exec_call *call,
                      const struct dsf_device *device)
{
    for (unsigned p = 0; p < call->task->ndata; p++)
        if (call->exec->on[call->task->data[p].i] != device)
            return false;
    return true;
}

/* Into a device, its engine does it; into main memory, that of where it is.
 * What stays in one memory crosses no link: between two kernels it takes a
 * moment, and beside them it would wait for room, and what follows it for its
 * end. */
static void give_copies(struct dsf_exec_call *call, struct dsf_device *from)
{
    uint32_t to = call->task->data[dsf_copies_into(call->task->op)].i;
    struct dsf_device *into = call->exec->on[to];

    call->by = DSF_BY_DEVICE;
    call->device = into != NULL ? into : from;
    call->queue = into == NULL            ? DSF_QUEUE_OUT
                  : is_all_on(call, into) ? DSF_QUEUE_COMPUTE
                                          : DSF_QUEUE_IN;
}

static bool has_kernel(struct dsf_exec_call *call)
{
    const struct dsf_device_class *class = call->device->class;

    if (class->side == NULL || call->codelet->cuda != NULL)
        return true;
    call->side = class->side(call->task->op);
    if (call->side == NULL)
        return false;
    call->lacks = class->lacks(call->side, call->task->args);
    return call->lacks == NULL;
}

/* What works in main memory, or is no kernel of its device, runs on a core; what
 * it needs of a device is brought and taken back. */
static void place_task(struct dsf_exec_call *call)
{
    const struct dsflow_exec *exec = call->exec;
    const struct dsflow_task_spec *t = call->task;
    struct dsf_device *any = any_device(call);

    if (dsf_is_message(t->op)) {
        call->by = DSF_BY_WIRE;
        return;
    }
    call->by = DSF_BY_CORE;
    call->staged = any != NULL;
    if (dsf_task_uses(exec->graph, t, DSFLOW_NVME)) {
        call->by = DSF_BY_DISK;
        return;
    }
    if (any == NULL || call->codelet->host_only)
        return;
    if (dsf_only_copies(t->op)) {
        call->staged = false;
        give_copies(call, any);
        return;
    }
    if (dsf_task_uses(exec->graph, t, DSFLOW_HOST))
        return;
    call->device =
        t->rank < 0 ? any : dsf_exec_device_of(exec, (unsigned)t->rank);
    call->lacking = !has_kernel(call);
    if (call->lacking)
        return;
    call->staged = false;
    call->by = DSF_BY_DEVICE;
    call->queue = DSF_QUEUE_COMPUTE;
}

/* Data that only the kernels of one device touch needs no order but that of its
 * queue: a task that has no other is over for those that follow it as soon as it
 * is launched. */
static void find_ahead(struct dsflow_exec *exec)
{
    uint32_t n = dsflow_graph_ntasks(exec->graph);
    bool *shared =
        dsf_xcalloc((size_t)dsflow_graph_ndata(exec->graph) + 1, 1);

    for (uint32_t i = 0; i < n; i++) {
        const struct dsf_exec_call *call = &exec->calls[i];

        for (unsigned p = 0; p < call->task->ndata; p++) {
            uint32_t data = call->task->data[p].i;

            if (call->by != DSF_BY_DEVICE || call->queue != DSF_QUEUE_COMPUTE ||
                exec->on[data] != call->device)
                shared[data] = true;
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        struct dsf_exec_call *call = &exec->calls[i];

        call->ahead =
            call->by == DSF_BY_DEVICE && call->queue == DSF_QUEUE_COMPUTE;
        for (unsigned p = 0; p < call->task->ndata && call->ahead; p++)
            call->ahead = !shared[call->task->data[p].i];
    }
    free(shared);
}

/* Main memory that devices copy or reach, to be pinned. */
static void find_pinned(struct dsflow_exec *exec)
{
    exec->pinned =
        dsf_xcalloc((size_t)dsflow_graph_ndata(exec->graph) + 1, 1);
    for (uint32_t i = 0; i < dsflow_graph_ntasks(exec->graph); i++) {
        const struct dsf_exec_call *call = &exec->calls[i];

        for (unsigned p = 0;
             call->by == DSF_BY_DEVICE && p < call->task->ndata; p++)
            exec->pinned[call->task->data[p].i] =
                exec->on[call->task->data[p].i] == NULL;
    }
}

void dsf_exec_place(struct dsflow_exec *exec)
{
    place_data(exec);
    for (uint32_t i = 0; i < dsflow_graph_ntasks(exec->graph); i++)
        place_task(&exec->calls[i]);
    find_ahead(exec);
    find_pinned(exec);
}
