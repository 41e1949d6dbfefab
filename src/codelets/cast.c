/* cast.c - numbers of one type as numbers of another. */
#include "codelets/cast.h"

#include "base/random.h"
#include "codelets/codelets.h"
#include "codelets/trials.h"
#include "kernels/narrow.h"

#include <string.h>

_Static_assert(DSF_PACK_BLOCK == DSFLOW_BLOCK_ELEMS, "one size of blocks");

static size_t scales_bytes(int64_t n)
{
    return dsflow_dtype_bytes(DSFLOW_INT8_BLOCK, n) - (size_t)n;
}

struct dsf_packed dsf_packed_at(enum dsflow_dtype dtype, void *packed,
                                int64_t elems, int64_t at)
{
    uint8_t *v = packed;

    if (dtype == DSFLOW_INT8_BLOCK)
        return (struct dsf_packed){ v + scales_bytes(at),
                                    v + scales_bytes(elems) + at };
    return (struct dsf_packed){ v + dsflow_dtype_bytes(dtype, at), NULL };
}

/* Of a buffer that has room for more than `packed` numbers; 0: for as many. */
static struct dsf_packed place_of(const struct dsflow_buf *buf, int64_t at,
                                  int64_t packed)
{
    return dsf_packed_at(buf->dtype, buf->ptr,
                         packed == 0 ? buf->elems : packed, at);
}

void dsf_pack_at(enum dsflow_dtype dtype, const struct dsf_rounding *r,
                 const float *whole, struct dsf_packed to, size_t n)
{
    if (dtype == DSFLOW_BF16)
        dsf_pack16(r, whole, to.numbers, n);
    else if (dtype == DSFLOW_INT8_BLOCK)
        dsf_pack8(r, whole, to.numbers, to.codes, n);
    else
        memcpy(to.numbers, whole, n * sizeof(*whole));
}

void dsf_unpack_at(enum dsflow_dtype dtype, struct dsf_packed from,
                   float *whole, size_t n)
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
    dsf_pack_at(dtype, r, whole, dsf_packed_at(dtype, packed, (int64_t)n, 0),
                n);
}

void dsf_unpack(enum dsflow_dtype dtype, const void *packed, float *whole,
                size_t n)
{
    dsf_unpack_at(dtype, dsf_packed_at(dtype, (void *)packed, (int64_t)n, 0),
                  whole, n);
}

/* fp32 into the nearest number of another type. */
static void narrow(enum dsflow_dtype dtype, const float *in,
                   struct dsf_packed out, size_t n)
{
    const struct dsf_rounding nearest = { .nearest = 1 };
    double *wide = out.numbers;

    if (dsf_is_narrow(dtype))
        dsf_narrow(dtype)->narrow(in, n, NULL, out.numbers, n, 1, n);
    else if (dtype == DSFLOW_INT8_BLOCK)
        dsf_pack_at(dtype, &nearest, in, out, n);
    for (size_t i = 0; i < n && dtype == DSFLOW_FP64; i++)
        wide[i] = (double)in[i];
}

/* Another type into fp32; only fp64 has numbers that must be rounded. */
static void widen(enum dsflow_dtype dtype, struct dsf_packed in, float *out,
                  size_t n)
{
    const double *wide = in.numbers;

    if (dsf_is_narrow(dtype))
        dsf_narrow(dtype)->widen(in.numbers, out, n);
    else if (dtype == DSFLOW_INT8_BLOCK)
        dsf_unpack_at(dtype, in, out, n);
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
    const struct dsf_packed in = place_of(&call->bufs[0], a->in_at, a->packed);
    const struct dsf_packed out =
        place_of(&call->bufs[1], a->out_at, a->packed);
    const size_t n = (size_t)a->elems;

    if (a->rounding == DSF_ROUND_STOCHASTIC) {
        struct dsf_rounding r = rounding_of(a, call->bufs[2].ptr);

        dsf_pack_at(to, &r, in.numbers, out, n);
    } else if (from == DSFLOW_FP32)
        narrow(to, in.numbers, out, n);
    else
        widen(from, in, out.numbers, n);
}

DSF_CODELET(cast, .cpu = cast_cpu, .trials = &dsf_trials_cast);
