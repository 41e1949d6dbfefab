/* call.h - the ports of a call, and tensors in its units, as numbers. */
#ifndef DSF_CODELETS_CALL_H
#define DSF_CODELETS_CALL_H

#include <string.h>
#include <dsflow/codelet.h>

static inline float *dsf_floats(const struct dsflow_call *call, unsigned port)
{
    return call->bufs[port].ptr;
}

/* A gradient that is added to: from 0 where it is fresh. */
static inline float *dsf_gradient(const struct dsflow_call *call, unsigned port)
{
    if (call->fresh >> port & 1)
        memset(call->bufs[port].ptr, 0, call->bufs[port].bytes);
    return call->bufs[port].ptr;
}

/* The tensor at `at` of a unit; NULL where the model has none. */
static inline float *dsf_tensor_at(float *unit, int64_t at)
{
    return at < 0 ? NULL : unit + at;
}

#endif
