/* rows_product.h - the products of generation, whose rows may be one. */
#ifndef DSF_CODELETS_ROWS_PRODUCT_H
#define DSF_CODELETS_ROWS_PRODUCT_H

#include "codelets/projection.h"
#include "kernels/kernels.h"

/* C[rows][n] = A[rows][k] W[n][k]^T + beta C, whose rows are ldc apart. */
static inline void dsf_rows_product(size_t rows, size_t n, size_t k,
                                    const float *a, const float *w, float beta,
                                    float *c, size_t ldc)
{
    if (rows == 1)
        dsf_row_product(a, w, n, k, beta, c);
    else
        dsf_gemm(0, 1, rows, n, k, a, k, w, k, beta, c, ldc);
}

/* y = x W^T of numbers in bf16 or fp16, whose rows are ld apart. The scratch of
 * a product has room for a row of x. */
static inline void dsf_rows_projection(const struct dsf_projection *p,
                                       const uint16_t *x, const uint16_t *w,
                                       float *y, size_t ld)
{
    const struct dsf_narrow_loops *loops = p->call->loops;

    if (p->rows > 1) {
        dsf_projection(p, x, w, y, ld);
        return;
    }
    loops->widen(x, p->call->product, p->in);
    loops->row_product(p->call->product, w, p->out, p->in, 0, y);
}

#endif
