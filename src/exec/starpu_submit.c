/* starpu_submit.c - a thread that hands phases to StarPU, task by task.
 *
 * What StarPU knows of a task takes some five kilobytes from its submission to
 * its end, and a step may have a hundred thousand tasks: so no more than MOST
 * of them are handed over before others have ended. Nothing is lost by that, as
 * workers look at what is ready only. Who submits a phase does not wait for it.
 */
#include "exec/starpu_private.h"

#include "base/alloc.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Tasks that StarPU knows at once; and how often they are counted. */
enum { MOST = 8192, EACH = 256 };

struct phase {
    uint32_t first, last; /* tasks */
};

struct dsf_starpu_submitter {
    struct dsflow_exec *exec;
    dsf_starpu_submit_fn task, end;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct phase *phases; /* that are still to be handed over */
    size_t nphases, cap_phases;
    bool busy, closing;
};

/* What cannot be handed over is a failure: the rest comes to its end without
 * computing anything, as when a disk fails. */
static void submit(struct dsf_starpu_submitter *s, const struct phase *phase)
{
    struct dsflow_err err;

    for (uint32_t i = phase->first; i < phase->last; i++) {
        if (i % EACH == 0 && starpu_task_nsubmitted() > MOST)
            starpu_task_wait_for_n_submitted(MOST - EACH);
        if (s->task(s->exec, i, &err) < 0)
            dsf_exec_fail(s->exec, &err);
    }
    s->end(s->exec, phase->last, &err);
}

static void *submit_phases(void *arg)
{
    struct dsf_starpu_submitter *s = arg;
    struct phase phase;

    pthread_mutex_lock(&s->lock);
    for (;;) {
        while (s->nphases == 0 && !s->closing)
            pthread_cond_wait(&s->changed, &s->lock);
        if (s->nphases == 0)
            break;
        phase = s->phases[0];
        memmove(s->phases, s->phases + 1, --s->nphases * sizeof(*s->phases));
        s->busy = true;
        pthread_mutex_unlock(&s->lock);
        submit(s, &phase);
        pthread_mutex_lock(&s->lock);
        s->busy = false;
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

struct dsf_starpu_submitter *
dsf_starpu_submitter_new(struct dsflow_exec *exec, dsf_starpu_submit_fn task,
                         dsf_starpu_submit_fn end)
{
    struct dsf_starpu_submitter *s = dsf_xcalloc(1, sizeof(*s));

    s->exec = exec;
    s->task = task;
    s->end = end;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    if (pthread_create(&s->thread, NULL, submit_phases, s) == 0)
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
    dsf_grow(&s->phases, &s->cap_phases, s->nphases + 1, sizeof(*s->phases));
    s->phases[s->nphases++] = (struct phase){ first, last };
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

void dsf_starpu_submitter_wait(struct dsf_starpu_submitter *s)
{
    pthread_mutex_lock(&s->lock);
    while (s->nphases > 0 || s->busy)
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
    free(s->phases);
    free(s);
}
