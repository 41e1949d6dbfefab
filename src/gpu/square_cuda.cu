/* square_cuda.cu - sums of squares of blocks of a gradient (dev_squares.h).
 * Numbers that are not fp32 are summed a piece at a time, as on cores. */
#include "gpu/dev_squares.h"
#include "gpu/gpu.h"

#include "tasks/args.h"

namespace {

enum {
    OWN = SQUARES_OWN,
    AHEAD = 4, /* rows that it reads before it adds them */
    WARPS = 8, /* of a block */
    ROW = SQUARES_ROW,
    PIECE = 2048 /* numbers of bf16 or fp16 (codelets/norm.c) */
};

/* 16 bytes of fp32, or 8. */
DEV void load_four(const float *x, float (&v)[OWN])
{
    const uint4 raw = dev_load16(x);

    memcpy(v, &raw, sizeof(raw));
}
template <class T> DEV void load_four(const T *x, float (&v)[OWN])
{
    const uint64_t raw = *reinterpret_cast<const uint64_t *>(x);
    T own[OWN];

    memcpy(own, &raw, sizeof(own));
    DEV_UNROLL
    for (int k = 0; k < OWN; k++)
        v[k] = dev_wide(own[k]);
}

template <bool ALIGNED, class T>
DEV void load_own(const T *x, size_t i, size_t n, float (&v)[OWN])
{
    if (ALIGNED && i + OWN <= n) {
        load_four(x + i, v);
        return;
    }
    DEV_UNROLL
    for (int k = 0; k < OWN; k++)
        v[k] = i + k < n ? dev_load(x + i + k) : 0;
}

/* The four lanes of this thread, over the n numbers of a part. */
template <bool ALIGNED, class T>
DEV void sum_own(const T *x, size_t n, double (&sum)[OWN])
{
    size_t i = threadIdx.x % 4 * OWN;

    for (; i + (AHEAD - 1) * ROW < n; i += AHEAD * ROW) {
        float v[AHEAD][OWN];

        DEV_UNROLL
        for (int r = 0; r < AHEAD; r++)
            load_own<ALIGNED>(x, i + r * ROW, n, v[r]);
        DEV_UNROLL
        for (int r = 0; r < AHEAD; r++)
            dev_squares_add(v[r], sum);
    }
    for (; i < n; i += ROW) {
        float v[OWN];

        load_own<ALIGNED>(x, i, n, v);
        dev_squares_add(v, sum);
    }
}

/* Of n numbers, in every lane. */
template <bool ALIGNED, class T> DEV double sum_piece(const T *x, size_t n)
{
    const size_t part = dev_squares_part(n);
    const size_t from = dev_squares_from(part);
    double sum[OWN] = {};

    if (from < n)
        sum_own<ALIGNED>(x + from, n - from < part ? n - from : part, sum);
    return dev_squares_all(sum);
}

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
        sum = __dadd_rn(sum, sum_piece<ALIGNED>(in + i, block - i < piece
                                                            ? block - i
                                                            : piece));
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
