/* place_module.c - sides in the memory of a GPU, through the module. Each
 * buffer is an allocation of its own, so that compute-sanitizer sees what is
 * read or written beside it; without that tool, bytes around it tell what was
 * written. Where a side may look at main memory (control, tokens, losses), it
 * gets that. */
#include "gpu/place.h"

#include "exec/cuda_module.h"

#include <dsflow/error.h>
#include <dsflow/op.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    CANARY = 0x5a,
    EDGE = 512,      /* bytes on each side; keeps what CUDA aligns */
    PINNED = 4 << 20 /* bytes of main memory, of all buffers of a call */
};

static struct {
    const struct dsf_gpu *gpu;
    void *stream, *ended;
    char *pinned;
    size_t pinned_used, edge;
    char *scratch; /* kept, with what the call before left in it */
    size_t scratch_bytes;
    struct dsflow_err err;
} place;

/* --- the module ----------------------------------------------------------- */

static const struct dsf_gpu *module(void)
{
    const struct dsf_gpu *found = dsf_cuda_module(&place.err);

    if (found == NULL) {
        fprintf(stderr, "%s\n", place.err.msg);
        exit(99);
    }
    return found;
}

const struct dsf_gpu_side *const *place_sides(void)
{
    return module()->sides;
}

const struct dsf_gpu_side *place_side(const char *op)
{
    const struct dsflow_op *kind = dsflow_op_find(op);

    module();
    return kind != NULL ? dsf_cuda_side(kind) : NULL;
}

size_t (*place_scratch(const struct dsf_gpu_side *side))(
    const struct dsflow_case *c)
{
    return NULL;
}

/* Tests launch nothing themselves: the module exports no kernels. */
const char *place_fault(void)
{
    return NULL;
}

void place_order(uint64_t seed)
{
}

/* Once, in the process that computes: no child has the GPU of its parent. */
static const char *open_place(void)
{
    const char *edge = getenv("DSFLOW_TESTS_EDGE"), *why;

    if (place.gpu != NULL)
        return NULL;
    place.edge = edge != NULL ? strtoul(edge, NULL, 0) : EDGE;
    place.pinned = mmap(NULL, PINNED, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (place.pinned == MAP_FAILED)
        return "no memory that could be pinned";
    why = module()->use(0);
    if (why == NULL)
        why = module()->stream_new(&place.stream);
    if (why == NULL)
        why = module()->event_new(&place.ended);
    if (why == NULL)
        why = module()->pin(place.pinned, PINNED);
    if (why == NULL)
        place.gpu = module();
    return why;
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
    return p->bytes + 2 * place.edge + (p->bytes + place.edge == 0);
}

/* Does the program read or write such data as well? */
static bool is_of_host(enum dsflow_dtype type)
{
    return type == DSFLOW_BYTES || type == DSFLOW_INT32 ||
           type == DSFLOW_INT64 || type == DSFLOW_FP64;
}

static const char *take_pinned(struct piece *p)
{
    p->at = place.pinned + place.pinned_used;
    place.pinned_used += (whole(p) + 63) / 64 * 64;
    return place.pinned_used <= PINNED ? NULL : "too large for what is pinned";
}

/* A copy of the buffer with its edges; freed by the caller. */
static char *with_edges(const struct piece *p, const void *data)
{
    char *all = malloc(whole(p));

    memset(all, CANARY, whole(p));
    memcpy(all + place.edge, data, p->bytes);
    return all;
}

static const char *put(struct piece *p, const struct dsflow_buf *buf)
{
    const char *why;
    char *all;
    void *at;

    *p =
        (struct piece){ .bytes = buf->bytes, .pinned = is_of_host(buf->dtype) };
    why = p->pinned ? take_pinned(p) : place.gpu->allocate(whole(p), &at);
    if (why != NULL)
        return why;
    if (!p->pinned)
        p->at = at;
    all = with_edges(p, buf->ptr);
    if (p->pinned)
        memcpy(p->at, all, whole(p));
    else
        why = copy(p->at, all, whole(p), 0);
    free(all);
    return why;
}

/* How many bytes beside the buffer were written to. */
static size_t soiled(const struct piece *p, const char *all)
{
    size_t n = 0;

    for (size_t i = 0; i < place.edge; i++) {
        n += all[i] != CANARY;
        n += all[place.edge + p->bytes + i] != CANARY;
    }
    return n;
}

/* What is as before is not written: the caller may have made it read-only. */
static const char *get(const struct piece *p, const struct dsflow_buf *buf,
                       unsigned port)
{
    static char said[128];
    char *all = malloc(whole(p));
    const char *why = NULL;
    size_t n;

    if (p->pinned)
        memcpy(all, p->at, whole(p));
    else
        why = copy(all, p->at, whole(p), -1);
    n = why == NULL ? soiled(p, all) : 0;
    if (n > 0) {
        snprintf(said, sizeof(said), "%zu bytes beside port %u were written", n,
                 port);
        why = said;
    }
    if (why == NULL && memcmp(buf->ptr, all + place.edge, p->bytes) != 0)
        memcpy(buf->ptr, all + place.edge, p->bytes);
    free(all);
    return why;
}

static const char *put_all(struct piece *pieces, struct dsflow_buf *there,
                           const struct dsflow_call *call)
{
    const char *why = NULL;

    place.pinned_used = 0;
    for (unsigned i = 0; i < call->nbufs && why == NULL; i++) {
        there[i] = call->bufs[i];
        if (call->bufs[i].ptr == NULL)
            continue;
        why = put(&pieces[i], &call->bufs[i]);
        there[i].ptr = pieces[i].at + place.edge;
    }
    return why;
}

static const char *get_all(const struct piece *pieces,
                           const struct dsflow_call *call)
{
    const char *why = NULL;

    for (unsigned i = 0; i < call->nbufs && why == NULL; i++)
        if (pieces[i].at != NULL)
            why = get(&pieces[i], &call->bufs[i], i);
    return why;
}

static void release_all(const struct piece *pieces, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (pieces[i].at != NULL && !pieces[i].pinned)
            place.gpu->release(pieces[i].at);
}

/* --- scratch -------------------------------------------------------------- */

static size_t scratch_of(const struct dsf_gpu_side *side,
                         const struct dsflow_call *call)
{
    struct dsflow_shape *shapes = calloc(call->nbufs + 1, sizeof(*shapes));
    const struct dsflow_case c = { dsflow_op_find(side->op), shapes,
                                   call->nbufs, call->args };
    size_t bytes;

    for (unsigned i = 0; i < call->nbufs; i++)
        shapes[i] =
            (struct dsflow_shape){ call->bufs[i].bytes, call->bufs[i].elems,
                                   call->bufs[i].dtype };
    bytes = side->scratch != NULL ? side->scratch(&c) : 0;
    free(shapes);
    return (bytes + 255) / 256 * 256;
}

/* It ends where the allocation does. At first it is no numbers. */
static const char *find_scratch(size_t bytes, void **at)
{
    const char *why = NULL;
    void *more, *garbage;

    if (bytes > place.scratch_bytes) {
        why = place.gpu->allocate(bytes, &more);
        if (why != NULL)
            return why;
        place.gpu->release(place.scratch);
        place.scratch = more;
        place.scratch_bytes = bytes;
        garbage = malloc(bytes);
        memset(garbage, 0xff, bytes);
        why = copy(more, garbage, bytes, 0);
        free(garbage);
    }
    *at = bytes > 0 ? place.scratch + place.scratch_bytes - bytes : NULL;
    return why;
}

static const char *compute(const struct dsf_gpu_side *side,
                           struct dsflow_call *call)
{
    const char *why = find_scratch(scratch_of(side, call), &call->scratch);
    const char *ended;

    if (why != NULL)
        return why;
    side->run(call, place.stream);
    why = place.gpu->launched();
    ended = await();
    return why != NULL ? why : ended;
}

const char *place_run(const struct dsf_gpu_side *side,
                      const struct dsflow_call *call)
{
    struct piece *pieces = calloc(call->nbufs + 1, sizeof(*pieces));
    struct dsflow_buf *there = calloc(call->nbufs + 1, sizeof(*there));
    struct dsflow_call on_gpu = *call;
    const char *why = open_place();

    on_gpu.bufs = there;
    if (why == NULL)
        why = place.gpu->use(0); /* of this thread */
    if (why == NULL)
        why = put_all(pieces, there, call);
    if (why == NULL)
        why = compute(side, &on_gpu);
    if (why == NULL)
        why = get_all(pieces, call);
    if (place.gpu != NULL)
        release_all(pieces, call->nbufs);
    free(pieces);
    free(there);
    return why;
}
