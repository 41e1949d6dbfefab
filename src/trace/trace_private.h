/* trace_private.h - what the graph of a trace that was read borrows. */
#ifndef DSF_TRACE_TRACE_PRIVATE_H
#define DSF_TRACE_TRACE_PRIVATE_H

#include <dsflow/op.h>

struct dsf_trace_ops {
    struct dsflow_op *v;
    char **rings; /* of data */
    unsigned n, nrings;
};

#endif
