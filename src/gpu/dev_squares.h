/* dev_squares.h - sums of squares in the order of kernels/kernels.h
 * (dsf_square_sum): a warp for each, four lanes of it for each part, and each
 * of these lanes has four of the 16. */
#ifndef DSF_GPU_DEV_SQUARES_H
#define DSF_GPU_DEV_SQUARES_H

#include "gpu/dev_bits.h"

#include "kernels/kernels.h"

enum {
    SQUARES_OWN = 4,   /* numbers of a row that a thread has */
    SQUARES_AHEAD = 4, /* rows that it reads before it adds them */
    SQUARES_ROW = DSF_SQUARE_LANES
};
static_assert(DSF_SQUARE_PARTS * (SQUARES_ROW / SQUARES_OWN) == 32,
              "a warp has all parts");

/* The numbers of a part; the first of `n` that this lane's part has. */
DEV size_t dev_squares_part(size_t n)
{
    const size_t round = (size_t)SQUARES_ROW * DSF_SQUARE_PARTS;

    return (n + round - 1) / round * SQUARES_ROW;
}
DEV size_t dev_squares_from(size_t part)
{
    return threadIdx.x % 32 / 4 * part;
}

DEV void dev_squares_add(const float (&v)[SQUARES_OWN],
                         double (&sum)[SQUARES_OWN])
{
    DEV_UNROLL
    for (int k = 0; k < SQUARES_OWN; k++)
        sum[k] = __fma_rn((double)v[k], (double)v[k], sum[k]);
}

DEV double dev_squares_lane(double v, unsigned apart)
{
    return __dadd_rn(v, __shfl_xor_sync(~0u, v, apart));
}

/* By halves: lanes of the part, which are lanes 2 and 1 apart, then in the
 * thread; then the parts. In every lane. */
DEV double dev_squares_all(const double (&sum)[SQUARES_OWN])
{
    double half[SQUARES_OWN], whole;

    DEV_UNROLL
    for (int k = 0; k < SQUARES_OWN; k++)
        half[k] = dev_squares_lane(dev_squares_lane(sum[k], 2), 1);
    whole = __dadd_rn(__dadd_rn(half[0], half[2]), __dadd_rn(half[1], half[3]));
    for (unsigned apart = 16; apart >= 4; apart /= 2)
        whole = dev_squares_lane(whole, apart);
    return whole;
}

/* 16 bytes of fp32, or 8. */
DEV void dev_squares_four(const float *x, float (&v)[SQUARES_OWN])
{
    const uint4 raw = dev_load16(x);

    memcpy(v, &raw, sizeof(raw));
}
template <class T>
DEV void dev_squares_four(const T *x, float (&v)[SQUARES_OWN])
{
    const uint2 raw = dev_load_word<uint2>(x);
    T own[SQUARES_OWN];

    memcpy(own, &raw, sizeof(own));
    DEV_UNROLL
    for (int k = 0; k < SQUARES_OWN; k++)
        v[k] = dev_wide(own[k]);
}

template <bool ALIGNED, class T>
DEV void dev_squares_load(const T *x, size_t i, size_t n,
                          float (&v)[SQUARES_OWN])
{
    if (ALIGNED && i + SQUARES_OWN <= n) {
        dev_squares_four(x + i, v);
        return;
    }
    DEV_UNROLL
    for (int k = 0; k < SQUARES_OWN; k++)
        v[k] = i + k < n ? dev_load(x + i + k) : 0;
}

/* The four lanes of this thread, over the n numbers of a part. */
template <bool ALIGNED, class T>
DEV void dev_squares_own(const T *x, size_t n, double (&sum)[SQUARES_OWN])
{
    size_t i = threadIdx.x % 4 * SQUARES_OWN;

    for (; i + (SQUARES_AHEAD - 1) * SQUARES_ROW < n;
         i += SQUARES_AHEAD * SQUARES_ROW) {
        float v[SQUARES_AHEAD][SQUARES_OWN];

        DEV_UNROLL
        for (int r = 0; r < SQUARES_AHEAD; r++)
            dev_squares_load<ALIGNED>(x, i + r * SQUARES_ROW, n, v[r]);
        DEV_UNROLL
        for (int r = 0; r < SQUARES_AHEAD; r++)
            dev_squares_add(v[r], sum);
    }
    for (; i < n; i += SQUARES_ROW) {
        float v[SQUARES_OWN];

        dev_squares_load<ALIGNED>(x, i, n, v);
        dev_squares_add(v, sum);
    }
}

/* Of n numbers, in every lane. */
template <bool ALIGNED, class T> DEV double dev_squares_of(const T *x, size_t n)
{
    const size_t part = dev_squares_part(n);
    const size_t from = dev_squares_from(part);
    double sum[SQUARES_OWN] = {};

    if (from < n)
        dev_squares_own<ALIGNED>(x + from, n - from < part ? n - from : part,
                                 sum);
    return dev_squares_all(sum);
}

#endif
