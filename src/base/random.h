/* random.h - numbers that look random and are the same for the same seed. */
#ifndef DSF_BASE_RANDOM_H
#define DSF_BASE_RANDOM_H

#include <math.h>
#include <stdint.h>

/* splitmix64 (Steele et al. 2014): the next of a sequence that `state` is in.
 */
static inline uint64_t dsf_random(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);

    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* In [0, 1). */
static inline double dsf_random_unit(uint64_t *state)
{
    return (double)(dsf_random(state) >> 11) * 0x1p-53;
}

/* Normal, by Box and Muller. */
static inline double dsf_random_normal(uint64_t *state)
{
    double r = sqrt(-2 * log(1 - dsf_random_unit(state)));

    return r * cos(2 * M_PI * dsf_random_unit(state));
}

#endif
