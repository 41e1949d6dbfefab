/* emulation.h - CUDA's words where there is no nvcc: what dev.h includes then.
 * Each thread of a block is a fiber of the thread that launches, and blocks come
 * one after the other. */
#ifndef DSF_GPU_EMULATION_H
#define DSF_GPU_EMULATION_H

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include "base/half.h"

#define __global__ static
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1)
        : x(x_), y(y_), z(z_)
    {
    }
    size_t count() const
    {
        return (size_t)x * y * z;
    }
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) uint4 {
    uint32_t x, y, z, w;
};
struct alignas(8) uint2 {
    uint32_t x, y;
};
inline float4 make_float4(float x, float y, float z, float w)
{
    return { x, y, z, w };
}
inline float2 make_float2(float x, float y)
{
    return { x, y };
}
inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w)
{
    return { x, y, z, w };
}
inline uint2 make_uint2(uint32_t x, uint32_t y)
{
    return { x, y };
}

struct bf16 {
    uint16_t bits;
};
struct fp16 {
    uint16_t bits;
};
inline float dev_wide(bf16 v)
{
    return dsf_from_bf16(v.bits);
}
inline float dev_wide(fp16 v)
{
    return dsf_from_fp16(v.bits);
}
/* As CUDA: to the nearest, ties to even, and one NaN for all. */
template <class T> T dev_narrow(float v);
template <> inline bf16 dev_narrow<bf16>(float v)
{
    return { v != v ? (uint16_t)0x7fff : dsf_to_bf16(v) };
}
template <> inline fp16 dev_narrow<fp16>(float v)
{
    return { v != v ? (uint16_t)0x7fff : dsf_to_fp16(v) };
}

/* Plug-ins whose kernels are emulated are linked with the module that has this.
 */
#pragma GCC visibility push(default)
namespace emulated {

#define EMULATED_HERE                                                          \
    const char *file = __builtin_FILE(), int line = __builtin_LINE()

/* Where the thread that runs stands. */
struct place {
    dim3 thread, block, block_dim, grid_dim;
    unsigned lane; /* of its warp */
};
extern __thread const place *now;

/* A kernel with its arguments as they are now. */
struct work {
    std::function<void()> body;       /* called by each thread */
    std::vector<const void *> given;  /* all words of the arguments */
    const void *kernel;               /* its address */
    std::vector<size_t> at;           /* where each argument begins … */
    std::vector<unsigned char> bytes; /* … of these, which a GPU is given */
};
/* What lies between members is nobody's: words of it are no addresses. (clang
 * 14 leaves it as it is; gcc 12 clears some numbers in arrays of structures,
 * too.) */
template <class A> void give(work *w, A arg)
{
    const void *word;

    w->at.push_back((w->bytes.size() + alignof(A) - 1) / alignof(A) *
                    alignof(A));
    w->bytes.resize(w->at.back() + sizeof(A));
    memcpy(&w->bytes[w->at.back()], &arg, sizeof(A));
#if __has_builtin(__builtin_clear_padding)
    __builtin_clear_padding(&arg);
#endif
    if constexpr (sizeof(A) >= sizeof(word))
        for (size_t i = 0; i + sizeof(word) <= sizeof(A); i += sizeof(word)) {
            memcpy(&word, (const char *)&arg + i, sizeof(word));
            w->given.push_back(word);
        }
}
template <class... P, class... A> work with(void (*kernel)(P...), A... args)
{
    work w = { [=] { kernel(args...); }, {}, (const void *)kernel, {}, {} };

    (give<P>(&w, args), ...);
    return w;
}

void launch(const char *kernel, dim3 grid, dim3 block, size_t shared,
            void *stream, const work &w);

/* The thread stops here for good, and the launch with it. */
[[noreturn]] void stop(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

void *shared_memory();
bool in_shared(const void *p, size_t bytes);

/* `p` is what so many bytes at a time are read from or written to. */
inline void check_aligned(const void *p, size_t bytes, const char *file,
                          int line)
{
    if ((uintptr_t)p % bytes != 0)
        stop(file, line, "%zu bytes at an address that is no multiple of %zu",
             bytes, bytes);
}

void barrier(const char *file, int line);

/* What the lanes of a warp do together, once all of `mask` are there: args of
 * each lane, NULL of those that take no part. Returns what is wrong, or NULL. */
enum { LANES = 32 };
typedef const char *(*together)(void *const args[LANES]);
void warp(unsigned mask, together f, void *args, const char *file, int line);

template <class T> struct exchange {
    T mine, got;
    unsigned from;
};
template <class T> const char *exchange_all(void *const args[LANES])
{
    for (unsigned i = 0; i < LANES; i++) {
        auto *e = (exchange<T> *)args[i];
        auto *other = e ? (exchange<T> *)args[e->from % LANES] : nullptr;

        if (e && !other)
            return "a shuffle from a lane that takes no part";
        if (e)
            e->got = other->mine;
    }
    return nullptr;
}
template <class T>
T from_lane(unsigned mask, T v, unsigned lane, const char *file, int line)
{
    exchange<T> e = { v, v, lane };

    warp(mask, exchange_all<T>, &e, file, line);
    return e.got;
}

uint32_t ballot(unsigned mask, bool v, const char *file, int line);

/* Of pairs of 16-bit numbers of a type. */
struct mma_args {
    const uint32_t *a, *b;
    const float *c;
    float *d;
};
template <class T> const char *mma_all(void *const args[LANES]);
extern template const char *mma_all<bf16>(void *const args[LANES]);
extern template const char *mma_all<fp16>(void *const args[LANES]);

void ldmatrix4(uint32_t r[4], const void *row, bool transposed,
               const char *file, int line);

void copy16(void *shared, const void *global, bool there, const char *file,
            int line);
void copy_commit();
void copy_wait(unsigned groups);

} // namespace emulated
#pragma GCC visibility pop

#define threadIdx (emulated::now->thread)
#define blockIdx (emulated::now->block)
#define blockDim (emulated::now->block_dim)
#define gridDim (emulated::now->grid_dim)

inline void __syncthreads(EMULATED_HERE)
{
    emulated::barrier(file, line);
}
inline void __syncwarp(unsigned mask = ~0u, EMULATED_HERE)
{
    emulated::from_lane(mask, 0, emulated::now->lane, file, line);
}
template <class T>
T __shfl_sync(unsigned mask, T v, unsigned lane, EMULATED_HERE)
{
    return emulated::from_lane(mask, v, lane, file, line);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T v, unsigned bits, EMULATED_HERE)
{
    return emulated::from_lane(mask, v, emulated::now->lane ^ bits, file, line);
}
template <class T>
T __shfl_down_sync(unsigned mask, T v, unsigned by, EMULATED_HERE)
{
    const unsigned lane = emulated::now->lane;

    return emulated::from_lane(mask, v, lane + by < 32 ? lane + by : lane, file,
                               line);
}
template <class T>
T __shfl_up_sync(unsigned mask, T v, unsigned by, EMULATED_HERE)
{
    const unsigned lane = emulated::now->lane;

    return emulated::from_lane(mask, v, lane >= by ? lane - by : lane, file,
                               line);
}
inline uint32_t __ballot_sync(unsigned mask, int v, EMULATED_HERE)
{
    return emulated::ballot(mask, v != 0, file, line);
}
inline int __any_sync(unsigned mask, int v, EMULATED_HERE)
{
    return emulated::ballot(mask, v != 0, file, line) != 0;
}
inline int __all_sync(unsigned mask, int v, EMULATED_HERE)
{
    return emulated::ballot(mask, v != 0, file, line) == mask;
}

template <class T> T *dev_shared()
{
    return (T *)emulated::shared_memory();
}
template <class T>
void dev_mma(float d[4], const uint32_t a[4], const uint32_t b[2],
             const float c[4], EMULATED_HERE)
{
    emulated::mma_args args = { a, b, c, d };

    emulated::warp(~0u, emulated::mma_all<T>, &args, file, line);
}
inline void dev_ldmatrix4(uint32_t r[4], const void *row, EMULATED_HERE)
{
    emulated::ldmatrix4(r, row, false, file, line);
}
inline void dev_ldmatrix4t(uint32_t r[4], const void *row, EMULATED_HERE)
{
    emulated::ldmatrix4(r, row, true, file, line);
}
template <class T> uint32_t dev_pair(float lo, float hi)
{
    return dev_narrow<T>(lo).bits | (uint32_t)dev_narrow<T>(hi).bits << 16;
}
inline void dev_copy16(void *shared, const void *global, bool there = true,
                       EMULATED_HERE)
{
    emulated::copy16(shared, global, there, file, line);
}
inline void dev_copy_commit()
{
    emulated::copy_commit();
}
template <int N> void dev_copy_wait()
{
    emulated::copy_wait(N);
}
inline unsigned dev_anew(unsigned x)
{
    return x;
}
template <class W> W dev_load_word(const void *p, EMULATED_HERE)
{
    W v;

    emulated::check_aligned(p, sizeof(v), file, line);
    memcpy(&v, p, sizeof(v));
    return v;
}
template <class W> void dev_store_word(void *p, W v, EMULATED_HERE)
{
    emulated::check_aligned(p, sizeof(v), file, line);
    memcpy(p, &v, sizeof(v));
}
inline uint4 dev_load16(const void *p, EMULATED_HERE)
{
    return dev_load_word<uint4>(p, file, line);
}
inline void dev_store16(void *p, uint4 v, EMULATED_HERE)
{
    dev_store_word(p, v, file, line);
}

/* Each is rounded alone: what includes this is compiled with -ffp-contract=off.
 */
inline float __fmaf_rn(float a, float b, float c)
{
    return fmaf(a, b, c);
}
inline float __fmul_rn(float a, float b)
{
    return a * b;
}
inline float __fadd_rn(float a, float b)
{
    return a + b;
}
inline float __fsub_rn(float a, float b)
{
    return a - b;
}
inline float __fdiv_rn(float a, float b)
{
    return a / b;
}
inline float __fsqrt_rn(float a)
{
    return sqrtf(a);
}
inline double __fma_rn(double a, double b, double c)
{
    return fma(a, b, c);
}
inline double __dmul_rn(double a, double b)
{
    return a * b;
}
inline double __dadd_rn(double a, double b)
{
    return a + b;
}
inline double __dsub_rn(double a, double b)
{
    return a - b;
}
inline double __ddiv_rn(double a, double b)
{
    return a / b;
}
inline double __dsqrt_rn(double a)
{
    return sqrt(a);
}
inline float __double2float_rn(double a)
{
    return (float)a;
}
inline int __float2int_rn(float a)
{
    return (int)rintf(a);
}
inline float __uint_as_float(uint32_t bits)
{
    return dsf_float_of(bits);
}
inline uint32_t __float_as_uint(float v)
{
    return dsf_bits_of(v);
}
inline float __int_as_float(int32_t bits)
{
    return dsf_float_of((uint32_t)bits);
}
inline int32_t __float_as_int(float v)
{
    return (int32_t)dsf_bits_of(v);
}
inline float dev_exp2(float x)
{
    return exp2f(x);
}
inline float dev_reciprocal(float x)
{
    return 1 / x;
}
inline float __expf(float x)
{
    return expf(x);
}
inline float __logf(float x)
{
    return logf(x);
}
inline float rsqrtf(float x)
{
    return 1 / sqrtf(x);
}
inline int __popc(uint32_t bits)
{
    return __builtin_popcount(bits);
}
inline int __ffs(int32_t bits)
{
    return __builtin_ffs(bits);
}
inline int __clz(int32_t bits)
{
    return bits == 0 ? 32 : __builtin_clz((uint32_t)bits);
}
inline uint64_t __umul64hi(uint64_t a, uint64_t b)
{
    return (uint64_t)((unsigned __int128)a * b >> 64);
}
template <class T> T __ldg(const T *p)
{
    return *p;
}

#define dev_launch(kernel, grid, block, shared, stream, ...)                   \
    emulated::launch(#kernel, grid, block, shared, stream,                     \
                     emulated::with(kernel, ##__VA_ARGS__))

#endif
