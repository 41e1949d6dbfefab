/* call.h - the ports of a call, and tensors in its units, as numbers. */
#ifndef DSF_CODELETS_CALL_H
#define DSF_CODELETS_CALL_H

#include <string.h>
#include <dsflow/codelet.h>
#include <dsflow/graph.h>
#include <dsflow/optimizer.h>

/* The data of a task by port, from that in its own order: `to` has nothing on
 * ports that the task leaves out. */
enum { DSF_SPREAD_PORTS = 32 };
static inline const struct dsflow_buf *
dsf_spread(const struct dsflow_task_spec *t, const struct dsflow_buf *bufs,
           struct dsflow_buf *to)
{
    unsigned from = 0;

    if (t->without == 0)
        return bufs;
    for (unsigned p = 0; p < t->op->nports && p < DSF_SPREAD_PORTS; p++)
        to[p] = t->without >> p & 1 || from == t->ndata
                    ? (struct dsflow_buf){ .ptr = NULL }
                    : bufs[from++];
    return to;
}

/* Of an optimizer's update: what says, once the task may run, whether its step
 * has none. NULL: it is another task. */
static inline const int64_t *dsf_skip_of(const struct dsflow_task_spec *t,
                                         const struct dsflow_buf *bufs)
{
    const struct dsflow_control *control = bufs[0].ptr;

    return t->op->update ? &control->skip : NULL;
}

/* NULL where the task leaves the port out. */
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

/* The same, but for the numbers that products will set: `n` extents in
 * ascending order. *beta is what those products multiply them by before they
 * add: 0 where the gradient is fresh. */
struct dsf_extent {
    int64_t at;
    size_t n;
};
static inline float *dsf_gradient_but(const struct dsflow_call *call,
                                      unsigned port,
                                      const struct dsf_extent *set, unsigned n,
                                      float *beta)
{
    const size_t width = dsflow_dtype_bytes(call->bufs[port].dtype, 1);
    char *grad = call->bufs[port].ptr;
    size_t from = 0, end = (size_t)call->bufs[port].elems;

    *beta = call->fresh >> port & 1 ? 0 : 1;
    if (*beta > 0)
        return call->bufs[port].ptr;
    for (unsigned i = 0; i < n; i++) {
        memset(grad + from * width, 0, ((size_t)set[i].at - from) * width);
        from = (size_t)set[i].at + set[i].n;
    }
    memset(grad + from * width, 0, (end - from) * width);
    return call->bufs[port].ptr;
}

/* The tensor at `at` of a unit; NULL where the model has none. */
static inline float *dsf_tensor_at(float *unit, int64_t at)
{
    return at < 0 ? NULL : unit + at;
}

#endif
