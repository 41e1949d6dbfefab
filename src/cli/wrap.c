/* wrap.c - text in lines that fit. */
#include "cli/wrap.h"

#include <string.h>

/* Characters of the first n bytes. */
static unsigned width(const char *s, size_t n)
{
    unsigned columns = 0;

    for (size_t i = 0; i < n; i++)
        columns += (s[i] & 0xc0) != 0x80;
    return columns;
}

void dsf_wrap(FILE *out, unsigned columns, const char *first,
              const char *prefix, const char *text)
{
    unsigned at = width(first, strlen(first));
    const char *gap = "";

    fputs(first, out);
    while (*text != '\0') {
        size_t n = strcspn(text, " ");
        unsigned wide = width(text, n);

        if (*gap != '\0' && at + 1 + wide > columns) {
            fprintf(out, "\n%s", prefix);
            at = width(prefix, strlen(prefix));
            gap = "";
        }
        fprintf(out, "%s%.*s", gap, (int)n, text);
        at += (unsigned)strlen(gap) + wide;
        gap = " ";
        text += n + (text[n] == ' ');
    }
    fputc('\n', out);
}
