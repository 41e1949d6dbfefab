/* part.h - the part of a graph that one of several processes runs. */
#ifndef DSF_GRAPH_PART_H
#define DSF_GRAPH_PART_H

#include <dsflow/graph.h>

/* What it is of is the whole graph. */
struct dsf_graph_part {
    struct dsflow_graph *graph; /* with the programs of the whole one */
    uint32_t *tasks;  /* by its tasks: the one of the whole graph that it is, or
                         that it is a message for */
    uint32_t *moved;  /* by its tasks: what one carries for that task, of the
                         whole graph; DSF_NOT_IN_PART: it is that task */
    uint32_t *data;   /* by data of the whole graph: that of the part; or … */
    int32_t *process; /* by data of the whole graph: where it is at home */
};

#define DSF_NOT_IN_PART UINT32_MAX /* … this */

void dsf_graph_part_free(struct dsf_graph_part *part);

#endif
