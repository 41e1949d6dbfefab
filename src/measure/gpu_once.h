/* gpu_once.h - the GPUs of this machine, measured quickly by the first plan or
 * run that is on them. */
#ifndef DSF_MEASURE_GPU_ONCE_H
#define DSF_MEASURE_GPU_ONCE_H

#include "config/job.h"
#include "machine/machine.h"
#include "machine/machine_model.h"

/* What is kept of the GPUs, with rates in the type that the job computes in:
 * what is missing is measured and kept. It takes all GPUs that the driver
 * shows, in this process: so nothing is measured where the job leaves some of
 * them alone, or runs in several processes, where others use them, or where the
 * environment has DSFLOW_MEASURE_GPUS=no. Before an executor is open. Returns
 * whether anything is known of them: `m` is to be freed then. */
bool dsf_gpu_once(const struct dsf_machine *machine, const struct dsf_job *job,
                  struct dsf_machine_model *m);

#endif
