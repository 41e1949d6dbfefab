/* touch.c - pages for memory, from all cores at once. */
#include "base/touch.h"

#include "base/parallel.h"

#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* Huge pages, where there are some, are of one core. */
enum { PIECE = DSF_TOUCH_PIECE, LEAST = 16 /* pieces, for a core */ };

struct memory {
    char *at;
    size_t bytes;
};

static void touch_pieces(void *user, int64_t from, int64_t end)
{
    const struct memory *m = user;
    const size_t first = (size_t)from * PIECE, behind = (size_t)end * PIECE;

    madvise(m->at + first, (behind < m->bytes ? behind : m->bytes) - first,
            MADV_POPULATE_WRITE);
}

void dsf_touch(void *at, size_t bytes)
{
    struct memory m = { at, bytes };

    if (bytes > 0)
        dsf_parallel((int64_t)((bytes + PIECE - 1) / PIECE), LEAST,
                     touch_pieces, &m);
}

void dsf_touch_piece(void *at, size_t bytes)
{
    madvise(at, bytes, MADV_POPULATE_WRITE);
}
