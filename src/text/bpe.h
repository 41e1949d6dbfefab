/* bpe.h - byte pair encoding (Sennrich et al. 2016): over bytes, which have
 * GPT-2's alphabet, or over characters, as SentencePiece has it. */
#ifndef DSF_TEXT_BPE_H
#define DSF_TEXT_BPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "text/text.h"

/* Ids are below this: no vocabulary is near, and a damaged one stays small. */
#define DSF_MOST_TOKENS (1 << 22)

/* What stands for a space in names over characters: U+2581. */
#define DSF_SPACE "\xe2\x96\x81"

struct dsf_bpe;       /* opaque */
struct dsf_bpe_cache; /* opaque: words that were seen */

/* The character of GPT-2's alphabet for a byte, with a NUL. */
void dsf_bpe_byte_name(unsigned byte, char name[3]);

struct dsf_bpe *dsf_bpe_new(void);
void dsf_bpe_free(struct dsf_bpe *bpe);

/* Before the first token: words are of characters. U+2581 in a name, and in a
 * text, is a space, and what is no token is its bytes, "<0x00>" to "<0xFF>". */
void dsf_bpe_of_characters(struct dsf_bpe *bpe);

/* A token by its name, in which every byte is a character of GPT-2's alphabet
 * ("Ġthe" is " the"). */
int dsf_bpe_token(struct dsf_bpe *bpe, const char *name, size_t n, int64_t id,
                  struct dsflow_err *err);
/* The next merge, by the names of its two tokens. */
int dsf_bpe_merge(struct dsf_bpe *bpe, const char *left, size_t nleft,
                  const char *right, size_t nright, struct dsflow_err *err);
/* All is there: is every byte a token? `ignore_merges`: a word that is a token
 * is that token, whatever the merges say. */
int dsf_bpe_finish(struct dsf_bpe *bpe, bool ignore_merges,
                   struct dsflow_err *err);

/* Of characters: does no merge make a token of two words, where spaces begin
 * words? Of two lines? Then a text may be cut there. */
bool dsf_bpe_keeps_words(const struct dsf_bpe *bpe);
bool dsf_bpe_keeps_lines(const struct dsf_bpe *bpe);

int32_t dsf_bpe_vocab(const struct dsf_bpe *bpe); /* ids are below */
size_t dsf_bpe_count(const struct dsf_bpe *bpe);  /* tokens */
/* Whether every token is a byte, and its id the value of that byte. */
bool dsf_bpe_is_bytes(const struct dsf_bpe *bpe);
int32_t dsf_bpe_find(const struct dsf_bpe *bpe, const char *name,
                     size_t n); /* an id, or -1 */
bool dsf_bpe_has(const struct dsf_bpe *bpe, int32_t id);
/* The bytes of a token; of none where there is no such token. */
const char *dsf_bpe_bytes(const struct dsf_bpe *bpe, int32_t id, size_t *n);

struct dsf_bpe_cache *dsf_bpe_cache_new(void);
void dsf_bpe_cache_free(struct dsf_bpe_cache *cache);

/* Append the tokens of one word. `cache` may be NULL. */
void dsf_bpe_encode(const struct dsf_bpe *bpe, struct dsf_bpe_cache *cache,
                    const char *word, size_t n, struct dsf_tokens *out);

#endif
