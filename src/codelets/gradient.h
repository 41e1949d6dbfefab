/* gradient.h - a gradient that a task adds to: in fp32, or in bf16 or fp16,
 * where what it adds is summed in fp32 and each number is rounded as it is
 * stored. */
#ifndef DSF_CODELETS_GRADIENT_H
#define DSF_CODELETS_GRADIENT_H

#include "codelets/call.h"
#include "kernels/narrow.h"

struct dsf_gradient {
    float *wide;      /* NULL: it is not fp32 */
    uint16_t *narrow; /* it is then of the type of these */
    const struct dsf_narrow_loops *loops;
    float beta; /* what products that set some of it multiply that by before:
                   0 where it is fresh */
};

/* That on a port; `set`: as dsf_gradient_but. */
struct dsf_gradient dsf_gradient_on(const struct dsflow_call *call,
                                    unsigned port, const struct dsf_extent *set,
                                    unsigned n);

/* Add n numbers from `at` on. */
void dsf_gradient_add(const struct dsf_gradient *g, int64_t at, const float *in,
                      size_t n);

/* Set those from `at` on to a product, or add it, as beta says; g is not fp32.
 */
void dsf_gradient_product(const struct dsf_gradient *g, int64_t at,
                          const float *in, size_t n);

/* Add the sums of the n columns of x[rows][ld], in the type of `loops`, from
 * `at` on; at < 0: nowhere. */
void dsf_gradient_columns(const struct dsf_gradient *g, int64_t at,
                          const struct dsf_narrow_loops *loops,
                          const uint16_t *x, size_t ld, size_t rows, size_t n);

/* Add dnorm[2][width] to those of a norm, if there is one. */
void dsf_gradient_norm(const struct dsf_gradient *g, int64_t w, int64_t b,
                       const float *dnorm, size_t width);

#endif
