/* part.h - the part of a graph that one of several processes runs. */
#ifndef DSF_GRAPH_PART_H
#define DSF_GRAPH_PART_H

#include <stdbool.h>
#include <dsflow/graph.h>

/* Between two processes a graph has less messages than this, each way: so many
 * tags it has, of the 2^23 of MPI over UCX. */
#define DSF_GRAPH_TAGS ((UINT32_C(1) << 22) - 1024)

struct dsf_graph_part {
    struct dsflow_graph *graph; /* with the programs of the whole one */

    /* By its tasks. What is counted or has a name is the same in each process,
     * also where only one has the whole graph. */
    uint32_t *nth;   /* of all tasks of its process, from 0: the one that it is,
                        or that it is a message for; DSF_NOT_IN_PART: that is
                        in another process */
    uint32_t *moved; /* data of the part, that one carries for that task;
                        DSF_NOT_IN_PART: it is that task */

    int16_t *to; /* rank of the task that one goes out for; ANYWHERE: it is
                    no message that goes out */

    /* By process: of its tasks, and of what it sends. Other plans have others.
     */
    uint64_t *hashes;
    uint64_t *out, *in; /* by process: of the messages that go there, and that
                           come from there: that process has the same */
    uint64_t plain; /* of the plain step of all; 0: that was not looked at */
    bool alone;     /* it was taken out of a graph that has the tasks of this
                       process, and of the others only what it has messages of */

    /* Of the graph that it was taken out of, where that is there, else NULL. */
    uint32_t *tasks; /* by its tasks: the one that it is, or is a message for */
    uint32_t *data;  /* by data of the whole graph: that of the part; or … */
    int32_t *process;  /* by data of the whole graph: where it is at home */
    uint32_t *ordered; /* tasks of the whole graph, process by process; … */
    uint32_t *first;   /* … by process: where its own begin; of the one behind
                          the last: where they end */
};

#define DSF_NOT_IN_PART UINT32_MAX /* … this */

/* For a part that outlives the graph that it was taken out of. */
void dsf_graph_part_forget_whole(struct dsf_graph_part *part);
void dsf_graph_part_free(struct dsf_graph_part *part);

#endif
