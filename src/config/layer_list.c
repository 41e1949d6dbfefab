/* layer_list.c - some layers of a model, as keys of job.toml name them. */
#include "config/layer_list.h"

#include "base/alloc.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* A number and what follows it. */
static bool read_number(const char **c, long *n)
{
    char *end;

    if (!isdigit((unsigned char)**c))
        return false;
    *n = strtol(*c, &end, 10);
    *c = end;
    return true;
}

/* Layers `first` to `last`, behind which the list ends or goes on. */
static bool read_range(const char **c, int32_t layers, long *first, long *last)
{
    if (!read_number(c, first))
        return false;
    *last = *first;
    if (**c == '-' && ((*c)++, !read_number(c, last)))
        return false;
    return *first <= *last && *last < layers && (**c == '\0' || **c == ',');
}

bool dsf_layer_list_read(const char *text, int32_t layers, bool *on)
{
    const bool all = strcmp(text, "all") == 0;
    const char *c = text;
    long first, last;

    for (int32_t l = 0; l < layers; l++)
        on[l] = all;
    if (all)
        return true;
    do {
        if (!read_range(&c, layers, &first, &last))
            return false;
        for (long l = first; l <= last; l++)
            on[l] = true;
    } while (*c++ == ',');
    return true;
}

int32_t dsf_layer_list_in_order(const char *text, int32_t layers, int32_t *to,
                                int32_t most)
{
    const char *c = text;
    long first, last;
    int32_t n = 0;

    do {
        if (!read_range(&c, layers, &first, &last) || last - first >= most - n)
            return -1;
        for (long l = first; l <= last; l++)
            to[n++] = (int32_t)l;
    } while (*c++ == ',');
    return n;
}

char *dsf_layer_list_text(const bool *on, int32_t layers)
{
    char *text = dsf_xstrdup("");
    int32_t l = 0, n;

    while (l < layers) {
        for (n = 0; l + n < layers && on[l + n];)
            n++;
        if (n == layers) {
            free(text);
            return dsf_xstrdup("all");
        }
        if (n > 0) {
            char *more =
                n > 1
                    ? dsf_xasprintf("%s%s%d-%d", text, *text == '\0' ? "" : ",",
                                    (int)l, (int)(l + n - 1))
                    : dsf_xasprintf("%s%s%d", text, *text == '\0' ? "" : ",",
                                    (int)l);

            free(text);
            text = more;
        }
        l += n + 1;
    }
    return text;
}
