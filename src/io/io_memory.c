/* io_memory.c - memory that disks transfer to and from. */
#include "base/units.h"
#include "io/io.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>

enum { HUGE_PAGE = 2 << 20 };

static size_t whole_pages(size_t bytes)
{
    return (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
}

void *dsf_io_alloc(size_t bytes, struct dsflow_err *err)
{
    size_t size = whole_pages(bytes > 0 ? bytes : 1), before;
    char *start = MAP_FAILED;

    errno = ENOMEM;
    if (bytes <= SIZE_MAX / 2)
        start = mmap(NULL, size + HUGE_PAGE, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED) {
        dsflow_fail(err, DSFLOW_ENOMEM, "%s for transfers: %m",
                    dsf_size_text((double)bytes).s);
        return NULL;
    }
    /* Keep what begins at a multiple. */
    before = whole_pages((uintptr_t)start) - (uintptr_t)start;
    if (before > 0)
        munmap(start, before);
    if (before < HUGE_PAGE)
        munmap(start + before + size, HUGE_PAGE - before);
    start += before;
    /* Both may be refused: it is slower then. */
    madvise(start, size, MADV_HUGEPAGE);
    mlock(start, size);
    return start;
}

void dsf_io_free(void *memory, size_t bytes)
{
    if (memory != NULL)
        munmap(memory, whole_pages(bytes > 0 ? bytes : 1));
}
