/* model_inputs.h - which inputs of matrices are rounded, by [activations]. */
#ifndef DSF_MODEL_MODEL_INPUTS_H
#define DSF_MODEL_MODEL_INPUTS_H

#include "model/model.h"

/* Into the sizes of layers. */
void dsf_model_find_inputs(struct dsf_model *m, const struct dsf_job *job);

/* Does the job round them, but not as yet, after so many updates? */
bool dsf_inputs_wait(const struct dsf_job *job, int64_t updates);

/* Does each segment round its inputs, and are they whole groups? */
int dsf_model_check_inputs(const struct dsf_model *m, const struct dsf_job *job,
                           struct dsflow_err *err);

#endif
