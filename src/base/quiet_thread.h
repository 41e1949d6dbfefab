/* quiet_thread.h - threads that get no signals: those are for the first one, on
 * a stack of its own, and wait where it has no time for them. */
#ifndef DSF_BASE_QUIET_THREAD_H
#define DSF_BASE_QUIET_THREAD_H

#include <pthread.h>
#include <signal.h>
#include <stddef.h>

/* As pthread_create. */
static inline int dsf_quiet_thread(pthread_t *thread, void *(*work)(void *user),
                                   void *user)
{
    sigset_t all, before;
    int number;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    number = pthread_create(thread, NULL, work, user);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return number;
}

#endif
