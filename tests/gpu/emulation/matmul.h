/* matmul.h - a product on memory that cores reach, plainly: what stands in for
 * cuBLASLt's. */
#ifndef DSF_GPU_EMULATED_MATMUL_H
#define DSF_GPU_EMULATED_MATMUL_H

#include "gpu/product.h"

/* Compute it when the stream gets there. */
void emulated_matmul(const struct dsf_gpu_product &p, void *stream);

/* Is it at a multiple of `alignment` bytes? */
bool emulated_aligned(const void *at, size_t alignment);

size_t emulated_bytes(enum dsflow_dtype type);

/* What the library refuses beside what it must: products that are aligned to
 * fewer bytes than DSFLOW_EMULATED_ALIGNMENT, and those with an epilogue where
 * DSFLOW_EMULATED_EPILOGUES is "no". */
bool emulated_refuses(size_t alignment, bool has_epilogue);

#endif
