/* dev_numbers.h - what is done number by number, by facts that stand in main
 * memory: an OP has a type `facts`; `find`, which one thread of each block
 * calls for all of it; and `at`, for N numbers that follow each other. */
#ifndef DSF_GPU_DEV_NUMBERS_H
#define DSF_GPU_DEV_NUMBERS_H

#include "gpu/dev_bits.h"

namespace {

template <class OP, int V>
__global__ void __launch_bounds__(DEV_EACH_THREADS)
    numbers(const OP op, size_t n)
{
    typename OP::facts *shared = dev_shared<typename OP::facts>();

    if (threadIdx.x == 0)
        *shared = op.find();
    __syncthreads();
    const typename OP::facts facts = *shared;

    dev_each<V>(n, [&](size_t i, auto width) {
        op.template at<decltype(width)::N>(facts, i);
    });
}

/* Of n numbers at each of these addresses. */
template <class OP>
void launch_numbers(const OP &op, size_t n,
                    std::initializer_list<const void *> at, void *stream)
{
    const size_t shared = sizeof(typename OP::facts);

    if (n > 0 && dev_all_aligned(at))
        dev_launch((numbers<OP, 8>), dev_each_grid(n, 8), DEV_EACH_THREADS,
                   shared, stream, op, n);
    else if (n > 0)
        dev_launch((numbers<OP, 1>), dev_each_grid(n, 1), DEV_EACH_THREADS,
                   shared, stream, op, n);
}

} // namespace

#endif
