/* writes.h - which of several processes writes what of a checkpoint: each
 * number is written once, by a process that has it, and all write about as
 * many. */
#ifndef DSF_TRAIN_WRITES_H
#define DSF_TRAIN_WRITES_H

#include "train/contents.h"

struct dsf_writes {
    struct dsf_piece *v;
    size_t n, cap;
};
void dsf_writes_fini(struct dsf_writes *s);

/* What a process has of what checkpoints keep as arrays. */
void dsf_writes_list(const struct dsf_contents *c, struct dsf_writes *has);

/* `has` and `writes` are by process; of what several have, each writes a part.
 */
void dsf_writes_share(const struct dsf_writes *has, int32_t nprocesses,
                      struct dsf_writes *writes);

/* The pieces of one of them, in order. */
const struct dsf_piece *dsf_writes_of(const struct dsf_writes *writes,
                                      unsigned unit, unsigned kind, size_t *n);

#endif
