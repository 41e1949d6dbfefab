/* event_file.c - the curves of a run in the form TensorBoard reads: records of
 * TensorFlow's TFRecord format, each of them an Event of its event.proto. */
#include "train/event_file.h"

#include "base/alloc.h"

#include <assert.h>
#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <isa-l/crc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* A record holds some twenty scalars, with names of ours. */
struct bytes {
    unsigned char v[2048];
    size_t n;
};

/* Field numbers of event.proto and summary.proto. */
enum {
    EVENT_WALL_TIME = 1,
    EVENT_STEP = 2,
    EVENT_FILE_VERSION = 3,
    EVENT_SUMMARY = 5,
    EVENT_SESSION_LOG = 7,
    SESSION_LOG_STATUS = 1,
    SESSION_LOG_START = 1,
    SUMMARY_VALUE = 1,
    VALUE_TAG = 1,
    VALUE_SIMPLE = 2,
};
/* Wire types of protocol buffers. */
enum { VARINT = 0, FIXED64 = 1, LENGTH = 2, FIXED32 = 5 };

static void put(struct bytes *b, const void *data, size_t n)
{
    assert(n <= sizeof(b->v) - b->n); /* see above */
    memcpy(b->v + b->n, data, n);
    b->n += n;
}

static void put_varint(struct bytes *b, uint64_t x)
{
    for (; x >= 0x80; x >>= 7)
        put(b, &(unsigned char){ (unsigned char)(x | 0x80) }, 1);
    put(b, &(unsigned char){ (unsigned char)x }, 1);
}

static void put_key(struct bytes *b, unsigned field, unsigned wire)
{
    put_varint(b, field << 3 | wire);
}

static void put_fixed32(struct bytes *b, uint32_t x)
{
    x = htole32(x);
    put(b, &x, sizeof(x));
}

static void put_fixed64(struct bytes *b, uint64_t x)
{
    x = htole64(x);
    put(b, &x, sizeof(x));
}

static void put_block(struct bytes *b, unsigned field, const void *data,
                      size_t n)
{
    put_key(b, field, LENGTH);
    put_varint(b, n);
    put(b, data, n);
}

/* A value that is not known is left out. */
static void put_scalar(struct bytes *summary, const char *tag, double x)
{
    struct bytes value = { .n = 0 };
    float f = (float)x;
    uint32_t bits;

    if (!isfinite(x))
        return;
    memcpy(&bits, &f, sizeof(bits));
    put_block(&value, VALUE_TAG, tag, strlen(tag));
    put_key(&value, VALUE_SIMPLE, FIXED32);
    put_fixed32(&value, bits);
    put_block(summary, SUMMARY_VALUE, value.v, value.n);
}

static struct bytes new_event(int64_t step)
{
    struct bytes b = { .n = 0 };
    struct timespec now;
    double seconds;
    uint64_t bits;

    clock_gettime(CLOCK_REALTIME, &now);
    seconds = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    memcpy(&bits, &seconds, sizeof(bits));
    put_key(&b, EVENT_WALL_TIME, FIXED64);
    put_fixed64(&b, bits);
    put_key(&b, EVENT_STEP, VARINT);
    put_varint(&b, (uint64_t)step);
    return b;
}

/* CRC-32C, rotated and moved: a sum of bytes that hold a sum would be weak. */
static uint32_t masked_crc(const void *data, size_t n)
{
    uint32_t crc = ~crc32_iscsi((unsigned char *)data, (int)n, ~0U);

    return (crc >> 15 | crc << 17) + 0xa282ead8U;
}

/* The event as a record, in one write. */
static int put_record(struct dsf_event_file *e, const struct bytes *event,
                      struct dsflow_err *err)
{
    struct bytes record = { .n = 0 };
    ssize_t written;

    put_fixed64(&record, event->n);
    put_fixed32(&record, masked_crc(record.v, 8));
    put(&record, event->v, event->n);
    put_fixed32(&record, masked_crc(event->v, event->n));
    written = write(e->fd, record.v, record.n);
    if (written == (ssize_t)record.n)
        return DSFLOW_OK;
    if (written >= 0)
        errno = ENOSPC;
    return dsflow_fail(err, DSFLOW_EIO, "%s: cannot be written: %m", e->path);
}

static int put_summary(struct dsf_event_file *e, int64_t step,
                       const struct bytes *summary, struct dsflow_err *err)
{
    struct bytes event = new_event(step);

    put_block(&event, EVENT_SUMMARY, summary->v, summary->n);
    return put_record(e, &event, err);
}

#define PREFIX "events.out.tfevents."

/* The time for the name of a new file. TensorBoard reads files in the order of
 * their names, so that it has to be later than that of any there is. */
static long long name_time(const char *folder)
{
    long long newest = (long long)time(NULL);
    DIR *dir = opendir(folder);
    struct dirent *entry;

    while (dir != NULL && (entry = readdir(dir)) != NULL)
        if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) == 0) {
            long long t = strtoll(entry->d_name + strlen(PREFIX), NULL, 10);

            /* Ten digits, as their order is that of text. */
            if (t >= newest && t < 9999999999)
                newest = t + 1;
        }
    if (dir != NULL)
        closedir(dir);
    return newest;
}

static int put_start(struct dsf_event_file *e, int64_t done,
                     struct dsflow_err *err)
{
    static const char version[] = "brain.Event:2";
    struct bytes event = new_event(0), log = { .n = 0 };
    int status;

    put_block(&event, EVENT_FILE_VERSION, version, strlen(version));
    status = put_record(e, &event, err);
    if (status < 0)
        return status;
    put_key(&log, SESSION_LOG_STATUS, VARINT);
    put_varint(&log, SESSION_LOG_START);
    event = new_event(done + 1);
    put_block(&event, EVENT_SESSION_LOG, log.v, log.n);
    return put_record(e, &event, err);
}

int dsf_event_file_open(struct dsf_event_file *e, const char *output,
                        int64_t done, struct dsflow_err *err)
{
    char *folder = dsf_xasprintf("%s/tensorboard", output);
    char host[65] = "localhost";
    int status = DSFLOW_OK;

    if (gethostname(host, sizeof(host) - 1) < 0 || strchr(host, '/') != NULL)
        strcpy(host, "localhost");
    if (mkdir(folder, 0777) < 0 && errno != EEXIST)
        status = dsflow_fail(err, DSFLOW_EIO, "%s: %m", folder);
    e->path = dsf_xasprintf("%s/" PREFIX "%010lld.%s.%ld", folder,
                            name_time(folder), host, (long)getpid());
    e->fd =
        status < 0
            ? -1
            : open(e->path, O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC,
                   0666);
    if (status == DSFLOW_OK && e->fd < 0)
        status = dsflow_fail(err, DSFLOW_EIO, "%s: %m", e->path);
    if (status == DSFLOW_OK)
        status = put_start(e, done, err);
    free(folder);
    if (status < 0)
        dsf_event_file_close(e);
    return status;
}

void dsf_event_file_close(struct dsf_event_file *e)
{
    if (e->path != NULL && e->fd >= 0)
        close(e->fd);
    free(e->path);
    *e = (struct dsf_event_file){ .fd = -1 };
}

int dsf_event_file_step(struct dsf_event_file *e, const struct dsf_step *s,
                        struct dsflow_err *err)
{
    struct bytes b = { .n = 0 };

    if (e->path == NULL)
        return DSFLOW_OK;
    put_scalar(&b, "loss", s->loss);
    put_scalar(&b, "lr", s->lr);
    put_scalar(&b, "grad_norm", s->grad_norm);
    if (s->skipped)
        put_scalar(&b, "skipped", 1);
    if (s->overflows >= 0) {
        put_scalar(&b, "loss_scale", s->loss_scale);
        put_scalar(&b, "overflows", (double)s->overflows);
    }
    put_scalar(&b, "tokens_per_second", (double)s->tokens / s->seconds);
    put_scalar(&b, "efficiency", s->efficiency);
    if (!isnan(s->mfu))
        put_scalar(&b, "mfu", s->mfu);
    put_scalar(&b, "memory/cpu", (double)s->peak_bytes);
    if (s->device_bytes > 0)
        put_scalar(&b, "memory/device", (double)s->device_bytes);
    if (s->nvme_bytes > 0) {
        put_scalar(&b, "memory/nvme", (double)s->nvme_bytes);
        put_scalar(&b, "io/seconds", s->io_seconds);
        put_scalar(&b, "io/hidden", s->io_hidden);
    }
    for (unsigned i = 0; i < DSF_NSHARES; i++) {
        char tag[32];

        snprintf(tag, sizeof(tag), "share/%s", dsf_share_names[i]);
        put_scalar(&b, tag, s->share[i]);
    }
    return put_summary(e, s->step, &b, err);
}

int dsf_event_file_validation(struct dsf_event_file *e,
                              const struct dsf_validation *v,
                              struct dsflow_err *err)
{
    struct bytes b = { .n = 0 };

    if (e->path == NULL)
        return DSFLOW_OK;
    put_scalar(&b, "validation/loss", v->loss);
    put_scalar(&b, "validation/nats_per_byte", v->per_byte);
    put_scalar(&b, "validation/perplexity", v->perplexity);
    return put_summary(e, v->step, &b, err);
}
