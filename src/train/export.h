/* export.h - a model and its tokenizer as a Hugging Face folder. */
#ifndef DSF_TRAIN_EXPORT_H
#define DSF_TRAIN_EXPORT_H

#include "train/session.h"

/* Write the folder that transformers loads: config.json, the weights that
 * `read` gives, as the model has them after so many updates, in `dtype`
 * (DSFLOW_FP32, DSFLOW_BF16 or DSFLOW_FP16), and the files of the tokenizer. It
 * appears whole or not at all. Errors: those of dsf_tokenizer_export and
 * dsf_hf_export. */
int dsf_export(const struct dsf_session *s, const char *folder,
               enum dsflow_dtype dtype, int64_t updates, dsf_unit_fn read,
               void *user, struct dsflow_err *err);

#endif
