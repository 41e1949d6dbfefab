/* machine_keys.h - [machine] of a job, beside what there is. */
#ifndef DSF_TRAIN_MACHINE_KEYS_H
#define DSF_TRAIN_MACHINE_KEYS_H

#include "config/job.h"
#include "machine/machine.h"

/* More workers than cores share them: that is slower. */
void dsf_machine_keys_warn(const struct dsf_job *job,
                           const struct dsf_machine *machine);

#endif
