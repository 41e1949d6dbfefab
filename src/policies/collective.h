/* collective.h - for policies that share data among ranks: the tasks of a
 * collective, one for each member (tasks/collective.h has its arguments). */
#ifndef DSF_POLICIES_COLLECTIVE_H
#define DSF_POLICIES_COLLECTIVE_H

#include <stdbool.h>
#include <dsflow/graph.h>

#include "tasks/collective.h"

struct dsf_collective {
    const struct dsflow_op *op;
    struct dsf_pieces pieces;
    const dsflow_data_id *from; /* [members]: what each has for the others */
    uint32_t id;                /* of this collective in its graph, from 1 */
};

/* The task of `member`, on `rank`: `into` becomes what it gets; in place, where
 * that is its own `from`. `like` gives the layer, the micro-batch and the pass.
 * Nothing is emitted where nothing comes to the member. */
void dsf_collective_emit(struct dsflow_graph *out,
                         const struct dsflow_task_spec *like,
                         const struct dsf_collective *c, int32_t member,
                         int32_t rank, dsflow_data_id into);

/* What the tasks of all members use, where `out` leaves them out
 * (graph/asked.h); into[m] is what member m gets. */
void dsf_collective_pass(struct dsflow_graph *out,
                         const struct dsflow_task_spec *like,
                         const struct dsf_collective *c,
                         const dsflow_data_id *into);

/* Do the others read what `member` has? */
bool dsf_collective_reads(const struct dsflow_op *op,
                          const struct dsf_pieces *p, int32_t member);

/* The largest id in `g`; 0 where it has no collectives. */
uint32_t dsf_collective_last(const struct dsflow_graph *g);

#endif
