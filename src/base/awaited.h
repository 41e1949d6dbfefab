/* awaited.h - the end of one thing, which another thread brings about. */
#ifndef DSF_BASE_AWAITED_H
#define DSF_BASE_AWAITED_H

#include <pthread.h>
#include <stdbool.h>

struct dsf_awaited {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool ended;
};
#define DSF_AWAITED                                                            \
    {                                                                          \
        PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false             \
    }

void dsf_awaited_end(struct dsf_awaited *a);

/* Once: it is gone then. */
void dsf_awaited_wait(struct dsf_awaited *a);

#endif
