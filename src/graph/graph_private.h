/* graph_private.h - how a graph is kept; for src/graph. */
#ifndef DSF_GRAPH_GRAPH_PRIVATE_H
#define DSF_GRAPH_GRAPH_PRIVATE_H

#include <stdbool.h>
#include <dsflow/graph.h>

#include "base/blocks.h"

/* A program: its tasks follow each other. */
struct dsf_program {
    char *name;
    uint32_t first, ntasks;
};

enum { DSF_TASKS_EACH = 4096 };

struct dsflow_graph {
    struct dsf_program *programs;
    unsigned nprograms;

    struct dsflow_data_spec *data;
    struct dsflow_task_spec **tasks; /* DSF_TASKS_EACH at a time */
    size_t cap_data, cap_tasks;
    uint32_t ndata, ntasks;
    uint32_t in_tier[DSFLOW_NTIERS]; /* data there */

    struct dsf_blocks names, lists; /* of data; of the data of each task */
    struct dsf_blocks kept, specs;  /* arguments; tasks */
    struct dsf_args *args; /* those that stand there: the same once */
    size_t nargs, cap_args; /* cap_args: a power of two */

    uint32_t *slots; /* hash of names: position in data + 1 */
    size_t nslots;   /* a power of two */

    struct dsf_asked *asked; /* borrowed; NULL: all tasks are */

    struct dsflow_err fault; /* the first of what could not be added */

    uint32_t *first_pred; /* ntasks + 1; NULL until asked for */
    dsflow_task_id *preds;
};

/* Where a fault goes: only the first one is kept. */
static inline struct dsflow_err *dsf_graph_fault(struct dsflow_graph *g)
{
    return g->fault.status == DSFLOW_OK ? &g->fault : NULL;
}

static inline struct dsflow_task_spec *dsf_task_at(const struct dsflow_graph *g,
                                                   uint32_t i)
{
    return &g->tasks[i / DSF_TASKS_EACH][i % DSF_TASKS_EACH];
}

void dsf_forget_edges(struct dsflow_graph *g); /* preds.c */
void dsf_programs_free(struct dsflow_graph *g); /* program.c */

#endif
