/* half.h - 16-bit floats. */
#ifndef DSF_BASE_HALF_H
#define DSF_BASE_HALF_H

#include <stdint.h>
#include <string.h>

static inline float dsf_float_of(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof(x));
    return x;
}

static inline uint32_t dsf_bits_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

/* The upper half of a float. */
static inline float dsf_from_bf16(uint16_t h)
{
    return dsf_float_of((uint32_t)h << 16);
}

/* To nearest, ties to even; not for NaN. */
static inline uint16_t dsf_to_bf16(float x)
{
    uint32_t bits = dsf_bits_of(x);

    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* IEEE 754 half precision: 1 sign, 5 exponent, 10 fraction bits. */
static inline float dsf_from_fp16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    uint32_t exponent = h >> 10 & 0x1f, fraction = h & 0x3ff;

    if (exponent == 0x1f)
        return dsf_float_of(sign | 0x7f800000 | fraction << 13);
    if (exponent == 0)
        return (sign ? -1.0f : 1.0f) * (float)fraction * 0x1p-24f;
    return dsf_float_of(sign | (exponent + 112) << 23 | fraction << 13);
}

/* To nearest, ties to even; infinity from 65520 on; not for NaN. */
static inline uint16_t dsf_to_fp16(float x)
{
    uint32_t bits = dsf_bits_of(x), magnitude = bits & 0x7fffffff;
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);

    if (magnitude >= 0x477ff000) /* 65520 */
        return sign | 0x7c00;
    if (magnitude < 0x38800000) /* 2^-14: adding 1/2 rounds at 2^-24 */
        return sign | (uint16_t)(dsf_bits_of(dsf_float_of(magnitude) + 0.5f) -
                                 dsf_bits_of(0.5f));
    magnitude += 0xfff + (magnitude >> 13 & 1);
    return sign | (uint16_t)((magnitude - 0x38000000) >> 13);
}

#endif
