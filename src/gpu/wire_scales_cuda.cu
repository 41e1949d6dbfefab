/* wire_scales_cuda.cu - the scales of tensors whose signs are sent: the root of
 * the mean square of all of one, in the order of tasks/coding.c. The squares of
 * pieces of 2048 numbers are added up by a warp each; then the pieces, one
 * after the other. */
#include "gpu/dev_wire.h"
#include "gpu/wire.h"

namespace {

enum {
    PIECE = 2048, /* numbers: as in tasks/coding.c */
    WARPS = 8,
    UNITS = 128 /* of one launch */
};
/* Sums that are read at a time: few where they are emulated, so that small
 * tensors have more, too. */
#ifdef __CUDACC__
enum { SUMS = 256 };
#else
enum { SUMS = 2 };
#endif

struct units {
    const float *of[UNITS];
};

DEV_BOTH int64_t pieces_of(int64_t elems)
{
    return (elems + PIECE - 1) / PIECE;
}

/* Pieces of the tensors in front of one. */
DEV_BOTH int64_t pieces_before(const dsf_coding &c, int64_t tensor)
{
    int64_t n = 0;

    for (int64_t i = 0; i < tensor; i++)
        n += pieces_of(c.tensors[i].elems);
    return n;
}

/* sums[unit][piece of all tensors] */
__global__ void __launch_bounds__(32 * WARPS)
    squares(const dsf_coding c, const units u, double *sums, int64_t pieces)
{
    const float *x = u.of[blockIdx.y];
    int64_t piece = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    double *to = sums + blockIdx.y * pieces + piece, sum;
    int64_t tensor = 0, n;

    if (piece >= pieces) /* a whole warp */
        return;
    while (piece >= pieces_of(c.tensors[tensor].elems))
        piece -= pieces_of(c.tensors[tensor++].elems);
    x += c.tensors[tensor].at + piece * PIECE;
    n = c.tensors[tensor].elems - piece * PIECE;
    n = n < PIECE ? n : (int64_t)PIECE;
    sum = wire_is_at(x, 16) ? dev_squares_of<true>(x, (size_t)n)
                            : dev_squares_of<false>(x, (size_t)n);
    if (threadIdx.x % 32 == 0)
        *to = sum;
}

/* A block for each tensor of each unit; a thread reads a sum at a time. */
__global__ void __launch_bounds__(SUMS)
    scales(const dsf_coding c, const double *sums, float *out, int64_t pieces)
{
    double *some = dev_shared<double>(), all = 0;
    const int64_t n = pieces_of(c.tensors[blockIdx.x].elems);
    const int64_t at_once = blockDim.x;

    sums += blockIdx.y * pieces + pieces_before(c, blockIdx.x);
    for (int64_t i = 0; i < n; i += at_once) {
        const int64_t here = n - i < at_once ? n - i : at_once;

        if ((int64_t)threadIdx.x < here)
            some[threadIdx.x] = sums[i + threadIdx.x];
        __syncthreads();
        for (int64_t k = 0; k < here && threadIdx.x == 0; k++)
            all = __dadd_rn(all, some[k]);
        __syncthreads();
    }
    if (threadIdx.x == 0)
        out[blockIdx.y * DSF_CODED_TENSORS + blockIdx.x] =
            wire_sign_scale(all, (double)c.tensors[blockIdx.x].elems);
}

size_t scales_bytes(unsigned n)
{
    return (size_t)n * DSF_CODED_TENSORS * sizeof(float);
}

} // namespace

size_t dsf_gpu_wire_scratch(const struct dsf_coding *c, unsigned n)
{
    const int64_t pieces = pieces_before(*c, c->ntensors);

    return c->ntensors == 0
               ? 0
               : scales_bytes(n) + n * (size_t)pieces * sizeof(double) + 32;
}

const float *dsf_gpu_wire_scales(const struct dsf_coding *c,
                                 const struct dsflow_call *call,
                                 dsf_gpu_unit_fn unit, unsigned n,
                                 void *scratch, void *stream)
{
    const int64_t pieces = pieces_before(*c, c->ntensors);
    char *at = (char *)scratch;
    float *out = (float *)dsf_gpu_take(&at, scales_bytes(n));
    double *sums = (double *)at;

    if (c->ntensors == 0)
        return nullptr;
    for (unsigned i = 0; i < n; i += UNITS) {
        const unsigned here = n - i < UNITS ? n - i : (unsigned)UNITS;
        units u = {};

        for (unsigned k = 0; k < here; k++)
            u.of[k] = unit(call, i + k);
        dev_launch(squares, dim3(dev_div_up((size_t)pieces, WARPS), here),
                   32 * WARPS, 0, stream, *c, u, sums + i * pieces, pieces);
    }
    dev_launch(scales, dim3((unsigned)c->ntensors, n), SUMS,
               SUMS * sizeof(double), stream, *c, sums, out, pieces);
    return out;
}
