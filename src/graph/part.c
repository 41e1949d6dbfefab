/* part.c - what a part of a graph owns. */
#include "graph/part.h"

#include <stdlib.h>

void dsf_graph_part_forget_whole(struct dsf_graph_part *part)
{
    free(part->tasks);
    free(part->data);
    free(part->process);
    free(part->ordered);
    free(part->first);
    part->tasks = part->data = part->ordered = part->first = NULL;
    part->process = NULL;
}

void dsf_graph_part_free(struct dsf_graph_part *part)
{
    dsflow_graph_free(part->graph);
    free(part->nth);
    free(part->moved);
    free(part->to);
    free(part->hashes);
    free(part->out);
    free(part->in);
    dsf_graph_part_forget_whole(part);
    *part = (struct dsf_graph_part){ .graph = NULL };
}
