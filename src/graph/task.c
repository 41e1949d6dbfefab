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
    if (t->op->cost != NULL)
        t->op->cost(bytes, t->ndata, t->args, &cost);
    for (unsigned i = 0; t->op->cost == NULL && i < t->ndata; i++)
        cost.bytes += (double)bytes[i] *
                      (dsflow_task_access(t, i) == DSFLOW_RW ? 2 : 1);
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

bool dsf_task_uses(const struct dsflow_graph *g,
                   const struct dsflow_task_spec *t, enum dsflow_tier tier)
{
    for (unsigned p = 0; p < t->ndata; p++)
        if (dsflow_graph_data(g, t->data[p])->tier == tier)
            return true;
    return false;
}

bool dsf_task_brings(const struct dsflow_graph *g,
                     const struct dsflow_task_spec *t)
{
    return dsflow_graph_data(g, t->data[0])->tier >
           dsflow_graph_data(g, t->data[1])->tier;
}

size_t dsf_task_swapped(const struct dsflow_graph *g,
                        const struct dsflow_task_spec *t)
{
    size_t from = dsflow_graph_data(g, t->data[0])->bytes;
    size_t to = dsflow_graph_data(g, t->data[1])->bytes;

    return from < to ? from : to;
}
