/* gpu_present.h - the GPUs of this machine as the simulator sees them:
 * measured, and kept in a file. */
#ifndef DSF_MEASURE_GPU_PRESENT_H
#define DSF_MEASURE_GPU_PRESENT_H

#include "machine/machine.h"
#include "measure/gpu_links.h"
#include "sim/rates.h"

/* Where what was measured of these GPUs is kept. Freed by the caller; NULL
 * without GPUs, or without a folder for it. */
char *dsf_gpu_present_path(const struct dsf_machine *machine);

/* What is kept, if it is of these GPUs. */
bool dsf_gpu_present_load(const struct dsf_machine *machine,
                          struct dsf_machine_model *m);

struct dsf_gpu_found {
    struct dsf_samples samples; /* times of tasks; v is freed by the caller */
    struct dsf_gpu_link_rates links;
};

/* Types in which models compute, the first of them fp32. */
struct dsf_gpu_how {
    bool quick;
    double seconds; /* of the tasks of each type, about */
    const enum dsflow_dtype *types;
    unsigned ntypes;
};

/* Measure all GPUs that the driver shows; `found` gets what the rates are made
 * of. Of the cores, what is known. A type of which nothing runs is left out.
 * Errors: DSFLOW_ENOSYS without a GPU; DSFLOW_EFAIL where nothing runs on it.
 */
int dsf_gpu_present_measure(const struct dsf_machine *machine,
                            const struct dsf_gpu_how *how,
                            struct dsf_machine_model *m,
                            struct dsf_gpu_found *found,
                            struct dsflow_err *err);

/* Add rates of what computes in bf16 or fp16, measured quickly; what is in `m`
 * stays. */
int dsf_gpu_present_add_type(const struct dsf_machine *machine,
                             enum dsflow_dtype type, double seconds,
                             struct dsf_machine_model *m,
                             struct dsflow_err *err);

#endif
