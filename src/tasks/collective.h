/* collective.h - what a collective moves: the arguments of all_gather,
 * reduce_scatter, all_reduce, all_to_all and broadcast (collective.c), and of
 * the tasks that they become (task_move.c). */
#ifndef DSF_TASKS_COLLECTIVE_H
#define DSF_TASKS_COLLECTIVE_H

#include <stdint.h>

/* Data in consecutive pieces of whole blocks, one for each member of a group:
 * the first members have one block more where it does not divide. */
struct dsf_pieces {
    int64_t blocks, block; /* so many blocks of so many elements */
    int32_t members;
    int32_t owner; /* of the block, where there is one */
};

/* The first element of piece `i`; of piece `members`, the end. The module for
 * GPUs asks this, too, and has no symbol of the program. */
static inline int64_t dsf_pieces_at(const struct dsf_pieces *p, int32_t i)
{
    int64_t more = p->blocks % p->members;

    if (p->blocks == 1)
        return i > p->owner ? p->block : 0;
    return (p->blocks / p->members * i + (i < more ? i : more)) * p->block;
}
int64_t dsf_pieces_elems(const struct dsf_pieces *p, int32_t i);

/* The first element of the `i`-th of `parts` runs of consecutive pieces. */
static inline int64_t dsf_pieces_run_at(const struct dsf_pieces *p,
                                        int32_t parts, int32_t i)
{
    return dsf_pieces_at(p, (int32_t)((int64_t)i * p->members / parts));
}

/* How many pieces are not empty. */
int32_t dsf_pieces_count(const struct dsf_pieces *p);

/* The task of one member. Its ports are { out, in … }: what the member gets,
 * and what it reads of each member, in their order. Members that have nothing
 * for it are left out, and where `in_place` it is itself: what it has is what
 * stands in `out`. */
struct dsf_collective_args {
    struct dsf_pieces pieces;
    int32_t member;
    int32_t in_place;
};

/* `elems` elements from element `from` of one buffer to element `at` of
 * another. */
struct dsf_range {
    int64_t elems, at, from;
};

#endif
