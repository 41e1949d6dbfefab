/* bad_cuda.cu - CUDA sides with one fault each. */
#include "bad_cuda.h"

#include <cuda_runtime.h>

enum { THREADS = 64 };

enum fault {
    NONE,
    ROW,     /* the last number is forgotten */
    PAST,    /* one too many */
    BEFORE,  /* one before the first */
    OTHER,   /* the last lane is left out of the sum */
    ORDER,   /* no barrier before the last sum */
    BARRIER, /* not for all threads */
    SCRATCH, /* one number past its end */
    PLACE,   /* the sum goes to the program's own memory */
};

__global__ void compute(int fault, const float *in, float *out, float *sum,
                        float *scratch, int64_t n)
{
    __shared__ double sums[THREADS];
    const int t = (int)threadIdx.x;
    double own = 0;

    for (int64_t i = t; i < n; i += THREADS) {
        scratch[i] = in[i];
        if (fault != ROW || i < n - 1)
            out[i] = 2 * scratch[i];
        own += in[i];
    }
    if (t == 0 && fault == PAST)
        out[n] = 1;
    if (t == 0 && fault == BEFORE)
        out[-1] = 1;
    if (t == 0 && fault == SCRATCH)
        scratch[n] = 1;
    sums[t] = own;
    if (fault != BARRIER || t < 32)
        __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (t < half && !(fault == OTHER && half == 1))
            sums[t] += sums[t + half];
        if (fault != ORDER)
            __syncthreads();
    }
    if (t == 0)
        *sum = (float)sums[0];
}

static const char *launch(const struct dsflow_call *call, void *stream,
                          int fault, unsigned threads)
{
    static float own;
    const struct dsflow_buf *b = call->bufs;
    float *const sum = fault == PLACE ? &own : (float *)b[SUM].ptr;
    const cudaLaunchConfig_t c = {
        1, threads, 0, (cudaStream_t)stream, NULL, 0
    };
    const cudaError_t e = cudaLaunchKernelEx(
        &c, compute, fault, (const float *)b[IN].ptr, (float *)b[OUT].ptr,
        sum, (float *)call->scratch, b[IN].elems);
    return e == cudaSuccess ? NULL : cudaGetErrorString(e);
}

#define SIDE(f, fault, threads)                                                \
    const char *f##_cuda(const struct dsflow_call *call, void *stream)         \
    {                                                                          \
        return launch(call, stream, fault, threads);                           \
    }
SIDE(good, NONE, THREADS)
SIDE(bad_row, ROW, THREADS)
SIDE(bad_past, PAST, THREADS)
SIDE(bad_before, BEFORE, THREADS)
SIDE(bad_sum, OTHER, THREADS)
SIDE(bad_order, ORDER, THREADS)
SIDE(bad_barrier, BARRIER, THREADS)
SIDE(bad_scratch, SCRATCH, THREADS)
SIDE(bad_launch, NONE, 2000)
SIDE(bad_place, PLACE, THREADS)

__global__ void move(const struct dsflow_control *control, int looks,
                     const float *grad, float *param, int64_t n)
{
    for (int64_t i = threadIdx.x; i < n && !(looks && control->skip);
         i += THREADS)
        param[i] = __fsub_rn(
            param[i],
            __fmul_rn((float)(control->lr * control->scale), grad[i]));
}

static const char *update(const struct dsflow_call *call, void *stream,
                          int looks)
{
    const struct dsflow_update_args *a =
        (const struct dsflow_update_args *)call->args;
    const cudaLaunchConfig_t c = {
        1, THREADS, 0, (cudaStream_t)stream, NULL, 0
    };
    const cudaError_t e = cudaLaunchKernelEx(
        &c, move, (const struct dsflow_control *)call->bufs[CONTROL].ptr, looks,
        (const float *)call->bufs[GRAD].ptr + a->grad_at,
        (float *)call->bufs[PARAM].ptr + a->param_at, a->elems);
    return e == cudaSuccess ? NULL : cudaGetErrorString(e);
}

const char *good_update_cuda(const struct dsflow_call *call, void *stream)
{
    return update(call, stream, 1);
}

const char *bad_skip_cuda(const struct dsflow_call *call, void *stream)
{
    return update(call, stream, 0);
}
