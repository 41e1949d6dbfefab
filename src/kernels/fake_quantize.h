/* fake_quantize.h - numbers as a quantized or pruned model has them, in groups
 * that each have a scale of their own. All sets of instructions give the same
 * bits, and so do GPUs.
 *
 * With b bits, and codes rounded to the nearest (ties to even):
 *
 *   symmetric   s = 2 max|x| / 2^b; a code is x / s, from -2^(b-1) to
 *               2^(b-1) - 1; x becomes code * s
 *   asymmetric  s = (max x - min x) / 2^b, z = round(min x / s) s; a code is
 *               (x - z) / s, from 0 to 2^b - 1; x becomes code * s + z, so that
 *               0 may become -s. Where s is 0, x stays as it is; where it is
 *               infinite, the group becomes NaNs
 *   ternary     t = 0.7 mean|x|, a = the mean of the |x| above t; x becomes a,
 *               -a, or 0 where |x| is at most t (Li, Zhang and Liu 2016, arXiv
 *               1605.04711)
 *   binary      x becomes mean|x| with its sign; 0 stays 0 (Rastegari et al.
 *               2016, arXiv 1603.05279)
 *
 * A symmetric s that would be 0 is 1 (wire_blocks.h). A group with a NaN or an
 * infinity becomes NaNs, but for what is pruned. A mean is the sum in a tree:
 * number i and number i + n/2 of n are added, and so on.
 *
 * Then, of each `of` numbers that follow each other, all but the `keep` whose
 * sizes were the largest before they were quantized become 0; of equal ones the
 * first stay, and a NaN is larger than all others. */
#ifndef DSF_KERNELS_FAKE_QUANTIZE_H
#define DSF_KERNELS_FAKE_QUANTIZE_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dsf_quantizer {
    DSF_UNQUANTIZED,
    DSF_SYMMETRIC,
    DSF_ASYMMETRIC,
    DSF_TERNARY,
    DSF_BINARY
};

/* A group is a power of two between these; `of` is one from 2 to `MOST_OF`, and
 * divides it. */
enum {
    DSF_QUANTIZE_LEAST = 16,
    DSF_QUANTIZE_MOST = 128,
    DSF_QUANTIZE_MOST_OF = 16,
    DSF_QUANTIZE_MOST_BITS = 16,
    DSF_QUANTIZE_FLOPS = 8 /* of a number, about */
};

static inline bool dsf_is_quantize_group(int64_t group)
{
    return group >= DSF_QUANTIZE_LEAST && group <= DSF_QUANTIZE_MOST &&
           (group & (group - 1)) == 0;
}

struct dsf_fake_quantizer {
    int32_t quantizer; /* enum dsf_quantizer */
    int32_t bits;      /* 2 to 16, of the first two */
    int32_t group;
    int32_t keep, of; /* of = 0: all stay */
};

/* `n` groups; `out` may be `in`. */
void dsf_fake_quantize(const struct dsf_fake_quantizer *q, const float *in,
                       float *out, size_t n);

/* A group of the first two quantizers that is larger, and seen in pieces of
 * multiples of 16 numbers. */
struct dsf_extremes {
    uint32_t size; /* the bits of the largest size */
    float least, most;
};
#define DSF_NO_EXTREMES                                                        \
    {                                                                          \
        0, INFINITY, -INFINITY                                                 \
    }

/* Of what was seen before, and of these. */
void dsf_see_extremes(const float *in, size_t n, struct dsf_extremes *e);

/* Numbers of the group that has these; q->group is not read. `out` may be `in`.
 */
void dsf_quantize_between(const struct dsf_fake_quantizer *q,
                          const struct dsf_extremes *e, const float *in,
                          float *out, size_t n);

#endif
