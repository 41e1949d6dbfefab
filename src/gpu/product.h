/* product.h - products of matrices on a GPU, and what follows them. Row-major,
 * all sums in fp32. Nothing waits: what is asked for is enqueued on `stream`, a
 * cudaStream_t.
 *
 * A matrix whose memory and whose rows all begin at multiples of
 * DSF_GPU_ALIGNMENT bytes is as fast as the library can be; one number of
 * another place or of another length of rows, and the product is computed by an
 * algorithm that reads number by number. Both follow from the arguments of a
 * task alone. */
#ifndef DSF_GPU_PRODUCT_H
#define DSF_GPU_PRODUCT_H

#include "gpu/gpu.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { DSF_GPU_ALIGNMENT = 16 };

/* What is done with A B + bias before it is stored. */
enum dsf_gpu_epilogue {
    DSF_GPU_AS_IT_IS,
    DSF_GPU_GELU,  /* it goes to `aux`, and its gelu to C */
    DSF_GPU_DGELU, /* the gradient of gelu(aux) becomes that of `aux`, which
                      becomes gelu(aux) */
};

/* C[m][n] = op(A) op(B) + add + bias. `ta`: A is stored [k][m]; `tb`: B is
 * stored [n][k]. */
struct dsf_gpu_product {
    enum dsflow_dtype type; /* of A, B, bias and aux: fp32, bf16 or fp16 */
    enum dsflow_dtype out;  /* of C and add: fp32, `type`, or any narrow one,
                               which is then rounded from `wide`, some rows at a
                               time; it has no bias and no epilogue */
    int tf32; /* fp32: A and B are rounded to TF32; dsf_gpu_multiply says */
    int ta, tb;
    size_t m, n, k;
    const void *a;
    size_t lda;
    const void *b;
    size_t ldb;
    void *c;
    size_t ldc; /* n, where it is narrow and has an epilogue, or add beside bias
                   or of another type than A and B */
    const void *add;  /* rows are ldc apart; it may be C. NULL: nothing */
    const void *bias; /* [n]; NULL: none */
    enum dsf_gpu_epilogue epilogue;
    void *aux;       /* [m][n] of the epilogue */
    float *wide;     /* [m][n], or dsf_gpu_product_few(m, n) numbers where
                        dsf_gpu_product_fuses, or `out` is not `type` */
    void *workspace; /* DSF_GPU_WORKSPACE bytes at a multiple of 256, of this
                        product alone until it has ended */
};

/* Does the library do it in one pass, when every tensor of it that is narrow
 * begins at a multiple of 8 numbers (`at`, the bits of all places and lengths
 * of rows)? Where not, a narrow product with a bias, an epilogue or something
 * to add needs all of `wide`. */
static inline int dsf_gpu_product_fuses(enum dsflow_dtype type, size_t at)
{
    return type != DSFLOW_FP32 && at % 8 == 0;
}

/* Should the library refuse such a pass after all, it is done in two, of some
 * rows of C at a time: 4 MiB in fp32, or 8 rows. Numbers of [m][n], at most. */
static inline size_t dsf_gpu_product_few(size_t m, size_t n)
{
    const size_t some = (size_t)1 << 20, rows = 8 * n;
    const size_t few = some > rows ? some : rows;

    return m * n < few ? m * n : few;
}

/* Opens the library for the GPU that the thread works with, which takes memory
 * there. Returns NULL, or what is wrong in words. */
const char *dsf_gpu_products_open(void);
/* The version of the library, as 130100; 0: there is none. */
unsigned long dsf_gpu_products_version(void);

/* From now on dsf_gpu_multiply rounds operands in fp32 to TF32, or not, as at
 * first. */
void dsf_gpu_products_round(int to_tf32);

/* What cannot be computed is kept for dsf_gpu_multiply_failed. */
void dsf_gpu_multiply(const struct dsf_gpu_product *p, void *stream);

/* What went wrong first with the products that this thread asked for since it
 * last asked this, in words; NULL: nothing. Valid until the next product. */
const char *dsf_gpu_multiply_failed(void);

/* A product as the library has it, with its bias and its epilogue: all of its
 * matrices begin at multiples of `alignment` bytes, and so do their rows.
 * Returns NULL, or what is wrong in words. With DSF_GPU_DGELU aux stays as it
 * is. */
const char *dsf_gpu_matmul(const struct dsf_gpu_product *p, size_t alignment,
                           void *stream);

#ifdef __cplusplus
}
#endif

#endif
