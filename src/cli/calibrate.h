/* calibrate.h - how fast this machine is, measured on steps of small models. */
#ifndef DSF_CLI_CALIBRATE_H
#define DSF_CLI_CALIBRATE_H

#include <stdbool.h>
#include <stdio.h>

#include "machine/machine.h"
#include "machine/machine_model.h"

enum dsf_calibration {
    DSF_CALIBRATE_QUICK, /* in three seconds */
    DSF_CALIBRATE_FULL
};

/* Times of tasks that were alike. */
struct dsf_sample {
    const char *kind; /* of an op */
    double flops, bytes, seconds;
    unsigned n; /* how many they were */
};
struct dsf_samples {
    struct dsf_sample *v;
    size_t n, cap;
};

/* Run steps of models of several shapes on `workers` threads and append what
 * their tasks took. `log` gets a line for each; NULL is fine. */
int dsf_calibrate_tasks(const struct dsf_machine *machine, unsigned workers,
                        enum dsf_calibration how, struct dsf_samples *samples,
                        FILE *log, struct dsflow_err *err);

/* Rates of every kind that best agree with the samples: least squares of the
 * relative error. */
void dsf_calibrate_fit(const struct dsf_samples *samples,
                       struct dsf_machine_model *m);

#endif
