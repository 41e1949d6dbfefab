/* model_sizes.h - what a model is made of before its units are laid out. */
#ifndef DSF_MODEL_MODEL_SIZES_H
#define DSF_MODEL_MODEL_SIZES_H

#include "model/model.h"

/* From `family` to `windows`, of a model that is all zeroes. On error it needs
 * dsf_model_fini as well. */
int dsf_model_find_sizes(struct dsf_model *model, const struct dsf_job *job,
                         struct dsflow_err *err);

#endif
