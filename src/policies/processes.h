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

/* The same part of a graph that has other tasks only as far as the process
 * needs them (dsf_policies_build_asked), which stays. It has the same tasks and
 * messages; priorities are those of the part. Of the hashes, that of the
 * process is as of the whole. */
struct dsf_asked_graph;
int dsf_process_build_from(const struct dsf_processes *all, int32_t p,
                           const struct dsf_asked_graph *asked,
                           struct dsf_graph_part *part, struct dsflow_err *err);

/* process_own.c: the graph that the part was taken out of becomes one that has
 * the tasks of process `p` alone, and the data that it had. The part is of that
 * then; where one of its tasks is a message for another process's, `tasks` says
 * DSF_NOT_IN_PART. */
void dsf_process_keep_own(const struct dsf_processes *all, int32_t p,
                          struct dsflow_graph **graph,
                          struct dsf_graph_part *part);

/* A hash of the plain step, whose tasks have no rank yet. */
uint64_t dsf_process_hash_plain(const struct dsflow_graph *g);

/* Go on with a hash of messages: `elems` numbers that task `t` takes. */
void dsf_process_mix_message(uint64_t *hash, const struct dsflow_task_spec *t,
                             enum dsflow_dtype dtype, int64_t elems,
                             bool direct);

/* process_tasks.c: what a part says of the tasks of all processes. */
void dsf_process_tasks(const struct dsf_processes *all, struct dsflow_graph *g,
                       struct dsf_graph_part *part);

#endif
