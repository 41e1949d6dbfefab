/* cast.c - numbers of one type as numbers of another. */
#include "codelets/cast.h"

#include "base/random.h"
#include "codelets/codelets.h"
#include "codelets/trials.h"
#include "kernels/narrow.h"

#include <string.h>

_Static_assert(DSF_PACK_BLOCK == DSFLOW_BLOCK_ELEMS, "one size of blocks");

/* Numbers of a buffer from some element on. Of int8_block, codes stand behind
 * the scales of all blocks. */
struct place {
    void *numbers; /* or scales */
    uint8_t *codes;
};

static size_t scales_bytes(int64_t n)
{
    return dsflow_dtype_bytes(DSFLOW_INT8_BLOCK, n) - (size_t)n;
}

static struct place place_of(const struct dsflow_buf *buf, int64_t at,
                             int64_t packed)
{
    uint8_t *v = buf->ptr;

    if (packed == 0)
        packed = buf->elems;
    if (buf->dtype == DSFLOW_INT8_BLOCK)
        return (struct place){ v + scales_bytes(at),
                               v + scales_bytes(packed) + at };
    return (struct place){ v + dsflow_dtype_bytes(buf->dtype, at), NULL };
}

static void pack(enum dsflow_dtype dtype, const struct dsf_rounding *r,
                 const float *whole, struct place to, size_t n)
{
    if (dtype == DSFLOW_BF16)
        dsf_pack16(r, whole, to.numbers, n);
    else if (dtype == DSFLOW_INT8_BLOCK)
        dsf_pack8(r, whole, to.numbers, to.codes, n);
    else
        memcpy(to.numbers, whole, n * sizeof(*whole));
}

static void unpack(enum dsflow_dtype dtype, struct place from, float *whole,
                   size_t n)
{
    if (dtype == DSFLOW_BF16)
        dsf_unpack16(from.numbers, whole, n);
    else if (dtype == DSFLOW_INT8_BLOCK)
        dsf_unpack8(from.numbers, from.codes, whole, n);
    else
        memcpy(whole, from.numbers, n * sizeof(*whole));
}

void dsf_pack(enum dsflow_dtype dtype, const struct dsf_rounding *r,
              const float *whole, void *packed, size_t n)
{
    struct dsflow_buf all = { packed, 0, (int64_t)n, dtype };

    pack(dtype, r, whole, place_of(&all, 0, 0), n);
}

void dsf_unpack(enum dsflow_dtype dtype, const void *packed, float *whole,
                size_t n)
{
    struct dsflow_buf all = { (void *)packed, 0, (int64_t)n, dtype };

    unpack(dtype, place_of(&all, 0, 0), whole, n);
}

/* fp32 into the nearest number of another type. */
static void narrow(enum dsflow_dtype dtype, const float *in, struct place out,
                   size_t n)
{
    const struct dsf_rounding nearest = { .nearest = 1 };
    double *wide = out.numbers;

    if (dsf_is_narrow(dtype))
        dsf_narrow(dtype)->narrow(in, n, NULL, out.numbers, n, 1, n);
    else if (dtype == DSFLOW_INT8_BLOCK)
        pack(dtype, &nearest, in, out, n);
    for (size_t i = 0; i < n && dtype == DSFLOW_FP64; i++)
        wide[i] = (double)in[i];
}

/* Another type into fp32; only fp64 has numbers that must be rounded. */
static void widen(enum dsflow_dtype dtype, struct place in, float *out,
                  size_t n)
{
    const double *wide = in.numbers;

    if (dsf_is_narrow(dtype))
        dsf_narrow(dtype)->widen(in.numbers, out, n);
    else if (dtype == DSFLOW_INT8_BLOCK)
        unpack(dtype, in, out, n);
    for (size_t i = 0; i < n && dtype == DSFLOW_FP64; i++)
        out[i] = (float)wide[i];
}

/* The random numbers of this step and stream. */
static struct dsf_rounding rounding_of(const struct dsf_cast_args *a,
                                       const struct dsflow_control *c)
{
    struct dsf_rounding r = { .block = (uint64_t)a->at / DSF_PACK_BLOCK };
    uint64_t state = a->stream;

    state = dsf_random(&state) ^ (uint64_t)c->step;
    r.key = dsf_random(&state);
    return r;
}

static void cast_cpu(const struct dsflow_call *call)
{
    const struct dsf_cast_args *a = call->args;
    const enum dsflow_dtype from = call->bufs[0].dtype;
    const enum dsflow_dtype to = call->bufs[1].dtype;
    const struct place in = place_of(&call->bufs[0], a->in_at, a->packed);
    const struct place out = place_of(&call->bufs[1], a->out_at, a->packed);
    const size_t n = (size_t)a->elems;

    if (a->rounding == DSF_ROUND_STOCHASTIC) {
        struct dsf_rounding r = rounding_of(a, call->bufs[2].ptr);

        pack(to, &r, in.numbers, out, n);
    } else if (from == DSFLOW_FP32)
        narrow(to, in.numbers, out, n);
    else
        widen(from, in, out.numbers, n);
}

DSF_CODELET(cast, .cpu = cast_cpu, .trials = &dsf_trials_cast);
