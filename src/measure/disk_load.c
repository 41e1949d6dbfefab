/* disk_load.c - threads that keep a store busy while it is watched. */
#include "measure/disk_load.h"

#include "base/by_value.h"
#include "base/random.h"
#include "base/units.h"
#include "measure/measured.h"

#include <math.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

enum { AHEAD = 4, MOST_THREADS = 4 };

/* What one thread moves in one direction: requests over its part of the store,
 * AHEAD of them submitted at any time. */
struct stream {
    struct dsf_io *io;
    enum dsf_io_op op;
    int64_t begin, end, next;
    size_t bytes; /* of a request */
    char *memory; /* for each request one behind the other */
    struct dsf_io_request requests[AHEAD];
    atomic_bool over[AHEAD];
    sem_t any_over;
    atomic_bool *stop;
    pthread_t thread;
    bool started;
};

static void note_over(struct dsf_io_request *r)
{
    struct stream *s = r->user;

    atomic_store(&s->over[r - s->requests], true);
    sem_post(&s->any_over);
}

static void submit(struct stream *s, unsigned i)
{
    if (s->next + (int64_t)s->bytes > s->end)
        s->next = s->begin;
    s->requests[i] =
        (struct dsf_io_request){ .op = s->op,
                                 .memory = s->memory + i * s->bytes,
                                 .offset = s->next,
                                 .bytes = s->bytes,
                                 .done = note_over,
                                 .user = s };
    s->next += (int64_t)s->bytes;
    dsf_io_submit(s->io, &s->requests[i]);
}

static unsigned wait_for_one(struct stream *s)
{
    unsigned i = 0;

    while (sem_wait(&s->any_over) < 0)
        ;
    while (!atomic_exchange(&s->over[i], false))
        i = (i + 1) % AHEAD;
    return i;
}

/* Ends with nothing under way: after `stop`, or an error. */
static void *run_stream(void *user)
{
    struct stream *s = user;
    unsigned left = AHEAD;

    for (unsigned i = 0; i < AHEAD; i++)
        submit(s, i);
    while (left > 0) {
        unsigned i = wait_for_one(s);

        if (s->requests[i].status < 0)
            atomic_store(s->stop, true);
        if (atomic_load(s->stop))
            left--;
        else
            submit(s, i);
    }
    return NULL;
}

/* Memory that no disk can make smaller. */
static char *random_memory(size_t bytes, struct dsflow_err *err)
{
    uint64_t *memory = dsf_io_alloc(bytes, err), seed = bytes;

    for (size_t i = 0; memory != NULL && i < bytes / sizeof(*memory); i++)
        memory[i] = dsf_random(&seed);
    return (char *)memory;
}

/* Whole blocks on every file, half of the depth and more. */
static size_t request_bytes(const struct dsf_disk_load *load, int64_t part)
{
    size_t turn = load->block * load->nfiles;
    size_t bytes = turn * ((load->depth + 1) / 2);

    if ((int64_t)bytes > part)
        bytes = (size_t)part / turn * turn;
    return bytes > 0 ? bytes : (size_t)part / DSF_IO_ALIGN * DSF_IO_ALIGN;
}

static int start(struct stream *s, const struct dsf_disk_load *load,
                 enum dsf_io_op op, unsigned thread, atomic_bool *stop,
                 char *memory, struct dsflow_err *err)
{
    int64_t turn = (int64_t)(load->block * load->nfiles);
    int64_t part = load->size / load->threads / turn * turn;

    s->io = load->io;
    s->op = op;
    s->begin = s->next = thread * part;
    s->end = s->begin + part;
    s->bytes = request_bytes(load, part);
    s->memory = memory;
    s->stop = stop;
    sem_init(&s->any_over, 0, 0);
    s->started = pthread_create(&s->thread, NULL, run_stream, s) == 0;
    return s->started
               ? DSFLOW_OK
               : dsflow_fail(err, DSFLOW_EFAIL, "no thread for a measurement");
}

static int end(struct stream *s, struct dsflow_err *err)
{
    if (!s->started)
        return DSFLOW_OK;
    pthread_join(s->thread, NULL);
    sem_destroy(&s->any_over);
    for (unsigned i = 0; i < AHEAD; i++)
        if (s->requests[i].status < 0) {
            *err = s->requests[i].err;
            return s->requests[i].status;
        }
    return DSFLOW_OK;
}

static void pause_for(double seconds, const atomic_bool *stop)
{
    double until = dsf_now() + seconds, left;

    while ((left = until - dsf_now()) > 0 && !atomic_load(stop)) {
        struct timespec t = { .tv_nsec =
                                  (long)(1e9 * (left < 0.1 ? left : 0.1)) };

        nanosleep(&t, NULL);
    }
}

/* What moves in the middle, when all are under way and none ends. A request
 * more or less is no scatter. */
static void watch(const struct dsf_disk_load *load, const atomic_bool *stop,
                  struct dsf_disk_rate *rate)
{
    enum { PARTS = 4 };
    double part[PARTS], least_apart, middle, begun, at, seconds;
    size_t request = request_bytes(load, load->size / load->threads);
    struct dsf_io_stats before, last, now;

    pause_for(load->seconds / 5, stop);
    begun = at = dsf_now();
    dsf_io_stats(load->io, &before);
    last = before;
    for (int i = 0; i < PARTS; i++) {
        pause_for(load->seconds / PARTS, stop);
        dsf_io_stats(load->io, &now);
        seconds = dsf_now() - at;
        at += seconds;
        part[i] = (double)(now.read - last.read + now.written - last.written) /
                  seconds;
        last = now;
    }
    seconds = at - begun;
    rate->read = (double)(now.read - before.read) / seconds;
    rate->write = (double)(now.written - before.written) / seconds;
    rate->scatter = dsf_scatter(part, PARTS, &middle);
    least_apart = (double)request / (load->seconds / PARTS);
    if (middle > 0)
        rate->scatter = fmax(0, rate->scatter - least_apart / middle);
}

int dsf_disk_measure(const struct dsf_disk_load *load, bool reads, bool writes,
                     struct dsf_disk_rate *rate, struct dsflow_err *err)
{
    struct stream streams[2][MOST_THREADS] = { 0 };
    bool asked[2] = { [DSF_IO_READ] = reads, [DSF_IO_WRITE] = writes };
    size_t each = AHEAD * request_bytes(load, load->size / load->threads);
    size_t bytes = 2 * load->threads * each;
    char *memory = random_memory(bytes, err);
    int status = memory != NULL ? DSFLOW_OK : DSFLOW_ENOMEM, ended;
    atomic_bool stop = false;
    unsigned n = 0;

    if (status < 0)
        return status;
    for (int op = 0; op < 2; op++)
        for (unsigned t = 0; t < load->threads; t++, n++)
            if (status == DSFLOW_OK && asked[op])
                status = start(&streams[op][t], load, (enum dsf_io_op)op, t,
                               &stop, memory + n * each, err);
    if (status == DSFLOW_OK)
        watch(load, &stop, rate);
    atomic_store(&stop, true);
    for (int op = 0; op < 2; op++)
        for (unsigned t = 0; t < load->threads; t++) {
            ended = end(&streams[op][t], err);
            status = status < 0 ? status : ended;
        }
    dsf_io_free(memory, bytes);
    return status;
}

int dsf_disk_measure_rate(dsf_disk_measure_fn measure,
                          const struct dsf_disk_load *load, bool reads,
                          bool writes, struct dsf_disk_rate *rate,
                          struct dsflow_err *err)
{
    enum { TIMES = 5 };
    struct dsf_disk_load longer = *load;

    for (int i = 0; i < TIMES; i++, longer.seconds *= 2) {
        int status = measure(&longer, reads, writes, rate, err);

        if (status < 0)
            return status;
        if ((!reads || dsf_is_rate(rate->read)) &&
            (!writes || dsf_is_rate(rate->write)))
            return DSFLOW_OK;
    }
    return dsflow_fail(err, DSFLOW_EFAIL,
                       "the disk: %g bytes a second read and %g written in "
                       "%.1f s: it is too slow, or others are busy with it",
                       rate->read, rate->write, longer.seconds / 2);
}

int dsf_disk_fill(const struct dsf_disk_load *load, double seconds,
                  int64_t *filled, struct dsflow_err *err)
{
    int64_t turn = (int64_t)(load->block * load->nfiles);
    size_t bytes = request_bytes(load, load->size);
    void *memory = random_memory(bytes, err);
    double begun = dsf_now();
    int status = memory != NULL ? DSFLOW_OK : DSFLOW_ENOMEM;
    int64_t at = 0;

    while (status == DSFLOW_OK && at < load->size &&
           (at < turn || dsf_now() - begun < seconds)) {
        size_t n = load->size - at < (int64_t)bytes ? (size_t)(load->size - at)
                                                    : bytes;

        status = dsf_io_write(load->io, memory, at, n, err);
        at += (int64_t)n;
    }
    *filled = at / turn * turn;
    dsf_io_free(memory, bytes);
    return status;
}

int dsf_disk_latency(const struct dsf_disk_load *load, double *seconds,
                     struct dsflow_err *err)
{
    enum { READS = 15 };
    int64_t step = load->size / READS / DSF_IO_ALIGN * DSF_IO_ALIGN;
    void *memory = dsf_io_alloc(DSF_IO_ALIGN, err);
    int status = memory != NULL ? DSFLOW_OK : DSFLOW_ENOMEM;
    double took[READS];

    for (int i = 0; i < READS && status == DSFLOW_OK; i++) {
        took[i] = dsf_now();
        status = dsf_io_read(load->io, memory, i * step, DSF_IO_ALIGN, err);
        took[i] = dsf_now() - took[i];
    }
    dsf_io_free(memory, DSF_IO_ALIGN);
    if (status < 0)
        return status;
    qsort(took, READS, sizeof(*took), dsf_by_value);
    *seconds = took[READS / 2];
    return DSFLOW_OK;
}
