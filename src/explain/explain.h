/* explain.h - what a trace says, in words: dsflow trace --summary. */
#ifndef DSF_EXPLAIN_EXPLAIN_H
#define DSF_EXPLAIN_EXPLAIN_H

#include <stdbool.h>
#include <stdio.h>

#include "trace/trace.h"

/* Where the time of a step goes, and what would make it shorter: for people, or
 * with `json` for programs. Errors: DSFLOW_EINVAL where no step is whole;
 * DSFLOW_EIO. */
int dsf_explain(const struct dsf_trace *trace, bool json, FILE *out,
                struct dsflow_err *err);

#endif
