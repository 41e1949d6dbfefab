/* pack.h - numbers in the bytes of a format, and back. */
#ifndef DSF_CODELETS_PACK_H
#define DSF_CODELETS_PACK_H

#include "kernels/kernels.h"
#include "tasks/packed.h"

/* `packed` has dsf_packed_bytes(format, n), aligned as a float is. */
void dsf_pack(enum dsf_states format, const struct dsf_rounding *r,
              const float *whole, void *packed, size_t n);
void dsf_unpack(enum dsf_states format, const void *packed, float *whole,
                size_t n);

#endif
