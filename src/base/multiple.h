/* multiple.h - what two numbers above 0 divide by, and what divides by both. */
#ifndef DSF_BASE_MULTIPLE_H
#define DSF_BASE_MULTIPLE_H

#include <stdint.h>

/* The greatest, by Euclid. */
static inline int64_t dsf_common_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

/* The least. */
static inline int64_t dsf_common_multiple(int64_t a, int64_t b)
{
    return a / dsf_common_divisor(a, b) * b;
}

#endif
