/* generate.h - text from a model, a token at a time. */
#ifndef DSF_TRAIN_GENERATE_H
#define DSF_TRAIN_GENERATE_H

#include <stdbool.h>
#include <stdio.h>
#include <dsflow/error.h>

#include "model/model.h"
#include "text/text.h"

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

struct dsf_sampling {
    double temperature; /* 0: the likeliest token */
    double top_p;       /* 1: all */
    int64_t top_k;      /* 0: all */
    uint64_t seed;
    bool quiet; /* no word of a context that is full */
    int (*stopped)(void); /* not 0: no more tokens; or NULL */
};

/* Choose a token < vocab; `state` starts as the seed and is carried on. The
 * k likeliest first, of those the fewest whose share is top_p or more, as
 * Hugging Face does. */
int32_t dsf_sample(const struct dsf_sampling *s, const float *logits,
                   int32_t vocab, uint64_t *state);

/* Print `prompt` and up to `tokens` tokens after it, as UTF-8 (U+FFFD for what
 * is none); ends at the end-of-text token, or when the context is full, with a newline. */
int dsf_generate_print(const struct dsf_model *model,
                       const struct dsf_job *job, float *const *params,
                       const struct dsf_tokenizer *tok, const char *prompt,
                       size_t bytes, int64_t tokens,
                       const struct dsf_sampling *sampling, FILE *out,
                       struct dsflow_err *err);

/* Does the prompt of [sample] fit in the context? Where not all of its tokens
 * do, that is a warning. */
int dsf_sample_check(const struct dsf_job *job, const struct dsf_model *model,
                     const struct dsf_tokenizer *tok, struct dsflow_err *err);

#endif
