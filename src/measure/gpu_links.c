/* gpu_links.c - copies in and between memories of GPUs, timed by events. */
#include "measure/gpu_links.h"

#include "exec/cuda_module.h"
#include "measure/measured.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* What goes wrong first is kept, and what follows does no harm. */
struct links {
    const struct dsf_gpu *cuda;
    const char *why;
    size_t bytes;
    void *stream, *begun, *ended;
    void *other, *other_ended; /* a second stream, for two copies at once */
    void *here, *beside; /* on GPU 0 */
    void *there;         /* on GPU 1 */
    void *host;
};

static void keep(struct links *l, const char *why)
{
    if (l->why == NULL)
        l->why = why;
}

static void open_links(struct links *l, unsigned ngpus)
{
    int can = 0; /* where not, copies go through main memory */

    if (ngpus > 1) {
        keep(l, l->cuda->use(1));
        keep(l, l->cuda->allocate(l->bytes, &l->there));
    }
    keep(l, l->cuda->use(0));
    if (ngpus > 1)
        keep(l, l->cuda->reach(1, &can));
    keep(l, l->cuda->allocate(l->bytes, &l->here));
    keep(l, l->cuda->allocate(l->bytes, &l->beside));
    keep(l, l->cuda->stream_new(&l->stream));
    keep(l, l->cuda->stream_new(&l->other));
    keep(l, l->cuda->event_new(&l->begun));
    keep(l, l->cuda->event_new(&l->ended));
    keep(l, l->cuda->event_new(&l->other_ended));
    l->host = mmap(NULL, l->bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (l->host == MAP_FAILED) {
        l->host = NULL;
        keep(l, "main memory is missing");
        return;
    }
    memset(l->host, 1, l->bytes);
    keep(l, l->cuda->pin(l->host, l->bytes));
}

static void close_links(struct links *l)
{
    if (l->host != NULL) {
        keep(l, l->cuda->unpin(l->host));
        munmap(l->host, l->bytes);
    }
    if (l->begun != NULL)
        keep(l, l->cuda->event_free(l->begun));
    if (l->ended != NULL)
        keep(l, l->cuda->event_free(l->ended));
    if (l->other_ended != NULL)
        keep(l, l->cuda->event_free(l->other_ended));
    if (l->stream != NULL)
        keep(l, l->cuda->stream_free(l->stream));
    if (l->other != NULL)
        keep(l, l->cuda->stream_free(l->other));
    if (l->here != NULL)
        keep(l, l->cuda->release(l->here));
    if (l->beside != NULL)
        keep(l, l->cuda->release(l->beside));
    if (l->there != NULL) {
        keep(l, l->cuda->use(1));
        keep(l, l->cuda->release(l->there));
        keep(l, l->cuda->use(0));
    }
}

/* Put a copy into a stream, and an event behind it. */
static void start(struct links *l, const struct dsf_gpu_copy *copy,
                  void *stream, void *ended)
{
    if (l->why == NULL)
        keep(l, l->cuda->copy(copy, stream));
    if (l->why == NULL)
        keep(l, l->cuda->record(ended, stream));
}

/* From the beginning to this event. */
static double seconds_to(struct links *l, void *ended)
{
    double seconds = 0;

    if (l->why == NULL)
        keep(l, l->cuda->await(ended));
    if (l->why == NULL)
        keep(l, l->cuda->elapsed(l->begun, ended, &seconds));
    return seconds;
}

/* Of a copy, and of another one at the same time where there is one. */
static double seconds_of(struct links *l, const struct dsf_gpu_copy *copy,
                         const struct dsf_gpu_copy *other)
{
    double seconds;

    if (l->why == NULL)
        keep(l, l->cuda->record(l->begun, l->stream));
    start(l, copy, l->stream, l->ended);
    if (other != NULL)
        start(l, other, l->other, l->other_ended);
    seconds = seconds_to(l, l->ended);
    return other == NULL ? seconds
                         : fmax(seconds, seconds_to(l, l->other_ended));
}

/* The middle of some, after one that is not counted. */
static double time_copies(struct links *l, const struct dsf_gpu_copy *copy,
                          const struct dsf_gpu_copy *other, double *scatter)
{
    enum { TIMES = 5 };
    double v[TIMES], middle;

    seconds_of(l, copy, other);
    for (int i = 0; i < TIMES; i++)
        v[i] = seconds_of(l, copy, other);
    *scatter = fmax(*scatter, dsf_scatter(v, TIMES, &middle));
    return middle;
}

static double rate_of(struct links *l, const struct dsf_gpu_copy *copy,
                      double *scatter)
{
    return (double)copy->bytes / time_copies(l, copy, NULL, scatter);
}

/* Main memory: each way alone, and halves of the buffers both ways at once. */
static void measure_host(struct links *l, struct dsf_gpu_link_rates *rates,
                         double *scatter)
{
    size_t half = l->bytes / 2;
    const struct dsf_gpu_copy in = { l->here, l->host, l->bytes, 0, -1 },
                              out = { l->host, l->here, l->bytes, -1, 0 },
                              half_in = { l->here, l->host, half, 0, -1 },
                              half_out = { (char *)l->host + half, l->beside,
                                           half, -1, 0 };

    rates->in = rate_of(l, &in, scatter);
    rates->out = rate_of(l, &out, scatter);
    rates->both =
        2 * (double)half / time_copies(l, &half_in, &half_out, scatter);
}

static void measure(struct links *l, struct dsf_machine_model *m,
                    struct dsf_gpu_link_rates *rates)
{
    const struct dsf_gpu_copy few = { l->here, l->host, 64, 0, -1 },
                              own = { l->beside, l->here, l->bytes, 0, 0 },
                              peer = { l->here, l->there, l->bytes, 0, 1 };
    struct dsf_machine_scatter *s = &m->scatter;
    double ignored = 0;

    s->bandwidth = s->link = 0;
    m->main.bandwidth = 2 * rate_of(l, &own, &s->bandwidth);
    measure_host(l, rates, &s->link);
    m->main.host_link = fmin(fmin(rates->in, rates->out), rates->both / 2);
    /* Ranks of one GPU copy in its memory. */
    m->link.bandwidth = l->there != NULL ? rate_of(l, &peer, &s->link)
                                         : m->main.bandwidth / 2;
    m->link.latency = time_copies(l, &few, NULL, &ignored);
}

int dsf_gpu_links(unsigned ngpus, size_t bytes, struct dsf_machine_model *m,
                  struct dsf_gpu_link_rates *rates, struct dsflow_err *err)
{
    struct links l = { .cuda = dsf_cuda_module(err), .bytes = bytes };

    if (l.cuda == NULL)
        return DSFLOW_ENOSYS;
    open_links(&l, ngpus);
    if (l.why == NULL)
        measure(&l, m, rates);
    close_links(&l);
    return l.why == NULL
               ? DSFLOW_OK
               : dsflow_fail(err, DSFLOW_EFAIL, "links of GPUs: %s", l.why);
}
