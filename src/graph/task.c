/* task.c - what the op of a task says of it. */
#include "graph/task.h"

#include "base/alloc.h"

#include <stdlib.h>

/* Sizes of the data of a task: `few`, unless there are many. */
struct sizes {
    size_t few[16], *v;
};

static void get_sizes(struct sizes *s, const struct dsflow_graph *g,
                      const struct dsflow_task_spec *t)
{
    s->v = t->ndata <= sizeof(s->few) / sizeof(*s->few)
               ? s->few
               : dsf_xcalloc(t->ndata, sizeof(*s->v));
    for (uint32_t p = 0; p < t->ndata; p++)
        s->v[p] = dsflow_graph_data(g, t->data[p])->bytes;
}

static void free_sizes(struct sizes *s)
{
    if (s->v != s->few)
        free(s->v);
}

int dsf_task_check(const struct dsflow_graph *g,
                   const struct dsflow_task_spec *t, struct dsflow_err *err)
{
    struct sizes s;
    int status;

    get_sizes(&s, g, t);
    status = t->op->check(s.v, t->ndata, t->args, err);
    free_sizes(&s);
    return status;
}

struct dsflow_cost dsf_task_cost(const struct dsflow_graph *g,
                                 const struct dsflow_task_spec *t)
{
    struct dsflow_cost cost = { 0 };
    struct sizes s;

    get_sizes(&s, g, t);
    if (t->op->cost != NULL)
        t->op->cost(s.v, t->ndata, t->args, &cost);
    for (uint32_t i = 0; t->op->cost == NULL && i < t->ndata; i++)
        cost.bytes +=
            (double)s.v[i] * (dsflow_task_access(t, i) == DSFLOW_RW ? 2 : 1);
    free_sizes(&s);
    return cost;
}

size_t dsf_task_scratch(const struct dsflow_graph *g,
                        const struct dsflow_task_spec *t)
{
    struct sizes s;
    size_t bytes;

    if (t->op->scratch == NULL)
        return 0;
    get_sizes(&s, g, t);
    bytes = t->op->scratch(s.v, t->ndata, t->args);
    free_sizes(&s);
    return bytes;
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
