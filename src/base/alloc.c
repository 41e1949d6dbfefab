/* alloc.c - memory for metadata, which is never NULL. */
#include "base/alloc.h"

#include "base/fatal.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Graphs of millions of tasks spend half their time in page faults otherwise. */
static void *in_huge_pages(void *p, size_t bytes)
{
    enum { LARGE = 16 << 20, PAGE = 4096 };
    uintptr_t from = ((uintptr_t)p + PAGE - 1) / PAGE * PAGE;

    if (bytes >= LARGE)
        madvise((void *)from, bytes - (from - (uintptr_t)p), MADV_HUGEPAGE);
    return p;
}

static void *checked(void *p, size_t bytes)
{
    if (p == NULL)
        dsf_fatal("not enough memory: %zu bytes of metadata", bytes);
    return p;
}

void *dsf_xcalloc(size_t n, size_t size)
{
    return in_huge_pages(
        checked(calloc(n > 0 ? n : 1, size > 0 ? size : 1), n * size),
        n * size);
}

void *dsf_xrealloc(void *p, size_t n, size_t size)
{
    if (size != 0 && n > SIZE_MAX / size)
        return checked(NULL, SIZE_MAX);
    return in_huge_pages(
        checked(realloc(p, n * size > 0 ? n * size : 1), n * size), n * size);
}

void *dsf_xcopy(const void *p, size_t n, size_t size)
{
    void *copy = dsf_xrealloc(NULL, n, size);

    return n > 0 ? memcpy(copy, p, n * size) : copy;
}

char *dsf_xstrdup(const char *s)
{
    return dsf_xstrndup(s, strlen(s));
}

char *dsf_xstrndup(const char *s, size_t n)
{
    return checked(strndup(s, n), n + 1);
}

char *dsf_xvasprintf(const char *fmt, va_list ap)
{
    char *s = NULL;
    int n = vasprintf(&s, fmt, ap);

    return checked(n < 0 ? NULL : s, 0);
}

char *dsf_xasprintf(const char *fmt, ...)
{
    char *s;
    va_list ap;

    va_start(ap, fmt);
    s = dsf_xvasprintf(fmt, ap);
    va_end(ap);
    return s;
}

FILE *dsf_xmemstream(char **text, size_t *bytes)
{
    return checked(open_memstream(text, bytes), BUFSIZ);
}

void dsf_grow(void *v, size_t *cap, size_t n, size_t size)
{
    void **array = v;
    size_t to = *cap < 8 ? 8 : *cap;

    if (n <= *cap)
        return;
    while (to < n)
        to += to / 2;
    *array = dsf_xrealloc(*array, to, size);
    memset((char *)*array + *cap * size, 0, (to - *cap) * size);
    *cap = to;
}
