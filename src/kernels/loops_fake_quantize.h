/* loops_fake_quantize.h - numbers as a quantized or pruned model has them
 * (fake_quantize.h). Behind loops_wire.h, of which it has scales. */
#ifndef DSF_KERNELS_LOOPS_FAKE_QUANTIZE_H
#define DSF_KERNELS_LOOPS_FAKE_QUANTIZE_H

#include "kernels/fake_quantize.h"

#include <float.h>
#include <math.h>

/* As a whole number between `least` and `most`, of a size below 2^22. */
INLINE vf whole_number(vf x, float least, float most)
{
    const vf y = vmin(vmax(x, vset(least)), vset(most));

    return (y + vset(ROUNDER)) - vset(ROUNDER);
}

static void set_nans(float *out, size_t n)
{
    const uint32_t nan = 0x7fc00000;

    for (size_t i = 0; i < n; i++)
        memcpy(&out[i], &nan, sizeof(nan));
}

static void quantize_symmetric(float s, const float *in, float *out, size_t n,
                               int bits)
{
    const float least = -(float)(1 << (bits - 1));

    for (size_t i = 0; i < n; i += VW)
        vstore(out + i,
               whole_number(vload(in + i, VW) / vset(s), least, -least - 1) *
                   vset(s),
               VW);
}

static void see_ends(const float *in, size_t n, struct dsf_extremes *e)
{
    vf low = vload(in, VW), high = low;

    for (size_t i = VW; i < n; i += VW) {
        low = vmin(low, vload(in + i, VW));
        high = vmax(high, vload(in + i, VW));
    }
    for (size_t k = 0; k < VW; k++) {
        e->least = low[k] < e->least ? low[k] : e->least;
        e->most = high[k] > e->most ? high[k] : e->most;
    }
}

static void quantize_asymmetric(float least, float most, const float *in,
                                float *out, size_t n, int bits)
{
    float s, z;

    s = (most - least) * (1 / (float)(1 << bits));
    if (s == 0) {
        memmove(out, in, n * sizeof(*out));
        return;
    }
    if (s > FLT_MAX) {
        set_nans(out, n);
        return;
    }
    z = rintf(least / s) * s;
    for (size_t i = 0; i < n; i += VW)
        vstore(out + i,
               vfma_exact(whole_number((vload(in + i, VW) - vset(z)) / vset(s),
                                       0, (float)(1 << bits) - 1),
                          vset(s), vset(z)),
               VW);
}

INLINE vf sizes_of(vf x)
{
    return (vf)((vu)x & 0x7fffffff);
}

/* The sum of the sizes of those whose size is above `above`, in a tree. */
static float sum_sizes(const float *in, size_t n, float above)
{
    float sum[DSF_QUANTIZE_MOST];
    size_t half = n / 2;

    for (size_t i = 0; i < n; i += VW) {
        const vf size = sizes_of(vload(in + i, VW));

        vstore(sum + i, vbelow(vset(above), size, size, vset(0)), VW);
    }
    for (; half >= VW; half /= 2)
        for (size_t i = 0; i < half; i += VW)
            vstore(sum + i, vload(sum + i, VW) + vload(sum + i + half, VW), VW);
    for (; half > 0; half /= 2)
        for (size_t i = 0; i < half; i++)
            sum[i] += sum[i + half];
    return sum[0];
}

static void to_signs(const float *in, float *out, size_t n, float above,
                     float size)
{
    for (size_t i = 0; i < n; i += VW) {
        const vf x = vload(in + i, VW);
        const vf low = vbelow(x, vset(-above), vset(-size), vset(0));

        vstore(out + i, vbelow(vset(above), x, vset(size), low), VW);
    }
}

static void quantize_ternary(const float *in, float *out, size_t n)
{
    const float above = 0.7f * (sum_sizes(in, n, -1) / (float)n);
    const float sum = sum_sizes(in, n, above);
    vn more = { 0 };
    int32_t count = 0;

    for (size_t i = 0; i < n; i += VW)
        more -= (vn)((vn)sizes_of(vload(in + i, VW)) > (vn)vset(above));
    for (size_t k = 0; k < VW; k++)
        count += more[k];
    to_signs(in, out, n, above, count > 0 ? sum / (float)count : 0);
}

static void see_extremes(const float *in, size_t n, struct dsf_extremes *e)
{
    const uint32_t size = largest_size(in, n);

    e->size = size > e->size ? size : e->size;
    see_ends(in, n, e);
}

static void quantize_between(const struct dsf_fake_quantizer *q,
                             const struct dsf_extremes *e, const float *in,
                             float *out, size_t n)
{
    if (e->size >= 0x7f800000)
        set_nans(out, n);
    else if (q->quantizer == DSF_SYMMETRIC)
        quantize_symmetric(scale_by(e->size, q->bits), in, out, n, q->bits);
    else
        quantize_asymmetric(e->least, e->most, in, out, n, q->bits);
}

static void quantize_group(const struct dsf_fake_quantizer *q, const float *in,
                           float *out)
{
    const size_t n = (size_t)q->group;
    struct dsf_extremes e = DSF_NO_EXTREMES;

    if (q->quantizer == DSF_UNQUANTIZED) {
        memmove(out, in, n * sizeof(*out));
        return;
    }
    e.size = largest_size(in, n);
    if (q->quantizer == DSF_ASYMMETRIC)
        see_ends(in, n, &e);
    if (e.size >= 0x7f800000 || q->quantizer == DSF_SYMMETRIC ||
        q->quantizer == DSF_ASYMMETRIC)
        quantize_between(q, &e, in, out, n);
    else if (q->quantizer == DSF_TERNARY)
        quantize_ternary(in, out, n);
    else
        to_signs(in, out, n, 0, sum_sizes(in, n, -1) / (float)n);
}

/* All ones where a number stays: fewer than `keep` of the `of` that it is among
 * are larger, or as large and in front of it. */
static void find_kept(const float *in, size_t n, size_t of, int keep,
                      uint32_t *stays)
{
    enum { ROUND = DSF_QUANTIZE_MOST_OF };
    static const int32_t counting[] = { 0, 1, 2,  3,  4,  5,  6,  7,
                                        8, 9, 10, 11, 12, 13, 14, 15 };
    /* With as many numbers on either side, which do not count. */
    float sizes[DSF_QUANTIZE_MOST + 2 * ROUND];

    memset(sizes, 0, ROUND * sizeof(*sizes));
    memset(sizes + ROUND + n, 0, ROUND * sizeof(*sizes));
    for (size_t i = 0; i < n; i += VW)
        vstore(sizes + ROUND + i, sizes_of(vload(in + i, VW)), VW);
    for (size_t i = 0; i < n; i += VW) {
        const float *own = sizes + ROUND + i;
        const vn size = (vn)vload(own, VW);
        vn place, larger = { 0 };

        memcpy(&place, counting + i % ROUND, sizeof(place));
        place &= (int32_t)of - 1;
        for (int32_t d = 1; d < (int32_t)of; d++) {
            larger -= (vn)((vn)vload(own + d, VW) > size) &
                      (vn)(place < (int32_t)of - d);
            larger -= (vn)((vn)vload(own - d, VW) >= size) & (vn)(place >= d);
        }
        larger = (vn)(larger < keep);
        memcpy(stays + i, &larger, sizeof(larger));
    }
}

static void fake_quantize(const struct dsf_fake_quantizer *q, const float *in,
                          float *out, size_t n)
{
    const size_t group = (size_t)q->group;
    uint32_t stays[DSF_QUANTIZE_MOST];

    for (; n > 0; n--, in += group, out += group) {
        if (q->of > 0)
            find_kept(in, group, (size_t)q->of, q->keep, stays);
        quantize_group(q, in, out);
        for (size_t i = 0; q->of > 0 && i < group; i += VW) {
            vu x = load_bits(out + i), stay;

            memcpy(&stay, stays + i, sizeof(stay));
            vstore(out + i, (vf)(x & stay), VW);
        }
    }
}

#undef ROUNDER

#endif
