/* io_verify.c - checksums of what was written, to find what the disk changed.
 *
 * Requests need not begin where blocks do, so each block has a list of the
 * ranges that were written in it, whole and last: a write takes the place of
 * all it touches. A read checks every range that lies in it; one that it has
 * only a part of cannot be checked. */
#include "io/io_private.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <xxhash.h>

struct range {
    int64_t offset;
    size_t bytes;
    uint64_t sum;
    struct range *next;
};

struct dsf_io_sums {
    size_t block, nblocks;
    struct range **ranges; /* of each block */
};

struct dsf_io_sums *dsf_io_sums_new(int64_t size, size_t block)
{
    struct dsf_io_sums *sums = dsf_xcalloc(1, sizeof(*sums));

    sums->block = block;
    sums->nblocks = ((size_t)size + block - 1) / block;
    sums->ranges = dsf_xcalloc(sums->nblocks, sizeof(*sums->ranges));
    return sums;
}

void dsf_io_sums_free(struct dsf_io_sums *sums)
{
    if (sums == NULL)
        return;
    for (size_t b = 0; b < sums->nblocks; b++)
        for (struct range *r = sums->ranges[b], *next; r != NULL; r = next) {
            next = r->next;
            free(r);
        }
    free(sums->ranges);
    free(sums);
}

static struct range **ranges_at(const struct dsf_io_sums *sums, int64_t offset)
{
    return &sums->ranges[(size_t)offset / sums->block];
}

void dsf_io_sums_drop(struct dsf_io_sums *sums, int64_t offset, size_t bytes)
{
    int64_t end = offset + (int64_t)bytes;
    struct range **link = ranges_at(sums, offset);

    while (*link != NULL) {
        struct range *r = *link;

        if (r->offset < end && offset < r->offset + (int64_t)r->bytes) {
            *link = r->next;
            free(r);
        } else {
            link = &r->next;
        }
    }
}

void dsf_io_sums_note(struct dsf_io_sums *sums, const void *memory,
                      int64_t offset, size_t bytes)
{
    struct range **first = ranges_at(sums, offset), *r;

    dsf_io_sums_drop(sums, offset, bytes);
    r = dsf_xcalloc(1, sizeof(*r));
    *r = (struct range){ .offset = offset,
                         .bytes = bytes,
                         .sum = XXH3_64bits(memory, bytes),
                         .next = *first };
    *first = r;
}

bool dsf_io_sums_match(const struct dsf_io_sums *sums, const void *memory,
                       int64_t offset, size_t bytes)
{
    int64_t end = offset + (int64_t)bytes;

    for (const struct range *r = *ranges_at(sums, offset); r != NULL;
         r = r->next)
        if (r->offset >= offset && r->offset + (int64_t)r->bytes <= end &&
            XXH3_64bits((const char *)memory + (r->offset - offset),
                        r->bytes) != r->sum)
            return false;
    return true;
}
