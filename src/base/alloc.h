/* alloc.h - memory for metadata: never NULL. Tensors do not come from here. */
#ifndef DSF_BASE_ALLOC_H
#define DSF_BASE_ALLOC_H

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

/* These end the process, with a line on standard error, when there is no
 * memory: what cannot hold its own graph cannot train. Free with free(). */
void *dsf_xcalloc(size_t n, size_t size);
void *dsf_xrealloc(void *p, size_t n, size_t size);
/* A copy of `n` elements of `size` bytes. */
void *dsf_xcopy(const void *p, size_t n, size_t size);
char *dsf_xstrdup(const char *s);
char *dsf_xstrndup(const char *s, size_t n);
char *dsf_xasprintf(const char *fmt, ...)
    __attribute__((format(printf, 1, 2)));
char *dsf_xvasprintf(const char *fmt, va_list ap)
    __attribute__((format(printf, 1, 0)));
/* A stream that makes a text, which is there when it is closed. */
FILE *dsf_xmemstream(char **text, size_t *bytes);

/* Grow `*v` (elements of `size` bytes, capacity `*cap`) to hold `n`; new
 * elements are zero. */
void dsf_grow(void *v, size_t *cap, size_t n, size_t size);

#endif
