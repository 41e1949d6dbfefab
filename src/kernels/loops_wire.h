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
static float scale_of(const float *in, size_t n, int bits)
{
    uint32_t top = largest_size(in, n);
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

static void wire8_encode(size_t block, const float *in, uint8_t *out, size_t n)
{
    for (; n > 0; n--, in += block, out += dsf_wire8_bytes(block)) {
        float scale = scale_of(in, block, 8);
        uint8_t *codes = out + sizeof(scale);

        memcpy(out, &scale, sizeof(scale));
        if (scale != scale)
            memset(codes, 0, block);
        for (size_t i = 0; i < block && scale == scale; i += VW)
            store_bytes(codes + i, codes_of(vload(in + i, VW), vset(scale), 8));
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
        vf s;

        memcpy(&scale, in, sizeof(scale));
        s = vset(scale);
        for (size_t i = 0; i < block; i += VW) {
            vu8 y;
            vu x;

            memcpy(&y, in + sizeof(scale) + i, sizeof(y));
            x = __builtin_convertvector(y, vu) << 24;
            vstore(out + i, scaled((vu)((vn)x >> 24), s), VW);
        }
    }
}

/* Half a block of 16 is less than the widest vector. */
static void wire4_encode(size_t block, const float *in, uint8_t *out, size_t n)
{
    const size_t half = block / 2;

    for (; n > 0; n--, in += block, out += dsf_wire4_bytes(block)) {
        float scale = scale_of(in, block, 4);
        uint8_t *codes = out + sizeof(scale);
        vf s = vset(scale);

        memcpy(out, &scale, sizeof(scale));
        if (scale != scale) {
            memset(codes, 0, half);
            continue;
        }
        for (size_t i = 0; i < half; i += VW) {
            size_t k = half - i < VW ? half - i : VW;
            vu low = codes_of(vload(in + i, k), s, 4);
            vu high = codes_of(vload(in + half + i, k), s, 4);
            uint8_t some[VW];

            low = (low & 15) | (high & 15) << 4;
            if (k == VW) {
                store_bytes(codes + i, low);
                continue;
            }
            store_bytes(some, low);
            memcpy(codes + i, some, k);
        }
    }
}

static void wire4_decode(size_t block, const uint8_t *in, float *out, size_t n)
{
    const size_t half = block / 2;

    for (; n > 0; n--, out += block, in += dsf_wire4_bytes(block)) {
        float scale;
        vf s;

        memcpy(&scale, in, sizeof(scale));
        s = vset(scale);
        for (size_t i = 0; i < half; i += VW) {
            size_t k = half - i < VW ? half - i : VW;
            uint8_t some[VW] = { 0 };
            vu8 y;
            vu x;

            memcpy(some, in + sizeof(scale) + i, k);
            memcpy(&y, some, sizeof(y));
            x = __builtin_convertvector(y, vu);
            vstore(out + i, scaled((vu)((vn)(x << 28) >> 28), s), k);
            vstore(out + half + i, scaled((vu)((vn)(x << 24) >> 28), s), k);
        }
    }
}

#undef ROUNDER
#endif
