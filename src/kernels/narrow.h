/* narrow.h - the kernels for data in bf16 or fp16: math on pointers, one
 * thread, no allocation but oneDNN's. Arithmetic is in fp32; a number is
 * rounded once, where it is stored: to the nearest, ties to even, too large a
 * one to infinity; NaN stays NaN. The same inputs give the same bits on the
 * same processor. */
#ifndef DSF_KERNELS_NARROW_H
#define DSF_KERNELS_NARROW_H

#include "kernels/kernels.h"

#include <stdbool.h>
#include <dsflow/dtype.h>

/* Is it one of the types of this header? */
static inline bool dsf_is_narrow(enum dsflow_dtype type)
{
    return type == DSFLOW_BF16 || type == DSFLOW_FP16;
}

/* C[m][n] = A B + beta C, row-major with leading dimensions; A and B are of
 * `type` (bf16 or fp16), C and all sums are fp32. `ta`: A is stored [k][m];
 * `tb`: B is stored [n][k]. `beta` is 0 (C is not read) or 1. Where memory is
 * missing, dsf_kernels_failed says so. */
struct dsf_product {
    enum dsflow_dtype type;
    int ta, tb;
    size_t m, n, k;
    const uint16_t *a;
    size_t lda;
    const uint16_t *b;
    size_t ldb;
    float beta;
    float *c;
    size_t ldc;
    void *scratch; /* dsf_product_scratch bytes, aligned to 64 */
};
void dsf_product(const struct dsf_product *p);

/* Bytes of scratch of a product, whatever the processor; a multiple of 64. */
size_t dsf_product_scratch(size_t m, size_t n, size_t k);

/* As struct dsf_norm. */
struct dsf_narrow_norm {
    const uint16_t *w, *b;
    size_t width;
    float eps;
    int rms;
};

/* The loops for one type T; uint16_t stands for T. Rows are dense where there
 * is no ld. Biases may be NULL: 0. No output overlaps an input, unless said. */
struct dsf_narrow_loops {
    /* n numbers. */
    void (*widen)(const uint16_t *in, float *out, size_t n);
    /* y = a + b; y may be a or b. */
    void (*sum2)(uint16_t *y, const uint16_t *a, const uint16_t *b, size_t n);
    /* out[rows][ld_out] = in[rows][ld_in] + bias[cols], of `cols` columns. */
    void (*narrow)(const float *in, size_t ld_in, const uint16_t *bias,
                   uint16_t *out, size_t ld_out, size_t rows, size_t cols);
    /* y = x + bias + in, all [rows][cols]; y may be x. */
    void (*residual)(const float *in, const uint16_t *x, const uint16_t *bias,
                     uint16_t *y, size_t rows, size_t cols);
    /* into[cols] += the sums of the columns of x[rows][cols]. */
    void (*column_sums)(float *into, const uint16_t *x, size_t rows,
                        size_t cols);

    /* x, y[rows][width]. */
    void (*norm_forward)(const struct dsf_narrow_norm *norm, const uint16_t *x,
                         uint16_t *y, size_t rows);
    /* dx = dres (NULL: 0) + the gradient that `dy` gives to x; dnorm[2][width]:
     * the gradients of w and b, summed over the rows (b's are 0 for RMSNorm).
     * dx may be dres. */
    void (*norm_backward)(const struct dsf_narrow_norm *norm, const uint16_t *x,
                          const float *dy, const uint16_t *dres, uint16_t *dx,
                          float *dnorm, size_t rows);

    /* h = in + bias and act = gelu(in + bias), all [rows][cols]. */
    void (*gelu_forward)(const float *in, const uint16_t *bias, uint16_t *h,
                         uint16_t *act, size_t rows, size_t cols);
    /* dh = the gradient of h, for `dact` of gelu(h); h becomes gelu(h). */
    void (*gelu_backward)(uint16_t *h, const float *dact, uint16_t *dh,
                          size_t n);
    /* in, h[rows][2*cols], gate then up: h = in + bias and
     * act[rows][cols] = silu(gate) up, of what is not rounded yet. */
    void (*swiglu_forward)(const float *in, const uint16_t *bias, uint16_t *h,
                           uint16_t *act, size_t rows, size_t cols);
    /* dh[rows][2*cols] = the gradient of h, for dact[rows][ld], of which `cols`
     * columns count; h becomes act[rows][cols], packed at its start. */
    void (*swiglu_backward)(uint16_t *h, const float *dact, size_t ld,
                            uint16_t *dh, size_t rows, size_t cols);

    /* out[row][head] = the sum over head_dim of a b. */
    void (*head_dots)(const float *a, const uint16_t *b, float *out,
                      size_t rows, size_t heads, size_t head_dim);

    /* The updates of kernels.h, the same bits; `copy` gets the new p. */
    void (*adam)(const struct dsf_adam_step *s, float *p, const float *g,
                 float *m, float *v, uint16_t *copy, size_t n);
    void (*sgd)(const struct dsf_sgd_step *s, float *p, const float *g,
                float *m, uint16_t *copy, size_t n); /* m NULL: no momentum */
    void (*lion)(const struct dsf_lion_step *s, float *p, const float *g,
                 float *m, uint16_t *copy, size_t n);
    void (*adagrad)(const struct dsf_adagrad_step *s, float *p, const float *g,
                    float *sum, uint16_t *copy, size_t n);
    void (*lamb)(const struct dsf_lamb_step *s, float *p, const float *m,
                 const float *v, uint16_t *copy, size_t n);

    /* dsf_row_product, of w[n][k] in T. */
    void (*row_product)(const float *x, const uint16_t *w, size_t n, size_t k,
                        float beta, float *y);
};

/* Those of bf16 or fp16, for the instructions that dsf_kernels_isa names. */
const struct dsf_narrow_loops *dsf_narrow(enum dsflow_dtype type);

#endif
