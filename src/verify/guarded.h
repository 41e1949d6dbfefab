/* guarded.h - memory that tells when a task touches what is not its own: pages
 * that nobody may touch stand before and behind it. */
#ifndef DSF_VERIFY_GUARDED_H
#define DSF_VERIFY_GUARDED_H

#include <stdbool.h>
#include <stddef.h>
#include <dsflow/graph.h>

struct dsf_guarded {
    const char *name;          /* of a port, or "its scratch" */
    enum dsflow_access access; /* R: the pages are read-only when closed */
    unsigned char *ptr;
    size_t bytes;
    unsigned char *map; /* with the pages around */
    size_t map_bytes;
};

/* `bytes` that end where a page begins that nobody may touch, but for what is
 * left of 64, or that begin where one ends. False: there is no memory. */
bool dsf_guarded_init(struct dsf_guarded *g, const char *name,
                      enum dsflow_access access, size_t bytes, bool at_end);
void dsf_guarded_fini(struct dsf_guarded *g);

/* The contents are there: from now on, R is read-only. */
void dsf_guarded_close(const struct dsf_guarded *g);

/* How far before the beginning (below 0) or past the end (above 0) something
 * was written, in bytes; 0: nothing was. */
long dsf_guarded_spill(const struct dsf_guarded *g);

/* Is the address in the buffer or in what guards it? */
bool dsf_guarded_has(const struct dsf_guarded *g, const void *address);

#endif
