/* starpu_submit.c - a thread that hands programs to StarPU, task by task.
 *
 * What StarPU knows of a task takes some five kilobytes from its submission to
 * its end, and a step may have a hundred thousand tasks: so no more than MOST
 * of them are handed over before others have ended. Nothing is lost by that, as
 * workers look at what is ready only. Who submits a program does not wait for
 * it.
 */
#include "exec/starpu_private.h"

#include "base/alloc.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Tasks that StarPU knows at once; and how often they are counted. */
enum { MOST = 8192, EACH = 256 };

struct range {
    uint32_t first, last; /* tasks */
};

struct dsf_starpu_submitter {
    struct dsflow_exec *exec;
    dsf_starpu_submit_fn task;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct range *ranges; /* that are still to be handed over */
    size_t nranges, cap_ranges;
    bool busy, closing;
};

/* What cannot be handed over is a failure: the rest comes to its end without
 * computing anything, as when a disk fails. */
static void submit(struct dsf_starpu_submitter *s, const struct range *range)
{
    struct dsflow_err err;

    for (uint32_t i = range->first; i < range->last; i++) {
        if (i % EACH == 0 && starpu_task_nsubmitted() > MOST)
            starpu_task_wait_for_n_submitted(MOST - EACH);
        if (s->task(s->exec, i, &err) < 0)
            dsf_exec_fail(s->exec, &err);
    }
}

static void *submit_ranges(void *arg)
{
    struct dsf_starpu_submitter *s = arg;
    struct range range;

    pthread_mutex_lock(&s->lock);
    for (;;) {
        while (s->nranges == 0 && !s->closing)
            pthread_cond_wait(&s->changed, &s->lock);
        if (s->nranges == 0)
            break;
        range = s->ranges[0];
        memmove(s->ranges, s->ranges + 1, --s->nranges * sizeof(*s->ranges));
        s->busy = true;
        pthread_mutex_unlock(&s->lock);
        submit(s, &range);
        pthread_mutex_lock(&s->lock);
        s->busy = false;
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

struct dsf_starpu_submitter *
dsf_starpu_submitter_new(struct dsflow_exec *exec, dsf_starpu_submit_fn task)
{
    struct dsf_starpu_submitter *s = dsf_xcalloc(1, sizeof(*s));

    s->exec = exec;
    s->task = task;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    if (pthread_create(&s->thread, NULL, submit_ranges, s) == 0)
        return s;
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
    return NULL;
}

void dsf_starpu_submitter_add(struct dsf_starpu_submitter *s, uint32_t first,
                              uint32_t last)
{
    pthread_mutex_lock(&s->lock);
    dsf_grow(&s->ranges, &s->cap_ranges, s->nranges + 1, sizeof(*s->ranges));
    s->ranges[s->nranges++] = (struct range){ first, last };
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

void dsf_starpu_submitter_wait(struct dsf_starpu_submitter *s)
{
    pthread_mutex_lock(&s->lock);
    while (s->nranges > 0 || s->busy)
        pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

void dsf_starpu_submitter_free(struct dsf_starpu_submitter *s)
{
    if (s == NULL)
        return;
    pthread_mutex_lock(&s->lock);
    s->closing = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s->ranges);
    free(s);
}
