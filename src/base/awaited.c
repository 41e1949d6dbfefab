/* awaited.c - waiting for the end of one thing. */
#include "base/awaited.h"

void dsf_awaited_end(struct dsf_awaited *a)
{
    pthread_mutex_lock(&a->lock);
    a->ended = true;
    pthread_cond_signal(&a->changed);
    pthread_mutex_unlock(&a->lock);
}

void dsf_awaited_wait(struct dsf_awaited *a)
{
    pthread_mutex_lock(&a->lock);
    while (!a->ended)
        pthread_cond_wait(&a->changed, &a->lock);
    pthread_mutex_unlock(&a->lock);
    pthread_cond_destroy(&a->changed);
    pthread_mutex_destroy(&a->lock);
}
