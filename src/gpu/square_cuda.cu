/* square_cuda.cu - sums of squares of blocks of a gradient (dev_squares.h).
 * Numbers that are not fp32 are summed a piece at a time, as on cores. */
#include "gpu/dev_squares.h"
#include "gpu/gpu.h"

#include "tasks/args.h"

namespace {

enum {
    OWN = SQUARES_OWN,
    WARPS = 8,   /* of a block */
    PIECE = 2048 /* numbers of bf16 or fp16 (codelets/norm.c) */
};

template <bool ALIGNED, class T>
__global__ void __launch_bounds__(32 * WARPS)
    square(const T *in, double *out, size_t block, size_t blocks)
{
    const size_t b = (size_t)blockIdx.x * WARPS + threadIdx.x / 32;
    const size_t piece = std::is_same<T, float>::value ? block : (size_t)PIECE;
    double sum = 0;

    if (b >= blocks) /* a whole warp */
        return;
    in += b * block;
    for (size_t i = 0; i < block; i += piece)
        sum =
            __dadd_rn(sum, dev_squares_of<ALIGNED>(
                               in + i, block - i < piece ? block - i : piece));
    if (threadIdx.x % 32 == 0)
        out[b] = sum;
}

template <class T>
void launch(const T *in, double *out, size_t block, size_t blocks, void *stream)
{
    const unsigned grid = dev_div_up(blocks, WARPS);

    if (block % OWN == 0 && dev_all_aligned({ in }))
        dev_launch((square<true, T>), grid, 32 * WARPS, 0, stream, in, out,
                   block, blocks);
    else
        dev_launch((square<false, T>), grid, 32 * WARPS, 0, stream, in, out,
                   block, blocks);
}

void run(const struct dsflow_call *call, void *stream)
{
    const dsf_square_args *a = (const dsf_square_args *)call->args;
    const size_t blocks = (size_t)call->bufs[1].elems;

    DEV_BY_TYPE(call->bufs[0].dtype, T,
                (launch((const T *)call->bufs[0].ptr + a->at,
                        (double *)call->bufs[1].ptr, (size_t)a->elems / blocks,
                        blocks, stream)));
}

} // namespace

const struct dsf_gpu_side dsf_gpu_side_square = { "square", run, nullptr, 1 };
