/* key_tiles.h - tiles whose keys and values stand in one buffer. A task of
 * attention takes one buffer of them, so that a layer has a number of tasks
 * that grows with the sequence, and not with its square. */
#ifndef DSF_PLAN_KEY_TILES_H
#define DSF_PLAN_KEY_TILES_H

#include "plan/plan.h"

/* The buffer that has the keys and values of a tile: those of tiles `first` to
 * `end` - 1, which follow each other in a sequence and never go beyond its
 * stretch (stretch.h). It is called after the first of them. */
struct dsf_key_buffer {
    int32_t first, end;
    int32_t number; /* among those of a micro-batch */
    int32_t rows;   /* of them all */
    int32_t each;   /* rows of each tile but the last; 0: there is one */
};
struct dsf_key_buffer dsf_plan_key_buffer(const struct dsflow_plan *plan,
                                          int32_t t);

/* The tile that the buffer of tile `t` is called after. */
int32_t dsf_plan_key_tile(const struct dsflow_plan *plan, int32_t t);

/* Set plan->sequence_tiles and plan->key_tiles of a plan whose tiles are cut
 * and whose layouts are there: a sixteenth of the tiles that a tile sees at
 * most, rounded up, so that the tasks of a tile of queries are 16 or fewer, and
 * gradients of keys, which tiles add to one after the other, still keep as many
 * workers busy. Where layouts leave little to do in all layers, a task takes
 * the more tiles. It follows from the job alone, though no bits depend on it.
 */
void dsf_plan_cut_keys(struct dsflow_plan *plan);

#endif
