/* isa_avx512_bf16.c - the loops for processors with AVX-512 and its products of
 * pairs of bf16. */
#include "kernels/loops.h"

#if defined(__x86_64__)

#include <assert.h>
#include <immintrin.h>
#include <math.h>

#if defined(__clang__)
#pragma clang attribute push(                                                  \
    __attribute__((                                                            \
        target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16"))),    \
    apply_to = function)
#else
#pragma GCC target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")
#endif

#define DSF_VEC_AVX512
#define DSF_VEC_BF16
#define DSF_LOOPS     dsf_loops_avx512_bf16
#define DSF_LOOPS_ISA "avx512_bf16"
#include "kernels/loops_all.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif
