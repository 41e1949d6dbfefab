/* token_cache.h - tokens on disk, so that the same text is encoded once. */
#ifndef DSF_TEXT_TOKEN_CACHE_H
#define DSF_TEXT_TOKEN_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Tokens of the training text, then those of the validation text. */
struct dsf_token_store {
    const void *tokens;         /* uint16_t or uint32_t */
    unsigned width;             /* bytes of a token: 2 or 4 */
    uint64_t train, validation; /* numbers of tokens */
    uint32_t most;              /* the greatest token */
    void *map; /* the file, or NULL when `tokens` are in memory */
    size_t map_bytes;
};

/* Map the cache of `key`. False if there is none, or what is there is not it or
 * is damaged. */
bool dsf_token_cache_open(const char *dir, uint64_t key,
                          struct dsf_token_store *store);
/* Write the cache of `key` and map it in place of the memory. Where that
 * cannot be done a line says why, and the store stays as it is. */
void dsf_token_cache_write(const char *dir, uint64_t key,
                           struct dsf_token_store *store);
void dsf_token_store_fini(struct dsf_token_store *store);

#endif
