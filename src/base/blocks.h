/* blocks.h - memory for many small things that are freed all at once. They
 * never move, so that they can be borrowed. */
#ifndef DSF_BASE_BLOCKS_H
#define DSF_BASE_BLOCKS_H

#include <stddef.h>

/* Empty when it is all zeroes. */
struct dsf_blocks {
    void **v;
    size_t n, cap;
    size_t used, bytes; /* of the last one */
    size_t all;         /* bytes of all of them */
};

/* `bytes` of memory, aligned to `align`, a power of two up to 16. Never NULL.
 */
void *dsf_blocks_take(struct dsf_blocks *b, size_t bytes, size_t align);

/* A copy of `bytes` of `p` there. */
void *dsf_blocks_copy(struct dsf_blocks *b, const void *p, size_t bytes,
                      size_t align);
void dsf_blocks_fini(struct dsf_blocks *b);

#endif
