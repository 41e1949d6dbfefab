/* gradient.c - adding to a gradient in fp32, bf16 or fp16. */
#include "codelets/gradient.h"

/* Columns that are summed at a time. */
enum { COLUMNS = 1024 };

struct dsf_gradient dsf_gradient_on(const struct dsflow_call *call,
                                    unsigned port, const struct dsf_extent *set,
                                    unsigned n)
{
    const enum dsflow_dtype type = call->bufs[port].dtype;
    struct dsf_gradient g = { .beta = 1 };

    if (n > 0)
        dsf_gradient_but(call, port, set, n, &g.beta);
    else
        dsf_gradient(call, port);
    if (dsf_is_narrow(type)) {
        g.narrow = call->bufs[port].ptr;
        g.loops = dsf_narrow(type);
    } else {
        g.wide = call->bufs[port].ptr;
    }
    return g;
}

void dsf_gradient_add(const struct dsf_gradient *g, int64_t at, const float *in,
                      size_t n)
{
    if (g->wide != NULL)
        dsf_add(g->wide + at, in, n);
    else
        g->loops->residual(in, g->narrow + at, NULL, g->narrow + at, 1, n);
}

void dsf_gradient_product(const struct dsf_gradient *g, int64_t at,
                          const float *in, size_t n)
{
    if (g->beta > 0)
        dsf_gradient_add(g, at, in, n);
    else
        g->loops->narrow(in, n, NULL, g->narrow + at, n, 1, n);
}

/* Some columns of x; n is at most COLUMNS. */
static void add_columns(const struct dsf_gradient *g, int64_t at,
                        const struct dsf_narrow_loops *loops, const uint16_t *x,
                        size_t ld, size_t rows, size_t n)
{
    float sums[COLUMNS];

    memset(sums, 0, n * sizeof(*sums));
    for (size_t r = 0; r < rows; r++)
        loops->column_sums(sums, x + r * ld, 1, n);
    dsf_gradient_add(g, at, sums, n);
}

void dsf_gradient_columns(const struct dsf_gradient *g, int64_t at,
                          const struct dsf_narrow_loops *loops,
                          const uint16_t *x, size_t ld, size_t rows, size_t n)
{
    if (at < 0)
        return;
    if (g->wide != NULL && ld == n) {
        loops->column_sums(g->wide + at, x, rows, n);
        return;
    }
    for (size_t r = 0; r < rows && g->wide != NULL; r++)
        loops->column_sums(g->wide + at, x + r * ld, 1, n);
    for (size_t j = 0; j < n && g->wide == NULL; j += COLUMNS)
        add_columns(g, at + (int64_t)j, loops, x + j, ld, rows,
                    n - j < COLUMNS ? n - j : COLUMNS);
}

void dsf_gradient_norm(const struct dsf_gradient *g, int64_t w, int64_t b,
                       const float *dnorm, size_t width)
{
    if (w >= 0)
        dsf_gradient_add(g, w, dnorm, width);
    if (b >= 0)
        dsf_gradient_add(g, b, dnorm + width, width);
}
