/* rates.h - from the times of tasks to the rates of their kinds. */
#ifndef DSF_SIM_RATES_H
#define DSF_SIM_RATES_H

#include "machine/machine_model.h"
#include "sim/cost.h"

/* Times of tasks that were alike. */
struct dsf_sample {
    const char *kind; /* borrowed, of an op */
    struct dsf_work work;
    double seconds; /* the lower quartile of their times */
    double spread;  /* seconds from there to the upper one */
    unsigned n;     /* how many they were */
};
struct dsf_samples {
    struct dsf_sample *v;
    size_t n, cap;
};

/* Where the same was measured before, the shorter time counts. */
void dsf_samples_add(struct dsf_samples *samples,
                     const struct dsf_sample *sample);

/* The spread as a share of the time, of all tasks that are long enough for it
 * to mean something; 0: there are none. */
double dsf_samples_scatter(const struct dsf_samples *samples);

/* -1, 0 or 1, for sorting. */
int dsf_work_order(const struct dsf_work *x, const struct dsf_work *y);

/* Rates of every kind, none below 0, that best agree with the samples: least
 * squares of the relative error. Kinds without samples keep theirs. */
void dsf_rates_fit(const struct dsf_samples *samples,
                   struct dsf_machine_model *m);

#endif
