/* pass.c - one message, and wait for its end. */
#include "net/pass.h"

#include <pthread.h>

struct now {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool ended;
};

static void wake(struct dsf_message *m)
{
    struct now *now = m->user;

    pthread_mutex_lock(&now->lock);
    now->ended = true;
    pthread_cond_signal(&now->changed);
    pthread_mutex_unlock(&now->lock);
}

int dsf_pass(struct dsf_wire *wire, bool out, int32_t process, uint32_t tag,
             void *memory, size_t bytes, struct dsflow_err *err)
{
    struct now now = { .ended = false };
    struct dsf_message m = { .memory = memory,
                             .bytes = bytes,
                             .process = process,
                             .tag = tag,
                             .out = out,
                             .done = wake,
                             .user = &now };

    pthread_mutex_init(&now.lock, NULL);
    pthread_cond_init(&now.changed, NULL);
    wire->post(wire, &m);
    pthread_mutex_lock(&now.lock);
    while (!now.ended)
        pthread_cond_wait(&now.changed, &now.lock);
    pthread_mutex_unlock(&now.lock);
    pthread_cond_destroy(&now.changed);
    pthread_mutex_destroy(&now.lock);
    return m.status == DSFLOW_OK ? DSFLOW_OK
                                 : dsflow_fail(err, m.status, "%s", m.err.msg);
}
