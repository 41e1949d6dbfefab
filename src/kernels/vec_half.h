/* vec_half.h - vectors of bf16 and fp16: loaded as fp32, and rounded to the
 * nearest where they are stored, ties to even. As loads and stores of vec.h,
 * they take how many lanes count. Every set of instructions gives the same
 * bits; a NaN is stored as the one without a sign and with one bit set. */
#ifndef DSF_KERNELS_VEC_HALF_H
#define DSF_KERNELS_VEC_HALF_H

typedef uint32_t vu __attribute__((vector_size(4 * VW)));
typedef int32_t vn __attribute__((vector_size(4 * VW)));
typedef uint16_t vu16 __attribute__((vector_size(2 * VW)));

/* mask ? a : b; a mask is all ones or all zeroes, as comparisons give. */
INLINE vu choose(vu mask, vu a, vu b)
{
    return (mask & a) | (~mask & b);
}

/* Both below 2^31. */
INLINE vu below(vu a, vu b)
{
    return (vu)((vn)a < (vn)b);
}

INLINE vu16 vload16(const uint16_t *p, size_t k)
{
    vu16 a = { 0 };

#if defined(DSF_VEC_AVX512)
    if (k < VW)
        return (vu16)_mm256_maskz_loadu_epi16(vlanes(k), p);
    memcpy(&a, p, sizeof(a));
#else
    memcpy(&a, p, k * sizeof(*p));
#endif
    return a;
}

INLINE void vstore16(uint16_t *p, vu16 a, size_t k)
{
#if defined(DSF_VEC_AVX512)
    if (k < VW) {
        _mm256_mask_storeu_epi16(p, vlanes(k), (__m256i)a);
        return;
    }
    memcpy(p, &a, sizeof(a));
#else
    memcpy(p, &a, k * sizeof(*p));
#endif
}

INLINE vu extend(vu16 a)
{
#if defined(DSF_VEC_AVX512)
    return (vu)_mm512_cvtepu16_epi32((__m256i)a);
#elif defined(DSF_VEC_AVX2)
    return (vu)_mm256_cvtepu16_epi32((__m128i)a);
#else
    return __builtin_convertvector(a, vu);
#endif
}

/* The upper halves. */
INLINE vu16 upper(vu a)
{
#if defined(DSF_VEC_AVX512)
    return (vu16)_mm512_cvtepi32_epi16((__m512i)(a >> 16));
#elif defined(DSF_VEC_AVX2)
    const __m256i bytes = _mm256_setr_epi8(
        2, 3, 6, 7, 10, 11, 14, 15, 2, 3, 6, 7, 10, 11, 14, 15, 2, 3, 6, 7, 10,
        11, 14, 15, 2, 3, 6, 7, 10, 11, 14, 15);
    __m256i b = _mm256_shuffle_epi8((__m256i)a, bytes);

    return (vu16)_mm256_castsi256_si128(_mm256_permute4x64_epi64(b, 0xd8));
#else
    return __builtin_convertvector(a >> 16, vu16);
#endif
}

/* One NaN in the place of any. */
INLINE vf vone_nan(vf a)
{
    const vu zero = { 0 }, nan = zero + 0x7fc00000;

#if defined(DSF_VEC_AVX512)
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), a,
                                (vf)nan);
#elif defined(DSF_VEC_AVX2)
    return _mm256_blendv_ps(a, (vf)nan, _mm256_cmp_ps(a, a, _CMP_UNORD_Q));
#else
    vu size = (vu)a & 0x7fffffff;

    return (vf)choose(below(zero + 0x7f800000, size), nan, (vu)a);
#endif
}

INLINE vf vload_bf16(const uint16_t *p, size_t k)
{
    return (vf)(extend(vload16(p, k)) << 16);
}

/* The lower half is rounded away: by 0x7fff, and one more where the last bit
 * that stays is odd. */
INLINE void vstore_bf16(uint16_t *p, vf a, size_t k)
{
    vu x = (vu)vone_nan(a);

    vstore16(p, upper(x + 0x7fff + (x >> 16 & 1)), k);
}

/* Pairs of bf16, the numbers of a in the lower halves and those of b in the
 * upper ones. Here and in the next two the processor takes numbers below 2^-126
 * for 0. */
INLINE vf vpair(vf a, vf b)
{
#if defined(DSF_VEC_BF16)
    const __m512i order = _mm512_set_epi16(
        31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22,
        6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);

    return (vf)_mm512_permutexvar_epi16(order,
                                        (__m512i)_mm512_cvtne2ps_pbh(b, a));
#else
    vu x = (vu)vone_nan(a), y = (vu)vone_nan(b);

    x += 0x7fff + (x >> 16 & 1);
    y += 0x7fff + (y >> 16 & 1);
    return (vf)(x >> 16 | (y & 0xffff0000));
#endif
}

/* What is only multiplied by vdot then; all lanes. */
INLINE void vstore_factor(uint16_t *p, vf a)
{
#if defined(DSF_VEC_BF16)
    _mm256_storeu_si256((__m256i *)p, (__m256i)_mm512_cvtneps_pbh(a));
#else
    vstore_bf16(p, a, VW);
#endif
}

/* c + the products of both numbers of the pairs of a and b. */
INLINE vf vdot(vf a, vf b, vf c)
{
#if defined(DSF_VEC_BF16)
    return _mm512_dpbf16_ps(c, (__m512bh)a, (__m512bh)b);
#else
    c = vfma((vf)((vu)a << 16), (vf)((vu)b << 16), c);
    return vfma((vf)((vu)a & 0xffff0000), (vf)((vu)b & 0xffff0000), c);
#endif
}

/* Is that as fast as vfma, and so twice as much? */
#if defined(DSF_VEC_BF16)
enum { PAIRS = 1 };
#else
enum { PAIRS = 0 };
#endif

INLINE vf vload_fp16(const uint16_t *p, size_t k)
{
#if defined(DSF_VEC_AVX512)
    return _mm512_cvtph_ps((__m256i)vload16(p, k));
#elif defined(DSF_VEC_AVX2)
    return _mm256_cvtph_ps((__m128i)vload16(p, k));
#else
    const vu zero = { 0 };
    vu x = extend(vload16(p, k)), size = x & 0x7fff;
    vu special = below(zero + 0x7bff, size), nan = below(zero + 0x7c00, size);
    /* The exponent is 112 less than it should be; so is that of subnormals. */
    vu finite = (vu)((vf)(size << 13) * vset(0x1p112f));
    vu other = size << 13 | 0x7f800000 | (nan & 0x400000);

    return (vf)(choose(special, other, finite) | (x & 0x8000) << 16);
#endif
}

INLINE void vstore_fp16(uint16_t *p, vf a, size_t k)
{
#if defined(DSF_VEC_AVX512) || defined(DSF_VEC_AVX2)
    enum { NEAREST = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC };
#endif
#if defined(DSF_VEC_AVX512)
    vstore16(p, (vu16)_mm512_cvtps_ph(vone_nan(a), NEAREST), k);
#elif defined(DSF_VEC_AVX2)
    vstore16(p, (vu16)_mm256_cvtps_ph(vone_nan(a), NEAREST), k);
#else
    const vu zero = { 0 };
    vu x = (vu)vone_nan(a), size = x & 0x7fffffff, sign = x & 0x80000000;
    vu normal = size + 0xfff + (size >> 13 & 1) - 0x38000000;
    /* Below 2^-14: adding 1/2 rounds at 2^-24. */
    vu small = (vu)((vf)size + vset(0.5f)) - (vu)vset(0.5f);
    vu r = choose(below(size, zero + 0x38800000), small << 13, normal);
    vu nan = below(zero + 0x7f800000, size) & 0x400000;

    r = choose(below(size, zero + 0x477ff000), r, nan + 0x0f800000);
    vstore16(p, upper(sign | r << 3), k);
#endif
}

#endif
