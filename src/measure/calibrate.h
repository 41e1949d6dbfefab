/* calibrate.h - how fast this machine is, measured on steps of small models. */
#ifndef DSF_MEASURE_CALIBRATE_H
#define DSF_MEASURE_CALIBRATE_H

#include "machine/machine.h"
#include "sim/rates.h"

enum dsf_calibration {
    DSF_CALIBRATE_QUICK, /* in three seconds */
    DSF_CALIBRATE_FULL
};

/* Run steps of models of several shapes on `workers` threads, computed in
 * `type` (fp32, bf16 or fp16), and append what their tasks took. */
void dsf_calibrate_tasks(const struct dsf_machine *machine, unsigned workers,
                         enum dsf_calibration how, enum dsflow_dtype type,
                         struct dsf_samples *samples);

/* The same on the GPUs of machine->gpus, in about so many seconds: from small
 * models to large ones, until one would take longer than what is left, or
 * fails: `err` then says why. Quickly, half of the time is for the largest, if
 * it is within reach. Returns how many were measured. */
unsigned dsf_calibrate_gpus(const struct dsf_machine *machine,
                            enum dsf_calibration how, enum dsflow_dtype type,
                            double seconds, struct dsf_samples *samples,
                            struct dsflow_err *err);

/* Seconds of a task beside its kernel, in m->main.overhead: what makes the
 * simulated step of a small model as long as StarPU takes for it. After the
 * rates. DSFLOW_EFAIL, and the overhead as it was, where StarPU does not start.
 */
int dsf_calibrate_overhead(const struct dsf_machine *machine,
                           struct dsf_machine_model *m, struct dsflow_err *err);

/* Seconds of a step on a machine. */
typedef double (*dsf_step_fn)(const void *user,
                              const struct dsf_machine_model *m);

/* The same where a step took so many seconds. No runtime takes more than 200 us
 * for a task: where the step takes longer, something else was running, so that
 * the overhead stays as it was, and m->scatter.overhead says by what share. */
void dsf_overhead_fit(struct dsf_machine_model *m, double seconds,
                      dsf_step_fn step, const void *user);

#endif
