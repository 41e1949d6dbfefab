/* fake_quantize_cuda.cu - weights as a model has them that is quantized or
 * pruned: `fake_quantize`. */
#define DSF_WEIGHT_FORM_FN __host__ __device__ inline

#include "gpu/dev_quantize.h"
#include "gpu/gpu.h"

#include "tasks/args.h"

namespace {

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
