/* whatif.h - what a step of the job of a trace would take if the job said
 * something else: it is planned anew, and simulated with times of the trace. */
#ifndef DSF_TUNE_WHATIF_H
#define DSF_TUNE_WHATIF_H

#include "config/job.h"
#include "explain/account.h"
#include "machine/machine_model.h"
#include "model/model.h"
#include "plan/plan.h"

/* The job of a trace with a change, its model, plan and graph. */
struct dsf_replan {
    struct dsf_job job;
    struct dsf_model model;
    struct dsflow_plan *plan;
    struct dsflow_graph *graph;
};

struct dsf_whatif {
    const struct dsf_account *account; /* borrowed */
    dsf_load_fn load;                  /* of plug-ins; NULL: none are loaded */
    struct dsf_machine_model machine;  /* that of the trace */
    struct dsf_machine present;
    double *factor;         /* by kind of the account: measured / predicted */
    double *delay;          /* by kind: seconds of waiting for transfers */
    double factor_of_all;   /* of kinds that the trace has not */
    double factor_of_disk;  /* of what a disk does */
    double overhead;        /* seconds of a task beside its kernel */
    struct dsf_replan base; /* nothing changed */
    uint64_t built;         /* tasks, of all that was tried */
};

/* What is changed. */
struct dsf_change {
    const char *sets[3];  /* "batch.micro=4", …; NULL: no more */
    double link, network; /* their bandwidth is so much larger; 0: the same */
    double disk;          /* the same of a disk, both ways */
    double transfers;     /* share of waiting for transfers that is saved */
    bool parallel; /* the executor uses all workers, as serial does not */
};

struct dsf_outcome {
    double seconds; /* of a step */
    double peak;    /* bytes of the rank that needs most */
    bool over;      /* more main memory beside it than the job allows */
    uint32_t tasks; /* of a step */
};

/* Errors: DSFLOW_EINVAL, with the reason, where nothing can be said. */
int dsf_whatif_init(struct dsf_whatif *w, const struct dsf_account *a,
                    dsf_load_fn load, struct dsflow_err *err);
void dsf_whatif_fini(struct dsf_whatif *w);

/* Did the executor run one task at a time, whatever the job says? */
bool dsf_whatif_is_serial(const struct dsf_whatif *w);

int dsf_whatif_base(struct dsf_whatif *w, struct dsf_outcome *out,
                    struct dsflow_err *err);

/* A change may make no plan: errors as they would be said of the job. */
int dsf_whatif_try(struct dsf_whatif *w, const struct dsf_change *change,
                   struct dsf_outcome *out, struct dsflow_err *err);

#endif
