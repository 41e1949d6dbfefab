/* normed.h - the norm that comes before a segment, where it is done with it. */
#ifndef DSF_CODELETS_NORMED_H
#define DSF_CODELETS_NORMED_H

#include "codelets/call.h"
#include "kernels/kernels.h"
#include "tasks/args.h"

/* Of the rows of `tile`; its tensors stand in `unit`. */
static inline struct dsf_norm dsf_norm_of(const struct dsflow_tile *tile,
                                          float *unit, int64_t w, int64_t b)
{
    return (struct dsf_norm){ dsf_tensor_at(unit, w), dsf_tensor_at(unit, b),
                              (size_t)tile->width, tile->eps, tile->rms };
}

/* Of the tile of `args`, which say where its tensors are in the unit on a port.
 */
#define DSF_NORM_OF(call, port, args)                                          \
    dsf_norm_of(&(args)->tile, dsf_floats(call, port), (args)->norm_w,         \
                (args)->norm_b)

/* The normed rows, in `scratch`; `x` itself where it is normed already. */
static inline const float *dsf_normed(const struct dsf_norm *norm,
                                      const float *x, float *scratch,
                                      size_t rows)
{
    if (norm->w == NULL)
        return x;
    dsf_norm_forward(norm, x, scratch, rows);
    return scratch;
}

/* Add dnorm[2][width] to the gradients of a norm, if there is one. */
static inline void dsf_norm_gradient(float *grad, int64_t w, int64_t b,
                                     const float *dnorm, size_t width)
{
    if (w >= 0)
        dsf_add(grad + w, dnorm, width);
    if (b >= 0)
        dsf_add(grad + b, dnorm + width, width);
}

#endif
