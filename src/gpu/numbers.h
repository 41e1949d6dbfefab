/* numbers.h - the numbers of a call on a GPU: those on its ports, tensors in its
 * units. Nothing of them may be read here. */
#ifndef DSF_GPU_NUMBERS_H
#define DSF_GPU_NUMBERS_H

#include "gpu/kernels.h"

#include <dsflow/codelet.h>
#include <dsflow/segments.h>

/* Number `at` of the data on a port, fp32, bf16 or fp16; NULL where the task
 * leaves the port out, or `at` is -1. */
static inline void *dsf_gpu_number(const struct dsflow_call *call,
                                   unsigned port, int64_t at)
{
    const struct dsflow_buf *b = &call->bufs[port];
    const int64_t bytes = b->dtype == DSFLOW_FP32 ? 4 : 2;

    return b->ptr == NULL || at < 0 ? NULL : (char *)b->ptr + at * bytes;
}

/* A gradient of parameters, of any of these types. */
struct dsf_gpu_gradient {
    void *p;
    enum dsflow_dtype type;
    int add; /* do products that set some of it add to what there is? */
};

/* The one on a port, which is added to: from 0 where it is fresh. */
static inline struct dsf_gpu_gradient
dsf_gpu_gradient(const struct dsflow_call *call, unsigned port, void *stream)
{
    const struct dsflow_buf *b = &call->bufs[port];

    if (call->fresh >> port & 1)
        dsf_gpu_zero(b->ptr, b->bytes, stream);
    return (struct dsf_gpu_gradient){ b->ptr, b->dtype, 1 };
}

/* Its number `at`; NULL where that is -1. */
static inline void *dsf_gpu_gradient_at(const struct dsf_gpu_gradient *g,
                                        int64_t at)
{
    return at < 0 ? NULL : (char *)g->p + at * (g->type == DSFLOW_FP32 ? 4 : 2);
}

/* The norm of the rows of a tile, whose tensors are in the unit on a port. */
static inline struct dsf_gpu_norm
dsf_gpu_norm_of(const struct dsflow_call *call, unsigned port,
                const struct dsflow_tile *tile, int64_t w, int64_t b)
{
    const struct dsf_gpu_norm norm = { dsf_gpu_number(call, port, w),
                                       dsf_gpu_number(call, port, b),
                                       (size_t)tile->width, tile->eps,
                                       tile->rms };

    return norm;
}

#endif
