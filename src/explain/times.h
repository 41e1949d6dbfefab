/* times.h - the step of a trace, planned again; and how long the step of
 * another plan would take, by the times that tasks took in the trace. */
#ifndef DSF_EXPLAIN_TIMES_H
#define DSF_EXPLAIN_TIMES_H

#include "explain/account.h"
#include "machine/machine_model.h"
#include "plan/plan.h"

/* What tasks of a kind that compute in one type took in the trace. */
struct dsf_timed {
    const struct dsflow_op *op; /* of the graph that was planned again */
    enum dsflow_dtype dtype;
    uint32_t count;
    double seconds, predicted; /* of all; predicted < 0: not known */
    double factor;             /* one / the other, without what is beside */
};

struct dsf_times {
    const struct dsf_account *account; /* borrowed */
    struct dsf_machine_model machine;  /* that of the trace */
    struct dsf_machine present;        /* the same */
    struct dsf_job *job;               /* of the trace, planned again */
    struct dsf_model model;
    struct dsflow_plan *plan;
    struct dsflow_graph *graph;

    bool links;            /* virtual devices copied beside their kernels */
    struct dsf_timed *timed; /* by kind and type */
    unsigned ntimed;
    size_t cap_timed;
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

/* `load` is for plug-ins of the job, as in dsf_job_read. Errors: DSFLOW_EINVAL,
 * with the reason, where nothing can be said; `t` needs no fini then. */
int dsf_times_init(struct dsf_times *t, const struct dsf_account *a,
                   dsf_load_fn load, struct dsflow_err *err);
void dsf_times_fini(struct dsf_times *t);

/* Of a step in the middle of a run. */
int dsf_times_seconds(const struct dsf_times *t, const struct dsflow_plan *plan,
                      struct dsflow_graph *graph,
                      const struct dsf_effect *effect, double *seconds,
                      struct dsflow_err *err);

#endif
