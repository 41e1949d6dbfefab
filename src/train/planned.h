/* planned.h - a job planned for a machine: what a step is made of, before
 * anything runs. */
#ifndef DSF_TRAIN_PLANNED_H
#define DSF_TRAIN_PLANNED_H

#include "train/session.h"

struct dsf_planned {
    struct dsf_session s; /* has its model at the beginning */
    const struct dsf_machine_model *machine; /* that was described, or `own` */
    struct dsf_machine_model own;            /* this one, as it was measured */
    bool whole;                              /* every policy has been applied */
    int32_t processes; /* that the ranks are in; 0: one on each node */
};

/* Is it the name of a policy, or NULL? Those of plug-ins are known once the job
 * has been read. Errors: DSFLOW_EINVAL, with all names. */
int dsf_planned_until(const char *until, struct dsflow_err *err);

/* The plan, and the graph as it is after policy `until` (NULL: after all), on
 * the machine `described` (borrowed), or where that is NULL on this one, which
 * is measured where `predict` says that times are wanted, or planning asks for
 * them. A text that is too short is a warning: it need not be here. Errors:
 * DSFLOW_EINVAL, with the key; DSFLOW_EFIT. */
int dsf_planned_make(struct dsf_planned *p,
                     const struct dsf_machine_model *described,
                     const char *until, bool predict, struct dsflow_err *err);

/* Does every rank fit in its memories? Of a whole plan: before, it is not known
 * what is where. */
int dsf_planned_check(struct dsf_planned *p, struct dsflow_err *err);

void dsf_planned_close(struct dsf_planned *p);

#endif
