/* dev.h - what kernels are written with: CUDA C++ where nvcc reads them, and an
 * emulation of it on a core elsewhere (tests/gpu/emulation). The rules:
 *
 *   - Shared memory is the launch's (dev_shared), at most 99 KiB:
 *     that is what a block may have of all since sm_80.
 *   - Every thread of a block reaches every barrier, and every lane of a mask each
 *     operation of its warp, at the same line.
 *   - No atomics, and nothing that one block leaves for another: a sum over blocks
 *     is two launches, whose grids follow from the shape alone.
 *   - Numbers in memory are T: float, bf16 or fp16; what is computed is fp32, and
 *     is rounded once, where it is stored: to the nearest, ties to even.
 *   - dev_launch enqueues on a stream: of an emulated runtime, or, where that is
 *     NULL, at once. A grid is never empty. */
#ifndef DSF_GPU_DEV_H
#define DSF_GPU_DEV_H

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <dsflow/dtype.h>

#define DEV __device__ inline

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#define DEV_UNROLL       _Pragma("unroll")
#define DEV_UNROLL_BY(n) DEV_PRAGMA(unroll n)
#define DEV_PRAGMA(text) _Pragma(#text)

typedef __nv_bfloat16 bf16;
typedef __half fp16;

DEV float dev_wide(bf16 v)
{
    return __bfloat162float(v);
}
DEV float dev_wide(fp16 v)
{
    return __half2float(v);
}
template <class T> DEV T dev_narrow(float v);
template <> DEV bf16 dev_narrow<bf16>(float v)
{
    return __float2bfloat16_rn(v);
}
template <> DEV fp16 dev_narrow<fp16>(float v)
{
    return __float2half_rn(v);
}

/* Two numbers in one word, the lower one first. */
template <class T> DEV uint32_t dev_pair(float lo, float hi);
template <> DEV uint32_t dev_pair<bf16>(float lo, float hi)
{
    const __nv_bfloat162 pair = __floats2bfloat162_rn(lo, hi);
    uint32_t bits;

    memcpy(&bits, &pair, sizeof(bits));
    return bits;
}
template <> DEV uint32_t dev_pair<fp16>(float lo, float hi)
{
    const __half2 pair = __floats2half2_rn(lo, hi);
    uint32_t bits;

    memcpy(&bits, &pair, sizeof(bits));
    return bits;
}

template <class T> DEV T *dev_shared()
{
    extern __shared__ __align__(16) unsigned char dev_shared_bytes[];

    return reinterpret_cast<T *>(dev_shared_bytes);
}

/* 2^x, of two units in the last place; 0 where it is below 2^-126. */
DEV float dev_exp2(float x)
{
    float y;

    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* 1/x, of one unit in the last place, where neither is below 2^-126. */
DEV float dev_reciprocal(float x)
{
    float y;

    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* D[16][8] = A[16][16] B[16][8] + C, by one warp; A and B are of T. */
template <class T>
DEV void dev_mma(float d[4], const uint32_t a[4], const uint32_t b[2],
                 const float c[4]);
#define DEV_MMA(T, type)                                                       \
    template <>                                                                \
    DEV void dev_mma<T>(float d[4], const uint32_t a[4], const uint32_t b[2],  \
                        const float c[4])                                      \
    {                                                                          \
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type    \
                     ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "            \
                     "{%10,%11,%12,%13};\n"                                    \
                     : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])          \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]),  \
                       "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]),             \
                       "f"(c[3]));                                             \
    }
DEV_MMA(bf16, "bf16")
DEV_MMA(fp16, "f16")

/* Four matrices of 8 x 8 numbers of 16 bits, of which lane i gives row i % 8 of
 * matrix i / 8; `t`: transposed. */
DEV void dev_ldmatrix4(uint32_t r[4], const void *row)
{
    const uint32_t at = (uint32_t)__cvta_generic_to_shared(row);

    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, "
                 "[%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
}
DEV void dev_ldmatrix4t(uint32_t r[4], const void *row)
{
    const uint32_t at = (uint32_t)__cvta_generic_to_shared(row);

    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 "
                 "{%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
}

/* 16 bytes to shared memory, which are there after a dev_copy_wait of the same
 * thread, and a barrier for others; zeroes where not `there`. */
DEV void dev_copy16(void *shared, const void *global, bool there = true)
{
    const uint32_t at = (uint32_t)__cvta_generic_to_shared(shared);

    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(at),
                 "l"(global), "r"(there ? 16 : 0)
                 : "memory");
}
DEV void dev_copy_commit()
{
    asm volatile("cp.async.commit_group;\n" ::: "memory");
}
/* For all groups but the last N. */
template <int N> DEV void dev_copy_wait()
{
    asm volatile("cp.async.wait_group %0;\n" ::"n"(N) : "memory");
}

/* x, of which the compiler knows nothing: what follows from it after a loop is
 * computed there, and in no register during the loop. */
DEV unsigned dev_anew(unsigned x)
{
    asm volatile("" : "+r"(x));
    return x;
}

/* A word W of 4, 8 or 16 bytes; the address is a multiple of that. */
template <class W> DEV W dev_load_word(const void *p)
{
    return *static_cast<const W *>(p);
}
template <class W> DEV void dev_store_word(void *p, W v)
{
    *static_cast<W *>(p) = v;
}
DEV uint4 dev_load16(const void *p)
{
    return dev_load_word<uint4>(p);
}
DEV void dev_store16(void *p, uint4 v)
{
    dev_store_word(p, v);
}

/* Past 48 KiB, shared memory is asked for. Errors stay for cudaGetLastError. */
#define dev_launch(kernel, grid, block, shared, stream, ...)                   \
    do {                                                                       \
        const auto dev_kernel = kernel;                                        \
                                                                               \
        if ((shared) > 48 << 10)                                               \
            cudaFuncSetAttribute(                                              \
                (const void *)dev_kernel,                                      \
                cudaFuncAttributeMaxDynamicSharedMemorySize, (int)(shared));   \
        dev_kernel<<<grid, block, shared, (cudaStream_t)(stream)>>>(           \
            __VA_ARGS__);                                                      \
    } while (0)
#else
#include "emulation.h"
#define DEV_UNROLL
#define DEV_UNROLL_BY(n)
#endif

DEV float dev_wide(float v)
{
    return v;
}
template <> DEV float dev_narrow<float>(float v)
{
    return v;
}
template <class T> DEV float dev_load(const T *p)
{
    return dev_wide(*p);
}
template <class T> DEV void dev_store(T *p, float v)
{
    *p = dev_narrow<T>(v);
}

/* V numbers, 16 bytes at a time: V is 8 where p is a multiple of 16 bytes, or 1,
 * whatever it is. */
template <class T> struct dev_words {
    static DEV void load(const T *p, float *v)
    {
        const uint4 raw = dev_load16(p);
        T n[8];

        memcpy(n, &raw, sizeof(n));
        DEV_UNROLL
        for (int i = 0; i < 8; i++)
            v[i] = dev_wide(n[i]);
    }
    static DEV void store(T *p, const float *v)
    {
        dev_store16(p, make_uint4(dev_pair<T>(v[0], v[1]),
                                  dev_pair<T>(v[2], v[3]),
                                  dev_pair<T>(v[4], v[5]),
                                  dev_pair<T>(v[6], v[7])));
    }
};
template <> struct dev_words<float> {
    static DEV void load(const float *p, float *v)
    {
        DEV_UNROLL
        for (int i = 0; i < 8; i += 4) {
            const uint4 raw = dev_load16(p + i);

            memcpy(v + i, &raw, sizeof(raw));
        }
    }
    static DEV void store(float *p, const float *v)
    {
        DEV_UNROLL
        for (int i = 0; i < 8; i += 4) {
            uint4 raw;

            memcpy(&raw, v + i, sizeof(raw));
            dev_store16(p + i, raw);
        }
    }
};
template <int V, class T> DEV void dev_load_all(const T *p, float (&v)[V])
{
    static_assert(V == 1 || V == 8, "of one address, or of 16 bytes");
    if constexpr (V == 1)
        v[0] = dev_load(p);
    else
        dev_words<T>::load(p, v);
}
template <int V, class T> DEV void dev_store_all(T *p, const float (&v)[V])
{
    static_assert(V == 1 || V == 8, "to one address, or to 16 bytes");
    if constexpr (V == 1)
        dev_store(p, v[0]);
    else
        dev_words<T>::store(p, v);
}

/* May rows of `cols` numbers at these addresses be read 8 at a time? */
inline bool dev_is_aligned(size_t cols, std::initializer_list<const void *> at)
{
    for (const void *p : at)
        if ((uintptr_t)p % 16 != 0)
            return false;
    return cols % 8 == 0;
}

inline size_t dev_least(size_t a, size_t b)
{
    return a < b ? a : b;
}

inline unsigned dev_div_up(size_t n, size_t by)
{
    return (unsigned)((n + by - 1) / by);
}

/* CALL, with T the type that `type` names. */
#define DEV_BY_TYPE(type, T, CALL)                                             \
    do {                                                                       \
        if ((type) == DSFLOW_BF16) {                                           \
            typedef bf16 T;                                                    \
            CALL;                                                              \
        } else if ((type) == DSFLOW_FP16) {                                    \
            typedef fp16 T;                                                    \
            CALL;                                                              \
        } else {                                                               \
            typedef float T;                                                   \
            CALL;                                                              \
        }                                                                      \
    } while (0)

#endif
