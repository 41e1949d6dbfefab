/* staged.h - what a task on a core has to do with of data on a device. */
#ifndef DSF_SIM_STAGED_H
#define DSF_SIM_STAGED_H

#include <dsflow/graph.h>

/* Bytes that are brought to it or taken back, whichever are more: there is a
 * way for each. */
double dsf_staged_bytes(const struct dsflow_graph *g,
                        const struct dsflow_task_spec *t);

#endif
