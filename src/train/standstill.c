/* standstill.c - a run in which no task ends any more. */
#include "train/standstill.h"

#include "base/log.h"
#include "base/units.h"
#include "exec/exec_waiting.h"

#include <math.h>
#include <stdio.h>

double dsf_standstill_patience(double seconds)
{
    static const double LEAST = 30, UNKNOWN = 120, STEPS = 20;

    return seconds > 0 ? fmax(LEAST, STEPS * seconds) : UNKNOWN;
}

void dsf_standstill_init(struct dsf_standstill *s, double patience)
{
    *s = (struct dsf_standstill){ .patience = patience, .next = patience };
}

bool dsf_standstill_look(struct dsf_standstill *s,
                         const struct dsflow_exec *exec, double now)
{
    uint64_t ended = dsf_exec_ended(exec);
    double since = s->looked > 0 ? now - s->looked : 0;

    s->looked = now;
    if (ended != s->ended) {
        s->ended = ended;
        s->silent = 0;
        s->next = s->patience;
        return false;
    }
    s->silent += fmin(since, 2);
    if (s->silent < s->next)
        return false;
    s->next = 2 * s->silent;
    return true;
}

/* "mlp.forward (task 31, layer 3, rank 1)" */
struct name {
    char s[160];
};

static struct name name_of(const struct dsflow_graph *graph, uint32_t task)
{
    const struct dsflow_task_spec *t =
        dsflow_graph_task(graph, (dsflow_task_id){ task });
    struct name name;
    int n = snprintf(name.s, sizeof(name.s), "%.60s (task %u", t->op->name,
                     (unsigned)task);

    if (t->layer >= 0)
        n += snprintf(name.s + n, sizeof(name.s) - (size_t)n, ", layer %d",
                      t->layer);
    if (t->rank >= 0)
        n += snprintf(name.s + n, sizeof(name.s) - (size_t)n, ", rank %d",
                      t->rank);
    snprintf(name.s + n, sizeof(name.s) - (size_t)n, ")");
    return name;
}

static void say_one(const struct dsflow_graph *graph,
                    const struct dsf_waiting *w)
{
    struct name name = name_of(graph, w->task);

    switch (w->what) {
    case DSF_WAITING_END:
        dsf_warn("%s runs on worker %u", name.s, (unsigned)w->on);
        break;
    case DSF_WAITING_DISK:
        dsf_warn("%s waits for the disk", name.s);
        break;
    case DSF_WAITING_DEVICE:
        dsf_warn("%s waits for device %u, or runs there", name.s,
                 (unsigned)w->on);
        break;
    case DSF_WAITING_PROCESS:
        dsf_warn("%s waits for process %u", name.s, (unsigned)w->on);
        break;
    case DSF_WAITING_WORKER:
        dsf_warn("%s is ready, and no worker has taken it", name.s);
        break;
    case DSF_WAITING_TASK:
        dsf_warn("%s waits for %s", name.s, name_of(graph, w->on).s);
        break;
    }
}

void dsf_standstill_say(const struct dsf_standstill *s,
                        const struct dsflow_graph *graph,
                        struct dsflow_exec *exec)
{
    enum { SOME = 6 };
    struct dsf_waiting some[SOME];
    dsflow_program program;
    uint32_t run, waiting;
    unsigned n;

    waiting = dsf_exec_waiting(exec, &program, &run, some, SOME, &n);
    if (waiting == 0)
        return;
    dsf_warn("no task has ended for %s: %u tasks of the program %s still "
             "have to (Ctrl-C twice ends the run)",
             dsf_time_text(s->silent).s, (unsigned)waiting,
             dsflow_graph_program(graph, program));
    for (unsigned i = 0; i < n; i++)
        say_one(graph, &some[i]);
    if (waiting > n)
        dsf_warn("… and %u more", (unsigned)(waiting - n));
}
