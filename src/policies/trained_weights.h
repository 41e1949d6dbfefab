/* trained_weights.h - which weights of a job are trained to be quantized or
 * pruned. */
#ifndef DSF_POLICIES_TRAINED_WEIGHTS_H
#define DSF_POLICIES_TRAINED_WEIGHTS_H

#include "model/model.h"
#include "policies/keys.h"
#include "tasks/weight_form.h"

/* How the job has the weights of a unit; false where as they are, and where job
 * is NULL. It must have been decided that they can be had so (the policy
 * `weights`). */
bool dsf_trained_form(const struct dsf_job *job, const struct dsf_model *model,
                      const struct dsf_unit *unit,
                      struct dsf_weight_form *form);

/* Numbers of a whole unit as the model has them after so many updates. */
void dsf_trained_apply(const struct dsf_job *job, const struct dsf_model *model,
                       unsigned unit, int64_t updates, float *numbers);

#endif
