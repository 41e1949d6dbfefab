/* asked.h - which tasks of the plain step one of several processes asks for. */
#ifndef DSF_POLICIES_ASKED_H
#define DSF_POLICIES_ASKED_H

#include "graph/asked.h"
#include "plan/plan.h"
#include "policies/processes.h"

/* Of `g`, of tasks without a rank: those that process `p` runs on any stage and
 * replica that it has a rank of, and those that read what these write, or write
 * what these read. */
void dsf_asked_find(const struct dsflow_plan *plan,
                    const struct dsf_processes *all, int32_t p,
                    const struct dsflow_graph *g, struct dsf_asked *asked);

/* The tasks of `in` that are asked for, in `out`, which has been told so. */
void dsf_asked_copy(struct dsflow_graph *in, struct dsflow_graph *out);

#endif
