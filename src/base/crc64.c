/* crc64.c - CRC-64 by ISA-L, and how it moves past bytes that are not there. */
#include "base/crc64.h"

#include <isa-l/crc64.h>

/* Polynomials over bits, the greatest bit first: x^0 is the highest one. */
#define POLYNOMIAL UINT64_C(0xc96c5795d7870f42) /* ECMA-182 */
#define ONE        (UINT64_C(1) << 63)

uint64_t dsf_crc64_add(uint64_t sum, const void *data, size_t bytes)
{
    /* ISA-L inverts what it takes and what it gives, as files have it. */
    return ~crc64_ecma_refl(~sum, data, bytes);
}

/* a * b modulo the polynomial. */
static uint64_t multiply(uint64_t a, uint64_t b)
{
    uint64_t product = 0;

    for (uint64_t bit = ONE; a != 0; bit >>= 1) {
        if (a & bit) {
            product ^= b;
            a ^= bit;
        }
        b = b & 1 ? b >> 1 ^ POLYNOMIAL : b >> 1;
    }
    return product;
}

uint64_t dsf_crc64_skip(uint64_t sum, uint64_t bytes)
{
    uint64_t power = ONE >> 8; /* x^8, then its squares */

    for (; bytes > 0 && sum != 0; bytes >>= 1) {
        if (bytes & 1)
            sum = multiply(power, sum);
        power = multiply(power, power);
    }
    return sum;
}

uint64_t dsf_crc64_of(uint64_t sum, uint64_t bytes)
{
    return ~(sum ^ dsf_crc64_skip(~UINT64_C(0), bytes));
}
