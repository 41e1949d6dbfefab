/* wire_blocks.h - numbers as whole numbers of 8 or 4 bits, or as their signs,
 * with a scale for each block, for what ranks send each other. All sets of
 * instructions give the same bytes.
 *
 * A block is its scale s, a float, and then its codes: s = 2 max|x| / 2^b, and
 * the code of x is x / s, rounded to the nearest (ties to even), and at most
 * 2^(b-1) - 1; x becomes code * s. So errors are at most s / 2, and those of
 * numbers just below max|x| at most s; they may be more where max|x| is
 * subnormal, as s is rounded there. Where s would be 0 (a block of zeroes, or
 * of numbers below 2^-142 or so), it is 1. A block with a NaN or an infinity
 * has a NaN as its scale, and becomes NaNs.
 *
 * Of signs, the scale is the root of the mean square of the block, or of more
 * numbers than it, which the caller knows: x becomes the scale, or minus the
 * scale where it is below 0. Bit i of byte j is 1 where number 8 j + i is. A
 * scale that is infinite is sent as a NaN.
 *
 * In 4 bits, byte j has the code of number j in its lower half and that of
 * number block/2 + j in its upper one. */
#ifndef DSF_KERNELS_WIRE_BLOCKS_H
#define DSF_KERNELS_WIRE_BLOCKS_H

#include <stddef.h>
#include <stdint.h>

/* A block is a multiple of so many numbers. */
enum { DSF_WIRE_STEP = 16, DSF_WIRE_SCALE = sizeof(float) };

/* The bytes of a block. */
static inline size_t dsf_wire8_bytes(size_t block)
{
    return DSF_WIRE_SCALE + block;
}

static inline size_t dsf_wire4_bytes(size_t block)
{
    return DSF_WIRE_SCALE + block / 2;
}

static inline size_t dsf_wire1_bytes(size_t block)
{
    return DSF_WIRE_SCALE + block / 8;
}

/* The root of the mean square of `n` numbers whose squares add up to `squares`:
 * a NaN where one of them is none, or infinite. */
float dsf_wire1_scale(double squares, size_t n);

/* The signs of `n` numbers, a multiple of DSF_WIRE_STEP, and what
 * dsf_square_sum has of them: with both a tensor is read once. */
double dsf_square_signs(const float *x, size_t n, uint8_t *signs);

/* `n` blocks of `block` numbers. */
void dsf_wire8_encode(size_t block, const float *in, uint8_t *out, size_t n);
void dsf_wire8_decode(size_t block, const uint8_t *in, float *out, size_t n);
void dsf_wire4_encode(size_t block, const float *in, uint8_t *out, size_t n);
void dsf_wire4_decode(size_t block, const uint8_t *in, float *out, size_t n);
void dsf_wire1_encode(size_t block, const float *in, uint8_t *out, size_t n);
void dsf_wire1_decode(size_t block, const uint8_t *in, float *out, size_t n);
/* The same with one scale for all blocks. */
void dsf_wire1_encode_by(size_t block, float scale, const float *in,
                         uint8_t *out, size_t n);

/* Errors that are carried over. x = x + scale error, of gradients that are
 * `scale` times as large as errors. */
struct dsf_error_step {
    float beta, rest, scale; /* rest = 1 - beta */
};
void dsf_error_add(const struct dsf_error_step *s, const float *error, float *x,
                   size_t n);
/* error = beta error + rest (x - sent) / scale, or as it was where that is not
 * finite. */
void dsf_error_keep(const struct dsf_error_step *s, const float *x,
                    const float *sent, float *error, size_t n);

/* x = beta m + rest x: of 1-bit Adam. */
struct dsf_momentum_step {
    float beta, rest;
};
void dsf_momentum_mean(const struct dsf_momentum_step *s, const float *m,
                       float *x, size_t n);
/* With y = x + server: m = y as dsf_wire1_decode has it of this scale, server =
 * y - m. */
void dsf_wire1_serve(float scale, const float *x, float *server, float *m,
                     size_t n);

/* x = x as dsf_wire1_decode has it of this scale, error = what that takes, or
 * as it was where that is not finite. */
void dsf_wire1_send(float scale, float *x, float *error, size_t n);

/* Of 1-bit LAMB, with x the new momentum `by` times as large:
 * g = (x / by - beta1 m) / rest1 is the gradient that it is as if it were of, m
 * = x / by, fresh = beta2 fresh + rest2 g^2. */
struct dsf_refresh_step {
    float by, beta1, rest1, beta2, rest2;
};
void dsf_lamb_refresh(const struct dsf_refresh_step *s, const float *x,
                      float *m, float *fresh, size_t n);

/* Of 0/1 Adam, whose second moments v are held. A number without one, v = 0, is
 * not moved, but for its decay.
 * m = beta1 m + rest1 g; p -= lr m / (sqrt(v) + eps) + decay p: decay is lr
 * times the weight decay, rounded. */
struct dsf_held_step {
    float beta1, rest1, lr, eps, decay;
};
void dsf_held_update(const struct dsf_held_step *s, const float *g,
                     const float *v, float *p, float *m, size_t n);
/* The same of a worker whose weights are p + local: m = beta1 was + rest1 g;
 * local -= lr m / (sqrt(v) + eps) + decay (p + local). was may be m. */
void dsf_local_update(const struct dsf_held_step *s, const float *g,
                      const float *v, const float *p, const float *was,
                      float *m, float *local, size_t n);
/* x = share local (sqrt(v) + eps). */
void dsf_local_share(float eps, float share, const float *local, const float *v,
                     float *x, size_t n);
/* p += mean / (sqrt(v) + eps); m = -mean / rates. */
void dsf_local_settle(float eps, float rates, const float *mean, const float *v,
                      float *p, float *m, size_t n);

#endif
