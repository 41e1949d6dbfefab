/* generate.h - a model that is fed a token at a time. */
#ifndef DSF_TRAIN_GENERATE_H
#define DSF_TRAIN_GENERATE_H

#include <dsflow/error.h>
#include <dsflow/exec.h>

#include "train/text_weights.h"

struct dsf_generator; /* opaque: a model, and the tokens it was fed */

struct dsf_generator_spec {
    const struct dsf_model *model; /* borrowed, as the job, which says what
                                      computes its segments, in which type, */
    const struct dsf_job *job;     /* and how many workers there are; NULL: the
                                      built-in ones, fp32, one for each core */
    const struct dsf_text_weights *weights; /* of them; borrowed */
    unsigned workers;              /* 0: as the job says */
    bool other;                    /* another executor than the usual one: */
    enum dsflow_exec_kind kind;
};

int dsf_generator_new(const struct dsf_generator_spec *spec,
                      struct dsf_generator **gen, struct dsflow_err *err);
void dsf_generator_free(struct dsf_generator *gen); /* NULL is fine */

/* Bytes that one needs: most are keys and values. */
double dsf_generator_bytes(const struct dsf_model *model,
                           const struct dsf_job *job);

/* Append tokens. More than fit in the model's context: DSFLOW_EFIT. */
int dsf_generator_feed(struct dsf_generator *gen, const int32_t *tokens,
                       size_t n, struct dsflow_err *err);

/* Of the token after the last one fed: vocab numbers. */
const float *dsf_generator_logits(const struct dsf_generator *gen);

#endif
