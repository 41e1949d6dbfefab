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

/* Packed numbers from some element on. Of int8_block, codes stand behind the
 * scales of all blocks. */
struct dsf_packed {
    void *numbers; /* or scales */
    uint8_t *codes;
};

/* From number `at` on of `elems` at `packed`: of int8_block, the first of a
 * block. */
struct dsf_packed dsf_packed_at(enum dsflow_dtype dtype, void *packed,
                                int64_t elems, int64_t at);
void dsf_pack_at(enum dsflow_dtype dtype, const struct dsf_rounding *r,
                 const float *whole, struct dsf_packed to, size_t n);
void dsf_unpack_at(enum dsflow_dtype dtype, struct dsf_packed from,
                   float *whole, size_t n);

#endif
