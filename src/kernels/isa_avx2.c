/* isa_avx2.c - the loops for processors with AVX2, FMA and F16C. */
#include "kernels/loops.h"

#if defined(__x86_64__)

#include <assert.h>
#include <immintrin.h>
#include <math.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))),              \
                             apply_to = function)
#else
#pragma GCC target("avx2,fma,f16c")
#endif

#define DSF_VEC_AVX2
#define DSF_LOOPS     dsf_loops_avx2
#define DSF_LOOPS_ISA "avx2"
#include "kernels/loops_all.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif
