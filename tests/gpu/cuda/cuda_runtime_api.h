/* cuda_runtime_api.h - what is used of CUDA's header of this name, where CUDA's
 * toolkit is not: names and numbers are CUDA's. */
#ifndef DSF_TESTS_GPU_CUDA_RUNTIME_API_H
#define DSF_TESTS_GPU_CUDA_RUNTIME_API_H

#include <cstddef>

#define CUDART_VERSION 13000

typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;

enum cudaError_t {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInvalidPitchValue = 12,
    cudaErrorInsufficientDriver = 35,
    cudaErrorNoDevice = 100,
    cudaErrorInvalidDevice = 101,
    cudaErrorPeerAccessUnsupported = 217,
    cudaErrorInvalidResourceHandle = 400,
    cudaErrorNotReady = 600,
    cudaErrorIllegalAddress = 700,
    cudaErrorPeerAccessAlreadyEnabled = 704,
    cudaErrorHostMemoryAlreadyRegistered = 712,
    cudaErrorHostMemoryNotRegistered = 713,
    cudaErrorLaunchFailure = 719
};

enum cudaDeviceAttr {
    cudaDevAttrMultiProcessorCount = 16,
    cudaDevAttrComputeCapabilityMajor = 75,
    cudaDevAttrComputeCapabilityMinor = 76,
    cudaDevAttrCanUseHostPointerForRegisteredMem = 91
};

enum cudaMemcpyKind { cudaMemcpyDefault = 4 };

enum {
    cudaStreamNonBlocking = 1,
    cudaEventBlockingSync = 1,
    cudaHostRegisterPortable = 1,
    cudaHostRegisterMapped = 2
};

struct cudaDeviceProp {
    char name[256];
    size_t totalGlobalMem;
};

extern "C" {
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaGetDeviceCount(int *n);
cudaError_t cudaSetDevice(int gpu);
cudaError_t cudaGetDevice(int *gpu);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int gpu);
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr which, int gpu);
cudaError_t cudaDeviceCanAccessPeer(int *can, int gpu, int peer);
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags);
cudaError_t cudaGetLastError(void);
const char *cudaGetErrorString(cudaError_t e);
cudaError_t cudaMemGetInfo(size_t *left, size_t *total);
cudaError_t cudaMalloc(void **at, size_t bytes);
cudaError_t cudaFree(void *at);
cudaError_t cudaHostRegister(void *at, size_t bytes, unsigned flags);
cudaError_t cudaHostUnregister(void *at);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes,
                            cudaMemcpyKind kind, cudaStream_t s = nullptr);
cudaError_t cudaMemcpy2DAsync(void *to, size_t to_apart, const void *from,
                              size_t from_apart, size_t bytes, size_t rows,
                              cudaMemcpyKind kind, cudaStream_t s = nullptr);
cudaError_t cudaMemcpyPeerAsync(void *to, int to_gpu, const void *from,
                                int from_gpu, size_t bytes,
                                cudaStream_t s = nullptr);
cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes,
                            cudaStream_t s = nullptr);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t s);
cudaError_t cudaStreamSynchronize(cudaStream_t s);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t e);
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s = nullptr);
cudaError_t cudaEventSynchronize(cudaEvent_t e);
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to);
}

#endif
