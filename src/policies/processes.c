/* processes.c - the part of a graph that one of several processes runs.
 *
 * Tasks that move data between ranks are the only ones that read what another
 * rank has (policy `send`). What one of them reads of another process is a
 * message: `transmit` there, a `receive` here (process_messages.c).
 */
#include "policies/process_private.h"

#include "base/alloc.h"
#include "policies/policies.h"
#include "policies/processes.h"
#include "tasks/tasks.h"

#include <dsflow/rewrite.h>

#include <stdbool.h>
#include <stdlib.h>

/* Of what others have between them it may not have been told all. */
static bool concerns(const struct apart *a, const struct dsflow_task_spec *t,
                     unsigned i, int32_t process)
{
    return process == a->own || dsf_apart_home(a, t, i) == a->own;
}

static int check(const struct apart *a, const struct dsflow_task_spec *t,
                 struct dsflow_err *err)
{
    int32_t process = t->rank < 0 ? -1 : dsf_process_of(a->all, t->rank);

    if (process < 0)
        return dsflow_fail(err, DSFLOW_ENOSYS,
                           "task %s has no rank: expected one where there are "
                           "several processes",
                           t->op->name);
    for (unsigned i = 0; i < t->ndata; i++)
        if (dsf_apart_data(a, t, i)->home < 0 ||
            (dsf_apart_home(a, t, i) != process && concerns(a, t, i, process) &&
             (dsflow_task_access(t, i) != DSFLOW_R || !t->op->comm)))
            return dsflow_fail(err, DSFLOW_ENOSYS,
                               "task %s of rank %d: %s is in another process: "
                               "expected that only tasks that move data read "
                               "there, and none writes",
                               t->op->name, t->rank,
                               dsf_apart_data(a, t, i)->name);
    return DSFLOW_OK;
}

/* Find the messages of the task, number those that go from here or come here,
 * and send the first; returns how many there are. */
static unsigned find_messages(struct apart *a, const struct dsflow_task_spec *t,
                              int32_t to)
{
    unsigned n = 0;

    dsf_grow(&a->from, &a->cap_from, t->ndata, sizeof(*a->from));
    dsf_grow(&a->tags, &a->cap_tags, t->ndata, sizeof(*a->tags));
    for (unsigned i = 0; i < t->ndata; i++) {
        int32_t from = dsf_apart_home(a, t, i);

        a->from[i] = from == to ? -1 : from;
        if (from == to)
            continue;
        n++;
        if (to == a->own)
            dsf_apart_expect(a, t, i);
        if (from == a->own)
            dsf_apart_send(a, t, i);
    }
    return n;
}

/* Each has a tag. */
static int check_tags(const struct apart *a, struct dsflow_err *err)
{
    for (int32_t p = 0; p < a->all->n; p++)
        if (a->sent[p] > DSF_GRAPH_TAGS || a->got[p] > DSF_GRAPH_TAGS)
            return dsflow_fail(err, DSFLOW_EFIT,
                               "mesh: %u messages of a step between processes "
                               "%d and %d: expected at most %u: more processes "
                               "have less between two",
                               a->sent[p] > a->got[p] ? a->sent[p] : a->got[p],
                               (int)a->own, (int)p, DSF_GRAPH_TAGS);
    return DSFLOW_OK;
}

static bool is_own(const struct apart *a, const struct dsflow_task_spec *t)
{
    return dsf_process_of(a->all, t->rank) == a->own;
}

static void note_written(struct apart *a, const struct dsflow_task_spec *t)
{
    for (unsigned i = 0; i < t->ndata; i++)
        a->written[t->data[i].i] += (dsflow_task_access(t, i) & DSFLOW_W) != 0;
}

static int take(struct apart *a, const struct dsflow_task_spec *t,
                struct dsflow_err *err)
{
    int status = check(a, t, err);
    int32_t to;
    unsigned n;

    if (status < 0)
        return status;
    to = dsf_process_of(a->all, t->rank);
    n = find_messages(a, t, to);
    if (to != a->own)
        return DSFLOW_OK;
    if (n == 0)
        dsflow_rewrite_task(&a->rw, t);
    else
        dsf_apart_take(a, t);
    note_written(a, t);
    return DSFLOW_OK;
}

/* What no task of the process touches, but the program around it may. */
static void add_persistent(struct apart *a)
{
    const struct dsflow_data_spec *d;

    for (uint32_t i = 0; (d = dsf_nth_data(a->rw.in, i)) != NULL; i++)
        if (d->persistent && dsf_process_of(a->all, d->home) == a->own)
            dsflow_rewrite_data(&a->rw, (dsflow_data_id){ i });
}

/* Of the tasks of the part that there are for one of the whole graph, the last
 * one is that, where this process has it. The others carry something for it:
 * what goes out, or what comes, which in the whole graph is what it is made
 * into. */
static void find_moved(const struct apart *a, struct dsf_graph_part *part)
{
    const uint32_t n = dsflow_graph_ntasks(part->graph);

    part->moved = dsf_xcalloc((size_t)n + 1, sizeof(*part->moved));
    part->to = dsf_xcalloc((size_t)n + 1, sizeof(*part->to));
    for (uint32_t i = 0; i < n; i++) {
        const struct dsflow_task_spec *t = dsf_nth_task(part->graph, i);
        const uint32_t of = part->tasks[i];
        const bool last = i + 1 == n || part->tasks[i + 1] != of;
        dsflow_data_id in;

        part->moved[i] =
            part->nth[i] == DSF_NOT_IN_PART ? a->carried[i] : DSF_NOT_IN_PART;
        part->to[i] = t->op == &dsf_op_transmit
                          ? dsf_nth_task(a->rw.in, of)->rank
                          : DSFLOW_ANYWHERE;
        if (last || part->nth[i] == DSF_NOT_IN_PART)
            continue;
        if (!dsflow_graph_find(
                a->rw.in, dsf_nth_data(part->graph, t->data[0].i)->name, &in)) {
            const struct dsflow_task_spec *is = dsf_nth_task(a->rw.in, of);

            in = is->data[dsf_task_makes(is)];
        }
        part->moved[i] = a->rw.copy[in.i].i;
    }
}

static void find_data(const struct apart *a, struct dsf_graph_part *part)
{
    uint32_t n = dsflow_graph_ndata(a->rw.in);

    part->data = dsf_xcalloc((size_t)n + 1, sizeof(*part->data));
    part->process = dsf_xcalloc((size_t)n + 1, sizeof(*part->process));
    for (uint32_t i = 0; i < n; i++) {
        part->data[i] = a->rw.copied[i] ? a->rw.copy[i].i : DSF_NOT_IN_PART;
        part->process[i] =
            dsf_process_of(a->all, dsf_nth_data(a->rw.in, i)->home);
    }
}

int dsf_process_part(const struct dsf_processes *all, int32_t p,
                     struct dsflow_graph *whole, struct dsf_graph_part *part,
                     struct dsflow_err *err)
{
    struct dsflow_graph *out = dsflow_graph_new();
    struct apart a = { .all = all,
                       .own = p,
                       .rw = dsflow_rewrite_begin(whole, out),
                       .sent = dsf_xcalloc((size_t)all->n, sizeof(*a.sent)),
                       .got = dsf_xcalloc((size_t)all->n, sizeof(*a.got)),
                       .out = dsf_xcalloc((size_t)all->n, sizeof(*a.out)),
                       .in = dsf_xcalloc((size_t)all->n, sizeof(*a.in)),
                       .written =
                           dsf_xcalloc((size_t)dsflow_graph_ndata(whole) + 1,
                                       sizeof(*a.written)) };
    const struct dsflow_task_spec *t;
    int status = DSFLOW_OK;
    size_t cap = 0, cap_nth = 0;
    uint32_t own = 0;

    *part = (struct dsf_graph_part){ .graph = out, .out = a.out, .in = a.in };
    for (uint32_t i = 0;
         status == DSFLOW_OK && (t = dsf_nth_task(whole, i)) != NULL; i++) {
        uint32_t before = dsflow_graph_ntasks(out), n;

        status = take(&a, t, err);
        n = dsflow_graph_ntasks(out);
        dsf_grow(&part->tasks, &cap, (size_t)n + 1, sizeof(*part->tasks));
        dsf_grow(&part->nth, &cap_nth, (size_t)n + 1, sizeof(*part->nth));
        for (bool here = status == DSFLOW_OK && is_own(&a, t); before < n;
             before++) {
            part->tasks[before] = i;
            part->nth[before] = here ? own : DSF_NOT_IN_PART;
        }
        own += status == DSFLOW_OK && is_own(&a, t);
    }
    if (status == DSFLOW_OK)
        status = check_tags(&a, err);
    if (status == DSFLOW_OK) {
        add_persistent(&a);
        find_data(&a, part);
        find_moved(&a, part);
        dsf_process_tasks(all, whole, part);
    }
    free(a.sent);
    free(a.got);
    free(a.written);
    free(a.carried);
    dsf_process_buffers_fini(&a.buffers);
    free(a.from);
    free(a.tags);
    free(a.ports);
    dsflow_rewrite_end(&a.rw);
    if (status == DSFLOW_OK)
        status = dsflow_graph_check(out, err);
    if (status < 0)
        dsf_graph_part_free(part);
    return status;
}

int dsf_process_build_from(const struct dsf_processes *all, int32_t p,
                           const struct dsf_asked_graph *asked,
                           struct dsf_graph_part *part, struct dsflow_err *err)
{
    int status = dsf_process_part(all, p, asked->graph, part, err);

    part->plain = asked->plain;
    part->alone = !asked->is_whole;
    return status;
}
