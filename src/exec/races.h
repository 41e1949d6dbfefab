/* races.h - the order of tasks, as ThreadSanitizer is told of it. StarPU keeps
 * it, and is not built with ThreadSanitizer, which sees no reason then why a
 * task may read what another one wrote. It is told so of the data that the
 * tasks have in common, by their access, and of nothing else: what a task does
 * beyond its ports is found. Without -fsanitize=thread all of this is nothing.
 */
#ifndef DSF_EXEC_RACES_H
#define DSF_EXEC_RACES_H

#include "exec/exec_private.h"

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
enum { DSF_RACES = 1 };
#else
enum { DSF_RACES = 0 };
#define __tsan_acquire(at) ((void)(at))
#define __tsan_release(at) ((void)(at))
#endif

/* Two places stand for a datum: one for those that wrote it, one for those that
 * read it. */
static inline void *dsf_races_place(const struct dsf_exec_call *call,
                                    unsigned p, bool written)
{
    uint32_t data = call->task->data[p].i;

    return written ? (void *)&call->exec->mem[data]
                   : (void *)&call->exec->on[data];
}

static inline bool dsf_races_writes(const struct dsf_exec_call *call,
                                    unsigned p)
{
    return dsflow_task_access(call->task, p) & DSFLOW_W;
}

/* What was done for a task so far, as before it was submitted, is seen by who
 * begins it. */
static inline void dsf_races_hand_over(const struct dsf_exec_call *call)
{
    __tsan_release((void *)(uintptr_t)call);
}

/* And so is all that it waited for. */
static inline void dsf_races_begin(const struct dsf_exec_call *call)
{
    __tsan_acquire((void *)(uintptr_t)call);
    for (unsigned p = 0; DSF_RACES && p < call->task->ndata; p++) {
        __tsan_acquire(dsf_races_place(call, p, true));
        if (dsf_races_writes(call, p))
            __tsan_acquire(dsf_races_place(call, p, false));
    }
}

static inline void dsf_races_end(const struct dsf_exec_call *call)
{
    for (unsigned p = 0; DSF_RACES && p < call->task->ndata; p++)
        __tsan_release(dsf_races_place(call, p, dsf_races_writes(call, p)));
}

/* Who waited for all tasks has seen what all of them did. */
static inline void dsf_races_wait(const struct dsflow_exec *exec)
{
    uint32_t n = DSF_RACES ? dsflow_graph_ntasks(exec->graph) : 0;

    for (uint32_t i = 0; i < n; i++)
        for (unsigned p = 0; p < exec->calls[i].task->ndata; p++) {
            __tsan_acquire(dsf_races_place(&exec->calls[i], p, true));
            __tsan_acquire(dsf_races_place(&exec->calls[i], p, false));
        }
}

#endif
