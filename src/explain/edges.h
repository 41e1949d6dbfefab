/* edges.h - what each task waits for in a step among steps, and why. */
#ifndef DSF_EXPLAIN_EDGES_H
#define DSF_EXPLAIN_EDGES_H

#include <stdbool.h>
#include <dsflow/graph.h>

struct dsf_edge {
    uint32_t task; /* that is waited for */
    uint32_t data; /* because of it */
    bool before;   /* that of the step before */
    bool slot;     /* it uses what is written over: more buffers, no edge */
};

struct dsf_edges {
    uint32_t *first; /* [ntasks + 1], by task of the graph */
    struct dsf_edge *v;
};

/* Edges of the training step; other programs have none. A task may be there for
 * several pieces of data. */
void dsf_edges_init(struct dsf_edges *e, const struct dsflow_graph *g);
void dsf_edges_fini(struct dsf_edges *e);

#endif
