/* sample.h - text from a model: which token comes next, and what they say. */
#ifndef DSF_TRAIN_SAMPLE_H
#define DSF_TRAIN_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>
#include <dsflow/error.h>

#include "model/model.h"
#include "text/text.h"
#include "train/text_weights.h"

struct dsf_sampling {
    double temperature; /* 0: the likeliest token */
    double top_p;       /* 1: all */
    int64_t top_k;      /* 0: all */
    uint64_t seed;
    unsigned workers; /* 0: as machine.workers says */

    void *user;
    /* Text as it comes, whole characters of UTF-8 (U+FFFD for what is none). */
    void (*on_text)(void *user, const char *text, size_t n);
    bool (*is_stopped)(void *user); /* true: no more tokens; or NULL */
};

/* Choose a token < vocab; `state` starts as the seed and is carried on. The
 * k likeliest first, of those the fewest whose share is top_p or more, as
 * Hugging Face does. */
int32_t dsf_sample(const struct dsf_sampling *s, const float *logits,
                   int32_t vocab, uint64_t *state);

/* What was made: fewer tokens than asked for where `is_stopped` or the
 * end-of-text token ended it, or the model's context is full. */
struct dsf_sampled {
    int64_t tokens;
    bool full;
};

/* `prompt` and up to `tokens` tokens after it go to `on_text`. */
int dsf_generate(const struct dsf_model *model, const struct dsf_job *job,
                 const struct dsf_text_weights *weights,
                 const struct dsf_tokenizer *tok, const char *prompt,
                 size_t bytes, int64_t tokens,
                 const struct dsf_sampling *sampling,
                 struct dsf_sampled *sampled, struct dsflow_err *err);

/* Does the prompt of [sample] fit in the context? Where not all of its tokens
 * do, that is a warning. */
int dsf_sample_check(const struct dsf_job *job, const struct dsf_model *model,
                     const struct dsf_tokenizer *tok, struct dsflow_err *err);

#endif
