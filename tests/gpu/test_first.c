/* test_first.c - what all else on GPU 0 stands on, one thing after the other:
 * the driver, memory, pinned memory, streams, events, copies, times, the
 * library of products. A line says what is tried before it is, and then what
 * came of it, so that a crash or a hang names its place. What is wrong is not
 * the end: what comes behind is tried, too. */
#include "lib/test.h"

#include "gpu/place.h"

#include "base/units.h"
#include "exec/cuda_module.h"

#include <dsflow/error.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { MEBI = 1 << 20, MOST_BYTES = 64 * MEBI, ROWS = 64 };

/* What a step leaves to those behind it, and has to say of itself. */
static struct {
    const struct dsf_gpu *gpu;
    struct dsf_gpu_about about;
    void *stream, *begun, *ended;
    char *host, *device, *other; /* `bytes` each */
    size_t bytes;
    char note[300];
} it;

/* Of the first one that is wrong. */
#define TRY(call)                                                              \
    do {                                                                       \
        const char *why_ = (call);                                             \
        if (why_ != NULL)                                                      \
            return why_;                                                       \
    } while (0)

static const char *find_module(void)
{
    static struct dsflow_err err;

    it.gpu = dsf_cuda_module(&err);
    return it.gpu != NULL ? NULL : err.msg;
}

static const char *find_gpu(void)
{
    static struct dsflow_err err;
    unsigned n;

    if (dsf_cuda_count(&n, &err) < 0)
        return err.msg;
    TRY(it.gpu->about(0, &it.about));
    snprintf(it.note, sizeof(it.note),
             "%u; %s, %d.%d, %u processors, %s of %s are free%s", n,
             it.about.name, it.about.major, it.about.minor, it.about.processors,
             dsf_size_text((double)it.about.free).s,
             dsf_size_text((double)it.about.memory).s,
             it.about.reaches_main_memory ? ""
                                          : ", does not reach main memory");
    return it.gpu->use(0);
}

static const char *open_stream(void)
{
    TRY(it.gpu->stream_new(&it.stream));
    TRY(it.gpu->event_new(&it.begun));
    TRY(it.gpu->event_new(&it.ended));
    TRY(it.gpu->record(it.begun, it.stream));
    return it.gpu->await(it.begun);
}

/* A piece as large as those of small models, and two to copy between. */
static const char *allocate(void)
{
    void *at;

    it.bytes = MOST_BYTES;
    while (it.bytes > it.about.free / 16)
        it.bytes /= 2;
    TRY(it.gpu->allocate(it.about.free / 16, &at));
    TRY(it.gpu->release(at));
    TRY(it.gpu->allocate(it.bytes, &at));
    it.device = at;
    TRY(it.gpu->allocate(it.bytes, &at));
    it.other = at;
    snprintf(it.note, sizeof(it.note), "%s, and twice %s",
             dsf_size_text((double)(it.about.free / 16)).s,
             dsf_size_text((double)it.bytes).s);
    return NULL;
}

static const char *pin(void)
{
    double start;

    it.host = mmap(NULL, it.bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (it.host == MAP_FAILED)
        return "main memory is missing";
    memset(it.host, 1, it.bytes);
    start = dsf_now();
    TRY(it.gpu->pin(it.host, it.bytes));
    snprintf(it.note, sizeof(it.note), "%.2f GB/s",
             (double)it.bytes / (dsf_now() - start) / 1e9);
    return NULL;
}

static const char *await(void)
{
    TRY(it.gpu->record(it.ended, it.stream));
    return it.gpu->await(it.ended);
}

static const char *copy(void *to, int to_gpu, const void *from, int from_gpu)
{
    const struct dsf_gpu_copy c = { to, from, it.bytes, to_gpu, from_gpu };

    return it.gpu->copy(&c, it.stream);
}

static const char *are_there(char value)
{
    for (size_t i = 0; i < it.bytes; i++)
        if (it.host[i] != value) {
            snprintf(it.note, sizeof(it.note), "byte %zu is %d: expected %d", i,
                     it.host[i], value);
            return it.note;
        }
    return NULL;
}

/* Zeroes of fresh memory, then other numbers there and back. */
static const char *copy_around(void)
{
    if (it.host == NULL || it.device == NULL || it.other == NULL)
        return "there is no memory";
    TRY(copy(it.host, -1, it.device, 0));
    TRY(await());
    TRY(are_there(0));
    memset(it.host, 2, it.bytes);
    TRY(copy(it.device, 0, it.host, -1));
    TRY(copy(it.other, 0, it.device, 0));
    TRY(await());
    memset(it.host, 3, it.bytes);
    TRY(copy(it.host, -1, it.other, 0));
    TRY(await());
    return are_there(2);
}

/* Of a matrix, half of each row, into rows without gaps. */
static const char *copy_rows(void)
{
    const size_t apart = it.bytes / ROWS;
    const struct dsf_gpu_copy half = { it.other, it.device, apart / 2, 0,
                                       0,        ROWS,      apart / 2, apart };

    if (it.host == NULL || it.device == NULL || it.other == NULL)
        return "there is no memory";
    for (size_t i = 0; i < it.bytes; i++)
        it.host[i] = i % apart < apart / 2 ? 4 : 5;
    TRY(copy(it.device, 0, it.host, -1));
    TRY(it.gpu->copy(&half, it.stream));
    TRY(copy(it.host, -1, it.other, 0));
    TRY(await());
    memset(it.host + it.bytes / 2, 4, it.bytes / 2);
    return are_there(4);
}

static const char *take_times(void)
{
    double seconds = -1, back = 0;

    TRY(it.gpu->record(it.begun, it.stream));
    TRY(copy(it.other, 0, it.device, 0));
    TRY(await());
    TRY(it.gpu->elapsed(it.begun, it.ended, &seconds));
    TRY(it.gpu->elapsed(it.ended, it.begun, &back));
    snprintf(it.note, sizeof(it.note), "a copy took %.3g ms, %.0f GB/s",
             1e3 * seconds, 2e-9 * (double)it.bytes / seconds);
    if (back != -seconds)
        return "a time is another one backwards";
    return seconds > 0 ? NULL : "an event was before an earlier one";
}

static const char *open_products(void)
{
    dsf_cuda_versions(it.note, sizeof(it.note));
    return it.gpu->prepare();
}

static const char *end(void)
{
    if (it.host != NULL)
        TRY(it.gpu->unpin(it.host));
    TRY(it.gpu->release(it.device));
    TRY(it.gpu->release(it.other));
    TRY(it.gpu->event_free(it.begun));
    TRY(it.gpu->event_free(it.ended));
    return it.gpu->stream_free(it.stream);
}

static const struct {
    const char *name;
    const char *(*run)(void);
    bool last; /* where it fails */
} steps[] = {
    { "module", find_module, true },
    { "GPUs", find_gpu, true },
    { "streams and events", open_stream, false },
    { "device memory", allocate, false },
    { "pinned memory", pin, false },
    { "copies", copy_around, false },
    { "copies of rows", copy_rows, false },
    { "times", take_times, false },
    { "products", open_products, false },
    { "all back", end, false },
};

int test_module_first(int argc, char **argv)
{
    bool good = true;

    setvbuf(stdout, NULL, _IONBF, 0);
    for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
        const double start = dsf_now();
        const char *why;

        it.note[0] = '\0';
        printf("first: %s: ", steps[i].name);
        why = steps[i].run();
        printf("%s%s (%.3f s)\n",
               why == NULL ? "ok " : "FAILS: ", why == NULL ? it.note : why,
               dsf_now() - start);
        good = good && why == NULL;
        if (why != NULL && steps[i].last)
            break;
    }
    return good ? 0 : 1;
}
