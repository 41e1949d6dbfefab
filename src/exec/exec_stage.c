/* exec_stage.c - data of devices for who works in main memory: a task goes
 * through a buffer there that devices reach. There are a few of them, each as
 * large as the largest such task: what waits for a core or a disk takes no more
 * memory than that. Who has one waits for a core or a disk and for no other
 * buffer, so any number of them would do. */
#include "exec/races.h"

#include "base/alloc.h"
#include "codelets/call.h"
#include "tasks/portion.h"

#include <stdlib.h>

enum { PAGE = 4096, LEAST_BUFFERS = 4, ENOUGH = 1 << 30 };

static size_t in_pages(size_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

static struct dsf_portion part_of(const struct dsf_exec_call *call, unsigned p)
{
    return dsf_portion_of(call->exec->graph, call->task, p);
}

/* A transfer of a disk is of all. */
static size_t room_for(const struct dsf_exec_call *call, unsigned p)
{
    return in_pages(call->by == DSF_BY_DISK
                        ? dsf_exec_size(call->exec, call->task->data[p].i)
                        : part_of(call, p).bytes);
}

/* Bytes that the task has to do with of data that is on devices. */
static size_t staged_bytes(const struct dsf_exec_call *call)
{
    size_t bytes = 0;

    for (unsigned p = 0; p < call->task->ndata; p++)
        if (call->exec->on[call->task->data[p].i] != NULL)
            bytes += room_for(call, p);
    return bytes;
}

size_t dsf_exec_stage_each(const struct dsflow_exec *exec)
{
    size_t most = 0;

    for (uint32_t i = 0; i < dsflow_graph_ntasks(exec->graph); i++)
        if (exec->calls[i].staged && staged_bytes(&exec->calls[i]) > most)
            most = staged_bytes(&exec->calls[i]);
    return most;
}

/* While one is filled and one is emptied, cores or disks have the others: one
 * for each core, if they are not large. */
unsigned dsf_exec_stage_count(size_t each, unsigned cores)
{
    const size_t enough = each > 0 ? ENOUGH / each : 0;
    const unsigned most = LEAST_BUFFERS + cores;

    if (enough <= LEAST_BUFFERS)
        return LEAST_BUFFERS;
    return enough < most ? (unsigned)enough : most;
}

int dsf_exec_stage_open(struct dsflow_exec *exec, struct dsflow_err *err)
{
    struct dsf_stage *s = &exec->stage;
    int status;

    pthread_mutex_init(&s->lock, NULL);
    s->last = &s->first;
    s->each = dsf_exec_stage_each(exec);
    if (s->each == 0)
        return DSFLOW_OK;
    s->n = dsf_exec_stage_count(s->each, exec->nworkers - exec->ndevices);
    s->taken = dsf_xcalloc(s->n, sizeof(*s->taken));
    s->bytes = s->n * s->each;
    status = dsf_exec_take(exec->cpu, &s->bytes,
                           "what goes between devices and cores", &s->at, err);
    for (unsigned i = 0; i < exec->ndevices && status == DSFLOW_OK; i++)
        status = exec->devices[i].class->pin(&exec->devices[i], s->at, s->bytes,
                                             err);
    return status;
}

void dsf_exec_stage_close(struct dsflow_exec *exec)
{
    struct dsf_stage *s = &exec->stage;

    if (s->last == NULL)
        return;
    for (unsigned i = 0; i < exec->ndevices && s->at != NULL; i++)
        exec->devices[i].class->unpin(&exec->devices[i], s->at, s->bytes);
    exec->cpu->class->release(exec->cpu, s->at, s->bytes);
    free(s->taken);
    pthread_mutex_destroy(&s->lock);
}

/* The first that is free: those behind it may never be touched. */
static void *find_free(struct dsf_stage *s)
{
    for (unsigned i = 0; i < s->n; i++)
        if (!s->taken[i]) {
            s->taken[i] = true;
            return (char *)s->at + i * s->each;
        }
    return NULL;
}

void dsf_exec_stage_take(struct dsflow_exec *exec, struct dsf_stage_wait *wait)
{
    struct dsf_stage *s = &exec->stage;
    void *buffer;

    wait->next = NULL;
    pthread_mutex_lock(&s->lock);
    buffer = wait->buffer = find_free(s);
    if (buffer == NULL) {
        *s->last = wait;
        s->last = &wait->next;
    }
    pthread_mutex_unlock(&s->lock);
    if (buffer != NULL)
        wait->got(wait);
}

void dsf_exec_stage_give(struct dsflow_exec *exec, void *buffer)
{
    struct dsf_stage *s = &exec->stage;
    struct dsf_stage_wait *next;

    pthread_mutex_lock(&s->lock);
    next = s->first;
    if (next == NULL)
        s->taken[(size_t)((char *)buffer - (char *)s->at) / s->each] = false;
    else if ((s->first = next->next) == NULL)
        s->last = &s->first;
    pthread_mutex_unlock(&s->lock);
    if (next != NULL) {
        next->buffer = buffer;
        next->got(next);
    }
}

/* --- tasks of cores ------------------------------------------------------- */

struct dsf_staged {
    struct dsf_stage_wait wait;
    const struct dsf_exec_call *call;
    dsf_ended_fn ended;
    void *user;
    _Atomic unsigned left; /* copies under way, and 1 for who starts them */
    bool skipped;          /* it has written nothing */
};

struct dsf_staged *dsf_exec_staged_new(const struct dsf_exec_call *call)
{
    struct dsf_staged *s = dsf_xcalloc(1, sizeof(*s));

    s->call = call;
    return s;
}

const struct dsf_exec_call *dsf_exec_staged_call(const struct dsf_staged *s)
{
    return s->call;
}

/* Where what a core has of port `p`, which is on a device, is in the buffer. */
static char *near(const struct dsf_staged *s, unsigned p)
{
    const struct dsflow_exec *exec = s->call->exec;
    char *at = s->wait.buffer;

    for (unsigned i = 0; i < p; i++)
        if (exec->on[s->call->task->data[i].i] != NULL)
            at += room_for(s->call, i);
    return at;
}

static void end_one(void *user)
{
    struct dsf_staged *s = user;

    if (atomic_fetch_sub(&s->left, 1) == 1) {
        dsf_races_hand_over(s->call);
        s->ended(s->user);
    }
}

/* Copy what the task has of devices. */
static void carry(struct dsf_staged *s, bool in)
{
    struct dsflow_exec *exec = s->call->exec;
    const struct dsflow_task_spec *t = s->call->task;

    atomic_store(&s->left, 1);
    for (unsigned p = 0; p < t->ndata; p++) {
        const struct dsf_portion part = part_of(s->call, p);

        if (exec->on[t->data[p].i] == NULL ||
            !(in ? part.taken_back && !s->skipped : part.brought))
            continue;
        atomic_fetch_add(&s->left, 1);
        dsf_exec_copy(exec, t->data[p].i, part.at, part.bytes, near(s, p), in,
                      end_one, s);
    }
    end_one(s);
}

static void fetch(struct dsf_stage_wait *wait)
{
    carry((struct dsf_staged *)wait, false);
}

void dsf_exec_staged_fetch(struct dsf_staged *s, dsf_ended_fn ended, void *user)
{
    s->ended = ended;
    s->user = user;
    s->wait.got = fetch;
    dsf_races_begin(s->call);
    dsf_exec_stage_take(s->call->exec, &s->wait);
}

/* The codelet finds a part where it is in the data. */
static void *begin_of(const struct dsf_staged *s, unsigned p)
{
    const struct dsflow_exec *exec = s->call->exec;
    const uint32_t data = s->call->task->data[p].i;

    return exec->on[data] == NULL
               ? exec->mem[data]
               : (void *)((uintptr_t)near(s, p) - part_of(s->call, p).at);
}

void dsf_exec_staged_run(struct dsf_staged *s, unsigned w)
{
    struct dsflow_buf *bufs = s->call->exec->workers[w].bufs;
    const int64_t *skip;

    dsf_races_begin(s->call);
    for (unsigned p = 0; p < s->call->task->ndata; p++)
        bufs[p] = dsf_exec_buf(s->call, p, begin_of(s, p));
    skip = dsf_skip_of(s->call->task, bufs);
    s->skipped = skip != NULL && *skip != 0;
    dsf_exec_run(s->call, bufs, w);
}

struct returned {
    struct dsf_staged *s;
    dsf_ended_fn ended;
    void *user;
};

static void end_return(void *user)
{
    struct returned *r = user;
    struct dsflow_exec *exec = r->s->call->exec;
    struct returned copy = *r;

    dsf_races_end(r->s->call);
    dsf_exec_stage_give(exec, r->s->wait.buffer);
    free(r->s);
    free(r);
    copy.ended(copy.user);
}

void dsf_exec_staged_return(struct dsf_staged *s, dsf_ended_fn ended,
                            void *user)
{
    struct returned *r = dsf_xcalloc(1, sizeof(*r));

    *r = (struct returned){ s, ended, user };
    s->ended = end_return;
    s->user = r;
    carry(s, true);
}
