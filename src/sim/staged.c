/* staged.c - what a task on a core has to do with of data on a device: it goes
 * through a buffer in main memory. */
#include "sim/staged.h"

#include "tasks/portion.h"

struct dsf_staged_bytes dsf_staged_bytes(const struct dsflow_graph *g,
                                         const struct dsflow_task_spec *t)
{
    struct dsf_staged_bytes bytes = { 0, 0 };

    for (unsigned p = 0; p < t->ndata; p++) {
        const struct dsf_portion part = dsf_portion_of(g, t, p);

        if (dsflow_graph_data(g, t->data[p])->tier != DSFLOW_DEVICE)
            continue;
        bytes.brought += part.brought ? (double)part.bytes : 0;
        bytes.taken_back += part.taken_back ? (double)part.bytes : 0;
    }
    return bytes;
}
