/* edges.h - what each task waits for, and why. Edges follow from the order of
 * the tasks and from how they use their data; this is the one place where they
 * are found. */
#ifndef DSF_GRAPH_EDGES_H
#define DSF_GRAPH_EDGES_H

#include <stdbool.h>
#include <dsflow/graph.h>

struct dsf_edge {
    uint32_t task; /* that is waited for; see dsf_walk_next, dsf_edges */
    uint32_t data; /* because of it */
    bool before;   /* that of the step before */
    bool slot;     /* it uses what is written over: more buffers, no edge */
};

enum {
    DSF_EDGES_WITHIN = 1, /* between tasks of one step */
    DSF_EDGES_ACROSS = 2, /* from the step before: the same tasks, submitted
                             again on the same data */
};

/* A walk over the tasks of a program, in order. */
struct dsf_walk {
    const struct dsflow_graph *g;
    uint32_t first, ntasks;
    unsigned which;
    struct dsf_trail *now, *before; /* by data: how this step and the one
                                       before used it last */
    struct dsf_reader *pool;        /* of lists of readers */
    size_t npool, cap_pool;
    uint32_t unused; /* + 1: a list of readers that nobody waits for */
    struct dsf_edge *v;
    size_t n, cap;
};

void dsf_walk_begin(struct dsf_walk *w, const struct dsflow_graph *g,
                    uint32_t first, uint32_t ntasks, unsigned which);
/* The edges into task `i`; to be called for each task in turn. Tasks are counted
 * from the first one of the program. A task that is waited for because of
 * several pieces of data is there for each. Valid until the next call. */
uint32_t dsf_walk_next(struct dsf_walk *w, uint32_t i,
                       const struct dsf_edge **edges);
/* Back to the first task. */
void dsf_walk_again(struct dsf_walk *w);
void dsf_walk_end(struct dsf_walk *w);

/* All edges into the tasks of a graph, in a step among steps of the program
 * `step`; tasks of other programs have none. */
struct dsf_edges {
    uint32_t *first; /* [ntasks + 1], by task of the graph */
    struct dsf_edge *v; /* tasks are those of the graph */
};
void dsf_edges_init(struct dsf_edges *e, const struct dsflow_graph *g);
void dsf_edges_fini(struct dsf_edges *e);

#endif
