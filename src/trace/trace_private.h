/* trace_private.h - the ops of a trace that was read. */
#ifndef DSF_TRACE_TRACE_PRIVATE_H
#define DSF_TRACE_TRACE_PRIVATE_H

#include <dsflow/op.h>

struct dsf_trace_ops {
    struct dsflow_op *v;
    unsigned n;
};

#endif
