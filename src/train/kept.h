/* kept.h - what a run has of what it began with, in case that is not there any
 * more: a run may be moved to another machine, alone. */
#ifndef DSF_TRAIN_KEPT_H
#define DSF_TRAIN_KEPT_H

#include "train/session.h"

/* Was the job read from the folder of its run? */
bool dsf_kept_is_run(const struct dsf_session *s);

/* The tokenizer, as the files of a folder that transformers loads, in the
 * output folder; none of bytes. Errors: DSFLOW_EIO, DSFLOW_EINVAL. */
int dsf_kept_write_tokenizer(const struct dsf_session *s,
                             struct dsflow_err *err);

/* Where that is, if the job is that of a run that has it; freed by the caller.
 * Else NULL. */
char *dsf_kept_tokenizer(const struct dsf_session *s);

/* Is it the tokenizer of a checkpoint, which is `of` this, or not known? */
bool dsf_kept_is_of(const struct dsf_ckpt_fields *of,
                    const struct dsf_tokenizer *tok);

/* What the newest checkpoint of a run is of, or a checkpoint: `folder`. Nothing
 * is checked. */
void dsf_kept_fields(const char *folder, struct dsf_ckpt_fields *of);

/* The newest checkpoint of the run that the job is that of, whose sizes are
 * those of the model; *folder is NULL where there is none. */
int dsf_kept_checkpoint(const struct dsf_session *s, char **folder,
                        struct dsflow_err *err);

#endif
