/* in_order.c - a thread for each rank, which runs that rank's tasks in the
 * graph's order: rank 0 is the calling thread.
 *
 * Before a task, a thread waits until the other ranks have come past what the
 * task depends on. There is no queue and no choice, so that a task costs a
 * fraction of a microsecond beside its kernel: for programs whose tasks are
 * shorter than what a scheduler takes for one. Threads that wait spin, let
 * others run, and at last sleep.
 */
#include "exec/exec_private.h"

#include "base/alloc.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

/* Looks before a thread that waits lets others run, and before it sleeps. */
enum { SPINS = 2000, YIELDS = 2000 };

/* How far a rank is: one of them writes it, the others read it. */
struct progress {
    _Alignas(64) _Atomic uint64_t past; /* of the tasks of all submissions */
};

struct rank {
    struct dsflow_exec *exec;
    unsigned number;
    pthread_t thread;
};

struct in_order {
    unsigned nranks;
    /* By task and rank: 1 + the last task of that rank that it waits for; 0:
     * it waits for none. */
    uint32_t *after;
    struct progress *progress; /* by rank */
    struct rank *ranks;
    unsigned nthreads;

    /* What is to be run: written before `submitted` is. */
    uint32_t first, last;
    uint64_t base; /* tasks submitted before */
    _Atomic uint64_t submitted;
    _Atomic bool closing;
    pthread_mutex_t lock; /* of threads that sleep */
    pthread_cond_t changed;
};

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* Has `at` come to `least`? Wait for it; false: not yet, after a while. */
static bool comes_to(const _Atomic uint64_t *at, uint64_t least)
{
    for (unsigned i = 0; i < SPINS + YIELDS; i++) {
        if (atomic_load_explicit(at, memory_order_acquire) >= least)
            return true;
        if (i < SPINS)
            relax();
        else
            sched_yield();
    }
    return false;
}

static unsigned rank_of(const struct in_order *s, const struct dsf_exec_call *c)
{
    return c->task->rank < 0 ? 0 : (unsigned)c->task->rank % s->nranks;
}

static void run(const struct dsf_exec_call *call, unsigned w)
{
    const struct dsflow_exec *exec = call->exec;
    struct dsflow_buf *bufs = exec->workers[w].bufs;

    for (unsigned p = 0; p < call->task->ndata; p++)
        bufs[p] = dsf_exec_buf(call, p, exec->mem[call->task->data[p].i]);
    dsf_exec_run(call, bufs, w);
}

/* The tasks of a rank in the range that was submitted. */
static void run_rank(struct dsflow_exec *exec, unsigned r)
{
    struct in_order *s = exec->priv;
    /* The last task of all may be this rank's: then the next submission comes
     * while the loop ends. */
    const uint32_t first = s->first, last = s->last;
    const uint64_t base = s->base;

    for (uint32_t i = first; i < last; i++) {
        const uint32_t *after = s->after + (size_t)i * s->nranks;

        if (rank_of(s, &exec->calls[i]) != r)
            continue;
        for (unsigned q = 0; q < s->nranks; q++)
            while (after[q] > 0 &&
                   !comes_to(&s->progress[q].past, base + after[q] - first))
                continue;
        run(&exec->calls[i], r);
        atomic_store_explicit(&s->progress[r].past, base + i - first + 1,
                              memory_order_release);
    }
    atomic_store_explicit(&s->progress[r].past, base + last - first,
                          memory_order_release);
}

/* Until there is more than `seen`, or nothing more will come. */
static void sleep_until(struct in_order *s, uint64_t seen)
{
    if (comes_to(&s->submitted, seen + 1))
        return;
    pthread_mutex_lock(&s->lock);
    while (atomic_load_explicit(&s->submitted, memory_order_acquire) == seen)
        pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

static void *serve(void *arg)
{
    const struct rank *rank = arg;
    struct in_order *s = rank->exec->priv;

    for (uint64_t seen = 0;; seen++) {
        sleep_until(s, seen);
        if (atomic_load(&s->closing))
            return NULL;
        run_rank(rank->exec, rank->number);
    }
}

/* The others see what was written before. */
static void tell(struct in_order *s)
{
    pthread_mutex_lock(&s->lock);
    atomic_fetch_add_explicit(&s->submitted, 1, memory_order_release);
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

/* What each task waits for: of each other rank, the last task. */
static void find_order(struct dsflow_exec *exec)
{
    struct in_order *s = exec->priv;
    uint32_t n = dsflow_graph_ntasks(exec->graph);

    s->after = dsf_xcalloc((size_t)n * s->nranks + 1, sizeof(*s->after));
    for (uint32_t i = 0; i < n; i++) {
        uint32_t *after = s->after + (size_t)i * s->nranks;
        const dsflow_task_id *preds;
        uint32_t npreds =
            dsflow_graph_preds(exec->graph, (dsflow_task_id){ i }, &preds);

        for (uint32_t k = 0; k < npreds; k++) {
            unsigned q = rank_of(s, &exec->calls[preds[k].i]);

            if (q != rank_of(s, &exec->calls[i]) && preds[k].i + 1 > after[q])
                after[q] = preds[k].i + 1;
        }
    }
}

static int check_near(const struct dsflow_exec *exec, struct dsflow_err *err)
{
    for (uint32_t i = 0; i < dsflow_graph_ntasks(exec->graph); i++)
        if (exec->calls[i].by != DSF_BY_CORE || exec->calls[i].staged)
            return dsflow_fail(
                err, DSFLOW_ENOSYS,
                "task %s: has data outside main memory: expected "
                "another executor",
                exec->calls[i].task->op->name);
    return DSFLOW_OK;
}

static int start_threads(struct dsflow_exec *exec, struct dsflow_err *err)
{
    struct in_order *s = exec->priv;

    for (unsigned r = 1; r < s->nranks; r++) {
        s->ranks[r] = (struct rank){ .exec = exec, .number = r };
        errno = pthread_create(&s->ranks[r].thread, NULL, serve, &s->ranks[r]);
        if (errno != 0)
            return dsflow_fail(err, DSFLOW_EFAIL, "no thread for rank %u: %m",
                               r);
        s->nthreads = r;
    }
    return DSFLOW_OK;
}

static int in_order_open(struct dsflow_exec *exec,
                         const struct dsflow_exec_options *options,
                         struct dsflow_err *err)
{
    struct in_order *s = dsf_xcalloc(1, sizeof(*s));
    int status;

    exec->priv = s;
    s->nranks = options->ranks > 1 ? options->ranks : 1;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    s->ranks = dsf_xcalloc(s->nranks, sizeof(*s->ranks));
    s->progress = aligned_alloc(64, s->nranks * sizeof(*s->progress));
    for (unsigned r = 0; r < s->nranks && s->progress != NULL; r++)
        atomic_init(&s->progress[r].past, 0);
    status =
        s->progress == NULL
            ? dsflow_fail(err, DSFLOW_ENOMEM, "memory: for %u ranks", s->nranks)
            : check_near(exec, err);
    if (status == DSFLOW_OK)
        status = dsf_exec_add_workers(exec, s->nranks, err);
    if (status < 0)
        return status;
    find_order(exec);
    return start_threads(exec, err);
}

static void in_order_close(struct dsflow_exec *exec)
{
    struct in_order *s = exec->priv;

    if (s == NULL)
        return;
    atomic_store(&s->closing, true);
    tell(s);
    for (unsigned r = 1; r <= s->nthreads; r++)
        pthread_join(s->ranks[r].thread, NULL);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s->after);
    free(s->progress);
    free(s->ranks);
    free(s);
}

/* All of them are over when it returns. */
static int in_order_submit(struct dsflow_exec *exec, uint32_t first,
                           uint32_t last, struct dsflow_err *err)
{
    struct in_order *s = exec->priv;

    s->first = first;
    s->last = last;
    tell(s);
    run_rank(exec, 0);
    for (unsigned r = 1; r < s->nranks; r++)
        while (!comes_to(&s->progress[r].past, s->base + last - first))
            continue;
    s->base += last - first;
    return DSFLOW_OK;
}

static int in_order_wait(struct dsflow_exec *exec, struct dsflow_err *err)
{
    return DSFLOW_OK;
}

static void in_order_lanes(const struct dsflow_exec *exec,
                           struct dsf_timeline *timeline)
{
    const struct in_order *s = exec->priv;

    for (unsigned r = 0; r < s->nranks; r++)
        dsf_timeline_add_lane(timeline, DSF_LANE_WORKER, (int)r, "core %u", r);
}

const struct dsf_exec_class dsf_exec_in_order = {
    .open = in_order_open,
    .close = in_order_close,
    .submit = in_order_submit,
    .wait = in_order_wait,
    .lanes = in_order_lanes,
};
