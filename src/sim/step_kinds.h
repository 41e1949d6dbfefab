/* step_kinds.h - jobs whose steps are of several kinds: what each is, and what
 * a step is on average. */
#ifndef DSF_SIM_STEP_KINDS_H
#define DSF_SIM_STEP_KINDS_H

#include "plan/plan.h"
#include "sim/predict.h"

/* A program of the graph: how many steps of the job run it, its tasks, the
 * bytes that ranks read of each other, and its time, where that is predicted.
 */
struct dsf_step_kind {
    int64_t steps;
    double tasks, bytes, seconds;
};
struct dsf_step_kind dsf_step_kind(const struct dsflow_plan *plan,
                                   const struct dsflow_graph *g,
                                   const struct dsf_prediction *p,
                                   dsflow_program program);

/* The mean over the steps of the job; `steps` is how many there are. */
struct dsf_step_kind dsf_step_mean(const struct dsflow_plan *plan,
                                   const struct dsflow_graph *g,
                                   const struct dsf_prediction *p);

#endif
