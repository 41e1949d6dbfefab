/* blocks.c - memory for many small things that are freed all at once. */
#include "base/blocks.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

/* Bytes of a block: a quarter of what there is, within these. Large ones go
 * back to the system when they are freed. */
enum { LEAST = 1 << 18, MOST = 1 << 26 };

void *dsf_blocks_take(struct dsf_blocks *b, size_t bytes, size_t align)
{
    size_t at = (b->used + align - 1) & ~(align - 1);

    if (b->n == 0 || at + bytes > b->bytes) {
        dsf_grow(&b->v, &b->cap, b->n + 1, sizeof(*b->v));
        b->bytes = b->all / 4 > MOST    ? MOST
                   : b->all / 4 > LEAST ? b->all / 4
                                        : LEAST;
        if (b->bytes < bytes)
            b->bytes = bytes;
        b->all += b->bytes;
        b->v[b->n++] = dsf_xrealloc(NULL, b->bytes, 1);
        at = 0;
    }
    b->used = at + bytes;
    return (char *)b->v[b->n - 1] + at;
}

void *dsf_blocks_copy(struct dsf_blocks *b, const void *p, size_t bytes,
                      size_t align)
{
    return memcpy(dsf_blocks_take(b, bytes, align), p, bytes);
}

void dsf_blocks_fini(struct dsf_blocks *b)
{
    for (size_t i = 0; i < b->n; i++)
        free(b->v[i]);
    free(b->v);
    *b = (struct dsf_blocks){ 0 };
}
