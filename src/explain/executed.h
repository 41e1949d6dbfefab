/* executed.h - the steps of a timeline, and those that say how the others are.
 */
#ifndef DSF_EXPLAIN_EXECUTED_H
#define DSF_EXPLAIN_EXECUTED_H

#include "trace/trace.h"

/* The spans of the tasks of each step, by step of the trace. */
struct dsf_executed {
    uint32_t ntasks; /* of the program `step` */
    uint32_t n;      /* steps */
    uint32_t *span;  /* [n * ntasks]: position in the timeline, + 1; 0: none */
    uint32_t from, to; /* the steps that count: those with a whole one before
                          and after, if there are */
    double start, end; /* of them */
    double seconds;    /* of one: the median */
    uint32_t middle;   /* the step that took about that */

    uint32_t **lane; /* [nlanes]: spans of each, in order */
    uint32_t *nlane;
    uint32_t *place; /* of each span on its lane */
};

/* Errors: DSFLOW_EINVAL where no step is whole. */
int dsf_executed_init(struct dsf_executed *s, const struct dsf_trace *trace,
                      struct dsflow_err *err);
void dsf_executed_fini(struct dsf_executed *s, const struct dsf_trace *trace);

/* The span of a task in a step that may not be there; NULL: none. */
static inline const struct dsf_span *
dsf_executed_span(const struct dsf_executed *s, const struct dsf_trace *trace,
                  uint32_t task, int64_t step)
{
    uint32_t at = step < 0 || step >= (int64_t)s->n || task >= s->ntasks
                      ? 0
                      : s->span[(size_t)step * s->ntasks + task];

    return at > 0 ? &trace->timeline.v[at - 1] : NULL;
}

/* How many steps of the trace ran the program. */
uint32_t dsf_executed_steps(const struct dsf_trace *trace,
                            dsflow_program program);

/* What ran on the lane of a span before it; NULL: nothing. */
const struct dsf_span *dsf_executed_before(const struct dsf_executed *s,
                                           const struct dsf_trace *trace,
                                           const struct dsf_span *span);

/* The last on a lane that ended by then, or NULL. */
const struct dsf_span *dsf_executed_until(const struct dsf_executed *s,
                                          const struct dsf_trace *trace,
                                          unsigned lane, double until);

#endif
