/* cudart.cpp - CUDA's runtime, as far as the module of src/gpu calls it, on
 * GPUs that are not there. What CUDA forbids is refused; what it allows and we
 * do not want is counted. */
#include "runtime.h"

#include "emulated.h"

#include <atomic>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <set>
#include <string>

namespace emulated {

long long setting(const char *name, long long otherwise)
{
    char whole[64];
    const char *text;

    snprintf(whole, sizeof(whole), "DSFLOW_EMULATED_%s", name);
    text = getenv(whole);
    return text != nullptr ? strtoll(text, nullptr, 0) : otherwise;
}

int gpus()
{
    static const long long n = setting("GPUS", 2);

    return n > MOST_GPUS ? static_cast<int>(MOST_GPUS) : static_cast<int>(n);
}

static beginning read_environment()
{
    const char *how = getenv("CUDA_MODULE_LOADING");
    const char *wait = getenv("CUDA_LAUNCH_BLOCKING");
    const char *text = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    const int asked = text != nullptr ? atoi(text) : 0;
    const int most = static_cast<int>(setting("QUEUES", MOST_QUEUES));
    const int queues = asked > most ? most : asked;

    return { how == nullptr || strcmp(how, "EAGER") != 0,
             wait != nullptr && atoi(wait) != 0,
             queues >= 1 && queues <= MOST_QUEUES
                 ? static_cast<unsigned>(queues)
                 : 8 };
}

const beginning &begin()
{
    static const beginning b = read_environment();

    return b;
}

counting &all_counts()
{
    static counting &c = *new counting();

    return c;
}

void count(uint64_t emulated_runtime_counts::*what, uint64_t more)
{
    counting &c = all_counts();
    std::lock_guard<std::mutex> guard(c.lock);

    c.counts.*what += more;
}

} // namespace emulated

using namespace emulated;

/* Bytes from a row to the next one of a copy: what GPUs say of themselves as
 * memPitch. */
enum { MOST_APART = INT_MAX };

static thread_local int current;
static thread_local cudaError_t last;

static cudaError_t note(cudaError_t e)
{
    if (e != cudaSuccess)
        last = e;
    return e;
}

/* What every call on a GPU says once it has failed. */
static cudaError_t also(int gpu, cudaError_t e)
{
    cudaError_t failed = failure_of(gpu);

    return note(failed != cudaSuccess ? failed : e);
}

static stream *of(cudaStream_t s)
{
    return s != nullptr ? reinterpret_cast<stream *>(s)
                        : default_stream(current);
}

static event *of(cudaEvent_t e)
{
    return reinterpret_cast<event *>(e);
}

static bool is_gpu(int gpu)
{
    return gpu >= 0 && gpu < gpus();
}

static int driver_version()
{
    static const long long version = setting("DRIVER", CUDART_VERSION);

    return static_cast<int>(version);
}

/* Pairs of GPUs of which the first reaches the memory of the second. */
static std::atomic<bool> reaches[MOST_GPUS][MOST_GPUS];

/* Is a kernel launched for the first time on a GPU? CUDA loads it then, unless
 * it is told to load all at once, and may wait for all that the GPU has begun. */
static bool is_first(int gpu, const char *kernel)
{
    static std::mutex lock;
    static std::set<std::string> known[MOST_GPUS];
    std::lock_guard<std::mutex> guard(lock);

    return (begin().lazy || setting("LAZY", 0) != 0) &&
           known[gpu].insert(kernel).second;
}

/* Why the current GPU cannot reach what it is given; "": it can. */
static std::string unreachable(const emulated_launch &l)
{
    for (const void *at : l.given) {
        const int owner = is_address(at) ? owner_of(at, 1) : PINNED;

        if (owner >= 0 && owner != current && !reaches[current][owner])
            return std::string(l.name) + ": memory of GPU " +
                   std::to_string(owner) + ", which GPU " +
                   std::to_string(current) + " does not reach";
        if (owner == PAGEABLE && is_pageable(at))
            return std::string(l.name) + ": main memory that is not pinned";
    }
    return "";
}

/* A kernel, on the thread of its stream: it belongs to the GPU with which the
 * thread that launches works. */
static void launch(void *s, emulated_launch what)
{
    stream *at = of(static_cast<cudaStream_t>(s));

    if (at->gpu != current) {
        note(cudaErrorInvalidResourceHandle);
        return;
    }
    if (!load_kernels(current)) {
        note(cudaErrorMemoryAllocation);
        return;
    }
    count(&emulated_runtime_counts::launches);
    const std::string why =
        is_first(current, what.name) && messages(current, 0) > 0
            ? std::string(what.name) + ": loaded where a message is under way, "
                                       "which may wait for this process"
            : unreachable(what);
    if (why.empty())
        at->add(std::move(what.run), true);
    else
        at->add([=] { fail(at->gpu, cudaErrorIllegalAddress, why.c_str()); },
                true);
    if (begin().waits)
        at->wait();
}

__attribute__((constructor)) static void take_launches()
{
    emulated_enqueue = launch;
}

extern "C" {

void emulated_runtime_count(struct emulated_runtime_counts *counts)
{
    counting &c = all_counts();
    std::lock_guard<std::mutex> guard(c.lock);

    *counts = c.counts;
}

void emulated_runtime_run(void *s, void (*what)(void *arg), void *arg)
{
    launch(s, { "a kernel", [=] { what(arg); }, {} });
}

/* --- GPUs ----------------------------------------------------------------- */

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = driver_version();
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *n)
{
    *n = 0;
    begin();
    if (driver_version() < CUDART_VERSION / 1000 * 1000)
        return note(cudaErrorInsufficientDriver);
    if (gpus() == 0)
        return note(cudaErrorNoDevice);
    *n = gpus();
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int gpu)
{
    if (!is_gpu(gpu))
        return note(cudaErrorInvalidDevice);
    current = gpu;
    return also(gpu, cudaSuccess);
}

cudaError_t cudaGetDevice(int *gpu)
{
    *gpu = current;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int gpu)
{
    const char *name = getenv("DSFLOW_EMULATED_NAME");

    if (!is_gpu(gpu))
        return note(cudaErrorInvalidDevice);
    memset(p, 0, sizeof(*p));
    snprintf(p->name, sizeof(p->name), "%s",
             name != NULL ? name : "emulated GPU");
    p->totalGlobalMem = memory_of(gpu);
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr which, int gpu)
{
    if (!is_gpu(gpu))
        return note(cudaErrorInvalidDevice);
    *value = which == cudaDevAttrComputeCapabilityMajor   ? 9
             : which == cudaDevAttrComputeCapabilityMinor ? 0
             : which == cudaDevAttrMultiProcessorCount    ? 4
                                                          : 1;
    return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int gpu, int peer)
{
    *can = gpu != peer && setting("PEERS", 1) != 0;
    return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
    if (!is_gpu(peer) || peer == current)
        return note(cudaErrorInvalidDevice);
    if (setting("PEERS", 1) == 0)
        return note(cudaErrorPeerAccessUnsupported);
    if (reaches[current][peer].exchange(true))
        return note(cudaErrorPeerAccessAlreadyEnabled);
    count(&emulated_runtime_counts::peers);
    return cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t e = failure_of(current);

    if (e == cudaSuccess)
        e = last;
    last = cudaSuccess;
    return e;
}

const char *cudaGetErrorString(cudaError_t e)
{
    switch (e) {
    case cudaErrorMemoryAllocation:
        return "out of memory";
    case cudaErrorInvalidDevice:
        return "invalid device ordinal";
    case cudaErrorInsufficientDriver:
        return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice:
        return "no CUDA-capable device is detected";
    case cudaErrorInvalidResourceHandle:
        return "invalid resource handle";
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
        return failure_text();
    default:
        return "invalid argument";
    }
}

/* --- memory --------------------------------------------------------------- */

cudaError_t cudaMemGetInfo(size_t *left, size_t *total)
{
    *total = memory_of(current);
    *left = free_of(current);
    return also(current, cudaSuccess);
}

cudaError_t cudaMalloc(void **at, size_t bytes)
{
    if (failure_of(current) != cudaSuccess)
        return also(current, cudaSuccess);
    await_messages(current, "cudaMalloc");
    *at = take(current, bytes);
    if (*at == nullptr)
        return note(cudaErrorMemoryAllocation);
    count(&emulated_runtime_counts::allocations);
    return cudaSuccess;
}

/* As CUDA, it waits for all that the GPU has to do; so what it frees is what
 * nobody uses. */
cudaError_t cudaFree(void *at)
{
    if (at == nullptr)
        return cudaSuccess;
    await_messages(current, "cudaFree");
    count(&emulated_runtime_counts::frees);
    count(&emulated_runtime_counts::waits);
    return also(current, give_back(at) ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaHostRegister(void *at, size_t bytes, unsigned flags)
{
    if (at == nullptr || bytes == 0)
        return note(cudaErrorInvalidValue);
    for (int gpu = 0; gpu < gpus(); gpu++)
        await_messages(gpu, "cudaHostRegister");
    if (!emulated::pin(at, bytes))
        return note(cudaErrorHostMemoryAlreadyRegistered);
    count(&emulated_runtime_counts::pins);
    return cudaSuccess;
}

cudaError_t cudaHostUnregister(void *at)
{
    for (int gpu = 0; gpu < gpus(); gpu++)
        await_messages(gpu, "cudaHostUnregister");
    return note(emulated::unpin(at) ? cudaSuccess
                                    : cudaErrorHostMemoryNotRegistered);
}

/* Do so many bytes at these addresses have some in common? CUDA copies them in
 * any order. */
static bool overlap(const void *to, const void *from, size_t bytes)
{
    const auto a = reinterpret_cast<uintptr_t>(to);
    const auto b = reinterpret_cast<uintptr_t>(from);

    return (a < b ? b - a : a - b) < bytes;
}

static void count_copy(size_t bytes, int to_owner, int from_owner)
{
    count(&emulated_runtime_counts::copies);
    if (to_owner < 0 && from_owner >= 0)
        count(&emulated_runtime_counts::bytes_out, bytes);
    if (to_owner >= 0 && from_owner < 0)
        count(&emulated_runtime_counts::bytes_in, bytes);
}

static cudaError_t enqueue_copy(void *to, const void *from, size_t bytes,
                                int to_owner, int from_owner, stream *s)
{
    if (to_owner == NOBODYS || from_owner == NOBODYS ||
        overlap(to, from, bytes))
        return note(cudaErrorInvalidValue);
    count_copy(bytes, to_owner, from_owner);
    s->add([=] { memcpy(to, from, bytes); }, true);
    if (to_owner == PAGEABLE || from_owner == PAGEABLE) {
        count(&emulated_runtime_counts::unpinned);
        s->wait();
    }
    return also(s->gpu, cudaSuccess);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes,
                            cudaMemcpyKind kind, cudaStream_t s)
{
    return enqueue_copy(to, from, bytes, owner_of(to, bytes),
                        owner_of(from, bytes), of(s));
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_apart, const void *from,
                              size_t from_apart, size_t bytes, size_t rows,
                              cudaMemcpyKind kind, cudaStream_t s)
{
    const int to_owner = owner_of(to, (rows - 1) * to_apart + bytes);
    const int from_owner = owner_of(from, (rows - 1) * from_apart + bytes);

    if (to_apart > MOST_APART || from_apart > MOST_APART)
        return note(cudaErrorInvalidPitchValue);
    if (rows == 0 || bytes > to_apart || bytes > from_apart ||
        to_owner == NOBODYS || from_owner == NOBODYS)
        return note(cudaErrorInvalidValue);
    count_copy(rows * bytes, to_owner, from_owner);
    of(s)->add(
        [=] {
            for (size_t row = 0; row < rows; row++)
                memcpy(static_cast<char *>(to) + row * to_apart,
                       static_cast<const char *>(from) + row * from_apart,
                       bytes);
        },
        true);
    if (to_owner == PAGEABLE || from_owner == PAGEABLE) {
        count(&emulated_runtime_counts::unpinned);
        of(s)->wait();
    }
    return also(of(s)->gpu, cudaSuccess);
}

/* Each end has to be where it is said to be. */
cudaError_t cudaMemcpyPeerAsync(void *to, int to_gpu, const void *from,
                                int from_gpu, size_t bytes, cudaStream_t s)
{
    if (owner_of(to, bytes) != to_gpu || owner_of(from, bytes) != from_gpu)
        return note(cudaErrorInvalidValue);
    return enqueue_copy(to, from, bytes, to_gpu, from_gpu, of(s));
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t s)
{
    if (owner_of(to, bytes) < 0)
        return note(cudaErrorInvalidValue);
    count(&emulated_runtime_counts::copies);
    of(s)->add([=] { memset(to, value, bytes); }, true);
    return also(of(s)->gpu, cudaSuccess);
}

/* --- streams and events --------------------------------------------------- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned flags)
{
    *s = reinterpret_cast<cudaStream_t>(new stream(current));
    return also(current, cudaSuccess);
}

cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    delete reinterpret_cast<stream *>(s);
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
    if (s == nullptr)
        count(&emulated_runtime_counts::waits);
    of(s)->wait();
    return also(of(s)->gpu, cudaSuccess);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned flags)
{
    *e = reinterpret_cast<cudaEvent_t>(new event{ current, {}, nullptr });
    return also(current, cudaSuccess);
}

cudaError_t cudaEventDestroy(cudaEvent_t e)
{
    delete of(e);
    return cudaSuccess;
}

static double seconds_now()
{
    timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<double>(t.tv_sec) +
           1e-9 * static_cast<double>(t.tv_nsec);
}

static std::shared_ptr<moment> moment_of(event *e)
{
    std::lock_guard<std::mutex> guard(e->lock);

    return e->last;
}

cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{
    auto m = std::make_shared<moment>();

    if (of(e)->gpu != of(s)->gpu)
        return note(cudaErrorInvalidResourceHandle);
    {
        std::lock_guard<std::mutex> guard(of(e)->lock);
        of(e)->last = m;
    }
    of(s)->add(
        [m] {
            std::lock_guard<std::mutex> guard(m->lock);

            m->when = seconds_now();
            m->over = true;
            m->changed.notify_all();
        },
        false);
    return also(of(s)->gpu, cudaSuccess);
}

cudaError_t cudaEventSynchronize(cudaEvent_t e)
{
    auto m = moment_of(of(e));

    if (m != nullptr) {
        std::unique_lock<std::mutex> guard(m->lock);

        m->changed.wait(guard, [&] { return m->over; });
    }
    return also(of(e)->gpu, cudaSuccess);
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    auto a = moment_of(of(from)), b = moment_of(of(to));

    if (a == nullptr || b == nullptr || of(from)->gpu != of(to)->gpu)
        return note(cudaErrorInvalidResourceHandle);
    std::unique_lock<std::mutex> first(a->lock);
    bool over = a->over;
    double since = a->when;

    first.unlock();
    std::lock_guard<std::mutex> second(b->lock);
    if (!over || !b->over)
        return note(cudaErrorNotReady);
    *ms = static_cast<float>(1e3 * (b->when - since));
    return cudaSuccess;
}

} /* extern "C" */
