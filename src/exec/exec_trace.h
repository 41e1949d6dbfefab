/* exec_trace.h - what an executor ran, and when. */
#ifndef DSF_EXEC_EXEC_TRACE_H
#define DSF_EXEC_EXEC_TRACE_H

#include <stdbool.h>
#include <dsflow/exec.h>

#include "timeline/timeline.h"

/* Adds the lanes: workers, then cores that are beside them, then a link for
 * each pair of memories, then reads and writes of the disks, where the graph
 * has data there. */
void dsf_exec_lanes(const struct dsflow_exec *exec,
                    struct dsf_timeline *timeline);

/* Is what goes out to other processes on this lane? A span of it is from when
 * it could go until it had, and of the rank that it went to. */
bool dsf_exec_sends(const struct dsflow_exec *exec, unsigned lane);

/* Is what comes from them? A transfer on it is of data that a task makes of it.
 */
bool dsf_exec_receives(const struct dsflow_exec *exec, unsigned lane);

/* Appends what has ended since the last call, in any order, and forgets it.
 * Times are seconds since dsf_exec_began. Every worker has room for a few
 * steps; what came when there was no more room is counted, not kept: returns
 * how many spans were lost. */
uint64_t dsf_exec_drain(struct dsflow_exec *exec,
                        struct dsf_timeline *timeline);

/* From the next submit on, seconds[i] is what the thread that ran task i worked
 * for its kernel, the last time: spans say how long it took, and count what
 * other processes had of the core meanwhile. Room for all tasks of the graph,
 * to be read after a wait; borrowed. NULL: no more. */
void dsf_exec_time_tasks(struct dsflow_exec *exec, double *seconds);

/* Seconds that times of other machines may be wrong by, as clocks differ; 0:
 * there is one clock. */
double dsf_exec_clocks_within(const struct dsflow_exec *exec);

/* The time 0 of its timeline, in seconds of dsf_now. */
double dsf_exec_began(const struct dsflow_exec *exec);

#endif
