/* gemm.h - what every use of oneDNN needs. */
#ifndef DSF_KERNELS_GEMM_H
#define DSF_KERNELS_GEMM_H

#include <stddef.h>

/* oneDNN would start a team of threads on every core for each caller: from now
 * on, this thread is its own team. */
void dsf_gemm_alone(void);

/* A product of this size could not be computed, for this dnnl_status_t: missing
 * memory is kept for dsf_kernels_failed, all else is a bug. */
void dsf_gemm_failed(int status, size_t m, size_t n, size_t k);

#endif
