/* dev_sum.h - sums and maxima over the threads of a warp and of a row of a block,
 * in an order that follows from the block's size. */
#ifndef DSF_GPU_DEV_SUM_H
#define DSF_GPU_DEV_SUM_H

#include "gpu/dev.h"

/* Each is the same in every lane. */
template <class T> DEV T dev_warp_sum(T v)
{
    for (int k = 16; k > 0; k /= 2)
        v += __shfl_xor_sync(0xffffffffu, v, k);
    return v;
}
DEV float dev_warp_max(float v)
{
    for (int k = 16; k > 0; k /= 2)
        v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, k));
    return v;
}

/* Over the threads of one threadIdx.y, which are whole warps, the same in each.
 * `s`: shared, a number for each warp of the block; it is used again only behind
 * another barrier. */
template <class T> DEV T dev_row_sum(T v, T *s)
{
    const unsigned warps = blockDim.x / 32, lane = threadIdx.x % 32;

    v = dev_warp_sum(v);
    if (warps == 1)
        return v;
    s += threadIdx.y * warps;
    if (lane == 0)
        s[threadIdx.x / 32] = v;
    __syncthreads();
    return dev_warp_sum(lane < warps ? s[lane] : T(0));
}
/* Each of N numbers, behind one barrier. `s`: N for each warp of the block. */
template <int N> DEV void dev_row_sums(float (&v)[N], float *s)
{
    const unsigned warps = blockDim.x / 32;

    DEV_UNROLL
    for (int i = 0; i < N; i++)
        v[i] = dev_warp_sum(v[i]);
    if (warps == 1)
        return;
    s += (size_t)threadIdx.y * warps * N;
    DEV_UNROLL
    for (int i = 0; i < N; i++)
        if (threadIdx.x % 32 == 0)
            s[threadIdx.x / 32 * N + i] = v[i];
    __syncthreads();
    for (int i = 0; i < N; i++)
        v[i] = 0;
    DEV_UNROLL_BY(4)
    for (unsigned warp = 0; warp < warps; warp++)
        DEV_UNROLL
    for (int i = 0; i < N; i++)
        v[i] += s[warp * N + i];
}
DEV float dev_row_max(float v, float *s)
{
    const unsigned warps = blockDim.x / 32, lane = threadIdx.x % 32;

    v = dev_warp_max(v);
    if (warps == 1)
        return v;
    s += threadIdx.y * warps;
    if (lane == 0)
        s[threadIdx.x / 32] = v;
    __syncthreads();
    return dev_warp_max(lane < warps ? s[lane] : v);
}

#endif
