/* update.h - ports that the updates of Adam and its like have alike. */
#ifndef DSF_CODELETS_UPDATE_H
#define DSF_CODELETS_UPDATE_H

#include <dsflow/codelet.h>

#include "kernels/narrow.h"
#include "tasks/args.h"

enum { CONTROL, GRAD, PARAM, M, V };

/* From element `from` of this shard on: in port `i`, of fp32. */
static inline float *part(const struct dsflow_call *call, unsigned i,
                          int64_t from)
{
    const struct dsf_update_args *a = call->args;

    if (i == PARAM)
        from += a->at.param_at;
    else if (i == M)
        from += a->m_at;
    else if (i == V)
        from -= a->v_at;
    return (float *)call->bufs[i].ptr + from;
}

/* The gradient: where it is, or `n` numbers of it widened to `wide`. */
static inline const float *gradient(const struct dsflow_call *call,
                                    int64_t from, float *wide, size_t n)
{
    const struct dsf_update_args *a = call->args;
    const struct dsflow_buf *grad = &call->bufs[GRAD];

    from += a->at.grad_at;
    if (!dsf_is_narrow(grad->dtype))
        return (const float *)grad->ptr + from;
    dsf_narrow(grad->dtype)->widen((const uint16_t *)grad->ptr + from, wide, n);
    return wide;
}

#endif
