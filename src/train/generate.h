/* generate.h - a model that is fed a token at a time. */
#ifndef DSF_TRAIN_GENERATE_H
#define DSF_TRAIN_GENERATE_H

#include <dsflow/error.h>

#include "model/model.h"

struct dsf_generator; /* opaque: a model, and the tokens it was fed */

/* `params` by unit; borrowed, like the model and the job, which says what
 * computes its segments (NULL: the built-in ones). */
int dsf_generator_new(const struct dsf_model *model, const struct dsf_job *job,
                      float *const *params,
                      struct dsf_generator **gen, struct dsflow_err *err);
void dsf_generator_free(struct dsf_generator *gen); /* NULL is fine */

/* Bytes that one needs: most are keys and values. */
double dsf_generator_bytes(const struct dsf_model *model);

/* Append tokens. More than fit in the model's context: DSFLOW_EFIT. */
int dsf_generator_feed(struct dsf_generator *gen, const int32_t *tokens,
                       size_t n, struct dsflow_err *err);

/* Of the token after the last one fed: vocab numbers. */
const float *dsf_generator_logits(const struct dsf_generator *gen);

#endif
