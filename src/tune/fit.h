/* fit.h - a plan that fits: budgets of memory, and sizes that are "auto". */
#ifndef DSF_TUNE_FIT_H
#define DSF_TUNE_FIT_H

#include "tune/budget.h"

/* A job with the model and the machine that it is planned for, all borrowed,
 * and the plan and the graph that were made of it: NULL, or of the caller. */
struct dsf_setup {
    const struct dsf_job *job;
    const struct dsf_model *model;
    const struct dsf_machine *machine;
    struct dsf_job *chosen; /* the job of the plan, with what was chosen for
                               sizes that are auto; NULL: it is `job` */
    struct dsflow_plan *plan;
    struct dsflow_graph *graph;
    bool some; /* the graph has not the tasks of all ranks, as that is large */
    char *why; /* what was chosen for sizes that are auto; or NULL */
};

/* The plan and the graph of a setup, up to policy `until` (NULL: all). Where
 * the job leaves sizes open (batch.micro, recompute.what, zero.stage, and what
 * dsf_fit_is_open knows of offloading), all are tried, and s->chosen is the job
 * with those whose step is predicted to be the fastest on machine `m` that
 * fits; s->why says so. So it is with batch.in_flight where `m` is of GPUs
 * whose states cores update. `m` may be NULL where dsf_fit_is_open says no.
 * Errors: DSFLOW_EFIT where none fits. */
int dsf_fit(struct dsf_setup *s, const struct dsf_machine_model *m,
            const char *until, struct dsflow_err *err);

/* Are there sizes to choose? */
bool dsf_fit_is_open(const struct dsf_job *job);

/* Or may a machine of GPUs have some? */
bool dsf_fit_is_timed(const struct dsf_job *job);

/* Does every rank fit in each of its memories? The message has the figures, and
 * what would fit. `m` NULL: the present machine. `w` is what dsf_fit_weigh
 * says.
 */
int dsf_fit_check(struct dsf_setup *s, const struct dsf_machine_model *m,
                  const struct dsf_weights *w, struct dsflow_err *err);

/* Says that memory.host leaves too little, where shortfall->most_host does. */
int dsf_fit_fail_host(const struct dsf_job *job,
                      const struct dsf_shortfall *shortfall,
                      struct dsflow_err *err);

/* What ZeRO 2 or 3 does not share out: that whole gradients stay on each rank
 * until the end of the step, with the bytes, and what zero.reduce = "micro"
 * would make of it. NULL where they do not; freed by the caller. */
char *dsf_fit_gradients_text(const struct dsf_setup *s,
                             const struct dsf_machine_model *m);

#endif
