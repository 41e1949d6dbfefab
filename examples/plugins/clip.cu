/* clip.cu - the CUDA side of clip.c. It enqueues kernels on the stream that it is
 * given, and returns: it waits for nothing and allocates nothing. */
#include "clip.h"

#include <cuda_runtime.h>

enum { THREADS = 256 }; /* of a block */

/* The squares of a thread's numbers, then those of its block: one sum of each
 * block. No atomics, so that every sum has one order. */
__global__ void square(const float *grad, int64_t n, double *sums)
{
    __shared__ double own[THREADS];
    const unsigned t = threadIdx.x;
    double sum = 0;

    for (int64_t i = blockIdx.x * THREADS + t; i < n;
         i += (int64_t)gridDim.x * THREADS)
        sum += (double)grad[i] * grad[i];
    own[t] = sum;
    for (unsigned half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (t < half)
            own[t] += own[t + half];
    }
    if (t == 0)
        sums[blockIdx.x] = own[0];
}

/* It begins when the kernel before it on the stream has ended. */
__global__ void scale(float *grad, int64_t n, double norm, const double *sums)
{
    double sum = 0;

    for (unsigned b = 0; b < gridDim.x; b++)
        sum += sums[b];
    const float factor = (float)fmin(1.0, norm / sqrt(sum));
    for (int64_t i = blockIdx.x * THREADS + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * THREADS)
        grad[i] *= factor;
}

/* What CUDA refuses, it returns. */
const char *unit_clip_cuda(const struct dsflow_call *call, void *stream)
{
    const struct args *a = (const struct args *)call->args;
    float *grad = (float *)call->bufs[0].ptr;
    double *sums = (double *)call->scratch;
    const cudaLaunchConfig_t how = { (unsigned)blocks(a), THREADS, 0,
                                     (cudaStream_t)stream, NULL, 0 };
    cudaError_t e;

    e = cudaLaunchKernelEx(&how, square, (const float *)grad, a->elems, sums);
    if (e == cudaSuccess)
        e = cudaLaunchKernelEx(&how, scale, grad, a->elems, a->norm,
                               (const double *)sums);
    return e == cudaSuccess ? NULL : cudaGetErrorString(e);
}
