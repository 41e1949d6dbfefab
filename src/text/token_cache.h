/* token_cache.h - tokens on disk, so that the same text is encoded once. */
#ifndef DSF_TEXT_TOKEN_CACHE_H
#define DSF_TEXT_TOKEN_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <dsflow/error.h>

/* Tokens of the training text, then those of the validation text. */
struct dsf_token_store {
    const void *tokens;         /* uint16_t or uint32_t */
    unsigned width;             /* bytes of a token: 2 or 4 */
    uint64_t train, validation; /* numbers of tokens, */
    uint64_t train_bytes, validation_bytes; /* and bytes of text */
    uint32_t most;              /* the greatest token */
    void *map;                  /* the file, or one in memory */
    size_t map_bytes;
};

/* Map the cache of `key`. False if there is none, or what is there is not it or
 * is damaged. */
bool dsf_token_cache_open(const char *dir, uint64_t key,
                          struct dsf_token_store *store);
void dsf_token_store_fini(struct dsf_token_store *store);

/* Tokens on their way to the cache of `key`. Where that cannot be written, or
 * not on, a line says why, and they go to memory. */
struct dsf_token_writer; /* opaque */
struct dsf_token_writer *dsf_token_writer_new(const char *dir, uint64_t key,
                                              unsigned width);
void dsf_token_writer_put(struct dsf_token_writer *writer, const int32_t *ids,
                          size_t n);
uint64_t dsf_token_writer_count(const struct dsf_token_writer *writer);
/* The training text, whose tokens come first, and that for validation. */
struct dsf_token_split {
    uint64_t train, train_bytes, validation_bytes;
};
/* All are there: they are mapped. DSFLOW_ENOMEM: no room for them; DSFLOW_EIO:
 * what was written reads otherwise. Either way the writer is no more. */
int dsf_token_writer_end(struct dsf_token_writer *writer,
                         const struct dsf_token_split *split,
                         struct dsf_token_store *store, struct dsflow_err *err);
void dsf_token_writer_drop(struct dsf_token_writer *writer);

#endif
