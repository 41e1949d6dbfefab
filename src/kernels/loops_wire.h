/* loops_wire.h - numbers in 8 or 4 bits with a scale for each block
 * (wire_blocks.h): divided and rounded as IEEE 754 says, so that every set of
 * instructions gives the same bytes. */
#ifndef DSF_KERNELS_LOOPS_WIRE_H
#define DSF_KERNELS_LOOPS_WIRE_H

#include "kernels/wire_blocks.h"

/* The largest size of them, as bits: of a NaN they are more than those of
 * infinity. */
static uint32_t largest_size(const float *in, size_t n)
{
    enum { LANES = 4 };
    const vu zero = { 0 };
    vu most[LANES] = { zero, zero, zero, zero };
    uint32_t top = 0;
    size_t i = 0;

    for (; i + LANES * VW <= n; i += LANES * VW) {
        UNROLL
        for (size_t k = 0; k < LANES; k++) {
            vu size = load_bits(in + i + k * VW) & 0x7fffffff;

            most[k] = choose(below(most[k], size), size, most[k]);
        }
    }
    for (; i + VW <= n; i += VW) {
        vu size = load_bits(in + i) & 0x7fffffff;

        most[0] = choose(below(most[0], size), size, most[0]);
    }
    for (size_t k = 1; k < LANES; k++)
        most[0] = choose(below(most[0], most[k]), most[k], most[0]);
    for (size_t k = 0; k < VW; k++)
        top = most[0][k] > top ? most[0][k] : top;
    return top;
}

/* 2 max / 2^bits, or what stands in its place. */
static float scale_by(uint32_t top, int bits)
{
    float most, s;

    if (top >= 0x7f800000) {
        top = 0x7fc00000;
        memcpy(&s, &top, sizeof(s));
        return s;
    }
    memcpy(&most, &top, sizeof(most));
    s = most * (2.0f / (float)(1 << bits));
    return s == 0 ? 1 : s;
}

static float scale_of(const float *in, size_t n, int bits)
{
    return scale_by(largest_size(in, n), bits);
}

/* Added to a number below 2^22 it leaves no room behind the point: what is
 * rounded away is to the nearest, ties to even. */
#define ROUNDER 12582912.0f

/* x / s as whole numbers from -2^(bits-1) on. */
INLINE vu codes_of(vf x, vf s, int bits)
{
    const vf least = vset(-(float)(1 << (bits - 1)));
    const vf most = vset((float)(1 << (bits - 1)) - 1);
    vf y = vmin(vmax(x / s, least), most);

    return (vu)(y + vset(ROUNDER)) - 0x4b400000u;
}

/* The lowest bytes of `n` vectors, 8 bytes at least: compilers do this one by
 * one where a vector has four numbers. They are from -128 to 127. */
INLINE void store_codes(uint8_t *p, const vu *a, size_t n)
{
#if defined(__SSE2__) && !defined(DSF_VEC_AVX2) && !defined(DSF_VEC_AVX512)
    __m128i x = _mm_packs_epi32((__m128i)a[0], (__m128i)a[1]), y = x;

    if (n == 4)
        y = _mm_packs_epi32((__m128i)a[2], (__m128i)a[3]);
    x = _mm_packs_epi16(x, y);
    if (n == 4)
        _mm_storeu_si128((__m128i *)(void *)p, x);
    else
        _mm_storel_epi64((__m128i *)(void *)p, x);
#else
    UNROLL
    for (size_t k = 0; k < n; k++)
        store_bytes(p + k * VW, a[k]);
#endif
}

/* Bytes as the highest of the numbers of `n` vectors. */
INLINE void load_codes(const uint8_t *p, vu *a, size_t n)
{
#if defined(__SSE2__) && !defined(DSF_VEC_AVX2) && !defined(DSF_VEC_AVX512)
    const __m128i zero = _mm_setzero_si128();

    UNROLL
    for (size_t k = 0; k < n; k += 2) {
        __m128i x = _mm_loadl_epi64((const __m128i *)(const void *)(p + 4 * k));

        x = _mm_unpacklo_epi8(zero, x);
        a[k] = (vu)_mm_unpacklo_epi16(zero, x);
        a[k + 1] = (vu)_mm_unpackhi_epi16(zero, x);
    }
#else
    UNROLL
    for (size_t k = 0; k < n; k++) {
        vu8 y;

        memcpy(&y, p + k * VW, sizeof(y));
#if defined(DSF_VEC_AVX512)
        a[k] = (vu)_mm512_cvtepu8_epi32((__m128i)y) << 24;
#elif defined(DSF_VEC_AVX2)
        a[k] = (vu)_mm256_cvtepu8_epi32(_mm_set_epi64x(0, (int64_t)y)) << 24;
#else
        a[k] = __builtin_convertvector(y, vu) << 24;
#endif
    }
#endif
}

/* What is coded at a time, in vectors: 16 numbers, as blocks are multiples of
 * them; in 4 bits 8 of either half of a block, or 16. */
enum {
    VECTORS8 = DSF_WIRE_STEP / VW,
    VECTORS4 = VW < 8 ? 8 / VW : 1,
    STEP4 = VECTORS4 * VW
};

static void wire8_encode(size_t block, const float *in, uint8_t *out, size_t n)
{
    for (; n > 0; n--, in += block, out += dsf_wire8_bytes(block)) {
        float scale = scale_of(in, block, 8);
        uint8_t *codes = out + sizeof(scale);
        vu c[VECTORS8];

        memcpy(out, &scale, sizeof(scale));
        if (scale != scale)
            memset(codes, 0, block);
        for (size_t i = 0; i < block && scale == scale; i += DSF_WIRE_STEP) {
            UNROLL
            for (size_t k = 0; k < VECTORS8; k++)
                c[k] = codes_of(vload(in + i + k * VW, VW), vset(scale), 8);
            ask_for(in + i);
            store_codes(codes + i, c, VECTORS8);
        }
    }
}

INLINE vf scaled(vu code, vf scale)
{
    return (vf) __builtin_convertvector((vn)code, vreal) * scale;
}

static void wire8_decode(size_t block, const uint8_t *in, float *out, size_t n)
{
    for (; n > 0; n--, out += block, in += dsf_wire8_bytes(block)) {
        float scale;
        vu x[VECTORS8];

        memcpy(&scale, in, sizeof(scale));
        for (size_t i = 0; i < block; i += DSF_WIRE_STEP) {
            load_codes(in + sizeof(scale) + i, x, VECTORS8);
            UNROLL
            for (size_t k = 0; k < VECTORS8; k++)
                vstore(out + i + k * VW,
                       scaled((vu)((vn)x[k] >> 24), vset(scale)), VW);
        }
    }
}

/* The codes of number i of either half of a block and of those behind it, `k`
 * to a vector. */
INLINE void wire4_codes(const float *in, size_t half, vf s, vu *c, size_t k)
{
    UNROLL
    for (size_t v = 0; v < VECTORS4; v++) {
        vu low = codes_of(vload(in + v * VW, k), s, 4);

        c[v] = codes_of(vload(in + half + v * VW, k), s, 4) << 4 | (low & 15);
    }
}

INLINE void wire4_numbers(const vu *x, float *out, size_t half, vf s, size_t k)
{
    UNROLL
    for (size_t v = 0; v < VECTORS4; v++) {
        vstore(out + v * VW, scaled((vu)((vn)(x[v] << 4) >> 28), s), k);
        vstore(out + half + v * VW, scaled((vu)((vn)x[v] >> 28), s), k);
    }
}

static void wire4_encode(size_t block, const float *in, uint8_t *out, size_t n)
{
    const size_t half = block / 2, whole = half / STEP4 * STEP4;

    for (; n > 0; n--, in += block, out += dsf_wire4_bytes(block)) {
        float scale = scale_of(in, block, 4);
        uint8_t *codes = out + sizeof(scale), rest[STEP4];
        vu c[VECTORS4];

        memcpy(out, &scale, sizeof(scale));
        if (scale != scale) {
            memset(codes, 0, half);
            continue;
        }
        for (size_t i = 0; i < whole; i += STEP4) {
            wire4_codes(in + i, half, vset(scale), c, VW);
            store_codes(codes + i, c, VECTORS4);
            ask_for(in + 2 * i);
        }
        if (whole == half)
            continue;
        wire4_codes(in + whole, half, vset(scale), c, STEP4 / 2);
        store_codes(rest, c, VECTORS4);
        memcpy(codes + whole, rest, STEP4 / 2);
    }
}

static void wire4_decode(size_t block, const uint8_t *in, float *out, size_t n)
{
    const size_t half = block / 2, whole = half / STEP4 * STEP4;

    for (; n > 0; n--, out += block, in += dsf_wire4_bytes(block)) {
        const uint8_t *codes = in + sizeof(float);
        uint8_t rest[STEP4] = { 0 };
        float scale;
        vu x[VECTORS4];

        memcpy(&scale, in, sizeof(scale));
        for (size_t i = 0; i < whole; i += STEP4) {
            load_codes(codes + i, x, VECTORS4);
            wire4_numbers(x, out + i, half, vset(scale), VW);
        }
        if (whole == half)
            continue;
        memcpy(rest, codes + whole, STEP4 / 2);
        load_codes(rest, x, VECTORS4);
        wire4_numbers(x, out + whole, half, vset(scale), STEP4 / 2);
    }
}

#endif
