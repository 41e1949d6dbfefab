/* multiple.h - divisors and multiples of numbers above 0. */
#ifndef DSF_BASE_MULTIPLE_H
#define DSF_BASE_MULTIPLE_H

#include <stdint.h>

/* The greatest of both, by Euclid. */
static inline int64_t dsf_common_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

/* The least of both. */
static inline int64_t dsf_common_multiple(int64_t a, int64_t b)
{
    return a / dsf_common_divisor(a, b) * b;
}

/* The least of `of` that is not below n, which may be 0. */
static inline int64_t dsf_round_up(int64_t n, int64_t of)
{
    return (n + of - 1) / of * of;
}

#endif
