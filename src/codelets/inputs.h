/* inputs.h - the inputs of products with matrices: normed, where the norm is
 * done with them, and rounded, where the tile says so (segments.h). */
#ifndef DSF_CODELETS_INPUTS_H
#define DSF_CODELETS_INPUTS_H

#include "codelets/normed.h"
#include "codelets/projection.h"
#include "tasks/tile.h"

/* Rows of `cols` inputs as they are multiplied; `out` may be `in`. Narrow ones
 * are rounded as numbers in fp32, and then to their type. */
void dsf_round_inputs(const struct dsflow_tile *t, const float *in, float *out,
                      size_t rows, size_t cols);
void dsf_narrow_round_inputs(const struct dsf_narrow_loops *loops,
                             const struct dsflow_tile *t, const uint16_t *in,
                             uint16_t *out, size_t rows, size_t cols);

/* Those themselves, or rounded in `scratch`. */
static inline const float *dsf_inputs(const struct dsflow_tile *t,
                                      const float *in, float *scratch,
                                      size_t rows, size_t cols)
{
    if (!dsf_tile_rounds(t))
        return in;
    dsf_round_inputs(t, in, scratch, rows, cols);
    return scratch;
}

/* What stands in `x` becomes them. */
static inline void dsf_inputs_in_place(const struct dsflow_tile *t, float *x,
                                       size_t rows, size_t cols)
{
    if (dsf_tile_rounds(t))
        dsf_round_inputs(t, x, x, rows, cols);
}

/* As dsf_normed: what is normed already is rounded already. */
static inline const float *dsf_normed_inputs(const struct dsflow_tile *t,
                                             const struct dsf_norm *norm,
                                             const float *x, float *scratch,
                                             size_t rows)
{
    const float *xn = dsf_normed(norm, x, scratch, rows);

    if (norm->w != NULL)
        dsf_inputs_in_place(t, scratch, rows, norm->width);
    return xn;
}

static inline const uint16_t *dsf_narrow_inputs(const struct dsf_narrow_call *c,
                                                const struct dsflow_tile *t,
                                                const uint16_t *in, size_t rows,
                                                size_t cols)
{
    if (!dsf_tile_rounds(t))
        return in;
    dsf_narrow_round_inputs(c->loops, t, in, c->narrow, rows, cols);
    return c->narrow;
}

static inline void
dsf_narrow_inputs_in_place(const struct dsf_narrow_loops *loops,
                           const struct dsflow_tile *t, uint16_t *x,
                           size_t rows, size_t cols)
{
    if (dsf_tile_rounds(t))
        dsf_narrow_round_inputs(loops, t, x, x, rows, cols);
}

static inline const uint16_t *dsf_narrow_normed_inputs(
    const struct dsf_narrow_call *c, const struct dsflow_tile *t,
    const struct dsf_narrow_norm *norm, const uint16_t *x, size_t rows)
{
    const uint16_t *xn = dsf_narrow_normed(c, norm, x, rows);

    if (norm->w != NULL)
        dsf_narrow_inputs_in_place(c->loops, t, c->narrow, rows, norm->width);
    return xn;
}

#endif
