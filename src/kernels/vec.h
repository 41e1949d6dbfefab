/* vec.h - one name for the vectors of each instruction set. The file that
 * includes this defines DSF_VEC_AVX512, DSF_VEC_AVX2 or nothing (portable),
 * and has switched the compiler to those instructions.
 *
 * Loads and stores take how many lanes count: with VW, a constant, they are
 * plain ones; with less, the others read as zero and are not written.
 *
 * vfma is a b + c, rounded once where that is an instruction; vfma_exact is
 * rounded once everywhere. */
#ifndef DSF_KERNELS_VEC_H
#define DSF_KERNELS_VEC_H

#include <stdint.h>
#include <stddef.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

/* Before a loop of a few constant turns, which must not remain a loop: what it
 * indexes then stays in registers. Clang does this by itself, and too late when
 * it is asked. */
#if defined(__clang__)
#define UNROLL
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

#if defined(DSF_VEC_AVX512)

enum { VW = 16 };
typedef __m512 vf;
typedef __m512i vi;

INLINE __mmask16 vlanes(size_t k)
{
    return (__mmask16)((1u << k) - 1);
}

INLINE vf vload(const float *p, size_t k)
{
    return k == VW ? _mm512_loadu_ps(p) : _mm512_maskz_loadu_ps(vlanes(k), p);
}

INLINE void vstore(float *p, vf a, size_t k)
{
    if (k == VW)
        _mm512_storeu_ps(p, a);
    else
        _mm512_mask_storeu_ps(p, vlanes(k), a);
}

/* The first k lanes of a, then those of b. */
INLINE vf vpick(vf a, vf b, size_t k)
{
    return k == VW ? a : _mm512_mask_blend_ps(vlanes(k), b, a);
}

INLINE vf vset(float a)
{
    return _mm512_set1_ps(a);
}

INLINE vf vfma(vf a, vf b, vf c)
{
    return _mm512_fmadd_ps(a, b, c);
}

INLINE vf vfma_exact(vf a, vf b, vf c)
{
    return _mm512_fmadd_ps(a, b, c);
}

/* b where either is not a number. */
INLINE vf vmax(vf a, vf b)
{
    return _mm512_max_ps(a, b);
}

INLINE vf vmin(vf a, vf b)
{
    return _mm512_min_ps(a, b);
}

INLINE vf vsqrt(vf a)
{
    return _mm512_sqrt_ps(a);
}

/* b where x < limit, else a. */
INLINE vf vbelow(vf x, vf limit, vf b, vf a)
{
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, limit, _CMP_LT_OQ), a, b);
}

/* Bit i: lane i is below 0. */
INLINE uint32_t vnegative(vf a)
{
    return _mm512_cmp_ps_mask(a, _mm512_setzero_ps(), _CMP_LT_OQ);
}

/* The same of 16 numbers. */
INLINE uint32_t vnegative16(const float *x)
{
    return vnegative(vload(x, VW));
}

/* -a in the lanes of `lanes`, a in the others. */
INLINE vf vnegate(vf a, uint32_t lanes)
{
    const __m512i sign = _mm512_set1_epi32((int)0x80000000);
    __m512i bits = _mm512_castps_si512(a);

    return _mm512_castsi512_ps(
        _mm512_mask_xor_epi32(bits, (__mmask16)lanes, bits, sign));
}

/* a * 2^n, n being the low bits of `n` as integers. */
INLINE vf vscale2(vf a, vf n)
{
    return _mm512_castsi512_ps(_mm512_add_epi32(
        _mm512_castps_si512(a), _mm512_slli_epi32(_mm512_castps_si512(n), 23)));
}

#elif defined(DSF_VEC_AVX2)

enum { VW = 8 };
typedef __m256 vf;
typedef __m256i vi;

INLINE vi vlanes(size_t k)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)k),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

INLINE vf vload(const float *p, size_t k)
{
    return k == VW ? _mm256_loadu_ps(p) : _mm256_maskload_ps(p, vlanes(k));
}

INLINE void vstore(float *p, vf a, size_t k)
{
    if (k == VW)
        _mm256_storeu_ps(p, a);
    else
        _mm256_maskstore_ps(p, vlanes(k), a);
}

INLINE vf vpick(vf a, vf b, size_t k)
{
    return k == VW ? a : _mm256_blendv_ps(b, a, _mm256_castsi256_ps(vlanes(k)));
}

INLINE vf vset(float a)
{
    return _mm256_set1_ps(a);
}

INLINE vf vfma(vf a, vf b, vf c)
{
    return _mm256_fmadd_ps(a, b, c);
}

INLINE vf vfma_exact(vf a, vf b, vf c)
{
    return _mm256_fmadd_ps(a, b, c);
}

INLINE vf vmax(vf a, vf b)
{
    return _mm256_max_ps(a, b);
}

INLINE vf vmin(vf a, vf b)
{
    return _mm256_min_ps(a, b);
}

INLINE vf vsqrt(vf a)
{
    return _mm256_sqrt_ps(a);
}

INLINE vf vbelow(vf x, vf limit, vf b, vf a)
{
    return _mm256_blendv_ps(a, b, _mm256_cmp_ps(x, limit, _CMP_LT_OQ));
}

INLINE uint32_t vnegative(vf a)
{
    return (uint32_t)_mm256_movemask_ps(
        _mm256_cmp_ps(a, _mm256_setzero_ps(), _CMP_LT_OQ));
}

INLINE uint32_t vnegative16(const float *x)
{
    return vnegative(vload(x, VW)) | vnegative(vload(x + VW, VW)) << VW;
}

INLINE vf vnegate(vf a, uint32_t lanes)
{
    const __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    const __m256i sign = _mm256_set1_epi32((int)0x80000000);
    __m256i of = _mm256_and_si256(_mm256_set1_epi32((int)lanes), bit);

    of = _mm256_and_si256(_mm256_cmpeq_epi32(of, bit), sign);
    return _mm256_xor_ps(a, _mm256_castsi256_ps(of));
}

INLINE vf vscale2(vf a, vf n)
{
    return _mm256_castsi256_ps(_mm256_add_epi32(
        _mm256_castps_si256(a), _mm256_slli_epi32(_mm256_castps_si256(n), 23)));
}

#else

#include <math.h>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

enum { VW = 4 };
typedef float vf __attribute__((vector_size(16)));
typedef uint32_t vi __attribute__((vector_size(16)));

INLINE vf vload(const float *p, size_t k)
{
    vf a = { 0 };

    memcpy(&a, p, k * sizeof(float));
    return a;
}

INLINE void vstore(float *p, vf a, size_t k)
{
    memcpy(p, &a, k * sizeof(float));
}

INLINE vf vpick(vf a, vf b, size_t k)
{
    for (size_t i = k; i < VW; i++)
        a[i] = b[i];
    return a;
}

INLINE vf vset(float a)
{
    return (vf){ a, a, a, a };
}

INLINE vf vfma(vf a, vf b, vf c)
{
    return a * b + c;
}

#if defined(__SSE2__)
typedef int64_t vlong __attribute__((vector_size(16)));

/* A product of floats is exact in double. Is one of the sums, once it is
 * rounded to double, halfway between two floats, or its float, r, next to 0?
 * Only there it counts what double has lost. (Where r is 0, nothing was.) */
INLINE int vneeds_lost(__m128d sum, __m128d sum1, vf r)
{
    vi low = (vi)_mm_shuffle_ps((vf)sum, (vf)sum1, 0x88);
    vf size = (vf)((vi)r & 0x7fffffff);
    vi close = (vi)(size <= 0x1p-126f) & (vi)(size > 0);
    vi halfway = (vi)((low & 0x1fffffff) == 0x10000000);

    return _mm_movemask_ps((vf)(close | halfway));
}

/* The sum rounded to odd (Boldo & Melquiond 2008): rounding that once more
 * gives what rounding once does. */
INLINE __m128d vround_odd(__m128d product, __m128d addend)
{
    __m128d sum = product + addend, part = sum - product;
    /* What the sum lost (Knuth); not a number where the sum is not finite. */
    __m128d lost = (product - (sum - part)) + (addend - part);
    vlong inexact = (vlong)(lost < 0) | (vlong)(lost > 0);
    vlong inward = (vlong)(lost > 0) ^ (vlong)(sum > 0);
    vlong bits = (vlong)sum, even = (bits & 1) - 1;

    return (__m128d)(bits + (inexact & even & (inward | 1)));
}

INLINE vf vfma_exact(vf a, vf b, vf c)
{
    const __m128 upper[] = { _mm_movehl_ps(a, a), _mm_movehl_ps(b, b),
                             _mm_movehl_ps(c, c) };
    __m128d p = _mm_cvtps_pd(a) * _mm_cvtps_pd(b), p1 = _mm_cvtps_pd(upper[0]);
    __m128d q = _mm_cvtps_pd(c), q1 = _mm_cvtps_pd(upper[2]);
    __m128d sum = p + q, sum1;
    vf r;

    p1 = p1 * _mm_cvtps_pd(upper[1]);
    sum1 = p1 + q1;
    r = _mm_movelh_ps(_mm_cvtpd_ps(sum), _mm_cvtpd_ps(sum1));
    if (__builtin_expect(vneeds_lost(sum, sum1, r), 0))
        r = _mm_movelh_ps(_mm_cvtpd_ps(vround_odd(p, q)),
                          _mm_cvtpd_ps(vround_odd(p1, q1)));
    return r;
}
#else
INLINE vf vfma_exact(vf a, vf b, vf c)
{
    for (size_t i = 0; i < VW; i++)
        a[i] = fmaf(a[i], b[i], c[i]);
    return a;
}
#endif

INLINE vf vselect(vi mask, vf a, vf b)
{
    return (vf)((mask & (vi)a) | (~mask & (vi)b));
}

INLINE vf vmax(vf a, vf b)
{
#if defined(__SSE__)
    return _mm_max_ps(a, b);
#else
    return vselect((vi)(a > b), a, b);
#endif
}

INLINE vf vmin(vf a, vf b)
{
#if defined(__SSE__)
    return _mm_min_ps(a, b);
#else
    return vselect((vi)(a < b), a, b);
#endif
}

INLINE vf vsqrt(vf a)
{
#if defined(__SSE__)
    return _mm_sqrt_ps(a);
#else
    for (size_t i = 0; i < VW; i++)
        a[i] = sqrtf(a[i]);
    return a;
#endif
}

INLINE vf vbelow(vf x, vf limit, vf b, vf a)
{
    return vselect((vi)(x < limit), b, a);
}

INLINE uint32_t vnegative(vf a)
{
#if defined(__SSE__)
    return (uint32_t)_mm_movemask_ps((__m128)(a < (vf){ 0 }));
#else
    vi below = (vi)(a < (vf){ 0 }) & (vi){ 1, 2, 4, 8 };

    return below[0] | below[1] | below[2] | below[3];
#endif
}

INLINE uint32_t vnegative16(const float *x)
{
#if defined(__SSE2__)
    const vf zero = { 0 };
    __m128i low = _mm_packs_epi32((__m128i)(vload(x, VW) < zero),
                                  (__m128i)(vload(x + 4, VW) < zero));
    __m128i high = _mm_packs_epi32((__m128i)(vload(x + 8, VW) < zero),
                                   (__m128i)(vload(x + 12, VW) < zero));

    return (uint32_t)_mm_movemask_epi8(_mm_packs_epi16(low, high));
#else
    uint32_t lanes = 0;

    for (size_t k = 0; k < 16; k += VW)
        lanes |= vnegative(vload(x + k, VW)) << k;
    return lanes;
#endif
}

INLINE vf vnegate(vf a, uint32_t lanes)
{
    const vi bit = { 1, 2, 4, 8 };
    vi of = (vi)(((vi){ lanes, lanes, lanes, lanes } & bit) == bit);

    return (vf)((vi)a ^ (of & 0x80000000u));
}

INLINE vf vscale2(vf a, vf n)
{
    return (vf)((vi)a + ((vi)n << 23));
}

#endif

INLINE vf vzero(void)
{
    return vset(0);
}

/* Sum and maximum of the lanes, by halves: a fixed order. */
#if defined(DSF_VEC_AVX512) || defined(DSF_VEC_AVX2)

#if defined(DSF_VEC_AVX512)
#define HALF(op, a) op(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1))
#else
#define HALF(op, a) (a)
#endif
#define BY_HALVES(op256, op, a)                                                \
    __m256 h = HALF(op256, a);                                                 \
    __m128 q = op(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));     \
                                                                               \
    q = op(q, _mm_movehl_ps(q, q));                                            \
    return _mm_cvtss_f32(op(q, _mm_movehdup_ps(q)))

INLINE float vsum(vf a)
{
    BY_HALVES(_mm256_add_ps, _mm_add_ps, a);
}

INLINE float vtop(vf a)
{
    BY_HALVES(_mm256_max_ps, _mm_max_ps, a);
}

#undef HALF
#undef BY_HALVES

#else

INLINE float vsum(vf a)
{
    return (a[0] + a[2]) + (a[1] + a[3]);
}

INLINE float vtop(vf a)
{
    float b = a[0] > a[2] ? a[0] : a[2], c = a[1] > a[3] ? a[1] : a[3];

    return b > c ? b : c;
}

#endif

/* e^x with a relative error below 2e-7 for x in [-87, 88]; 0 below, e^88
 * above. x = n ln 2 + r with |r| <= ln(2) / 2, and e^r by a polynomial whose
 * coefficients minimise the largest relative error (3e-9 before rounding).
 * Adding 1.5 * 2^23 rounds to an integer and leaves n in the low bits. */
INLINE vf vexp(vf x)
{
    const vf magic = vset(12582912.0f);
    vf c = vmin(vset(88.0f), vmax(vset(-87.0f), x));
    vf n = vfma(c, vset(0x1.715476p+0f), magic);
    vf m = n - magic;
    vf r = vfma(m, vset(-0x1.62e400p-1f), c);
    vf p;

    /* ln 2 in two parts: the first has 16 bits, so m times it is exact. */
    r = vfma(m, vset(-0x1.7f7d1cp-20f), r);
    p = vset(0x1.6a23cep-10f);
    p = vfma(p, r, vset(0x1.123a20p-7f));
    p = vfma(p, r, vset(0x1.5558f2p-5f));
    p = vfma(p, r, vset(0x1.555492p-3f));
    p = vfma(p, r, vset(0x1.fffffcp-2f));
    p = vfma(p * r, r, r) + vset(1.0f);
    return vbelow(x, vset(-87.0f), vzero(), vscale2(p, n));
}

/* 1 / (1 + e^-z); at least e^-80, so that no product with it is slow for being
 * denormal. */
INLINE vf vsigmoid(vf z)
{
    return vset(1.0f) / (vset(1.0f) + vexp(-vmax(vset(-80.0f), z)));
}

#endif
