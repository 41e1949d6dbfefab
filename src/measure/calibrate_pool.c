/* calibrate_pool.c - a graph on threads: the highest priority first. */
#include "measure/calibrate_pool.h"

#include "base/alloc.h"
#include "base/units.h"
#include "codelets/call.h"
#include "graph/succs.h"
#include "graph/task.h"
#include "measure/bench_measure.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct dsf_pool {
    struct dsflow_graph *g;
    const struct dsflow_host *host;
    unsigned workers;
    uint32_t ntasks; /* of the program `step`, which comes first */
    struct dsf_succs succs;
    const struct dsflow_codelet **codelets; /* by task */
    void *arena, **mem;                     /* by data */
    size_t arena_bytes, scratch_bytes;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint32_t *waits;        /* by task */
    uint32_t *ready, nready; /* unsorted: there are few at a time */
    uint32_t left;
    double *seconds;
};

static size_t padded(size_t bytes)
{
    size_t to = bytes >= 4096 ? 4096 : 64;

    return (bytes + to - 1) / to * to;
}

/* Numbers of about the size of weights: no zeroes, which may be faster. */
static void fill(float *x, size_t n)
{
    uint32_t s = 12345;

    for (size_t i = 0; i < n; i++) {
        s = s * 1664525 + 1013904223;
        x[i] = ((float)(s >> 8) / 8388608.0f - 1) * 0.05f;
    }
}

static int allocate(struct dsf_pool *p, struct dsflow_err *err)
{
    uint32_t n = dsflow_graph_ndata(p->g);
    char *at;

    for (uint32_t i = 0; i < n; i++)
        p->arena_bytes +=
            padded(dsflow_graph_data(p->g, (dsflow_data_id){ i })->bytes);
    p->arena_bytes += 4096;
    p->arena = mmap(NULL, p->arena_bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p->arena == MAP_FAILED) {
        p->arena = NULL;
        return dsflow_fail(err, DSFLOW_ENOMEM, "memory: %s to calibrate: %m",
                           dsf_size_text((double)p->arena_bytes).s);
    }
    madvise(p->arena, p->arena_bytes, MADV_HUGEPAGE);
    p->mem = dsf_xcalloc((size_t)n + 1, sizeof(*p->mem));
    at = p->arena;
    for (int small = 0; small < 2; small++)
        for (uint32_t i = 0; i < n; i++) {
            const struct dsflow_data_spec *d =
                dsflow_graph_data(p->g, (dsflow_data_id){ i });

            if ((d->bytes < 4096) != small)
                continue;
            p->mem[i] = at;
            at += padded(d->bytes);
            if (d->role == DSFLOW_PARAMS)
                fill(p->mem[i], (size_t)d->elems);
        }
    return DSFLOW_OK;
}

static int find_codelets(struct dsf_pool *p, struct dsflow_err *err)
{
    uint32_t n = dsflow_graph_ntasks(p->g);

    p->codelets = dsf_xcalloc((size_t)n + 1, sizeof(*p->codelets));
    for (uint32_t i = 0; i < n; i++) {
        const struct dsflow_task_spec *t =
            dsflow_graph_task(p->g, (dsflow_task_id){ i });
        size_t scratch = dsf_task_scratch(p->g, t);

        if (t->program != DSFLOW_STEP)
            break;
        p->ntasks++;
        p->codelets[i] = dsflow_codelet_find(t->op);
        if (p->codelets[i] == NULL || p->codelets[i]->cpu == NULL)
            return dsflow_fail(err, DSFLOW_ENOSYS,
                               "task %s: no codelet for a CPU", t->op->name);
        if (scratch > p->scratch_bytes)
            p->scratch_bytes = scratch;
    }
    return DSFLOW_OK;
}

int dsf_pool_open(struct dsflow_graph *g, const struct dsflow_host *host,
                  unsigned workers, struct dsf_pool **pool,
                  struct dsflow_err *err)
{
    struct dsf_pool *p = dsf_xcalloc(1, sizeof(*p));
    int status;

    p->g = g;
    p->host = host;
    p->workers = workers;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    status = find_codelets(p, err);
    if (status == DSFLOW_OK)
        status = allocate(p, err);
    if (status < 0) {
        dsf_pool_close(p);
        return status;
    }
    dsf_succs_init(&p->succs, g, 0, p->ntasks, false);
    p->waits = dsf_xcalloc((size_t)p->ntasks + 1, sizeof(*p->waits));
    p->ready = dsf_xcalloc((size_t)p->ntasks + 1, sizeof(*p->ready));
    *pool = p;
    return DSFLOW_OK;
}

void dsf_pool_close(struct dsf_pool *p)
{
    if (p == NULL)
        return;
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->changed);
    if (p->arena != NULL)
        munmap(p->arena, p->arena_bytes);
    dsf_succs_fini(&p->succs);
    free(p->codelets);
    free(p->mem);
    free(p->waits);
    free(p->ready);
    free(p);
}

static const struct dsflow_task_spec *task_of(const struct dsf_pool *p,
                                              uint32_t i)
{
    return dsflow_graph_task(p->g, (dsflow_task_id){ i });
}

/* Take the ready task that comes first. */
static uint32_t take(struct dsf_pool *p)
{
    uint32_t best = 0, task;

    for (uint32_t k = 1; k < p->nready; k++) {
        int32_t a = task_of(p, p->ready[k])->priority;
        int32_t b = task_of(p, p->ready[best])->priority;

        if (a > b || (a == b && p->ready[k] < p->ready[best]))
            best = k;
    }
    task = p->ready[best];
    p->ready[best] = p->ready[--p->nready];
    return task;
}

static void execute(struct dsf_pool *p, uint32_t i, void *scratch)
{
    const struct dsflow_task_spec *t = task_of(p, i);
    struct dsflow_buf *bufs = dsf_xcalloc(t->ndata, sizeof(*bufs));
    struct dsflow_buf by_port[DSF_SPREAD_PORTS];
    double start;

    for (unsigned k = 0; k < t->ndata; k++) {
        const struct dsflow_data_spec *d = dsflow_graph_data(p->g, t->data[k]);

        bufs[k] = (struct dsflow_buf){ p->mem[t->data[k].i], d->bytes, d->elems,
                                       (enum dsflow_dtype)d->dtype };
    }
    start = dsf_thread_seconds();
    p->codelets[i]->cpu(&(struct dsflow_call){ .bufs =
                                                   dsf_spread(t, bufs, by_port),
                                               .nbufs = dsf_task_nports(t),
                                               .args = t->args,
                                               .fresh = t->fresh,
                                               .scratch = scratch,
                                               .host = p->host });
    p->seconds[i] = dsf_thread_seconds() - start;
    free(bufs);
}

static void *work(void *user)
{
    struct dsf_pool *p = user;
    void *scratch = NULL;

    if (p->scratch_bytes > 0)
        scratch = mmap(NULL, p->scratch_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_mutex_lock(&p->lock);
    while (p->left > 0) {
        uint32_t i, n;
        const uint32_t *list;

        if (p->nready == 0) {
            pthread_cond_wait(&p->changed, &p->lock);
            continue;
        }
        i = take(p);
        pthread_mutex_unlock(&p->lock);
        execute(p, i, scratch);
        pthread_mutex_lock(&p->lock);
        list = dsf_succs(&p->succs, i, &n);
        for (uint32_t k = 0; k < n; k++)
            if (--p->waits[list[k]] == 0)
                p->ready[p->nready++] = list[k];
        if (--p->left == 0 || p->nready > 0)
            pthread_cond_broadcast(&p->changed);
    }
    pthread_mutex_unlock(&p->lock);
    if (scratch != NULL)
        munmap(scratch, p->scratch_bytes);
    return NULL;
}

double dsf_pool_step(struct dsf_pool *p, double *seconds)
{
    pthread_t *threads = dsf_xcalloc(p->workers, sizeof(*threads));
    double start;

    p->seconds = seconds;
    p->left = p->ntasks;
    p->nready = 0;
    memset(p->waits, 0, p->ntasks * sizeof(*p->waits));
    for (uint32_t i = 0; i < p->ntasks; i++) {
        uint32_t n;
        const uint32_t *list = dsf_succs(&p->succs, i, &n);

        for (uint32_t k = 0; k < n; k++)
            p->waits[list[k]]++;
    }
    for (uint32_t i = 0; i < p->ntasks; i++)
        if (p->waits[i] == 0)
            p->ready[p->nready++] = i;
    start = dsf_now();
    /* The calling thread is the last of the workers. */
    for (unsigned w = 0; w + 1 < p->workers; w++)
        if (pthread_create(&threads[w], NULL, work, p) != 0)
            threads[w] = 0;
    work(p);
    for (unsigned w = 0; w + 1 < p->workers; w++)
        if (threads[w] != 0)
            pthread_join(threads[w], NULL);
    free(threads);
    return dsf_now() - start;
}
