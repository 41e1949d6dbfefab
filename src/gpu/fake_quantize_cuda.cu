/* fake_quantize_cuda.cu - weights as a model has them that is quantized or
 * pruned: `fake_quantize`. A thread has eight numbers that follow each other,
 * and the threads of a group, two to sixteen of a warp, are a team. */
#define DSF_WEIGHT_FORM_FN __host__ __device__ inline

#include "gpu/dev_bits.h"
#include "gpu/gpu.h"

#include "tasks/args.h"

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

/* --- quantizers ----------------------------------------------------------- */

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

DEV void to_asymmetric(const team &all, int bits, float (&v)[OWN])
{
    float least = v[0], most = v[0], s, z;

    DEV_UNROLL
    for (int i = 1; i < OWN; i++) {
        least = fminf(least, v[i]);
        most = fmaxf(most, v[i]);
    }
    least = -all.max(-least);
    most = all.max(most);
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
    uint32_t top = 0;

    if (q.quantizer == DSF_UNQUANTIZED)
        return;
    DEV_UNROLL
    for (int i = 0; i < OWN; i++) {
        const uint32_t size = __float_as_uint(v[i]) & 0x7fffffff;

        top = size > top ? size : top;
    }
    top = all.most(top);
    if (q.quantizer == DSF_SYMMETRIC)
        to_symmetric(top, q.bits, v);
    else if (q.quantizer == DSF_ASYMMETRIC)
        to_asymmetric(all, q.bits, v);
    else if (q.quantizer == DSF_TERNARY)
        to_ternary(all, q.group, v);
    else
        to_signs(0, sum_sizes(all, v, -1) / (float)q.group, v);
    if (top >= 0x7f800000)
        set_nans(v);
}

/* --- what is pruned ------------------------------------------------------- */

/* How many of the numbers of sizes `other`, which begin `away` behind those of
 * this thread, stay rather than number i of this thread. */
DEV int count_larger(const uint32_t (&own)[OWN], int i,
                     const uint32_t (&other)[OWN], int away, int first,
                     int last)
{
    int n = 0;

    DEV_UNROLL
    for (int j = 0; j < OWN; j++)
        n += j >= first && j < last &&
             (other[j] > own[i] || (other[j] == own[i] && j + away < i));
    return n;
}

/* Which of this thread's numbers become 0: bit by bit. Where `of` is more than
 * it has, the others are its neighbour's. */
DEV uint32_t to_prune(const float (&v)[OWN], int keep, int of)
{
    uint32_t own[OWN], next[OWN], pruned = 0;
    const int away = threadIdx.x % 2 == 0 ? OWN : -OWN;

    DEV_UNROLL
    for (int i = 0; i < OWN; i++) {
        own[i] = __float_as_uint(v[i]) & 0x7fffffff;
        next[i] = __shfl_xor_sync(~0u, own[i], 1);
    }
    DEV_UNROLL
    for (int i = 0; i < OWN; i++) {
        const int first = of >= OWN ? 0 : i / of * of;
        int larger = count_larger(own, i, own, 0, first, first + of);

        if (of > OWN)
            larger += count_larger(own, i, next, away, 0, OWN);
        pruned |= (uint32_t)(larger >= keep) << i;
    }
    return pruned;
}
static_assert(DSF_QUANTIZE_MOST_OF <= 2 * OWN, "a thread and its neighbour");

/* --- the task ------------------------------------------------------------- */

struct weights {
    dsf_fake_quantize_args args;
    const struct dsflow_control *control;
    const float *in;
};

template <bool ALIGNED> DEV void load(const float *p, float (&v)[OWN])
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

/* The control is in main memory: one thread of a block reads it. */
DEV dsf_fake_quantizer quantizer_of(const weights &w)
{
    int64_t *updates = dev_shared<int64_t>();

    if (threadIdx.x == 0)
        *updates = dsf_fake_quantize_after(&w.args, w.control);
    __syncthreads();
    return dsf_weight_form_after(&w.args.form, *updates);
}

template <bool ALIGNED, class T>
__global__ void __launch_bounds__(DEV_EACH_THREADS)
    fake_quantize(weights w, T *out)
{
    const dsf_fake_quantizer q = quantizer_of(w);
    const team all = { (unsigned)q.group / OWN };
    const int64_t stride = (int64_t)gridDim.x * blockDim.x * OWN;
    const int64_t own = (int64_t)(threadIdx.x % 32) * OWN;
    int64_t at =
        ((int64_t)blockIdx.x * blockDim.x + threadIdx.x / 32 * 32) * OWN;

    for (; at < w.args.elems; at += stride) { /* of the whole warp */
        const bool there = at + own < w.args.elems;
        const bool changes = w.args.at + at + own < w.args.form.matrices;
        float v[OWN] = {}, was[OWN];
        uint32_t pruned = 0;

        if (there)
            load<ALIGNED>(w.in + at + own, v);
        memcpy(was, v, sizeof(was));
        if (q.of > 0)
            pruned = to_prune(v, q.keep, q.of);
        quantize(all, q, v);
        DEV_UNROLL
        for (int i = 0; i < OWN; i++)
            v[i] = !changes ? was[i] : pruned >> i & 1 ? 0 : v[i];
        if (there)
            store<ALIGNED>(out + at + own, v);
    }
}

template <class T> void launch(const weights &w, T *out, void *stream)
{
    const size_t n = (size_t)w.args.elems;

    if (n == 0)
        return;
    if (dev_all_aligned({ w.in, out }))
        dev_launch((fake_quantize<true, T>), dev_each_grid(n, OWN),
                   DEV_EACH_THREADS, sizeof(int64_t), stream, w, out);
    else
        dev_launch((fake_quantize<false, T>), dev_each_grid(n, OWN),
                   DEV_EACH_THREADS, sizeof(int64_t), stream, w, out);
}

void run(const struct dsflow_call *call, void *stream)
{
    const dsf_fake_quantize_args *a =
        (const dsf_fake_quantize_args *)call->args;
    const weights w = { *a, (const struct dsflow_control *)call->bufs[0].ptr,
                        (const float *)call->bufs[1].ptr + a->in_at };

    DEV_BY_TYPE(call->bufs[2].dtype, T,
                launch(w, (T *)call->bufs[2].ptr + a->out_at, stream));
}

} // namespace

const struct dsf_gpu_side dsf_gpu_side_fake_quantize = { "fake_quantize", run,
                                                         nullptr, 1 };
