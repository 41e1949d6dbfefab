/* levels.h - how many members share by levels, so that each reads from a few
 * others, not from all: blocks of 8 members that follow each other, blocks of 8
 * such blocks, and so on up to all (4 or 2 where 8 does not divide; a number
 * without such a divisor has one level). At each level a block has all there is
 * among its members, each of which has one run of pieces. */
#ifndef DSF_POLICIES_LEVELS_H
#define DSF_POLICIES_LEVELS_H

#include <stdint.h>

enum { DSF_MOST_LEVELS = 64 };

/* How many members a block of each level has: one at level 0, all at n. */
struct dsf_levels {
    unsigned n;
    int32_t size[DSF_MOST_LEVELS];
};

struct dsf_levels dsf_levels_one(int32_t members);
/* There is a level of blocks of `through` members, which divides `members`. */
struct dsf_levels dsf_levels_find(int32_t members, int32_t through);

/* So many blocks of the level below are one of this. */
int32_t dsf_levels_radix(const struct dsf_levels *l, unsigned level);

/* The member of a block, from 0, that has run `j`: the one that has all of what
 * this is a part of in its block of the level below. */
int32_t dsf_levels_keeper(const struct dsf_levels *l, unsigned level,
                          int32_t j);

#endif
