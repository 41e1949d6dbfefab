/* cast.h - numbers in the bytes of another type, and back. */
#ifndef DSF_CODELETS_CAST_H
#define DSF_CODELETS_CAST_H

#include <dsflow/dtype.h>

#include "kernels/kernels.h"

/* What states of the optimizer are kept as: fp32, bf16 or int8_block. `packed`
 * is aligned as a float is. */
void dsf_pack(enum dsflow_dtype dtype, const struct dsf_rounding *r,
              const float *whole, void *packed, size_t n);
void dsf_unpack(enum dsflow_dtype dtype, const void *packed, float *whole,
                size_t n);

#endif
