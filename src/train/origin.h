/* origin.h - what a model starts from: model.init. */
#ifndef DSF_TRAIN_ORIGIN_H
#define DSF_TRAIN_ORIGIN_H

#include "train/session.h"

/* Find what model.init names: nothing, a Hugging Face folder, or a run, whose
 * newest checkpoint it then is; or a checkpoint. Sizes of the model and the
 * tokenizer that the job leaves open are those of the run; sizes that are given
 * must be the same. Where it is not there any more, the sizes are those that
 * the run itself has kept, if the job is that of one. Before the tokenizer. */
int dsf_origin_find(struct dsf_session *s, struct dsflow_err *err);

/* The error where model.init names nothing that is there. */
int dsf_origin_lost(const struct dsf_session *s, struct dsflow_err *err);

/* The job as one that says the sizes of its model and begins with random
 * weights, for who has its text and nothing else. */
int dsf_origin_say(const struct dsf_session *s, struct dsf_job *job,
                   struct dsflow_err *err);

/* Warns where the tokenizer is not that of the run. */
void dsf_origin_check_tokenizer(const struct dsf_session *s);

#endif
