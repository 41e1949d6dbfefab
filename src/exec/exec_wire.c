/* exec_wire.c - tasks that are messages to and from other processes. */
#include "exec/exec_direct.h"

#include "base/alloc.h"
#include "base/awaited.h"
#include "base/units.h"
#include "codelets/messages.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The messages of one task: it has ended when all have. */
struct dsf_posting {
    const struct dsf_exec_call *call;
    dsf_ended_fn ended;
    void *user;
    double since; /* of dsf_now */
    struct dsf_posting *before, *behind;
    unsigned n;
    _Atomic unsigned left;
    struct dsf_message messages[DSF_MOST_MESSAGES];
};

int dsf_exec_wire_check(const struct dsflow_exec *exec, struct dsflow_err *err)
{
    for (uint32_t i = 0; i < dsflow_graph_ntasks(exec->graph); i++) {
        const struct dsf_exec_call *call = &exec->calls[i];

        if (!dsf_is_message(call->task->op))
            continue;
        if (exec->wire == NULL)
            return dsflow_fail(err, DSFLOW_ENOSYS,
                               "task %s: no other process can be reached",
                               call->task->op->name);
        if (exec->on[call->task->data[0].i] != NULL &&
            !dsf_is_direct(call->task))
            return dsflow_fail(
                err, DSFLOW_ENOSYS,
                "task %s: %s is on a device: messages are of "
                "main memory",
                call->task->op->name,
                dsflow_graph_data(exec->graph, call->task->data[0])->name);
    }
    return DSFLOW_OK;
}

static bool is_between(const struct dsf_posting *p)
{
    const struct dsf_wire *wire = p->call->exec->wire;

    return !dsf_wire_is_near(wire, wire->process, p->messages[0].process);
}

/* Note the task: from the first byte that was under way to the last. */
static void note(const struct dsf_posting *p)
{
    struct dsflow_exec *exec = p->call->exec;
    struct dsf_exec_wire *w = &exec->wired;
    uint32_t task = (uint32_t)(p->call - exec->calls);
    bool out = p->messages[0].out;
    double start = INFINITY, end = 0;
    uint64_t unsent = 0;

    for (unsigned i = 0; i < p->n; i++) {
        unsent += p->messages[i].unsent;
        start = fmin(start, p->messages[i].start - exec->opened);
        end = fmax(end, p->messages[i].end - exec->opened);
    }
    pthread_mutex_lock(&w->lock);
    start = fmax(start, w->until[out]);
    end = fmax(end, start);
    w->until[out] = end;
    w->tasks++;
    dsf_exec_note(
        exec, exec->nworkers + DSF_RING_WIRE,
        &(struct dsf_span){ .start = start,
                            .end = end,
                            .unsent = unsent,
                            .what = task,
                            .step = dsf_exec_count_run(exec, task),
                            .lane = (uint16_t)(w->lane + out),
                            .rank = p->call->task->rank,
                            .kind = DSF_SPAN_TASK,
                            .out = out,
                            .between = is_between(p),
                            .program = (uint8_t)p->call->task->program });
    pthread_mutex_unlock(&w->lock);
}

/* What is to come is known, oldest first, to who asks what is waited for. */
static void remember(struct dsf_posting *p)
{
    struct dsf_exec_wire *w = &p->call->exec->wired;

    p->since = dsf_now();
    pthread_mutex_lock(&w->lock);
    p->before = w->last;
    if (w->last != NULL)
        w->last->behind = p;
    else
        w->first = p;
    w->last = p;
    pthread_mutex_unlock(&w->lock);
}

static void forget(struct dsf_posting *p)
{
    struct dsf_exec_wire *w = &p->call->exec->wired;

    pthread_mutex_lock(&w->lock);
    if (p->before != NULL)
        p->before->behind = p->behind;
    else
        w->first = p->behind;
    if (p->behind != NULL)
        p->behind->before = p->before;
    else
        w->last = p->before;
    pthread_mutex_unlock(&w->lock);
}

bool dsf_exec_wire_awaits(struct dsflow_exec *exec, uint32_t *task,
                          int32_t *from, double *since)
{
    struct dsf_exec_wire *w = &exec->wired;
    const struct dsf_posting *p;

    if (exec->wire == NULL)
        return false;
    pthread_mutex_lock(&w->lock);
    p = w->first;
    if (p != NULL) {
        *task = (uint32_t)(p->call - exec->calls);
        *from = p->messages[0].process;
        *since = p->since;
    }
    pthread_mutex_unlock(&w->lock);
    return p != NULL;
}

static void done(struct dsf_message *m)
{
    struct dsf_posting *p = m->user;

    if (m->status < 0)
        dsf_exec_fail(p->call->exec, &m->err);
    if (atomic_fetch_sub(&p->left, 1) > 1)
        return;
    note(p);
    if (!m->out)
        forget(p);
    p->ended(p->user);
    free(p);
}

/* Bytes at the end of a message that goes out which are of no row. */
static size_t unsent_of(const struct dsf_part_message *part, const void *memory)
{
    const int64_t room = part->elems - (int64_t)sizeof(int64_t);
    int64_t rows;

    if (part->row == 0)
        return 0;
    memcpy(&rows, memory, sizeof(rows));
    if (rows < 0) /* too many: none counts */
        rows = 0;
    return rows < room / part->row ? (size_t)(room - rows * part->row) : 0;
}

void dsf_exec_wire_begin(const struct dsf_exec_call *call, dsf_ended_fn ended,
                         void *user)
{
    struct dsflow_exec *exec = call->exec;
    const struct dsflow_task_spec *t = call->task;
    const struct dsflow_data_spec *d =
        dsflow_graph_data(exec->graph, t->data[0]);
    const struct dsf_device *device = exec->on[t->data[0].i];
    enum dsflow_dtype dtype = (enum dsflow_dtype)d->dtype;
    struct dsf_part_message parts[DSF_MOST_MESSAGES];
    struct dsf_posting *p;
    unsigned n;
    bool out;

    n = dsf_messages(t, parts, &out);
    p = dsf_xcalloc(1, sizeof(*p));
    p->call = call;
    p->ended = ended;
    p->user = user;
    p->n = n;
    atomic_init(&p->left, n);
    for (unsigned i = 0; i < n; i++) {
        char *memory = (char *)exec->mem[t->data[0].i] +
                       dsflow_dtype_bytes(dtype, parts[i].at);

        p->messages[i] = (struct dsf_message){
            .memory = memory,
            .unsent = out ? unsent_of(&parts[i], memory) : 0,
            .bytes = dsflow_dtype_bytes(dtype, parts[i].elems),
            .process = parts[i].process,
            .tag = parts[i].tag,
            .out = out,
            .done = done,
            .user = p,
        };
    }
    if (!out)
        remember(p);
    /* The last one that ends frees them. */
    for (unsigned i = 0; i < n; i++)
        if (device != NULL)
            dsf_direct_post(exec, device, parts[i].rank, &p->messages[i]);
        else
            exec->wire->post(exec->wire, &p->messages[i]);
}

static void wake(void *user)
{
    dsf_awaited_end(user);
}

void dsf_exec_wire_run(const struct dsf_exec_call *call)
{
    struct dsf_awaited end = DSF_AWAITED;

    dsf_exec_wire_begin(call, wake, &end);
    dsf_awaited_wait(&end);
}

void dsf_exec_wire_lanes(const struct dsflow_exec *exec,
                         struct dsf_timeline *timeline)
{
    if (exec->wire == NULL)
        return;
    dsf_timeline_add_lane(timeline, DSF_LANE_LINK, DSFLOW_ANYWHERE,
                          "from processes");
    dsf_timeline_add_lane(timeline, DSF_LANE_LINK, DSFLOW_ANYWHERE,
                          "to processes");
}
