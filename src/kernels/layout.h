/* layout.h - a layout of sparse attention as tasks have it: which blocks of
 * keys the queries of a block see, as bits; and which of them a task packs. */
#ifndef DSF_KERNELS_LAYOUT_H
#define DSF_KERNELS_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

/* Row r of head h is the `words` words from bits + h apart + r words on; bit c
 * of it (bit c % 64 of word c / 64): block r of queries sees block c of keys.
 * No bit is behind the queries (c > r). */
struct dsf_layout {
    const uint64_t *bits; /* NULL: all blocks are seen */
    size_t block;         /* tokens */
    size_t words, apart;  /* apart: 0 where all heads have the same */
};

static inline size_t dsf_layout_words(size_t blocks)
{
    return (blocks + 63) / 64;
}

static inline const uint64_t *dsf_layout_row(const struct dsf_layout *l,
                                             size_t head, size_t row)
{
    return l->bits + head * l->apart + row * l->words;
}

/* The first column from `c` on that a row sees; `end` where there is none
 * before that. */
size_t dsf_layout_next(const uint64_t *row, size_t c, size_t end);

/* A tile of queries and one of keys: where they stand in their sequence, how
 * many there are, and how many tokens a query sees at most (0: any). */
struct dsf_layout_pair {
    size_t pos, queries, key_pos, keys, window;
};

/* The columns that the keys have a part of: first .. end. */
static inline size_t dsf_layout_first(const struct dsf_layout *l,
                                      const struct dsf_layout_pair *p)
{
    return p->key_pos / l->block;
}

static inline size_t dsf_layout_end(const struct dsf_layout *l,
                                    const struct dsf_layout_pair *p)
{
    return (p->key_pos + p->keys + l->block - 1) / l->block;
}

/* The keys of a column that are packed: the first one, how many, and where they
 * stand among those that are packed: at a multiple of 16. */
struct dsf_layout_slot {
    uint32_t key, n, at;
};

/* Fill slots[column - first], n = 0 where none of the `heads` heads from `head`
 * on sees the column, or the window hides all of it. Returns how many keys
 * there is room for, a multiple of 16. `slots` may be NULL. */
size_t dsf_layout_pack(const struct dsf_layout *l,
                       const struct dsf_layout_pair *p, size_t head,
                       size_t heads, struct dsf_layout_slot *slots);

/* Pairs of a query and a key that it sees, in these heads. */
double dsf_layout_count(const struct dsf_layout *l,
                        const struct dsf_layout_pair *p, size_t head,
                        size_t heads);

#endif
