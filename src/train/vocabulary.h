/* vocabulary.h - which tokenizer goes with a model. */
#ifndef DSF_TRAIN_VOCABULARY_H
#define DSF_TRAIN_VOCABULARY_H

#include "train/session.h"

/* Open the tokenizer of the job: the one that data.tokenizer names, or else
 * that of the folder its model starts from. Before the model. */
int dsf_vocabulary_open(struct dsf_session *s, struct dsflow_err *err);

/* A model with fewer tokens than the tokenizer is an error. For a model that
 * starts from a folder, other tokens than those it was trained with are a
 * warning. */
int dsf_vocabulary_check(const struct dsf_session *s, struct dsflow_err *err);

/* Has the model all tokens of a tokenizer, so that text can go through it? */
int dsf_vocabulary_fits(const struct dsf_job *job, const struct dsf_model *m,
                        const struct dsf_tokenizer *tok,
                        struct dsflow_err *err);

/* The folder the model starts from, or that where a run has kept what was in
 * it, if the tokenizer is the one in it; freed by the caller. Else NULL. */
char *dsf_vocabulary_source(const struct dsf_session *s);

/* A line for people where the job does not say which tokenizer it is. */
void dsf_vocabulary_say(const struct dsf_session *s);

#endif
