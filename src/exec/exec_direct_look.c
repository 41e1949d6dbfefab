/* exec_direct_look.c - asks NCCL now and then whether something went wrong that
 * none of its functions returned, such as a network that failed: what is in
 * streams then stays there. */
#include "exec/exec_direct_private.h"

#include <time.h>

enum { EVERY = 1 }; /* seconds */

/* Returns whether it is to look. */
static bool wait_a_little(struct dsf_direct *d)
{
    struct timespec until;
    bool parts;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += EVERY;
    pthread_mutex_lock(&d->lock);
    while (!d->parts &&
           pthread_cond_timedwait(&d->changed, &d->lock, &until) == 0)
        ;
    parts = d->parts;
    pthread_mutex_unlock(&d->lock);
    return !parts;
}

static const char *failure_of(struct dsf_direct_comm *c)
{
    const char *why = NULL;

    if (pthread_mutex_trylock(&c->lock) != 0)
        return NULL; /* a message is put there: the next time */
    if (c->at != NULL)
        why = c->nccl->failed(c->at);
    pthread_mutex_unlock(&c->lock);
    return why;
}

static void fail(struct dsf_direct *d, const char *why)
{
    struct dsflow_err err;

    dsflow_fail(&err, DSFLOW_EIO, "%s", why);
    dsf_direct_say_lost(d, &err);
}

static void *look(void *direct)
{
    struct dsf_direct *d = direct;
    const char *why = NULL;

    while (why == NULL && wait_a_little(d))
        for (size_t i = 0; i < d->ncomms && why == NULL; i++)
            why = failure_of(&d->comms[i]);
    if (why != NULL)
        fail(d, why);
    return NULL;
}

void dsf_direct_look(struct dsf_direct *d)
{
    d->looks = pthread_create(&d->looker, NULL, look, d) == 0;
}

void dsf_direct_look_no_more(struct dsf_direct *d)
{
    if (!d->looks)
        return;
    pthread_mutex_lock(&d->lock);
    d->parts = true;
    pthread_cond_signal(&d->changed);
    pthread_mutex_unlock(&d->lock);
    pthread_join(d->looker, NULL);
    d->looks = false;
}
