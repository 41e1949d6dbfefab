/* measured.h - figures that are measured several times, so that what disturbed
 * one of them shows. */
#ifndef DSF_MEASURE_MEASURED_H
#define DSF_MEASURE_MEASURED_H

#include "machine/machine_model.h"

/* Measure for about so many seconds. */
typedef int (*dsf_measure_fn)(void *user, double seconds, double *value,
                              struct dsflow_err *err);

struct dsf_measured {
    double value;   /* the middle one */
    double scatter; /* the largest less the smallest, as a share of it */
};

/* The largest less the smallest of `n` figures, as a share of the middle one,
 * which goes to *middle; sorts them. */
double dsf_scatter(double *v, unsigned n, double *middle);

/* A rate, of operations or bytes a second, that a machine can have. */
bool dsf_is_rate(double value);

/* A rate, three times, for `seconds` together. One that cannot be is measured
 * again, for longer each time; DSFLOW_EFAIL, with `name` and the figure, when
 * that does not help. */
int dsf_measure(const char *name, dsf_measure_fn measure, void *user,
                double seconds, struct dsf_measured *out,
                struct dsflow_err *err);

/* Measure a whole machine with `measure` until each of its rates is sound,
 * three times at most. Then those that are not get their default, and a warning
 * says so. Returns whether all were measured. */
bool dsf_measure_machine(void (*measure)(void *user,
                                         struct dsf_machine_model *m),
                         void *user, struct dsf_machine_model *m);

/* Warn of scatter that says that something else was running: `what` was
 * measured then, and what to do `again`. Nothing where there is none. */
void dsf_warn_of_scatter(const struct dsf_machine_model *m, const char *what,
                         const char *again);

#endif
