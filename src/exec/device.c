/* device.c - the thread of a device that launches: who finds a task ready is
 * any thread, also one of a device's own that tells of an end, and a runtime of
 * devices need not let that one launch. It also keeps how much is under way
 * within bounds. */
#include "exec/device.h"

#include "base/alloc.h"
#include "base/units.h"
#include "kernels/kernels.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>

struct dsf_launcher {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct dsf_launch *first, **last; /* to be launched */
    /* Launched, or about to be, and not ended; and those more of which somebody
     * is about to be told that they are launched. */
    unsigned flying[DSF_NQUEUES];
    bool closing;
};

static bool may_begin(const struct dsf_launcher *l,
                      const struct dsf_launch *launch)
{
    return l->flying[launch->queue] < DSF_DEVICE_MOST &&
           !(launch->alone &&
             l->flying[DSF_QUEUE_FROM] + l->flying[DSF_QUEUE_TO] > 0);
}

/* The first of its queue that may begin: a copy does not wait for kernels that
 * wait for room, nor does a message, which others may wait for, for a kernel
 * that is to be alone. */
static struct dsf_launch **next_of(struct dsf_launcher *l)
{
    struct dsf_launch **at = &l->first;
    bool waits[DSF_NQUEUES] = { false };

    while (*at != NULL && (waits[(*at)->queue] || !may_begin(l, *at))) {
        waits[(*at)->queue] = true;
        at = &(*at)->next;
    }
    return at;
}

static struct dsf_launch *take(struct dsf_launcher *l)
{
    struct dsf_launch **at, *launch;

    pthread_mutex_lock(&l->lock);
    while (*(at = next_of(l)) == NULL && !l->closing)
        pthread_cond_wait(&l->changed, &l->lock);
    launch = *at;
    if (launch != NULL) {
        *at = launch->next;
        if (launch->next == NULL)
            l->last = at;
        l->flying[launch->queue] += launch->launched != NULL ? 2 : 1;
    }
    pthread_mutex_unlock(&l->lock);
    return launch;
}

static void land(struct dsf_launcher *l, enum dsf_queue queue)
{
    unsigned left;

    pthread_mutex_lock(&l->lock);
    left = --l->flying[queue];
    if (left == 0 || left == DSF_DEVICE_MOST - 1)
        pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
}

/* Once it is launched, it may be over and gone. */
static void *launch_all(void *arg)
{
    struct dsf_device *device = arg;
    struct dsf_launch *launch;

    while ((launch = take(device->launcher)) != NULL) {
        void (*launched)(void *user) = launch->launched;
        void *user = launch->user;
        const enum dsf_queue queue = launch->queue;

        device->class->launch(device, launch);
        if (launched == NULL)
            continue;
        launched(user);
        land(device->launcher, queue);
    }
    return NULL;
}

/* What the clock of the device shows at time 0 of dsf_now: of many readings that
 * with the least time around it, as a thread may be held up in between. */
static void set_clock(struct dsf_device *device)
{
    enum { READINGS = 100 };
    double least = INFINITY;

    for (int i = 0; i < READINGS; i++) {
        double before = dsf_now(), shown = device->class->clock(device);
        double around = dsf_now() - before;

        if (around >= least)
            continue;
        least = around;
        device->since = shown - before - around / 2;
    }
}

int dsf_device_open(struct dsf_device *device, struct dsflow_err *err)
{
    int status = device->class->open(device, err);
    struct dsf_launcher *l;

    if (status < 0)
        return status;
    set_clock(device);
    l = device->launcher = dsf_xcalloc(1, sizeof(*l));
    l->last = &l->first;
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->changed, NULL);
    if (pthread_create(&l->thread, NULL, launch_all, device) == 0)
        return DSFLOW_OK;
    device->class->close(device);
    free(l);
    device->launcher = NULL;
    return dsflow_fail(err, DSFLOW_EFAIL, "no thread for %s device %u",
                       device->class->name, device->index);
}

void dsf_device_close(struct dsf_device *device)
{
    struct dsf_launcher *l = device->launcher;

    if (l == NULL)
        return;
    dsf_device_wait(device);
    pthread_mutex_lock(&l->lock);
    l->closing = true;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    pthread_join(l->thread, NULL);
    device->class->close(device);
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
    free(l);
    device->launcher = NULL;
}

void dsf_device_launch(struct dsf_device *device, struct dsf_launch *launch)
{
    struct dsf_launcher *l = device->launcher;

    launch->next = NULL;
    pthread_mutex_lock(&l->lock);
    *l->last = launch;
    l->last = &launch->next;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
}

static bool is_idle(const struct dsf_launcher *l)
{
    unsigned flying = 0;

    for (int q = 0; q < DSF_NQUEUES; q++)
        flying += l->flying[q];
    return l->first == NULL && flying == 0;
}

void dsf_device_wait(struct dsf_device *device)
{
    struct dsf_launcher *l = device->launcher;

    pthread_mutex_lock(&l->lock);
    while (!is_idle(l))
        pthread_cond_wait(&l->changed, &l->lock);
    pthread_mutex_unlock(&l->lock);
}

void dsf_device_compute(struct dsf_launch *launch)
{
    double before = launch->worked != NULL ? dsf_thread_seconds() : 0;

    if (launch->codelet == NULL ||
        (launch->skip != NULL && *launch->skip != 0))
        return;
    launch->codelet->cpu(&launch->call);
    if (launch->worked != NULL)
        *launch->worked = dsf_thread_seconds() - before;
    launch->status = dsf_kernels_failed(&launch->err);
}

void dsf_device_done(struct dsf_device *device, struct dsf_launch *launch)
{
    const enum dsf_queue queue = launch->queue;

    launch->start -= device->since;
    launch->end -= device->since;
    if (launch->done != NULL)
        launch->done(launch);
    if (device->launcher != NULL)
        land(device->launcher, queue);
}
