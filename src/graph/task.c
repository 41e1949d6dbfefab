/* task.c - what the op of a task says of it. */
#include "graph/task.h"

void dsf_task_bytes(const struct dsflow_graph *g,
                    const struct dsflow_task_spec *t, size_t *bytes)
{
    for (unsigned p = 0; p < t->ndata; p++)
        bytes[p] = dsflow_graph_data(g, t->data[p])->bytes;
}

struct dsflow_cost dsf_task_cost(const struct dsflow_graph *g,
                                 const struct dsflow_task_spec *t)
{
    size_t bytes[DSFLOW_MAX_PORTS];
    struct dsflow_cost cost = { 0 };

    dsf_task_bytes(g, t, bytes);
    t->op->cost(bytes, t->ndata, t->args, &cost);
    return cost;
}

size_t dsf_task_scratch(const struct dsflow_graph *g,
                        const struct dsflow_task_spec *t)
{
    size_t bytes[DSFLOW_MAX_PORTS];

    if (t->op->scratch == NULL)
        return 0;
    dsf_task_bytes(g, t, bytes);
    return t->op->scratch(bytes, t->ndata, t->args);
}
