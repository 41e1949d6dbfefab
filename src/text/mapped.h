/* mapped.h - files that are mapped, and may be larger than memory: what was
 * read of one counts as the program's until it is let go. */
#ifndef DSF_TEXT_MAPPED_H
#define DSF_TEXT_MAPPED_H

#include <stddef.h>
#include <stdint.h>

void dsf_mapped_let_go(const void *map, size_t bytes);

/* To read it piece by piece: the bytes of the one at `at`, and 0 at the end.
 * What is before it is let go: ask for the end, too. */
size_t dsf_mapped_piece(const void *map, size_t bytes, size_t at);

/* XXH3, of what is from `at` on; nothing of it stays. */
uint64_t dsf_mapped_hash(const void *map, size_t bytes, size_t at);

#endif
