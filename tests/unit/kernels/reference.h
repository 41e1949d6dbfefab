/* reference.h - what loops compute, in double precision. */
#ifndef DSF_UNIT_KERNELS_REFERENCE_H
#define DSF_UNIT_KERNELS_REFERENCE_H

#include "unit/kernels/numeric.h"

struct norm_ref {
    const double *w, *b; /* b may be NULL */
    size_t width;
    float eps;
    int rms;
};

/* A row forward, and its analytic gradient: added to dx and dw[2][width]. */
static inline void norm_row_ref(const struct norm_ref *norm, const double *x,
                                const double *dy, double *y, double *dx,
                                double *dw)
{
    size_t n = norm->width;
    double mean = 0, var = 0, mg = 0, mgx = 0, rstd;

    for (size_t i = 0; i < n && !norm->rms; i++)
        mean += x[i] / (double)n;
    for (size_t i = 0; i < n; i++)
        var += (x[i] - mean) * (x[i] - mean) / (double)n;
    rstd = 1 / sqrt(var + (double)norm->eps);
    for (size_t i = 0; i < n; i++) {
        double xhat = (x[i] - mean) * rstd, g = dy[i] * norm->w[i];

        y[i] = xhat * norm->w[i] + (norm->b ? norm->b[i] : 0);
        dw[i] += dy[i] * xhat;
        dw[n + i] += norm->rms ? 0 : dy[i];
        mg += norm->rms ? 0 : g / (double)n;
        mgx += g * xhat / (double)n;
    }
    for (size_t i = 0; i < n; i++)
        dx[i] += rstd * (dy[i] * norm->w[i] - mg - (x[i] - mean) * rstd * mgx);
}

static inline void gelu_ref(double x, double *y, double *slope)
{
    double c = sqrt(2 / acos(-1)), t = tanh(c * (x + 0.044715 * x * x * x));

    *y = 0.5 * x * (1 + t);
    *slope =
        0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x);
}

/* silu(g) u; `d` is its gradient. */
static inline double swiglu_ref(double g, double u, double d, double *dg,
                                double *du)
{
    double s = 1 / (1 + exp(-g));

    *dg = d * u * (s + g * s * (1 - s));
    *du = d * g * s;
    return g * s * u;
}

#endif
