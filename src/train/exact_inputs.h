/* exact_inputs.h - tasks that round the inputs of matrices (segments.h), from
 * so many updates on (activations.quantize_from): before, they are told not to.
 */
#ifndef DSF_TRAIN_EXACT_INPUTS_H
#define DSF_TRAIN_EXACT_INPUTS_H

#include <stdbool.h>
#include <dsflow/exec.h>

#include "config/job.h"

struct dsf_exact_inputs {
    struct dsf_exact_task *v; /* those that would round, as they are until then;
                                 none of a job that rounds from the start */
    uint32_t n;
    bool waits; /* they do not round yet */
};

/* Of an executor of `graph`, whose tasks do not round at first where that waits
 * for an update. */
void dsf_exact_inputs_init(struct dsf_exact_inputs *r,
                           const struct dsf_job *job,
                           const struct dsflow_graph *graph,
                           struct dsflow_exec *exec);

/* After the executor is closed. */
void dsf_exact_inputs_fini(struct dsf_exact_inputs *r);

/* Parameters have so many updates behind them. Between a wait and the next
 * submit. */
void dsf_exact_inputs_set(struct dsf_exact_inputs *r, const struct dsf_job *job,
                          struct dsflow_exec *exec, int64_t updates);

#endif
