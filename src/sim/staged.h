/* staged.h - what a task on a core has to do with of data on a device. */
#ifndef DSF_SIM_STAGED_H
#define DSF_SIM_STAGED_H

#include <dsflow/graph.h>

/* Bytes that go over the link, which has a way for each. Among them are the few
 * that the executor keeps in main memory, as cores write them: `control`. */
struct dsf_staged_bytes {
    double brought, taken_back;
};
struct dsf_staged_bytes dsf_staged_bytes(const struct dsflow_graph *g,
                                         const struct dsflow_task_spec *t);

#endif
