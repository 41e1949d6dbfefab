/* parts.h - what each of T tensor ranks has of a unit: the rows of its heads,
 * its columns of the feed-forward, its rows of the vocabulary; and what all of
 * them need whole, which is a small part of its own (norms, the biases that are
 * added once, keys and values of fewer heads than ranks). Padding is zeroes in
 * both.
 *
 * Part p < T is tensor rank p's. Part T is what they share, and rank 0 keeps it
 * for all. A part that would be empty has no elems.
 */
#ifndef DSF_MODEL_PARTS_H
#define DSF_MODEL_PARTS_H

#include "model/model.h"

/* Rows of a tensor in a part, and where they stand in the whole unit. */
struct dsf_block {
    int64_t at_part, at_whole, rows, cols, ld_part, ld_whole;
};

#define DSF_MAX_BLOCKS 6

struct dsf_part {
    char name[64]; /* "layer3.qkv.p1", "layer3.qkv.shared" */
    unsigned unit;
    int32_t part;
    int64_t elems, decay, block; /* as of a unit */
    unsigned nblocks;
    struct dsf_block blocks[DSF_MAX_BLOCKS];

    /* Offsets within the part, -1 where it has none. w: the first matrix (wte,
     * qkv, out, W1, head; in a shared part the rows of all keys, then of all
     * values); w2: the second (wpe, W2); b: the bias of the first, or in a
     * shared part the one that a segment adds to its output. */
    int64_t w, w2, b, norm_w, norm_b;
    /* Rows first .. first + count of the vocabulary, and of the positions. */
    int32_t first, count, first_pos, npos;
};

/* Of `n` things in order, how many are of part `p`, and the first. The first
 * n mod parts have one more. */
int32_t dsf_share(int32_t n, int32_t parts, int32_t p, int32_t *first);

/* Are there fewer heads of keys than ranks? Then several ranks use the same. */
bool dsf_parts_share_kv(const struct dsf_model *model, int32_t parts);

/* Part `index` of `unit`, as above. With one part, part 0 is the unit. */
void dsf_part_init(struct dsf_part *part, const struct dsf_model *model,
                   int32_t parts, unsigned unit, int32_t index);

/* From the whole unit, or into it (only what the part has). */
void dsf_part_split(const struct dsf_part *part, const float *whole,
                    float *own);
void dsf_part_merge(const struct dsf_part *part, const float *own,
                    float *whole);

#endif
