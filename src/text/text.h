/* text.h - from text files to batches of tokens. */
#ifndef DSF_TEXT_TEXT_H
#define DSF_TEXT_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <dsflow/batches.h>
#include <dsflow/error.h>
#include "config/job.h"

struct dsf_tokenizer; /* opaque */

/* `spec` as in [data] tokenizer: "bytes", a tokenizer.json, a folder. */
int dsf_tokenizer_open(const char *spec, struct dsf_tokenizer **tok,
                       struct dsflow_err *err);
void dsf_tokenizer_free(struct dsf_tokenizer *tok);
/* Whether a folder has files of a tokenizer, which may still be refused. */
bool dsf_tokenizer_is_in(const char *folder);
bool dsf_tokenizer_is_bytes(const struct dsf_tokenizer *tok);
/* Whether the same ids stand for the same text. */
bool dsf_tokenizer_same(const struct dsf_tokenizer *a,
                        const struct dsf_tokenizer *b);
int32_t dsf_tokenizer_vocab(const struct dsf_tokenizer *tok); /* ids < this */
/* End-of-text token, or -1. */
int32_t dsf_tokenizer_eot(const struct dsf_tokenizer *tok);
/* Is a text that a model makes at its end there? With that token, and with what
 * the folder of the tokenizer says (eos_token_id), as an end of a turn. */
bool dsf_tokenizer_is_end(const struct dsf_tokenizer *tok, int32_t id);
/* The one that it puts before a text for its model, or -1. */
int32_t dsf_tokenizer_begin(const struct dsf_tokenizer *tok);
/* How many tokens `bytes` bytes of text are at most. */
int64_t dsf_tokenizer_most(const struct dsf_tokenizer *tok, int64_t bytes);
/* 64-bit hash of everything that decides what encode gives. */
uint64_t dsf_tokenizer_hash(const struct dsf_tokenizer *tok);
/* Files that make the tokenizer (NULL-terminated; empty for bytes). */
const char *const *dsf_tokenizer_files(const struct dsf_tokenizer *tok);

struct dsf_tokens {
    int32_t *v;
    size_t n, cap;
};
void dsf_tokens_fini(struct dsf_tokens *t);

/* Append the tokens of `text` (any bytes) to `out`. `special`: added tokens in
 * the text are recognised. Never fails on content: decode(encode(x)) = x, in
 * normal form C where the tokenizer asks for it, and behind the space that some
 * put in front. */
int dsf_encode(const struct dsf_tokenizer *tok, const char *text, size_t bytes,
               int special, struct dsf_tokens *out, struct dsflow_err *err);
/* The bytes of one token: borrowed; *n is their number. An id beyond the
 * vocabulary gives no bytes. */
const char *dsf_decode(const struct dsf_tokenizer *tok, int32_t id, size_t *n);

/* The text of a job as tokens, split and shuffled. */
struct dsf_corpus; /* opaque */

/* Are the files of [data] there, and may they have text for a sequence? Nothing
 * of them is read; DSFLOW_EFIT: they are too short. Without any to train on,
 * those to validate on are all. */
int dsf_corpus_check(const struct dsf_job *job, const struct dsf_tokenizer *tok,
                     int64_t sequence, struct dsflow_err *err);

/* Find the files of [data], encode them (or map the cache under
 * `<cache_dir>`, keyed by the contents, the tokenizer and the split) and cut
 * them in sequences of `sequence` tokens (+1 for the target of the last).
 * `vocab`: of the model, a token beyond it is an error. Files are joined by the
 * end-of-text token where there is one. */
int dsf_corpus_open(const struct dsf_job *job, const struct dsf_tokenizer *tok,
                    int64_t sequence, int32_t vocab, const char *cache_dir,
                    struct dsf_corpus **corpus, struct dsflow_err *err);
/* The same of tokens that the caller has. `own` is borrowed until close. Errors:
 * DSFLOW_EINVAL for what it lacks. */
int dsf_corpus_own(const struct dsflow_batches *own,
                   struct dsf_corpus **corpus, struct dsflow_err *err);
/* The first that the caller did not give, or that there are not: DSFLOW_EFAIL.
 */
int dsf_corpus_failed(struct dsf_corpus *corpus, struct dsflow_err *err);
void dsf_corpus_close(struct dsf_corpus *corpus);

struct dsf_corpus_info {
    int64_t bytes, train_tokens, validation_tokens;
    int64_t train_sequences, validation_sequences; /* of one epoch */
    double bytes_per_token; /* of the validation text (of all, without it) */
    uint64_t content; /* hash of the text, its tokenizer and its split */
    int cached;
};
void dsf_corpus_info(const struct dsf_corpus *corpus,
                     struct dsf_corpus_info *info);

/* Tokens pos .. pos+n of training sequence number `index` (0 .. without end:
 * epoch index / train_sequences, shuffled anew each epoch by the job's seed)
 * and the tokens that follow them. Thread-safe; no state. */
void dsf_corpus_train(struct dsf_corpus *corpus, int64_t index,
                      int64_t pos, int64_t n, int32_t *tokens,
                      int32_t *targets);
/* The same of validation sequence `index` (< validation_sequences). */
void dsf_corpus_validation(struct dsf_corpus *corpus, int64_t index,
                           int64_t pos, int64_t n, int32_t *tokens,
                           int32_t *targets);

#endif
