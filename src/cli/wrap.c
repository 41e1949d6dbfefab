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

void dsf_wrap(FILE *out, unsigned columns, const char *prefix, const char *text)
{
    unsigned start = width(prefix, strlen(prefix)), at = 0;

    while (*text != '\0') {
        size_t n = strcspn(text, " ");
        unsigned wide = width(text, n);

        if (at > 0 && at + 1 + wide > columns) {
            fputc('\n', out);
            at = 0;
        }
        if (at == 0)
            fputs(prefix, out);
        else
            fputc(' ', out);
        at = (at == 0 ? start : at + 1) + wide;
        fwrite(text, 1, n, out);
        text += n + (text[n] == ' ');
    }
    fputc('\n', out);
}
