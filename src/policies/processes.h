/* processes.h - the part of a graph that one of several processes runs: the
 * tasks of its ranks, and what comes from and goes to the others. */
#ifndef DSF_POLICIES_PROCESSES_H
#define DSF_POLICIES_PROCESSES_H

#include "graph/part.h"
#include "plan/division.h"

/* The part of process `p`, of the graph of all, which stays as it is: its tasks
 * in their order, and where a task reads what is in another process, a
 * `transmit` there and a `receive` here in its place. Messages from one process
 * to another are counted in that order, so both know one by the same number. It
 * has the persistent data that is at home there, and belongs to the caller.
 * DSFLOW_ENOSYS: a task that has no rank, or writes in another process. */
int dsf_process_part(const struct dsf_processes *all, int32_t p,
                     struct dsflow_graph *whole, struct dsf_graph_part *part,
                     struct dsflow_err *err);

/* The same part, without the whole graph: other tasks are made only as far as
 * the process needs them. It has the same tasks and messages; priorities are
 * those of the part. Of the hashes, that of the process is as of the whole. */
struct dsflow_plan;
int dsf_process_build(const struct dsf_processes *all, int32_t p,
                      struct dsflow_plan *plan, struct dsf_graph_part *part,
                      struct dsflow_err *err);

/* process_tasks.c: what a part says of the tasks of all processes. */
void dsf_process_tasks(const struct dsf_processes *all, struct dsflow_graph *g,
                       struct dsf_graph_part *part);

#endif
