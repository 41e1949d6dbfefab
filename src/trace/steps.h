/* steps.h - the steps of a timeline: from when to when, and how near each came
 * to what was possible. */
#ifndef DSF_TRACE_STEPS_H
#define DSF_TRACE_STEPS_H

#include "timeline/bound.h"
#include "trace/trace.h"

/* The steps of a timeline in which each task stands with its step, as in that
 * of a simulation: from the end of the step before to its own, and bound by its
 * own tasks. To be ended by dsf_laps_fini. */
void dsf_laps_init(struct dsf_laps *laps, const struct dsf_trace *trace);

static inline double dsf_lap_efficiency(const struct dsf_lap *lap)
{
    return dsf_efficiency(lap->bound, lap->end - lap->begin);
}

/* Of the steps from..to-1, without those of which the bound is not known: what
 * they took, and the least that they could have taken; NAN: there are none. */
struct dsf_lap_sum {
    unsigned n;
    double seconds, bound, critical;
    double efficiency;
};
struct dsf_lap_sum dsf_laps_sum(const struct dsf_laps *laps, unsigned from,
                                unsigned to);

/* A figure of steps, as a value over time. */
struct dsf_figure {
    const char *name, *unit;                 /* "efficiency", "%" */
    double (*of)(const struct dsf_lap *lap); /* NAN: it is not known */
};
enum { DSF_EFFICIENCY, DSF_LOSS_SCALE, DSF_SKIPPED, DSF_NFIGURES };
extern const struct dsf_figure dsf_figures[DSF_NFIGURES];

/* Is the figure more than 0 in some step? Else there is nothing to show. */
bool dsf_laps_have(const struct dsf_laps *laps, const struct dsf_figure *f);

/* Loss scales of all steps, and how many of them updated nothing. */
struct dsf_lap_scales {
    double least, most; /* 0: losses are not scaled */
    unsigned n, skipped;
};
struct dsf_lap_scales dsf_laps_scales(const struct dsf_laps *laps);

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
