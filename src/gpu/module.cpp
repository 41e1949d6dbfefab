/* module.cpp - gpu.h over CUDA's runtime. */
#include "gpu/gpu.h"
#include "gpu/product.h"

#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstring>

namespace {

/* CUDA keeps some of the errors that it returns, for whoever asks next. */
const char *text_of(cudaError_t e)
{
    if (e == cudaSuccess)
        return nullptr;
    cudaGetLastError();
    return cudaGetErrorString(e);
}

cudaStream_t stream_of(void *stream)
{
    return static_cast<cudaStream_t>(stream);
}

cudaEvent_t event_of(void *event)
{
    return static_cast<cudaEvent_t>(event);
}

const char *driver(int *version)
{
    return text_of(cudaDriverGetVersion(version));
}

const char *count(unsigned *n)
{
    int found = 0;
    cudaError_t e = cudaGetDeviceCount(&found);

    *n = e == cudaSuccess ? static_cast<unsigned>(found) : 0;
    return e == cudaErrorNoDevice ? text_of(e), nullptr : text_of(e);
}

const char *use(unsigned gpu)
{
    return text_of(cudaSetDevice(static_cast<int>(gpu)));
}

const char *attribute(unsigned gpu, cudaDeviceAttr which, int *value)
{
    return text_of(cudaDeviceGetAttribute(value, which, static_cast<int>(gpu)));
}

/* cudaHostRegister has to give memory the address that it has. */
const char *find_attributes(unsigned gpu, dsf_gpu_about *about)
{
    int processors = 0;
    const struct {
        cudaDeviceAttr which;
        int *value;
    } wanted[] = {
        { cudaDevAttrComputeCapabilityMajor, &about->major },
        { cudaDevAttrComputeCapabilityMinor, &about->minor },
        { cudaDevAttrMultiProcessorCount, &processors },
        { cudaDevAttrCanUseHostPointerForRegisteredMem,
          &about->reaches_main_memory },
    };

    for (const auto &w : wanted)
        if (const char *why = attribute(gpu, w.which, w.value))
            return why;
    about->processors = static_cast<unsigned>(processors);
    return nullptr;
}

const char *find_about(unsigned gpu, dsf_gpu_about *about)
{
    static thread_local cudaDeviceProp properties;
    cudaError_t e = cudaGetDeviceProperties(&properties, static_cast<int>(gpu));

    *about = dsf_gpu_about();
    if (e != cudaSuccess)
        return text_of(e);
    snprintf(about->name, sizeof(about->name), "%.120s", properties.name);
    if (const char *why = find_attributes(gpu, about))
        return why;
    if (const char *why = use(gpu))
        return why;
    /* What it takes is not free; `prepare` says what is wrong with it. */
    dsf_gpu_products_open();
    return text_of(cudaMemGetInfo(&about->free, &about->memory));
}

const char *allocate(size_t bytes, void **at)
{
    *at = nullptr;
    cudaError_t e = cudaMalloc(at, bytes);

    if (e == cudaSuccess)
        e = cudaMemsetAsync(*at, 0, bytes, nullptr);
    if (e == cudaSuccess)
        e = cudaStreamSynchronize(nullptr);
    if (e != cudaSuccess && *at != nullptr)
        cudaFree(*at);
    return text_of(e);
}

const char *release(void *at)
{
    return text_of(cudaFree(at));
}

const char *reach(unsigned gpu, int *can)
{
    int self = 0;
    cudaError_t e = cudaGetDevice(&self);

    *can = 0;
    if (e == cudaSuccess)
        e = cudaDeviceCanAccessPeer(can, self, static_cast<int>(gpu));
    if (e == cudaSuccess && *can)
        e = cudaDeviceEnablePeerAccess(static_cast<int>(gpu), 0);
    return e == cudaErrorPeerAccessAlreadyEnabled ? text_of(e),
           nullptr                                : text_of(e);
}

const char *stream_new(void **stream)
{
    cudaStream_t s = nullptr;
    cudaError_t e = cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);

    *stream = s;
    return text_of(e);
}

const char *stream_free(void *stream)
{
    return text_of(cudaStreamDestroy(stream_of(stream)));
}

const char *event_new(void **event)
{
    cudaEvent_t x = nullptr;
    cudaError_t e = cudaEventCreateWithFlags(&x, cudaEventBlockingSync);

    *event = x;
    return text_of(e);
}

const char *event_free(void *event)
{
    return text_of(cudaEventDestroy(event_of(event)));
}

const char *pin(void *at, size_t bytes)
{
    cudaError_t e = cudaHostRegister(
        at, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped);

    return e == cudaErrorHostMemoryAlreadyRegistered ? text_of(e),
           nullptr                                   : text_of(e);
}

const char *unpin(void *at)
{
    cudaError_t e = cudaHostUnregister(at);

    return e == cudaErrorHostMemoryNotRegistered ? text_of(e),
           nullptr                               : text_of(e);
}

const char *copy(const dsf_gpu_copy *c, void *stream)
{
    bool peers = c->to_gpu >= 0 && c->from_gpu >= 0 && c->to_gpu != c->from_gpu;

    if (c->rows > 0) /* between GPUs, too: addresses say where */
        return text_of(cudaMemcpy2DAsync(c->to, c->to_apart, c->from,
                                         c->from_apart, c->bytes, c->rows,
                                         cudaMemcpyDefault, stream_of(stream)));
    return text_of(
        peers ? cudaMemcpyPeerAsync(c->to, c->to_gpu, c->from, c->from_gpu,
                                    c->bytes, stream_of(stream))
              : cudaMemcpyAsync(c->to, c->from, c->bytes, cudaMemcpyDefault,
                                stream_of(stream)));
}

const char *record(void *event, void *stream)
{
    return text_of(cudaEventRecord(event_of(event), stream_of(stream)));
}

/* A product that the library refused launched nothing. */
const char *launched()
{
    const char *product = dsf_gpu_multiply_failed();
    const char *kernel = text_of(cudaGetLastError());

    return product != nullptr ? product : kernel;
}

const char *await(void *event)
{
    return text_of(cudaEventSynchronize(event_of(event)));
}

/* CUDA does not say what it shows where `to` was first. */
const char *elapsed(void *from, void *to, double *seconds)
{
    float ms = 0;
    cudaError_t e = cudaEventElapsedTime(&ms, event_of(from), event_of(to));

    if (e == cudaSuccess && ms <= 0) {
        e = cudaEventElapsedTime(&ms, event_of(to), event_of(from));
        ms = -ms;
    }
    *seconds = 1e-3 * static_cast<double>(ms);
    return text_of(e);
}

const dsf_gpu_side *const sides[] = {
#define DSF_GPU_SIDE(name) &dsf_gpu_side_##name,
#include "gpu/sides.h"
#undef DSF_GPU_SIDE
    nullptr
};

} // namespace

const dsf_gpu dsf_gpu_module = {
    DSF_GPU_ABI,
    CUDART_VERSION,
    sides,
    driver,
    count,
    find_about,
    use,
    allocate,
    release,
    dsf_gpu_products_version,
    dsf_gpu_products_round,
    dsf_gpu_products_open,
    reach,
    stream_new,
    stream_free,
    event_new,
    event_free,
    pin,
    unpin,
    copy,
    record,
    launched,
    await,
    elapsed,
};
