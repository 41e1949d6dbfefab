/* joined.h - the graph of a job of several processes with what they send each
 * other as tasks of its own. */
#ifndef DSF_SIM_JOINED_H
#define DSF_SIM_JOINED_H

#include "plan/division.h"

struct dsf_joined {
    struct dsflow_graph *graph; /* data have the numbers that they had */
    uint32_t *of; /* by task: that of the graph it was made of, for which it
                     carries something or which it is */
};

/* Is the task no more than a message from other processes: what it moves is
 * received where it belongs? */
bool dsf_joined_is_message(const struct dsf_processes *all,
                           const struct dsflow_graph *g,
                           const struct dsflow_task_spec *t);

/* Where a task computes with what is in other processes, a `copy` brings each
 * of these to a buffer of its rank first, two sets of which take turns, as in a
 * part (policies/processes.c): these are the messages then, and it is none. */
void dsf_joined_init(struct dsf_joined *j, const struct dsf_processes *all,
                     const struct dsflow_graph *g);
void dsf_joined_fini(struct dsf_joined *j);

#endif
