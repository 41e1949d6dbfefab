/* kernels.h - what the CUDA sides of tasks launch: each function enqueues on a
 * stream and returns. Pointers are to memory that the GPU reaches; `type` is
 * fp32, bf16 or fp16, and void * points to numbers of it. The meaning is that of
 * the kernels of cores (kernels/kernels.h, kernels/narrow.h). The same inputs
 * give the same bits: orders of sums follow from the shapes. Rows are read 16
 * bytes at a time where they begin at multiples of 16 bytes and have multiples of
 * 8 numbers. Nothing is launched for 0 numbers. */
#ifndef DSF_GPU_KERNELS_H
#define DSF_GPU_KERNELS_H

#include <stddef.h>
#include <stdint.h>
#include <dsflow/dtype.h>

#ifdef __cplusplus
extern "C" {
#endif

/* norm_cuda.cu: LayerNorm, or RMSNorm (rms). b may be NULL. */
struct dsf_gpu_norm {
    const void *w, *b;
    size_t width;
    float eps;
    int rms;
};
void dsf_gpu_norm_forward(const struct dsf_gpu_norm *norm,
                          enum dsflow_dtype type, const void *x, void *y,
                          size_t rows, void *stream);
/* dx = dres (NULL: 0) + the gradient that `dy` gives to x; dx may be dres.
 * dnorm[2][width] is set. */
void dsf_gpu_norm_backward(const struct dsf_gpu_norm *norm,
                           enum dsflow_dtype type, const void *x,
                           const float *dy, const void *dres, void *dx,
                           float *dnorm, size_t rows, void *scratch,
                           void *stream);
size_t dsf_gpu_norm_scratch(size_t rows, size_t width); /* bytes */

/* sums_cuda.cu. n numbers become 0. */
void dsf_gpu_zero(float *x, size_t n, void *stream);
/* into += dnorm[2][width] of a norm: gradients of its w, and of b (NULL: none). */
void dsf_gpu_norm_gradient(float *w, float *b, const float *dnorm, size_t width,
                           void *stream);
/* into[cols] += the sums of `cols` columns of x, whose rows are `ld` apart. */
void dsf_gpu_column_sums(enum dsflow_dtype type, float *into, const void *x,
                         size_t ld, size_t rows, size_t cols, void *scratch,
                         void *stream);
size_t dsf_gpu_column_scratch(size_t rows, size_t cols); /* bytes */
/* into[n] (= or +=) the sums of the rows of parts[nparts][n], in their order. */
void dsf_gpu_fold(float *into, const float *parts, size_t nparts, size_t n,
                  int add, void *stream);
/* out[row][head] = the sum over head_dim of a b. */
void dsf_gpu_head_dots(enum dsflow_dtype type, const float *a, const void *b,
                       float *out, size_t rows, size_t heads, size_t head_dim,
                       void *stream);

#ifdef __cplusplus
}
#endif

#endif
