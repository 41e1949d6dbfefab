/* bpe_vocab.h - what byte pair encoding looks up. */
#ifndef DSF_TEXT_BPE_VOCAB_H
#define DSF_TEXT_BPE_VOCAB_H

#include "text/bpe.h"

/* Strings by number, and numbers by string. */
struct dsf_strings {
    char *text;
    size_t n, cap;
    struct dsf_span {
        size_t at, len;
        bool there;
    } * spans; /* by number */
    size_t nspans, spans_cap;
    uint32_t *slots; /* a hash table: number + 1, or 0 */
    size_t nslots, used;
};

int32_t dsf_strings_find(const struct dsf_strings *s, const char *text,
                         size_t n); /* or -1 */

struct dsf_pair_merge {
    uint64_t pair; /* left << 32 | right; UINT64_MAX: free */
    uint32_t rank; /* DSF_NO_RANK where it is free */
    uint32_t id;   /* of the two together */
};
#define DSF_NO_RANK UINT32_MAX

#define DSF_ALPHABET 0x144 /* the characters of GPT-2's alphabet are below */

struct dsf_bpe {
    struct dsf_strings names, bytes;
    struct dsf_pair_merge *merges; /* a hash table */
    size_t mask, nmerges;
    uint32_t next_rank;
    int32_t byte[256];              /* token of each byte */
    int16_t alphabet[DSF_ALPHABET]; /* byte of each character, or -1 */
    bool ignore_merges;
    /* Of characters: what merges make. */
    bool characters;
    bool spaces_behind; /* a space behind something else */
    bool lines;         /* of more than one line */
};

/* The merge of a pair, or the free place where it would be. */
static inline struct dsf_pair_merge *
dsf_bpe_find_merge(const struct dsf_bpe *bpe, uint32_t left, uint32_t right)
{
    uint64_t pair = (uint64_t)left << 32 | right;
    uint64_t hash = pair * 0x9e3779b97f4a7c15u;
    size_t i = (size_t)(hash ^ hash >> 32) & bpe->mask;

    while (bpe->merges[i].pair != UINT64_MAX && bpe->merges[i].pair != pair)
        i = (i + 1) & bpe->mask;
    return &bpe->merges[i];
}

#endif
