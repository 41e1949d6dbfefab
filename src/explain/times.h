/* times.h - how long a step of another plan would take, by the times that tasks
 * took in a trace. */
#ifndef DSF_EXPLAIN_TIMES_H
#define DSF_EXPLAIN_TIMES_H

#include "explain/account.h"
#include "machine/machine_model.h"
#include "plan/plan.h"

struct dsf_times {
    const struct dsf_account *account; /* borrowed */
    struct dsf_machine_model machine;  /* that of the trace */
    bool links;            /* of virtual devices: set by the caller */
    double *factor;        /* by kind of the account: measured / predicted */
    double factor_of_all;  /* of kinds that the trace has not */
    double factor_of_disk; /* of what a disk does */
    double delay;          /* seconds that a task waits for transfers */
    double overhead;       /* seconds of a task beside its kernel */
};

/* What is changed of the machine. All zero: nothing is. */
struct dsf_effect {
    double link, network; /* their bandwidth is so much larger; 0: the same */
    double disk;          /* the same of a disk, both ways */
    double transfers;     /* share of waiting for transfers that is saved */
    bool parallel; /* the executor uses all workers, as serial does not */
};

/* Errors: DSFLOW_EINVAL, with the reason, where nothing can be said. */
int dsf_times_init(struct dsf_times *t, const struct dsf_account *a,
                   struct dsflow_err *err);
void dsf_times_fini(struct dsf_times *t);

/* Of a step in the middle of a run. */
int dsf_times_seconds(const struct dsf_times *t, const struct dsflow_plan *plan,
                      struct dsflow_graph *graph,
                      const struct dsf_effect *effect, double *seconds,
                      struct dsflow_err *err);

#endif
