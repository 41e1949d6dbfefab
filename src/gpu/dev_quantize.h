/* dev_quantize.h - numbers as a quantized model has them
 * (kernels/fake_quantize.h): a thread has eight that follow each other, and the
 * threads of a group, two to sixteen of a warp, are a team. */
#ifndef DSF_GPU_DEV_QUANTIZE_H
#define DSF_GPU_DEV_QUANTIZE_H

#include "gpu/dev_bits.h"
#include "kernels/fake_quantize.h"

#include <cfloat>

namespace {

enum { OWN = 8, NAN_BITS = 0x7fc00000 };
static_assert(DSF_QUANTIZE_LEAST % OWN == 0 && DSF_QUANTIZE_MOST <= 32 * OWN,
              "a team is threads of a warp");

/* All threads of a warp make the same calls. */
struct team {
    unsigned threads;

    DEV float max(float v) const
    {
        for (unsigned k = threads / 2; k > 0; k /= 2)
            v = fmaxf(v, __shfl_xor_sync(~0u, v, k));
        return v;
    }
    DEV uint32_t most(uint32_t v) const
    {
        for (unsigned k = threads / 2; k > 0; k /= 2) {
            const uint32_t w = __shfl_xor_sync(~0u, v, k);

            v = v > w ? v : w;
        }
        return v;
    }
    /* By halves, as on cores: of the group, then of those of a thread. */
    DEV float sum(float (&v)[OWN]) const
    {
        for (unsigned k = threads / 2; k > 0; k /= 2) {
            DEV_UNROLL
            for (int i = 0; i < OWN; i++)
                v[i] += __shfl_xor_sync(~0u, v[i], k);
        }
        DEV_UNROLL
        for (int half = OWN / 2; half > 0; half /= 2) {
            DEV_UNROLL
            for (int i = 0; i < OWN / 2; i++)
                v[i] += i < half ? v[i + half] : 0;
        }
        return v[0];
    }
};

/* As a whole number, ties to even; its size is below 2^22. */
DEV float whole_number(float x, float least, float most)
{
    const float rounder = 12582912.0f;

    return (fminf(fmaxf(x, least), most) + rounder) - rounder;
}

DEV void set_nans(float (&v)[OWN])
{
    DEV_UNROLL
    for (int i = 0; i < OWN; i++)
        v[i] = __uint_as_float(NAN_BITS);
}

/* `top`: bits of the largest size. */
DEV void to_symmetric(uint32_t top, int bits, float (&v)[OWN])
{
    const float least = -(float)(1 << (bits - 1));
    float s = __uint_as_float(top) * (2.0f / (float)(1 << bits));

    s = s == 0 ? 1 : s;
    DEV_UNROLL
    for (int i = 0; i < OWN; i++)
        v[i] = whole_number(v[i] / s, least, -least - 1) * s;
}

DEV void to_asymmetric(float least, float most, int bits, float (&v)[OWN])
{
    float s, z;

    s = (most - least) * (1 / (float)(1 << bits));
    if (s == 0)
        return;
    if (s > FLT_MAX) {
        set_nans(v);
        return;
    }
    z = rintf(least / s) * s;
    DEV_UNROLL
    for (int i = 0; i < OWN; i++)
        v[i] =
            fmaf(whole_number((v[i] - z) / s, 0, (float)(1 << bits) - 1), s, z);
}

/* What a scale follows from, as dsf_extremes. */
struct extremes {
    uint32_t size;
    float least, most;

    DEV void see(const float (&v)[OWN])
    {
        DEV_UNROLL
        for (int i = 0; i < OWN; i++) {
            const uint32_t bits = __float_as_uint(v[i]) & 0x7fffffff;

            size = bits > size ? bits : size;
            least = fminf(least, v[i]);
            most = fmaxf(most, v[i]);
        }
    }
    DEV void join(const extremes &e)
    {
        size = e.size > size ? e.size : size;
        least = fminf(least, e.least);
        most = fmaxf(most, e.most);
    }
    DEV void see_all(const team &all)
    {
        size = all.most(size);
        least = -all.max(-least);
        most = all.max(most);
    }
};

/* By symmetric and asymmetric ones. */
DEV void quantize_between(const dsf_fake_quantizer &q, const extremes &e,
                          float (&v)[OWN])
{
    if (q.quantizer == DSF_SYMMETRIC)
        to_symmetric(e.size, q.bits, v);
    else
        to_asymmetric(e.least, e.most, q.bits, v);
    if (e.size >= 0x7f800000)
        set_nans(v);
}

/* The sum of sizes above `above`. */
DEV float sum_sizes(const team &all, const float (&v)[OWN], float above)
{
    float sizes[OWN];

    DEV_UNROLL
    for (int i = 0; i < OWN; i++)
        sizes[i] = fabsf(v[i]) > above ? fabsf(v[i]) : 0;
    return all.sum(sizes);
}

DEV void to_signs(float above, float size, float (&v)[OWN])
{
    DEV_UNROLL
    for (int i = 0; i < OWN; i++)
        v[i] = v[i] > above ? size : v[i] < -above ? -size : 0;
}

DEV void to_ternary(const team &all, int group, float (&v)[OWN])
{
    const float above = 0.7f * (sum_sizes(all, v, -1) / (float)group);
    const float sum = sum_sizes(all, v, above);
    float count[OWN], n;

    DEV_UNROLL
    for (int i = 0; i < OWN; i++)
        count[i] = fabsf(v[i]) > above ? 1 : 0;
    n = all.sum(count);
    to_signs(above, n > 0 ? sum / n : 0, v);
}

DEV void quantize(const team &all, const dsf_fake_quantizer &q, float (&v)[OWN])
{
    extremes e = { 0, v[0], v[0] };

    if (q.quantizer == DSF_UNQUANTIZED)
        return;
    e.see(v);
    e.see_all(all);
    if (q.quantizer == DSF_SYMMETRIC || q.quantizer == DSF_ASYMMETRIC) {
        quantize_between(q, e, v);
        return;
    }
    if (q.quantizer == DSF_TERNARY)
        to_ternary(all, q.group, v);
    else
        to_signs(0, sum_sizes(all, v, -1) / (float)q.group, v);
    if (e.size >= 0x7f800000)
        set_nans(v);
}

/* --- the numbers of a thread ---------------------------------------------- */

template <bool ALIGNED, class T> DEV void load(const T *p, float (&v)[OWN])
{
    if constexpr (ALIGNED) {
        dev_load_all(p, v);
    } else {
        DEV_UNROLL
        for (int i = 0; i < OWN; i++)
            v[i] = dev_load(p + i);
    }
}

template <int V, class T> DEV void store_all(T *p, const float (&v)[V])
{
    if constexpr (std::is_same<T, float>::value)
        dev_store_all(p, v);
    else
        dev_store_half(p, v);
}

template <bool ALIGNED, class T> DEV void store(T *p, const float (&v)[OWN])
{
    if constexpr (ALIGNED) {
        store_all(p, v);
    } else {
        DEV_UNROLL
        for (int i = 0; i < OWN; i++) {
            const float one[1] = { v[i] };

            store_all(p + i, one);
        }
    }
}

} // namespace

#endif
