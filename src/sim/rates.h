/* rates.h - from the times of tasks to the rates of their kinds. */
#ifndef DSF_SIM_RATES_H
#define DSF_SIM_RATES_H

#include "machine/machine_model.h"
#include "sim/cost.h"

/* Times of tasks that were alike. */
struct dsf_rate_sample {
    const char *kind; /* borrowed, of an op */
    struct dsf_work work;
    double seconds; /* the lower quartile of their times */
    double spread;  /* seconds from there to the upper one */
    unsigned n;     /* how many they were */
    enum dsflow_dtype dtype; /* bf16 or fp16; DSFLOW_BYTES: any other */
};
struct dsf_samples {
    struct dsf_rate_sample *v;
    size_t n, cap;
};

/* The type that the sample of a task has. */
enum dsflow_dtype dsf_sample_type(const struct dsflow_graph *g,
                                  const struct dsflow_task_spec *t);

/* Where the same was measured before, the shorter time counts. */
void dsf_samples_add(struct dsf_samples *samples,
                     const struct dsf_rate_sample *sample);

/* The spread as a share of the time, of all tasks that are long enough for it
 * to mean something; 0: there are none. */
double dsf_samples_scatter(const struct dsf_samples *samples);

/* -1, 0 or 1, for sorting. */
int dsf_work_order(const struct dsf_work *x, const struct dsf_work *y);

/* Leave only what says something new: samples of kinds of which `m` has no rate
 * in their type. */
void dsf_samples_keep_new(struct dsf_samples *samples,
                          const struct dsf_machine_model *m);

/* The most operations a second in a type, of tasks that are long enough; 0:
 * there are none. */
double dsf_samples_flops(const struct dsf_samples *samples,
                         enum dsflow_dtype dtype);

/* Rates of every kind and type, none below 0, that best agree with the samples:
 * least squares of the relative error. Kinds without samples keep theirs. */
void dsf_rates_fit(const struct dsf_samples *samples,
                   struct dsf_machine_model *m);

#endif
