/* steps.h - the steps of a timeline: from when to when, and how near each came
 * to what was possible. */
#ifndef DSF_TRACE_STEPS_H
#define DSF_TRACE_STEPS_H

#include "trace/trace.h"

/* A step as it ran. */
struct dsf_lap {
    bool ran;          /* else the rest is 0 */
    dsflow_program program; /* that the step ran */
    double begin, end; /* from the end of the step before to its own */
    double critical;   /* the critical path through its tasks, as they were */
    double bound;      /* the most of that, of work per worker, of use per link
                          and per disk: with tasks like these no step is
                          shorter */
    double idle;       /* share of the workers' time */
};

/* By the `step` of spans: the first ones may not have been traced. */
struct dsf_laps {
    struct dsf_lap *v;
    unsigned first, n; /* the first that ran; 1 + the last, or 0 */
};

void dsf_laps_init(struct dsf_laps *steps, const struct dsf_trace *trace);
void dsf_laps_fini(struct dsf_laps *steps);

/* bound / time, at most 1. */
double dsf_lap_efficiency(const struct dsf_lap *step);

/* Of the tasks of a program that runs in steps, by instance, step * ntasks +
 * task - first: its position in the timeline and 1, or 0 when it did not run.
 * Freed by the caller. */
uint32_t *dsf_step_spans(const struct dsf_trace *trace, uint32_t first,
                         uint32_t ntasks, unsigned nsteps);

/* The part of the time that is shown. */
struct dsf_window {
    double begin, end;
};

/* From the first moment to the last. */
struct dsf_window dsf_window_whole(const struct dsf_trace *trace);

/* From the first of the steps "10:12" to the end of the last; "10" is one step,
 * "10:" all from it on. Numbers are those of the run. */
int dsf_window_parse(const char *text, const struct dsf_trace *trace,
                     const struct dsf_laps *steps, struct dsf_window *window,
                     struct dsflow_err *err);

#endif
