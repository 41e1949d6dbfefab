/* dev_each.h - what is done number by number: OP has a function at(row, column),
 * which works on V numbers from there on. */
#ifndef DSF_GPU_DEV_EACH_H
#define DSF_GPU_DEV_EACH_H

#include "gpu/dev.h"

namespace {

enum { EACH_THREADS = 256 };

template <class OP, int V>
__global__ void __launch_bounds__(EACH_THREADS)
    each(OP op, unsigned pieces, size_t n) /* of a row; of all rows */
{
    const size_t at = (size_t)blockIdx.x * EACH_THREADS + threadIdx.x;

    if (at >= n)
        return;
    if constexpr (V == 1)
        op.at(at / pieces, at % pieces);
    else /* fewer than 2^32 pieces: a division of 32 bits is faster */
        op.at((unsigned)at / pieces, (size_t)((unsigned)at % pieces) * V);
}

/* Of `rows` rows of `cols` numbers, which are a multiple of V. */
template <int V, class OP>
void launch_each(const OP &op, size_t rows, size_t cols, void *stream)
{
    const size_t n = rows * (cols / V);

    if (n > 0)
        dev_launch((each<OP, V>), dev_div_up(n, EACH_THREADS), EACH_THREADS, 0,
                   stream, op, (unsigned)(cols / V), n);
}

} // namespace

#endif
