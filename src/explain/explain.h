/* explain.h - what a trace says, in words: dsflow trace --summary. */
#ifndef DSF_EXPLAIN_EXPLAIN_H
#define DSF_EXPLAIN_EXPLAIN_H

#include <stdbool.h>
#include <stdio.h>

#include "config/job.h"
#include "explain/advice.h"
#include "trace/trace.h"

/* Where the time of a step goes, and what would make it shorter: for people, or
 * with `json` for programs. `advise` finds what would: dsf_advise. `load` loads
 * the plug-ins of the job, which a what-if needs; NULL: none are. Errors:
 * DSFLOW_EINVAL where no step is whole; DSFLOW_EIO. */
int dsf_explain(const struct dsf_trace *trace, bool json,
                dsf_advise_fn advise, dsf_load_fn load, FILE *out,
                struct dsflow_err *err);

#endif
