/* on_gpu.c - a call in the memory of a GPU. */
#include "verify/on_gpu.h"

#include "base/alloc.h"
#include "exec/cuda_module.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    CANARY = 0x5a,
    ALIGNED = 256 /* scratch: libraries of products ask for that */
};

/* No more than buffers are aligned to: a multiple of 64 bytes, and not of 128. */
size_t dsf_on_gpu_edge = 9 * 64;

static struct {
    const struct dsf_gpu *gpu;
    void *stream, *ended;
    char *pinned; /* main memory that the GPU reaches */
    size_t pinned_bytes, pinned_used;
    char *scratch; /* with its edges */
    size_t scratch_bytes;
    char said[256];
} place;

int dsf_on_gpu_find(struct dsflow_err *err)
{
    unsigned n;

    return dsf_cuda_count(&n, err);
}

static const char *say(const char *why)
{
    if (why == NULL)
        return NULL;
    snprintf(place.said, sizeof(place.said), "fails: %s", why);
    return place.said;
}

/* Once, in the process that computes: no child has the GPU of its parent. */
static const char *open_place(void)
{
    struct dsflow_err err;
    const struct dsf_gpu *gpu = dsf_cuda_module(&err);
    const char *why;

    if (place.gpu != NULL)
        return NULL;
    if (gpu == NULL)
        return "there is no module with the CUDA side";
    why = gpu->use(0);
    if (why == NULL)
        why = gpu->stream_new(&place.stream);
    if (why == NULL)
        why = gpu->event_new(&place.ended);
    if (why == NULL)
        place.gpu = gpu;
    return why;
}

/* The thread may be another one than before. */
static const char *enter(void)
{
    const char *why = open_place();

    return why == NULL ? place.gpu->use(0) : why;
}

const char *dsf_on_gpu_new_stream(void)
{
    const char *why = enter();

    if (why == NULL)
        why = place.gpu->stream_free(place.stream);
    if (why == NULL)
        why = place.gpu->stream_new(&place.stream);
    return say(why);
}

/* Until all is done that was enqueued. */
static const char *await(void)
{
    const char *why = place.gpu->record(place.ended, place.stream);

    return why != NULL ? why : place.gpu->await(place.ended);
}

static const char *copy(void *to, const void *from, size_t bytes, int to_gpu)
{
    const struct dsf_gpu_copy c = { to, from, bytes, to_gpu, -1 - to_gpu };
    const char *why = place.gpu->copy(&c, place.stream);

    return why != NULL ? why : await();
}

/* --- buffers -------------------------------------------------------------- */

/* What one buffer is on the GPU, or for it in main memory. */
struct piece {
    char *at; /* with its edges */
    size_t bytes;
    bool pinned;
};

static size_t whole(const struct piece *p)
{
    return p->bytes + 2 * dsf_on_gpu_edge + (p->bytes + dsf_on_gpu_edge == 0);
}

/* Does the program read or write such data as well? */
static bool is_of_host(enum dsflow_dtype type)
{
    return type == DSFLOW_BYTES || type == DSFLOW_INT32 ||
           type == DSFLOW_INT64 || type == DSFLOW_FP64;
}

static size_t pinned_bytes(const struct piece *p)
{
    return (whole(p) + 63) / 64 * 64;
}

/* Room for all buffers of a call that are not on the GPU. */
static const char *grow_pinned(const struct dsflow_call *call)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t bytes = 0;
    void *more;

    for (unsigned i = 0; i < call->nbufs; i++)
        if (is_of_host(call->bufs[i].dtype))
            bytes += pinned_bytes(
                &(struct piece){ .bytes = call->bufs[i].bytes });
    if (bytes <= place.pinned_bytes)
        return NULL;
    if (place.pinned != NULL) {
        place.gpu->unpin(place.pinned);
        munmap(place.pinned, place.pinned_bytes);
    }
    place.pinned = NULL;
    place.pinned_bytes = 0;
    bytes = (bytes + page - 1) / page * page;
    more = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (more == MAP_FAILED)
        return "no memory that could be pinned";
    place.pinned = more;
    place.pinned_bytes = bytes;
    return place.gpu->pin(more, bytes);
}

static void take_pinned(struct piece *p)
{
    p->at = place.pinned + place.pinned_used;
    place.pinned_used += pinned_bytes(p);
}

/* A copy of the buffer with its edges; freed by the caller. */
static char *with_edges(const struct piece *p, const void *data)
{
    char *all = dsf_xcalloc(1, whole(p));

    memset(all, CANARY, whole(p));
    memcpy(all + dsf_on_gpu_edge, data, p->bytes);
    return all;
}

static const char *put(struct piece *p, const struct dsflow_buf *buf)
{
    const char *why = NULL;
    char *all;
    void *at = NULL;

    *p =
        (struct piece){ .bytes = buf->bytes, .pinned = is_of_host(buf->dtype) };
    if (p->pinned)
        take_pinned(p);
    else
        why = place.gpu->allocate(whole(p), &at);
    if (why != NULL)
        return why;
    all = with_edges(p, buf->ptr);
    if (p->pinned) {
        memcpy(p->at, all, whole(p));
    } else {
        p->at = at;
        why = copy(p->at, all, whole(p), 0);
    }
    free(all);
    return why;
}

/* How far behind the buffer something was written (above 0), or before it (below
 * 0), in bytes. */
static long spill(const struct piece *p, const char *all)
{
    const size_t edge = dsf_on_gpu_edge;

    for (size_t i = edge; i-- > 0;)
        if (all[edge + p->bytes + i] != CANARY)
            return (long)i + 1;
    for (size_t i = 0; i < edge; i++)
        if (all[i] != CANARY)
            return (long)i - (long)edge;
    return 0;
}

static const char *say_spill(long bytes, const char *name)
{
    if (bytes == 0)
        return NULL;
    snprintf(place.said, sizeof(place.said), "writes %ld bytes %s %s",
             labs(bytes),
             bytes > 0 ? "past the end of" : "before the beginning of", name);
    return place.said;
}

/* "port grad", or by its number. */
static void name_port(const struct dsflow_op *op, unsigned port, char name[64])
{
    unsigned last = op != NULL && op->nports > 0 ? op->nports - 1 : 0;
    const char *known =
        op != NULL ? op->ports[port < last ? port : last].name : NULL;

    if (known != NULL)
        snprintf(name, 64, "port %.50s", known);
    else
        snprintf(name, 64, "port %u", port);
}

static const char *get(const struct piece *p, const struct dsflow_buf *buf,
                       const struct dsflow_op *op, unsigned port)
{
    char *all = dsf_xcalloc(1, whole(p)), name[64];
    const char *why = NULL;

    name_port(op, port, name);
    if (p->pinned)
        memcpy(all, p->at, whole(p));
    else
        why = say(copy(all, p->at, whole(p), -1));
    if (why == NULL)
        why = say_spill(spill(p, all), name);
    if (why == NULL &&
        memcmp(buf->ptr, all + dsf_on_gpu_edge, p->bytes) != 0)
        memcpy(buf->ptr, all + dsf_on_gpu_edge, p->bytes);
    free(all);
    return why;
}

static const char *put_all(struct piece *pieces, struct dsflow_buf *there,
                           const struct dsflow_call *call)
{
    const char *why = grow_pinned(call);

    place.pinned_used = 0;
    for (unsigned i = 0; i < call->nbufs && why == NULL; i++) {
        there[i] = call->bufs[i];
        if (call->bufs[i].ptr == NULL)
            continue;
        why = put(&pieces[i], &call->bufs[i]);
        there[i].ptr = pieces[i].at + dsf_on_gpu_edge;
    }
    return why;
}

static const char *get_all(const struct piece *pieces,
                           const struct dsflow_op *op,
                           const struct dsflow_call *call)
{
    const char *why = NULL;

    for (unsigned i = 0; i < call->nbufs && why == NULL; i++)
        if (pieces[i].at != NULL)
            why = get(&pieces[i], &call->bufs[i], op, i);
    return why;
}

static void release_all(const struct piece *pieces, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (pieces[i].at != NULL && !pieces[i].pinned)
            place.gpu->release(pieces[i].at);
}

/* --- scratch -------------------------------------------------------------- */

static size_t scratch_of(const struct dsf_on_gpu *what,
                         const struct dsflow_call *call)
{
    size_t (*scratch)(const struct dsflow_case *) =
        what->cuda != NULL ? what->op->scratch : what->side->scratch;
    struct dsflow_shape *shapes = dsf_xcalloc(call->nbufs + 1, sizeof(*shapes));
    const struct dsflow_case c = { what->op, shapes, call->nbufs, call->args };
    size_t bytes;

    for (unsigned i = 0; i < call->nbufs; i++)
        shapes[i] =
            (struct dsflow_shape){ call->bufs[i].bytes, call->bufs[i].elems,
                                   call->bufs[i].dtype };
    bytes = scratch != NULL ? scratch(&c) : 0;
    free(shapes);
    return bytes;
}

static size_t align(size_t bytes)
{
    return (bytes + ALIGNED - 1) / ALIGNED * ALIGNED;
}

/* At first it is no numbers. */
static const char *grow_scratch(size_t wanted)
{
    const size_t bytes = align(wanted);
    const size_t all = bytes + 2 * align(dsf_on_gpu_edge);
    const char *why;
    void *more, *garbage;

    if (bytes <= place.scratch_bytes)
        return NULL;
    why = place.gpu->allocate(all, &more);
    if (why != NULL)
        return why;
    if (place.scratch != NULL)
        place.gpu->release(place.scratch);
    place.scratch = more;
    place.scratch_bytes = bytes;
    garbage = dsf_xcalloc(1, all);
    memset(garbage, 0xff, all);
    why = copy(more, garbage, all, 0);
    free(garbage);
    return why;
}

/* Where those that a call has begin; the last ones of all, so that their end is
 * near that of the allocation. */
static char *scratch_at(size_t bytes)
{
    return place.scratch + align(dsf_on_gpu_edge) + place.scratch_bytes -
           align(bytes);
}

static const char *put_edges(size_t bytes)
{
    const size_t edge = dsf_on_gpu_edge;
    char *canaries = dsf_xcalloc(1, edge + 1);
    const char *why;

    memset(canaries, CANARY, edge + 1);
    why = copy(scratch_at(bytes) - edge, canaries, edge, 0);
    if (why == NULL)
        why = copy(scratch_at(bytes) + bytes, canaries, edge, 0);
    free(canaries);
    return why;
}

static const char *check_edges(size_t bytes)
{
    const size_t edge = dsf_on_gpu_edge;
    const struct piece none = { .bytes = 0 };
    char *all = dsf_xcalloc(1, 2 * edge + 1);
    const char *why = copy(all, scratch_at(bytes) - edge, edge, -1);

    if (why == NULL)
        why = copy(all + edge, scratch_at(bytes) + bytes, edge, -1);
    why = why != NULL ? say(why) : say_spill(spill(&none, all), "its scratch");
    free(all);
    return why;
}

/* --- calls ---------------------------------------------------------------- */

static const char *enqueue(const struct dsf_on_gpu *what,
                           const struct dsflow_call *call)
{
    if (what->cuda != NULL)
        return what->cuda(call, place.stream);
    what->side->run(call, place.stream);
    return place.gpu->launched();
}

static const char *compute(const struct dsf_on_gpu *what,
                           struct dsflow_call *call)
{
    const size_t scratch = scratch_of(what, call);
    const bool has_edges = scratch > 0 && dsf_on_gpu_edge > 0;
    const char *why = grow_scratch(scratch), *ended;

    if (why == NULL && has_edges)
        why = put_edges(scratch);
    if (why != NULL)
        return say(why);
    call->scratch = scratch > 0 ? scratch_at(scratch) : NULL;
    why = enqueue(what, call);
    ended = await();
    if (why == NULL)
        why = ended;
    return why == NULL && has_edges ? check_edges(scratch) : say(why);
}

const char *dsf_on_gpu_run(const struct dsf_on_gpu *what,
                           const struct dsflow_call *call)
{
    struct piece *pieces = dsf_xcalloc(call->nbufs + 1, sizeof(*pieces));
    struct dsflow_buf *there = dsf_xcalloc(call->nbufs + 1, sizeof(*there));
    struct dsflow_call on_gpu = *call;
    const char *why = say(enter());

    on_gpu.bufs = there;
    if (why == NULL)
        why = say(put_all(pieces, there, call));
    if (why == NULL)
        why = compute(what, &on_gpu);
    if (why == NULL)
        why = get_all(pieces, what->op, call);
    if (place.gpu != NULL)
        release_all(pieces, call->nbufs);
    free(pieces);
    free(there);
    return why;
}
