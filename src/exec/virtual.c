/* virtual.c - a device that is not there: memory of its own, counted to the
 * byte, and a thread for each of its queues. Its kernels are the CPU's; its
 * copies, and what its kernels read of others, take the time of a link where
 * one is given. What a GPU would show of order, transfers and placement so
 * shows on any machine. */
#include "exec/device.h"
#include "exec/launch_queue.h"

#include "base/alloc.h"
#include "base/units.h"
#include "graph/task.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct range {
    const char *at;
    size_t bytes;
};

struct queue {
    struct dsf_device *device;
    struct dsf_launch_queue launches;
    double free_at; /* by its clock: the end of the last launch */
};

struct virtual {
    struct timespec born; /* its clock begins */
    struct queue queues[DSF_NQUEUES];
    struct range *memory, *pinned;
    size_t nmemory, cap_memory, npinned, cap_pinned;
};

static double virtual_clock(const struct dsf_device *device)
{
    const struct virtual *v = device->priv;
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)(t.tv_sec - v->born.tv_sec) +
           1e-9 * (double)(t.tv_nsec - v->born.tv_nsec);
}

static void sleep_until(const struct dsf_device *device, double when)
{
    double left = when - virtual_clock(device);
    struct timespec t = { (time_t)left, (long)(1e9 * (left - (time_t)left)) };

    if (left > 0)
        nanosleep(&t, NULL);
}

/* --- memory --------------------------------------------------------------- */

static bool is_in(const struct range *v, size_t n, const void *at, size_t bytes)
{
    const char *first = at;

    for (size_t i = 0; i < n; i++)
        if (first >= v[i].at && first + bytes <= v[i].at + v[i].bytes)
            return true;
    return false;
}

static void forget(struct range *v, size_t *n, const void *at)
{
    for (size_t i = 0; i < *n; i++)
        if (v[i].at == at) {
            v[i] = v[--*n];
            return;
        }
}

static void *virtual_allocate(struct dsf_device *device, size_t bytes,
                              const char *what, struct dsflow_err *err)
{
    struct virtual *v = device->priv;
    void *at;

    if (device->limit > 0 && bytes > device->limit - device->used) {
        dsflow_fail(err, DSFLOW_EFIT,
                    "machine: virtual_memory: device %u: %s for %s: %s of %s "
                    "are free",
                    device->index, dsf_size_text((double)bytes).s, what,
                    dsf_size_text((double)(device->limit - device->used)).s,
                    dsf_size_text((double)device->limit).s);
        return NULL;
    }
    at = dsf_device_cpu.allocate(device, bytes, what, err);
    if (at == NULL)
        return NULL;
    device->used += bytes;
    device->peak = device->used > device->peak ? device->used : device->peak;
    dsf_grow(&v->memory, &v->cap_memory, v->nmemory + 1, sizeof(*v->memory));
    v->memory[v->nmemory++] = (struct range){ at, bytes };
    return at;
}

static void virtual_release(struct dsf_device *device, void *at, size_t bytes)
{
    struct virtual *v = device->priv;

    if (at == NULL)
        return;
    device->used -= bytes;
    forget(v->memory, &v->nmemory, at);
    dsf_device_cpu.release(device, at, bytes);
}

/* What a device gives is there, touched or not. */
static size_t virtual_resident(const struct dsf_device *device, const void *at,
                               size_t bytes)
{
    return at != NULL ? bytes : 0;
}

static int virtual_pin(struct dsf_device *device, void *at, size_t bytes,
                       struct dsflow_err *err)
{
    struct virtual *v = device->priv;

    dsf_grow(&v->pinned, &v->cap_pinned, v->npinned + 1, sizeof(*v->pinned));
    v->pinned[v->npinned++] = (struct range){ at, bytes };
    return DSFLOW_OK;
}

static void virtual_unpin(struct dsf_device *device, void *at, size_t bytes)
{
    struct virtual *v = device->priv;

    forget(v->pinned, &v->npinned, at);
}

/* --- queues --------------------------------------------------------------- */

/* One end of a copy: memory of the device that is named, or pinned. */
static int check_end(const struct dsf_device *device,
                     const struct dsf_device *end, const void *at, size_t bytes,
                     struct dsflow_err *err)
{
    const struct virtual *v = end != NULL ? end->priv : device->priv;

    if (end != NULL ? is_in(v->memory, v->nmemory, at, bytes)
                    : is_in(v->pinned, v->npinned, at, bytes))
        return DSFLOW_OK;
    return dsflow_fail(err, DSFLOW_EIO, "device %u: a copy of %s: %s",
                       device->index, dsf_size_text((double)bytes).s,
                       end != NULL ? "memory that the device does not have"
                                   : "main memory that is not pinned");
}

static size_t rows_of(const struct dsf_copy *c)
{
    return c->rows > 0 ? c->rows : 1;
}

/* From its first byte to its last, at one end. */
static size_t extent(const struct dsf_copy *c, size_t apart)
{
    return (rows_of(c) - 1) * apart + c->bytes;
}

/* Returns the bytes that crossed a link. */
static size_t copy(const struct dsf_device *device, struct dsf_launch *launch)
{
    size_t crossed = 0;

    for (unsigned i = 0; i < launch->ncopies && launch->status == DSFLOW_OK;
         i++) {
        const struct dsf_copy *c = &launch->copies[i];

        launch->status = check_end(device, c->to_device, c->to,
                                   extent(c, c->to_apart), &launch->err);
        if (launch->status == DSFLOW_OK)
            launch->status = check_end(device, c->from_device, c->from,
                                       extent(c, c->from_apart), &launch->err);
        for (size_t row = 0; row < rows_of(c) && launch->status == DSFLOW_OK;
             row++) {
            memcpy((char *)c->to + row * c->to_apart,
                   (const char *)c->from + row * c->from_apart, c->bytes);
            crossed += c->to_device != c->from_device ? c->bytes : 0;
        }
    }
    return crossed;
}

/* A kernel reads what others have over its link. A copy begins when it was
 * launched, or when the one before was over: a link that has much to do is not
 * slower for a thread that wakes late. */
static void run(void *user, struct dsf_launch *launch)
{
    struct queue *q = user;
    struct dsf_device *device = q->device;
    bool copies = launch->queue != DSF_QUEUE_COMPUTE;
    size_t crossed;

    launch->start =
        copies ? fmax(launch->start, q->free_at) : virtual_clock(device);
    dsf_device_compute(launch);
    crossed = launch->reads + copy(device, launch);
    launch->end = virtual_clock(device);
    if (device->rate > 0)
        launch->end =
            fmax(launch->end, launch->start + (double)crossed / device->rate);
    sleep_until(device, launch->end);
    q->free_at = launch->end;
    dsf_device_done(device, launch);
}

static void virtual_launch(struct dsf_device *device, struct dsf_launch *launch)
{
    struct virtual *v = device->priv;

    launch->start = virtual_clock(device);
    dsf_launch_queue_add(&v->queues[launch->queue].launches, launch);
}

static void virtual_close(struct dsf_device *device)
{
    struct virtual *v = device->priv;

    for (unsigned i = 0; i < DSF_NQUEUES; i++)
        dsf_launch_queue_close(&v->queues[i].launches);
    free(v->memory);
    free(v->pinned);
    free(v);
    device->priv = NULL;
}

static int virtual_open(struct dsf_device *device, struct dsflow_err *err)
{
    struct virtual *v = device->priv = dsf_xcalloc(1, sizeof(*v));
    bool all = true;

    clock_gettime(CLOCK_MONOTONIC, &v->born);
    for (unsigned i = 0; i < DSF_NQUEUES; i++) {
        struct queue *q = &v->queues[i];

        q->device = device;
        all = dsf_launch_queue_open(&q->launches, run, q) && all;
    }
    if (all)
        return DSFLOW_OK;
    virtual_close(device);
    return dsflow_fail(err, DSFLOW_EFAIL,
                       "no threads for the queues of device %u", device->index);
}

const struct dsf_device_class dsf_device_virtual = {
    .name = "virtual",
    .open = virtual_open,
    .close = virtual_close,
    .allocate = virtual_allocate,
    .release = virtual_release,
    .resident = virtual_resident,
    .pin = virtual_pin,
    .unpin = virtual_unpin,
    .scratch = dsf_task_scratch,
    .launch = virtual_launch,
    .clock = virtual_clock,
};
