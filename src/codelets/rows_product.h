/* rows_product.h - the products of generation, whose rows may be one. */
#ifndef DSF_CODELETS_ROWS_PRODUCT_H
#define DSF_CODELETS_ROWS_PRODUCT_H

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

#endif
