/* wire.h - what the launches for coded numbers share: scales of tensors. */
#ifndef DSF_GPU_WIRE_H
#define DSF_GPU_WIRE_H

#include <stddef.h>
#include <stdint.h>
#include <dsflow/codelet.h>

#include "tasks/coding.h"

/* Memory that is dealt out, from an address that is a multiple of 16. */
static inline char *dsf_gpu_take(char **at, size_t bytes)
{
    char *here = *at;

    *at += (bytes + 15) / 16 * 16;
    return here;
}

DSFLOW_BEGIN_DECLS

/* Where the numbers of unit i of a call begin. */
typedef const float *(*dsf_gpu_unit_fn)(const struct dsflow_call *call,
                                        unsigned i);

/* The scales of the tensors of `n` units: of unit i from [DSF_CODED_TENSORS *
 * i] on. NULL: the coding has no tensors. They are in `scratch`, which has so
 * many bytes. */
size_t dsf_gpu_wire_scratch(const struct dsf_coding *c, unsigned n);
const float *dsf_gpu_wire_scales(const struct dsf_coding *c,
                                 const struct dsflow_call *call,
                                 dsf_gpu_unit_fn unit, unsigned n,
                                 void *scratch, void *stream);

DSFLOW_END_DECLS

#endif
