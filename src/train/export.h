/* export.h - a model and its tokenizer as a Hugging Face folder. */
#ifndef DSF_TRAIN_EXPORT_H
#define DSF_TRAIN_EXPORT_H

#include "train/pruning.h"

struct dsf_export_spec {
    const char *folder;
    enum dsflow_dtype dtype; /* DSFLOW_FP32, DSFLOW_BF16 or DSFLOW_FP16 */
    int64_t updates;         /* that made the weights */
    dsf_unit_fn read;        /* the weights */
    void *user;
    const struct dsf_prune *prune; /* what stays of them; NULL: all */
};

/* Write the folder that transformers loads: config.json, the weights as the
 * model has them after so many updates, and the files of the tokenizer. It
 * appears whole or not at all. Errors: those of dsf_tokenizer_export,
 * dsf_prune_model and dsf_hf_export. */
int dsf_export(const struct dsf_session *s, const struct dsf_export_spec *spec,
               struct dsflow_err *err);

#endif
