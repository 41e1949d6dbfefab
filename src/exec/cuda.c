/* cuda.c - a GPU: streams for kernels, for copies in and out, and for what comes
 * from other GPUs and goes to them, and a thread beside each that waits for the
 * ends of what is in it. Those threads, and no function that CUDA would call,
 * tell of an end: CUDA calls none once a kernel has failed, and a run has to end
 * then too. */
#include "exec/clock_drift.h"
#include "exec/cuda_module.h"
#include "exec/device.h"
#include "exec/launch_queue.h"

#include "base/alloc.h"
#include "base/touch.h"
#include "base/units.h"
#include "graph/task.h"

#include <stdlib.h>

/* CUDA's times are floats: exact for a second or so. */
static const double EXACT = 1; /* seconds */

/* Kernels are compiled for this and what is newer. */
enum { LEAST_MAJOR = 8 };

/* Of a launch. */
struct events {
    void *start, *end;
};

struct stream {
    struct dsf_device *device;
    void *at;                      /* CUDA's */
    struct dsf_launch_queue queue; /* launched, not seen to have ended */
    struct events *events;         /* of those, in turn */
    unsigned launched, ended;
};

struct gpu {
    const struct dsf_gpu *cuda;
    struct stream streams[DSF_NQUEUES];
    void *now;            /* an event, of the clock */
    pthread_mutex_t lock; /* of these: */
    void *origin;         /* an event of not long ago, */
    double origin_at;     /* and when it was */
    struct dsf_clock_drift drift;
};

static int fail(const struct dsf_device *device, const char *why,
                struct dsflow_err *err)
{
    return why == NULL
               ? DSFLOW_OK
               : dsflow_fail(err, DSFLOW_EIO, "GPU %u: %s", device->index, why);
}

static struct gpu *use(const struct dsf_device *device)
{
    struct gpu *g = device->priv;

    g->cuda->use(device->index); /* what is wrong shows with what follows */
    return g;
}

/* --- memory --------------------------------------------------------------- */

/* `why`: what CUDA says of it, if it was asked. */
static int fail_room(const struct dsf_device *device, size_t bytes,
                     const char *what, const struct dsf_gpu_about *about,
                     const char *why, struct dsflow_err *err)
{
    return dsflow_fail(err, DSFLOW_EFIT,
                       "machine: gpus: GPU %u: %s for %s: %s of %s are "
                       "free%s%s",
                       device->index, dsf_size_text((double)bytes).s, what,
                       dsf_size_text((double)about->free).s,
                       dsf_size_text((double)about->memory).s,
                       why != NULL ? ": " : "", why != NULL ? why : "");
}

/* What is free may be in pieces that are too small: CUDA says so. */
static int take_room(const struct dsf_device *device, size_t bytes,
                     const char *what, void **at, struct dsflow_err *err)
{
    struct dsf_gpu_about about = { 0 };
    const struct gpu *g = device->priv;
    const char *why = g->cuda->allocate(bytes, at);

    if (why == NULL)
        return DSFLOW_OK;
    g->cuda->about(device->index, &about);
    return fail_room(device, bytes, what, &about, why, err);
}

static int check_room(const struct dsf_device *device, size_t bytes,
                      const char *what, struct dsflow_err *err)
{
    const struct gpu *g = device->priv;
    struct dsf_gpu_about about;
    int status = fail(device, g->cuda->about(device->index, &about), err);

    return status < 0 || bytes <= about.free
               ? status
               : fail_room(device, bytes, what, &about, NULL, err);
}

static void *cuda_allocate(struct dsf_device *device, size_t bytes,
                           const char *what, struct dsflow_err *err)
{
    void *at = NULL;

    use(device);
    if (check_room(device, bytes, what, err) < 0 ||
        take_room(device, bytes, what, &at, err) < 0)
        return NULL;
    device->used += bytes;
    device->peak = device->used > device->peak ? device->used : device->peak;
    return at;
}

static void cuda_release(struct dsf_device *device, void *at, size_t bytes)
{
    if (at == NULL)
        return;
    use(device)->cuda->release(at);
    device->used -= bytes;
}

static size_t cuda_resident(const struct dsf_device *device, const void *at,
                            size_t bytes)
{
    return at != NULL ? bytes : 0;
}

/* CUDA would have the kernel clear pages of fresh memory one after the other. */
static int cuda_pin(struct dsf_device *device, void *at, size_t bytes,
                    struct dsflow_err *err)
{
    dsf_touch(at, bytes);
    return fail(device, use(device)->cuda->pin(at, bytes), err);
}

static void cuda_unpin(struct dsf_device *device, void *at, size_t bytes)
{
    use(device)->cuda->unpin(at);
}

/* --- time ----------------------------------------------------------------- */

/* When a stream got to an event; under the lock. */
static const char *time_of(const struct gpu *g, void *event, double *when)
{
    const char *why = g->cuda->elapsed(g->origin, event, when);

    *when += g->origin_at;
    return why;
}

/* The event becomes the origin, and the other one is free. */
static void replace_origin(struct gpu *g, void **event, double at)
{
    void *origin = g->origin;

    g->origin = *event;
    g->origin_at = at;
    *event = origin;
}

/* The end of a launch, which the host has seen at `seen`, becomes the origin now
 * and then. */
static const char *take_times(const struct dsf_device *device,
                              struct events *e, double seen,
                              struct dsf_launch *launch)
{
    struct gpu *g = device->priv;
    const char *why;

    pthread_mutex_lock(&g->lock);
    why = time_of(g, e->start, &launch->start);
    if (why == NULL)
        why = time_of(g, e->end, &launch->end);
    if (why == NULL && launch->end > g->origin_at + EXACT)
        replace_origin(g, &e->end, launch->end);
    if (why == NULL)
        g->origin_at += dsf_clock_drift(
            &g->drift, seen, seen - (launch->end - device->since));
    pthread_mutex_unlock(&g->lock);
    return why;
}

/* At a moment when it has nothing to do. */
static double cuda_clock(const struct dsf_device *device)
{
    struct gpu *g = use(device);
    double when = 0;

    if (g->cuda->record(g->now, g->streams[DSF_QUEUE_COMPUTE].at) != NULL ||
        g->cuda->await(g->now) != NULL)
        return 0;
    pthread_mutex_lock(&g->lock);
    time_of(g, g->now, &when);
    pthread_mutex_unlock(&g->lock);
    return when;
}

/* --- launches ------------------------------------------------------------- */

static int number_of(const struct dsf_device *device)
{
    return device != NULL ? (int)device->index : -1;
}

static const char *enqueue_copies(const struct gpu *g,
                                  const struct dsf_launch *launch, void *stream)
{
    const char *why = NULL;

    for (unsigned i = 0; i < launch->ncopies && why == NULL; i++) {
        const struct dsf_copy *c = &launch->copies[i];

        why = g->cuda->copy(&(struct dsf_gpu_copy){ c->to, c->from, c->bytes,
                                                    number_of(c->to_device),
                                                    number_of(c->from_device),
                                                    c->rows, c->to_apart,
                                                    c->from_apart },
                            stream);
    }
    return why;
}

static const char *enqueue_kernels(const struct gpu *g,
                                   const struct dsf_launch *launch,
                                   void *stream)
{
    if (launch->codelet->cuda != NULL)
        return launch->codelet->cuda(&launch->call, stream);
    launch->side->run(&launch->call, stream);
    return g->cuda->launched();
}

/* What a task is skipped for is known to its kernels alone (gpu.h). What is
 * refused may have begun: it ends, too. */
static const char *enqueue(const struct gpu *g, struct dsf_launch *launch,
                           const struct stream *s, const struct events *e)
{
    const char *why = g->cuda->record(e->start, s->at), *ended;

    if (why == NULL && launch->codelet != NULL)
        why = enqueue_kernels(g, launch, s->at);
    if (why == NULL)
        why = enqueue_copies(g, launch, s->at);
    if (why == NULL && launch->put != NULL)
        why = launch->put(launch, s->at);
    ended = g->cuda->record(e->end, s->at);
    return why == NULL ? ended : why;
}

static void cuda_launch(struct dsf_device *device, struct dsf_launch *launch)
{
    struct gpu *g = use(device);
    struct stream *s = &g->streams[launch->queue];
    const struct events *e = &s->events[s->launched++ % DSF_DEVICE_MOST];

    launch->status = fail(device, enqueue(g, launch, s, e), &launch->err);
    dsf_launch_queue_add(&s->queue, launch);
}

/* Also of one that could not be launched: those before it come first. */
static void end(void *user, struct dsf_launch *launch)
{
    struct stream *s = user;
    struct gpu *g = use(s->device);
    struct events *e = &s->events[s->ended++ % DSF_DEVICE_MOST];
    const char *why = g->cuda->await(e->end);
    double seen = dsf_now();

    launch->after = why != NULL;
    if (launch->status == DSFLOW_OK)
        launch->status = fail(s->device, why, &launch->err);
    if (launch->status == DSFLOW_OK)
        launch->status =
            fail(s->device, take_times(s->device, e, seen, launch),
                 &launch->err);
    if (launch->worked != NULL && launch->codelet != NULL)
        *launch->worked = launch->end - launch->start;
    dsf_device_done(s->device, launch);
}

/* --- opening -------------------------------------------------------------- */

static const char *new_events(const struct gpu *g, struct stream *s)
{
    const char *why = NULL;

    s->events = dsf_xcalloc(DSF_DEVICE_MOST, sizeof(*s->events));
    for (unsigned i = 0; i < DSF_DEVICE_MOST && why == NULL; i++) {
        why = g->cuda->event_new(&s->events[i].start);
        if (why == NULL)
            why = g->cuda->event_new(&s->events[i].end);
    }
    return why;
}

static int open_stream(struct dsf_device *device, struct stream *s,
                       struct dsflow_err *err)
{
    struct gpu *g = device->priv;
    const char *why = g->cuda->stream_new(&s->at);

    s->device = device;
    if (why == NULL)
        why = new_events(g, s);
    if (!dsf_launch_queue_open(&s->queue, end, s))
        why = "no thread for a stream";
    return fail(device, why, err);
}

static void close_stream(const struct gpu *g, struct stream *s)
{
    if (s->device == NULL)
        return;
    dsf_launch_queue_close(&s->queue);
    for (unsigned i = 0; s->events != NULL && i < DSF_DEVICE_MOST; i++) {
        g->cuda->event_free(s->events[i].start);
        g->cuda->event_free(s->events[i].end);
    }
    free(s->events);
    g->cuda->stream_free(s->at);
}

static void cuda_close(struct dsf_device *device)
{
    struct gpu *g = use(device);

    for (unsigned i = 0; i < DSF_NQUEUES; i++)
        close_stream(g, &g->streams[i]);
    g->cuda->event_free(g->now);
    g->cuda->event_free(g->origin);
    pthread_mutex_destroy(&g->lock);
    free(g);
    device->priv = NULL;
}

static int check_kind(const struct dsf_device *device, struct dsflow_err *err)
{
    const struct gpu *g = device->priv;
    struct dsf_gpu_about about;
    int status = fail(device, g->cuda->about(device->index, &about), err);

    if (status < 0)
        return status;
    if (about.major < LEAST_MAJOR)
        return dsflow_fail(err, DSFLOW_ENOSYS,
                           "GPU %u: %s, of compute capability %d.%d: expected "
                           "%d.0 or newer",
                           device->index, about.name, about.major, about.minor,
                           LEAST_MAJOR);
    if (!about.reaches_main_memory)
        return dsflow_fail(err, DSFLOW_ENOSYS,
                           "GPU %u: %s does not reach main memory at its "
                           "addresses",
                           device->index, about.name);
    return DSFLOW_OK;
}

/* Sums and copies between ranks read the memory of others. */
static int reach_other(const struct dsf_device *device, unsigned other,
                       struct dsflow_err *err)
{
    const struct gpu *g = device->priv;
    int can = 0;
    int status = fail(device, g->cuda->reach(other, &can), err);

    if (status < 0 || can)
        return status;
    return dsflow_fail(err, DSFLOW_ENOSYS,
                       "machine: gpus: GPU %u does not reach the memory of GPU "
                       "%u (no peer access): expected GPUs that do, a process "
                       "for each of them (-n), or machine.gpus = 1",
                       device->index, other);
}

/* Of those that the program uses. */
static int reach_others(const struct dsf_device *device, struct dsflow_err *err)
{
    int status = DSFLOW_OK;

    for (unsigned i = 0; i < device->beside && status == DSFLOW_OK; i++) {
        unsigned other = (device->first + i) % device->all;

        if (other != device->index)
            status = reach_other(device, other, err);
    }
    return status;
}

static const char *set_origin(struct gpu *g)
{
    const char *why = g->cuda->event_new(&g->now);

    if (why == NULL)
        why = g->cuda->event_new(&g->origin);
    if (why == NULL)
        why = g->cuda->record(g->origin, g->streams[DSF_QUEUE_COMPUTE].at);
    return why == NULL ? g->cuda->await(g->origin) : why;
}

static int open_parts(struct dsf_device *device, struct dsflow_err *err)
{
    struct gpu *g = use(device);
    int status = check_kind(device, err);

    if (status == DSFLOW_OK)
        status = reach_others(device, err);
    if (status == DSFLOW_OK)
        status = fail(device, g->cuda->prepare(), err);
    for (unsigned i = 0; i < DSF_NQUEUES && status == DSFLOW_OK; i++)
        status = open_stream(device, &g->streams[i], err);
    return status == DSFLOW_OK ? fail(device, set_origin(g), err) : status;
}

static int cuda_open(struct dsf_device *device, struct dsflow_err *err)
{
    const struct dsf_gpu *cuda = dsf_cuda_module(err);
    struct gpu *g;
    int status;

    if (cuda == NULL)
        return DSFLOW_ENOSYS;
    g = device->priv = dsf_xcalloc(1, sizeof(*g));
    g->cuda = cuda;
    pthread_mutex_init(&g->lock, NULL);
    status = open_parts(device, err);
    if (status < 0)
        cuda_close(device);
    return status;
}

/* --- codelets ------------------------------------------------------------- */

/* A plug-in's kernel has what its op asks for. */
static size_t cuda_scratch(const struct dsflow_graph *g,
                           const struct dsflow_task_spec *t)
{
    const struct dsf_gpu_side *side = dsf_cuda_side(t->op);

    return side != NULL ? dsf_task_scratch_by(g, t, side->scratch)
                        : dsf_task_scratch(g, t);
}

static const char *cuda_lacks(const struct dsf_gpu_side *side, const void *args)
{
    return side->lacks != NULL ? side->lacks(args) : NULL;
}

const struct dsf_device_class dsf_device_cuda = {
    .name = "GPU",
    .open = cuda_open,
    .close = cuda_close,
    .allocate = cuda_allocate,
    .release = cuda_release,
    .resident = cuda_resident,
    .pin = cuda_pin,
    .unpin = cuda_unpin,
    .scratch = cuda_scratch,
    .side = dsf_cuda_side,
    .lacks = cuda_lacks,
    .launch = cuda_launch,
    .clock = cuda_clock,
};
