/* exec_waiting.c - what was submitted and has not ended. */
#include "exec/exec_waiting.h"

#include "codelets/messages.h"
#include "exec/exec_private.h"
#include "exec/spread_private.h"

static uint32_t runs_of(const struct dsflow_exec *exec, uint32_t task)
{
    return atomic_load_explicit(&exec->runs[task], memory_order_relaxed);
}

uint64_t dsf_exec_ended(const struct dsflow_exec *exec)
{
    if (exec->spread != NULL)
        return dsf_exec_ended(exec->spread->own);

    uint64_t n = atomic_load_explicit(&exec->disk.tasks, memory_order_relaxed) +
                 atomic_load_explicit(&exec->copied, memory_order_relaxed) +
                 atomic_load_explicit(&exec->wired.tasks, memory_order_relaxed);

    for (unsigned w = 0; w < exec->nworkers; w++)
        n +=
            atomic_load_explicit(&exec->workers[w].tasks, memory_order_relaxed);
    return n;
}

struct dsf_exec_now dsf_exec_look(struct dsflow_exec *exec)
{
    struct dsf_exec_now now = { .ended = dsf_exec_ended(exec) };
    uint32_t task;

    if (exec->spread != NULL)
        return dsf_exec_look(exec->spread->own);
    for (unsigned w = 0; w < exec->nworkers && now.runs == NULL; w++) {
        task =
            atomic_load_explicit(&exec->workers[w].runs, memory_order_relaxed);
        if (task > 0)
            now.runs = exec->calls[task - 1].task;
    }
    if (dsf_exec_wire_awaits(exec, &task, &now.from, &now.since))
        now.awaits = exec->calls[task].task;
    return now;
}

static uint32_t other_end(const struct dsflow_task_spec *t)
{
    struct dsf_part_message v[DSF_MOST_MESSAGES];
    bool out;

    dsf_messages(t, v, &out);
    return (uint32_t)v[0].process;
}

/* All runs of a program before the one that is behind most are complete: what a
 * task of it waits for is of the same run. */
static struct dsf_waiting find_reason(struct dsflow_exec *exec, uint32_t task,
                                      uint32_t run)
{
    const dsflow_task_id *preds;
    uint32_t n;

    for (unsigned w = 0; w < exec->nworkers; w++)
        if (atomic_load_explicit(&exec->workers[w].runs,
                                 memory_order_relaxed) == task + 1)
            return (struct dsf_waiting){ task, DSF_WAITING_END, w };
    n = dsflow_graph_preds(exec->graph, (dsflow_task_id){ task }, &preds);
    for (uint32_t i = 0; i < n; i++)
        if (runs_of(exec, preds[i].i) <= run)
            return (struct dsf_waiting){ task, DSF_WAITING_TASK, preds[i].i };
    switch (exec->calls[task].by) {
    case DSF_BY_DISK:
        return (struct dsf_waiting){ task, DSF_WAITING_DISK, 0 };
    case DSF_BY_DEVICE:
        return (struct dsf_waiting){ task, DSF_WAITING_DEVICE,
                                     exec->calls[task].device->index };
    case DSF_BY_WIRE:
        return (struct dsf_waiting){ task, DSF_WAITING_PROCESS,
                                     other_end(exec->calls[task].task) };
    default:
        return (struct dsf_waiting){ task, DSF_WAITING_WORKER, 0 };
    }
}

/* Behind those that wait for no other task, or in front of those that do. */
static void list(struct dsf_waiting *v, unsigned most, unsigned *n,
                 const struct dsf_waiting *one)
{
    unsigned at = *n;

    if (one->what != DSF_WAITING_TASK)
        while (at > 0 && v[at - 1].what == DSF_WAITING_TASK)
            at--;
    if (at == most)
        return;
    *n += *n < most;
    for (unsigned i = *n - 1; i > at; i--)
        v[i] = v[i - 1];
    v[at] = *one;
}

static uint32_t waiting_of(struct dsflow_exec *exec, dsflow_program program,
                           uint32_t *run, struct dsf_waiting *v, unsigned most,
                           unsigned *n)
{
    uint32_t submitted = exec->submitted[program], waiting = 0, first, last;

    last = dsflow_graph_program_tasks(exec->graph, program, &first);
    last += first;
    *run = submitted;
    for (uint32_t i = first; i < last; i++)
        if (runs_of(exec, i) < *run)
            *run = runs_of(exec, i);
    for (uint32_t i = first; i < last && *run < submitted; i++)
        if (runs_of(exec, i) == *run) {
            struct dsf_waiting one = find_reason(exec, i, *run);

            list(v, most, n, &one);
            waiting++;
        }
    return waiting;
}

/* Of the tasks of the graph, which may not have all that messages are for. */
static uint32_t waiting_of_own(const struct dsf_spread *s,
                               dsflow_program *program, uint32_t *run,
                               struct dsf_waiting *v, unsigned most,
                               unsigned *n)
{
    uint32_t waiting = dsf_exec_waiting(s->own, program, run, v, most, n);
    unsigned known = 0;

    for (unsigned i = 0; i < *n; i++) {
        struct dsf_waiting one = v[i];

        one.task = s->part->tasks[one.task];
        if (one.what == DSF_WAITING_TASK)
            one.on = s->part->tasks[one.on];
        if (one.task != DSF_NOT_IN_PART && one.on != DSF_NOT_IN_PART)
            v[known++] = one;
    }
    *n = known;
    return waiting;
}

uint32_t dsf_exec_waiting(struct dsflow_exec *exec, dsflow_program *program,
                          uint32_t *run, struct dsf_waiting *v, unsigned most,
                          unsigned *n)
{
    unsigned nprograms = dsflow_graph_nprograms(exec->graph);
    uint32_t waiting = 0;

    if (exec->spread != NULL)
        return waiting_of_own(exec->spread, program, run, v, most, n);
    *n = 0;
    for (unsigned p = 0; p < nprograms && waiting == 0; p++) {
        *program = (dsflow_program)p;
        waiting = waiting_of(exec, *program, run, v, most, n);
    }
    return waiting;
}
