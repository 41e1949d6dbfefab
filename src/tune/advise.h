/* advise.h - of all that could be changed, what makes the steps of a trace
 * shorter. */
#ifndef DSF_TUNE_ADVISE_H
#define DSF_TUNE_ADVISE_H

#include "explain/advice.h"

/* Never fails: `missing` says what went wrong. `load` is for plug-ins of the
 * job, as in dsf_job_read. */
void dsf_advise(struct dsf_advices *advices, const struct dsf_account *a,
                dsf_load_fn load);

#endif
