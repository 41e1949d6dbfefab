/* dev_bits.h - what kernels need that give the bits of those of cores: the same
 * NaNs in 16 bits, grids for element by element, the control of a step. */
#ifndef DSF_GPU_DEV_BITS_H
#define DSF_GPU_DEV_BITS_H

#include "gpu/dev.h"

#include <type_traits>
#include <dsflow/codelet.h>
#include <dsflow/optimizer.h>

/* As vec_half.h stores it: a NaN is the one without a sign and with one bit
 * set. */
template <class T> DEV uint32_t dev_half_bits(float v)
{
    const T half = dev_narrow<T>(v);
    uint16_t bits;

    memcpy(&bits, &half, sizeof(bits));
    return v == v ? bits : std::is_same<T, bf16>::value ? 0x7fc0 : 0x7e00;
}

template <int V, class T> DEV void dev_store_half(T *p, const float (&v)[V])
{
    uint32_t bits[V];

    DEV_UNROLL
    for (int i = 0; i < V; i++)
        bits[i] = dev_half_bits<T>(v[i]);
    if constexpr (V == 1) {
        const uint16_t one = (uint16_t)bits[0];

        memcpy(p, &one, sizeof(one));
    } else
        dev_store16(
            p, make_uint4(bits[0] | bits[1] << 16, bits[2] | bits[3] << 16,
                          bits[4] | bits[5] << 16, bits[6] | bits[7] << 16));
}

/* bf16 as states are packed (kernels/loops_pack.h), by 32 random bits; 2^31: to
 * the nearest. Sizes from 0x7f7f0000 on would become infinities, and a NaN is
 * one for all. */
DEV uint32_t dev_pack16(float v, uint32_t random)
{
    const uint32_t x = __float_as_uint(v), size = x & 0x7fffffff;

    return size > 0x7f800000
               ? 0x7fc0
               : (x + (size < 0x7f7f0000 ? random >> 16 : 0)) >> 16;
}

/* Kernels that go element by element: blocks of DEV_EACH_THREADS take turns at
 * pieces of V numbers. How many blocks there are changes no bit; where they are
 * emulated there are few, so that they take turns at small shards, too. */
enum { DEV_EACH_THREADS = 256 };
#ifdef __CUDACC__
enum { DEV_EACH_BLOCKS = 4096 };
#else
enum { DEV_EACH_BLOCKS = 2 };
#endif

inline unsigned dev_each_grid(size_t n, int v)
{
    const unsigned blocks = dev_div_up(n, (size_t)v * DEV_EACH_THREADS);
    const unsigned most = DEV_EACH_BLOCKS;

    return blocks < most ? blocks : most;
}

/* Calls f(i, width) for the pieces of this thread: width is V as a type, or 1
 * for each number of the last piece where that is shorter. */
template <int V> struct dev_width {
    enum { N = V };
};
template <int V, class F> DEV void dev_each(size_t n, F f)
{
    const size_t stride = (size_t)gridDim.x * blockDim.x * V;
    size_t i = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) * V;

    for (; i + V <= n; i += stride)
        f(i, dev_width<V>());
    for (; V > 1 && i < n; i++)
        f(i, dev_width<1>());
}

/* May numbers at these addresses be read 16 bytes at a time? */
inline bool dev_all_aligned(std::initializer_list<const void *> at)
{
    return dev_is_aligned(0, at);
}

#endif
