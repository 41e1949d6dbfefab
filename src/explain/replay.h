/* replay.h - what the tasks of a trace run on when they are simulated again. */
#ifndef DSF_EXPLAIN_REPLAY_H
#define DSF_EXPLAIN_REPLAY_H

#include "machine/machine_model.h"
#include "sim/sim.h"
#include "trace/trace.h"

/* The cores beside devices, as the trace has them; 0: it has none. */
unsigned dsf_replay_cores(const struct dsf_trace *trace);

/* What the machine of the trace had beside its workers: links and cores, where
 * some tasks ran on them, and what else a simulation of it took into account.
 */
void dsf_replay_on(const struct dsf_trace *trace, bool links,
                   struct dsf_sim_spec *spec);

#endif
