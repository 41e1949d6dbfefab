/* launch_queue.c - launches that a thread takes one after the other. */
#include "exec/launch_queue.h"

static struct dsf_launch *take(struct dsf_launch_queue *q)
{
    struct dsf_launch *launch;

    pthread_mutex_lock(&q->lock);
    while (q->first == NULL && !q->closing)
        pthread_cond_wait(&q->more, &q->lock);
    launch = q->first;
    if (launch != NULL && (q->first = launch->next) == NULL)
        q->last = &q->first;
    pthread_mutex_unlock(&q->lock);
    return launch;
}

static void *take_all(void *arg)
{
    struct dsf_launch_queue *q = arg;
    struct dsf_launch *launch;

    while ((launch = take(q)) != NULL)
        q->each(q->user, launch);
    return NULL;
}

bool dsf_launch_queue_open(struct dsf_launch_queue *q,
                           void (*each)(void *user, struct dsf_launch *launch),
                           void *user)
{
    *q = (struct dsf_launch_queue){ .each = each, .user = user };
    q->last = &q->first;
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->more, NULL);
    q->running = pthread_create(&q->thread, NULL, take_all, q) == 0;
    return q->running;
}

void dsf_launch_queue_close(struct dsf_launch_queue *q)
{
    pthread_mutex_lock(&q->lock);
    q->closing = true;
    pthread_cond_signal(&q->more);
    pthread_mutex_unlock(&q->lock);
    if (q->running)
        pthread_join(q->thread, NULL);
    pthread_cond_destroy(&q->more);
    pthread_mutex_destroy(&q->lock);
}

void dsf_launch_queue_add(struct dsf_launch_queue *q, struct dsf_launch *launch)
{
    launch->next = NULL;
    pthread_mutex_lock(&q->lock);
    *q->last = launch;
    q->last = &launch->next;
    pthread_cond_signal(&q->more);
    pthread_mutex_unlock(&q->lock);
}
