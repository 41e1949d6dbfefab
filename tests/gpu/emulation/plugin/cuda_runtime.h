/* cuda_runtime.h - what the .cu file of a plug-in includes where its kernels
 * are emulated: emulation.h, and what that leaves to dev.h, in CUDA's own
 * words. */
#ifndef DSF_GPU_EMULATED_CUDA_RUNTIME_H
#define DSF_GPU_EMULATED_CUDA_RUNTIME_H

#include "emulation.h"

/* Of a block: the blocks of a launch come one after the other, on one thread.
 */
#define __shared__ static thread_local

typedef struct CUstream_st *cudaStream_t;
enum cudaError_t { cudaSuccess, cudaErrorInvalidConfiguration = 9 };

inline const char *cudaGetErrorString(cudaError_t e)
{
    return e == cudaSuccess ? "no error" : "invalid configuration argument";
}

/* CUDA calls the first two gridDim and blockDim, which are macros here:
 * plug-ins fill it in order. */
struct cudaLaunchConfig_t {
    dim3 grid, block;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    void *attrs;
    unsigned numAttrs;
};

template <class... P, class... A>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *c,
                               void (*kernel)(P...), A... args)
{
    if (c->grid.count() == 0 || c->block.count() - 1 >= 1024)
        return cudaErrorInvalidConfiguration;
    emulated::launch("a kernel", c->grid, c->block, c->dynamicSmemBytes,
                     c->stream,
                     emulated::with(kernel, static_cast<P>(args)...));
    return cudaSuccess;
}

#endif
