/* move.c - what carries numbers from rank to rank, and from one memory to
 * another. */
#include "codelets/codelets.h"

#include "codelets/trials.h"
#include "kernels/narrow.h"

#include <stdbool.h>
#include <string.h>

/* As many bytes as the smaller of the two has. To and from NVMe the executor
 * does it (dsf_task_uses). */
static void all_cpu(const struct dsflow_call *call)
{
    size_t from = call->bufs[0].bytes, to = call->bufs[1].bytes;

    memcpy(call->bufs[1].ptr, call->bufs[0].ptr, from < to ? from : to);
}

DSF_CODELET(send, .cpu = all_cpu);
DSF_CODELET(swap_in, .cpu = all_cpu);
DSF_CODELET(swap_out, .cpu = all_cpu);

static void wait_cpu(const struct dsflow_call *call)
{
}

DSF_CODELET(wait, .cpu = wait_cpu, .trials = &dsf_trials_wait);

static void copy_move(const struct dsflow_call *call, unsigned port,
                      struct dsf_range move)
{
    size_t width = dsflow_dtype_bytes(call->bufs[0].dtype, 1);

    memcpy((char *)call->bufs[0].ptr + (size_t)move.at * width,
           (const char *)call->bufs[port].ptr + (size_t)move.from * width,
           (size_t)move.elems * width);
}

static void copy_cpu(const struct dsflow_call *call)
{
    copy_move(call, 1, *(const struct dsf_range *)call->args);
}

DSF_CODELET(copy, .cpu = copy_cpu);

static void gather_cpu(const struct dsflow_call *call)
{
    for (unsigned i = 1; i < call->nbufs; i++)
        copy_move(call, i, dsf_gather_move(call->args, i));
}

DSF_CODELET(gather, .cpu = gather_cpu);

/* Numbers that are summed at a time: partial sums stay in the cache. */
enum { CHUNK = 1024 };

/* What is added up: `n` ranges that begin at `leaf(k)`. */
struct terms {
    const struct dsflow_call *call;
    enum dsflow_dtype type; /* of all of it */
    size_t width;           /* bytes of a number */
    bool has_own;           /* what stands in port 0 is one of them */
    unsigned n;
};

static char *number(const struct terms *t, unsigned port, int64_t at)
{
    return (char *)t->call->bufs[port].ptr + (size_t)at * t->width;
}

static const void *term(const struct terms *t, unsigned k, size_t i)
{
    const struct dsf_sum_args *a = t->call->args;

    if (t->has_own && (int64_t)k == a->self)
        return number(t, 0, a->at + (int64_t)i);
    k += !t->has_own || (int64_t)k < a->self;
    return number(t, k, dsf_sum_from(a, t->call->bufs[k].elems) + (int64_t)i);
}

/* y += x, rounded to their type. */
static void add_term(const struct terms *t, void *y, const void *x, size_t n)
{
    if (dsf_is_narrow(t->type))
        dsf_narrow(t->type)->sum2(y, y, x, n);
    else
        dsf_add(y, x, n);
}

/* The sum of terms `first` .. first+n from element `i` on: of the first 2^k of
 * them, and of the rest. That is the order of adding at strides of 1, 2, 4 …
 * Each sum of two has the type of the data, as if it were stored: where ranks
 * have parts of the tree, it is. */
static void tree(const struct terms *t, unsigned first, unsigned n, size_t i,
                 void *out, size_t len)
{
    float right[CHUNK];
    unsigned half = 1;

    if (n == 1) {
        memcpy(out, term(t, first, i), len * t->width);
        return;
    }
    while (2 * half < n)
        half *= 2;
    tree(t, first, half, i, out, len);
    if (n - half == 1) {
        add_term(t, out, term(t, first + half, i), len);
        return;
    }
    tree(t, first + half, n - half, i, right, len);
    add_term(t, out, right, len);
}

static void sum_cpu(const struct dsflow_call *call)
{
    const struct dsf_sum_args *a = call->args;
    const enum dsflow_dtype type = call->bufs[0].dtype;
    const size_t elems = (size_t)a->elems;
    struct terms t = { call, type, dsflow_dtype_bytes(type, 1),
                       !(call->fresh & 1), call->nbufs - 1 };

    t.n += t.has_own;
    for (size_t i = 0; i < elems; i += CHUNK) {
        const size_t len = elems - i < CHUNK ? elems - i : CHUNK;
        float sum[CHUNK];

        tree(&t, 0, t.n, i, sum, len);
        memcpy(number(&t, 0, a->at + (int64_t)i), sum, len * t.width);
    }
}

DSF_CODELET(add, .cpu = sum_cpu, .trials = &dsf_trials_add);

DSF_CODELET(reduce, .cpu = sum_cpu, .trials = &dsf_trials_add);
