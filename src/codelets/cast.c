/* cast.c - numbers of one type as numbers of another. */
#include "codelets/cast.h"

#include "base/half.h"
#include "base/random.h"
#include "codelets/codelets.h"
#include "codelets/trials.h"

#include <math.h>
#include <string.h>

_Static_assert(DSF_PACK_BLOCK == DSFLOW_BLOCK_ELEMS, "one size of blocks");

/* Codes stand behind the scales of all blocks. */
static size_t scales_bytes(size_t n)
{
    return dsflow_dtype_bytes(DSFLOW_INT8_BLOCK, (int64_t)n) - n;
}

void dsf_pack(enum dsflow_dtype dtype, const struct dsf_rounding *r,
              const float *whole, void *packed, size_t n)
{
    if (dtype == DSFLOW_BF16)
        dsf_pack16(r, whole, packed, n);
    else if (dtype == DSFLOW_INT8_BLOCK)
        dsf_pack8(r, whole, packed, (uint8_t *)packed + scales_bytes(n), n);
    else
        memcpy(packed, whole, n * sizeof(*whole));
}

void dsf_unpack(enum dsflow_dtype dtype, const void *packed, float *whole,
                size_t n)
{
    if (dtype == DSFLOW_BF16)
        dsf_unpack16(packed, whole, n);
    else if (dtype == DSFLOW_INT8_BLOCK)
        dsf_unpack8(packed, (const uint8_t *)packed + scales_bytes(n), whole,
                    n);
    else
        memcpy(whole, packed, n * sizeof(*whole));
}

/* A NaN stays one: those functions are not for it. */
static uint16_t to_half(enum dsflow_dtype dtype, float x)
{
    if (isnan(x))
        return dtype == DSFLOW_BF16 ? 0x7fc0 : 0x7e00;
    return dtype == DSFLOW_BF16 ? dsf_to_bf16(x) : dsf_to_fp16(x);
}

/* fp32 into the nearest number of another type. */
static void narrow(enum dsflow_dtype dtype, const float *in, void *out,
                   size_t n)
{
    const struct dsf_rounding nearest = { .nearest = 1 };
    uint16_t *half = out;
    double *wide = out;

    if (dtype == DSFLOW_INT8_BLOCK)
        dsf_pack(dtype, &nearest, in, out, n);
    for (size_t i = 0; i < n && dtype == DSFLOW_FP64; i++)
        wide[i] = (double)in[i];
    for (size_t i = 0; i < n && (dtype == DSFLOW_BF16 || dtype == DSFLOW_FP16);
         i++)
        half[i] = to_half(dtype, in[i]);
}

/* Another type into fp32; only fp64 has numbers that must be rounded. */
static void widen(enum dsflow_dtype dtype, const void *in, float *out, size_t n)
{
    const uint16_t *half = in;
    const double *wide = in;

    if (dtype == DSFLOW_BF16 || dtype == DSFLOW_INT8_BLOCK)
        dsf_unpack(dtype, in, out, n);
    for (size_t i = 0; i < n && dtype == DSFLOW_FP16; i++)
        out[i] = dsf_from_fp16(half[i]);
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
    const struct dsflow_buf *in = &call->bufs[0], *out = &call->bufs[1];
    size_t n = (size_t)a->elems;

    if (a->rounding == DSF_ROUND_STOCHASTIC) {
        struct dsf_rounding r = rounding_of(a, call->bufs[2].ptr);

        dsf_pack(out->dtype, &r, in->ptr, out->ptr, n);
    } else if (in->dtype == DSFLOW_FP32)
        narrow(out->dtype, in->ptr, out->ptr, n);
    else
        widen(in->dtype, in->ptr, out->ptr, n);
}

DSF_CODELET(cast, .cpu = cast_cpu, .trials = &dsf_trials_cast);
