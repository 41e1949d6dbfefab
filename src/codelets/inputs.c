/* inputs.c - the inputs of products with matrices, rounded: in groups, or by
 * rows. */
#include "codelets/inputs.h"

/* So many narrow numbers are widened at a time: whole groups. */
enum { WIDENED = 8 * DSF_QUANTIZE_MOST };

void dsf_round_inputs(const struct dsflow_tile *t, const float *in, float *out,
                      size_t rows, size_t cols)
{
    const struct dsf_fake_quantizer q = dsf_tile_quantizer(t);

    if (q.group > 0) {
        dsf_fake_quantize(&q, in, out, rows * cols / (size_t)q.group);
        return;
    }
    for (size_t i = 0; i < rows * cols; i += cols) {
        struct dsf_extremes e = DSF_NO_EXTREMES;

        dsf_see_extremes(in + i, cols, &e);
        dsf_quantize_between(&q, &e, in + i, out + i, cols);
    }
}

static void round_groups(const struct dsf_narrow_loops *loops,
                         const struct dsf_fake_quantizer *q, const uint16_t *in,
                         uint16_t *out, size_t all)
{
    float wide[WIDENED];

    for (size_t i = 0, n; i < all; i += n) {
        n = dsf_least(all - i, WIDENED);
        loops->widen(in + i, wide, n);
        dsf_fake_quantize(q, wide, wide, n / (size_t)q->group);
        loops->narrow(wide, n, NULL, out + i, n, 1, n);
    }
}

static void round_row(const struct dsf_narrow_loops *loops,
                      const struct dsf_fake_quantizer *q, const uint16_t *in,
                      uint16_t *out, size_t cols)
{
    struct dsf_extremes e = DSF_NO_EXTREMES;
    float wide[WIDENED];

    for (size_t i = 0, n; i < cols; i += n) {
        n = dsf_least(cols - i, WIDENED);
        loops->widen(in + i, wide, n);
        dsf_see_extremes(wide, n, &e);
    }
    for (size_t i = 0, n; i < cols; i += n) {
        n = dsf_least(cols - i, WIDENED);
        loops->widen(in + i, wide, n);
        dsf_quantize_between(q, &e, wide, wide, n);
        loops->narrow(wide, n, NULL, out + i, n, 1, n);
    }
}

void dsf_narrow_round_inputs(const struct dsf_narrow_loops *loops,
                             const struct dsflow_tile *t, const uint16_t *in,
                             uint16_t *out, size_t rows, size_t cols)
{
    const struct dsf_fake_quantizer q = dsf_tile_quantizer(t);

    if (q.group > 0) {
        round_groups(loops, &q, in, out, rows * cols);
        return;
    }
    for (size_t i = 0; i < rows * cols; i += cols)
        round_row(loops, &q, in + i, out + i, cols);
}
