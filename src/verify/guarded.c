/* guarded.c - memory that tells when a task touches what is not its own. */
#include "verify/guarded.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* What stands between a buffer and its page's end; as floats, not a number. */
enum { CANARY = 0xff };

static size_t page(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

bool dsf_guarded_init(struct dsf_guarded *g, const char *name,
                      enum dsflow_access access, size_t bytes, bool at_end)
{
    size_t whole = round_up(bytes > 0 ? bytes : 1, page());

    *g = (struct dsf_guarded){ .name = name,
                               .access = access,
                               .bytes = bytes,
                               .map_bytes = whole + 2 * page() };
    if (bytes > PTRDIFF_MAX / 2) /* the sums above are none */
        return false;
    g->map =
        mmap(NULL, g->map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (g->map == MAP_FAILED)
        g->map = NULL;
    if (g->map == NULL ||
        mprotect(g->map + page(), whole, PROT_READ | PROT_WRITE) < 0)
        return false;
    g->ptr = g->map + page() + (at_end ? whole - round_up(bytes, 64) : 0);
    memset(g->map + page(), CANARY, whole);
    return true;
}

void dsf_guarded_fini(struct dsf_guarded *g)
{
    if (g->map != NULL)
        munmap(g->map, g->map_bytes);
    g->map = NULL;
}

void dsf_guarded_close(const struct dsf_guarded *g)
{
    if (g->access == DSFLOW_R)
        mprotect(g->map + page(), g->map_bytes - 2 * page(), PROT_READ);
}

long dsf_guarded_spill(const struct dsf_guarded *g)
{
    const unsigned char *first = g->map + page();
    const unsigned char *last = g->map + g->map_bytes - page();

    for (const unsigned char *p = last; p-- > g->ptr + g->bytes;)
        if (*p != CANARY)
            return p - (g->ptr + g->bytes) + 1;
    for (const unsigned char *p = first; p < g->ptr; p++)
        if (*p != CANARY)
            return p - g->ptr;
    return 0;
}

bool dsf_guarded_has(const struct dsf_guarded *g, const void *address)
{
    const unsigned char *p = address;

    return g->map != NULL && p >= g->map && p < g->map + g->map_bytes;
}
