/* mapped.c - files that are mapped, read piece by piece. */
#include "text/mapped.h"

#include <sys/mman.h>
#include <xxhash.h>

void dsf_mapped_let_go(const void *map, size_t bytes)
{
    madvise((void *)map, bytes, MADV_DONTNEED);
}

size_t dsf_mapped_piece(const void *map, size_t bytes, size_t at)
{
    static const size_t most = (size_t)64 << 20;

    if (at > 0)
        dsf_mapped_let_go(map, bytes);
    return bytes - at < most ? bytes - at : most;
}

uint64_t dsf_mapped_hash(const void *map, size_t bytes, size_t at)
{
    XXH3_state_t *state = XXH3_createState();
    uint64_t hash;

    XXH3_64bits_reset(state);
    for (size_t n; (n = dsf_mapped_piece(map, bytes, at)) > 0; at += n)
        XXH3_64bits_update(state, (const char *)map + at, n);
    hash = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    return hash;
}
