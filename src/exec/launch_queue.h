/* launch_queue.h - launches that a thread takes one after the other. */
#ifndef DSF_EXEC_LAUNCH_QUEUE_H
#define DSF_EXEC_LAUNCH_QUEUE_H

#include "exec/device.h"

#include <pthread.h>

struct dsf_launch_queue {
    void (*each)(void *user, struct dsf_launch *launch);
    void *user;
    pthread_t thread;
    bool running;
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct dsf_launch *first, **last;
    bool closing;
};

/* Its thread calls each(user, launch) for each that is added, in order. Returns
 * whether there is a thread; it is to be closed in any case, which waits for
 * what was added. */
bool dsf_launch_queue_open(struct dsf_launch_queue *q,
                           void (*each)(void *user, struct dsf_launch *launch),
                           void *user);
void dsf_launch_queue_close(struct dsf_launch_queue *q);
void dsf_launch_queue_add(struct dsf_launch_queue *q,
                          struct dsf_launch *launch);

#endif
