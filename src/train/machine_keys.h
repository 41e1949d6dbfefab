/* machine_keys.h - [machine] of a job, beside what there is. */
#ifndef DSF_TRAIN_MACHINE_KEYS_H
#define DSF_TRAIN_MACHINE_KEYS_H

#include "config/job.h"
#include "machine/machine.h"
#include "machine/machine_model.h"
#include "plan/plan.h"

/* More workers than cores share them: that is slower. */
void dsf_machine_keys_warn(const struct dsf_job *job,
                           const struct dsf_machine *machine);

/* An executor that has no devices leaves them out. */
void dsf_machine_keys_warn_of_gpus(const struct dsf_job *job);

/* So does a machine of cores that is described. */
void dsf_machine_keys_warn_of_model(const struct dsf_job *job,
                                    const struct dsf_machine_model *m);

/* The GPUs of the machine that the job may use: machine->gpus, and the memory
 * that those have for tensors which its ranks are on, less what CUDA takes as
 * it goes; of so many processes, the first looks at those of its ranks. Where
 * there are some, the model is laid out for them (dsf_model_pad).
 * DSFLOW_EINVAL: there are fewer than it asks for, and why. */
int dsf_machine_keys_find_gpus(const struct dsf_job *job, int32_t processes,
                               struct dsf_machine *machine,
                               struct dsf_model *model, struct dsflow_err *err);

/* In another process than the one that found them: is the last of these ranks'
 * GPUs there? The model is laid out as it is there. */
int dsf_machine_keys_share_gpus(const struct dsf_job *job, int32_t first,
                                int32_t ranks,
                                const struct dsf_machine *machine,
                                struct dsf_model *model,
                                struct dsflow_err *err);

/* Do its products round their operands to TF32? */
bool dsf_machine_keys_tf32(const struct dsf_job *job,
                           const struct dsf_machine *machine);

/* What the last bits of results depend on: "NVIDIA H200, CUDA 13.0, …", or
 * "cores". */
void dsf_machine_keys_describe(const struct dsf_machine *machine, char *text,
                               size_t size);

/* How many of them the ranks of a plan are on. */
unsigned dsf_machine_keys_gpus(const struct dsf_machine *machine,
                               const struct dsflow_plan *plan);

#endif
