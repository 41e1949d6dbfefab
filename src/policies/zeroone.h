/* zeroone.h - 0/1 Adam, for policies that make tasks of it. */
#ifndef DSF_POLICIES_ZEROONE_H
#define DSF_POLICIES_ZEROONE_H

#include "plan/plan.h"
#include "tasks/zeroone.h"

/* The keys of 0/1 Adam; NULL: the job has another optimizer. */
const struct dsf_zeroone_keys *dsf_zeroone_keys(const struct dsf_job *job);

/* The program of steps of a kind: "step", "compressed", "local", "sync". */
const char *dsf_zeroone_program(enum dsf_zeroone_kind kind);

/* What is kept of it beside the states of Adam, and which steps are of which
 * program; and what does not go with it is refused. */
int dsf_zeroone_decide(struct dsflow_plan *plan, struct dsflow_err *err);

#endif
