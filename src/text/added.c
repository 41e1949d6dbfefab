/* added.c - added tokens, which are found in a text as it is written. */
#include "text/added.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

static unsigned pair_of(const char *text, size_t n)
{
    return (unsigned)(unsigned char)text[0] << 8 |
           (n > 1 ? (unsigned char)text[1] : 0);
}

/* Of two that begin alike, the longer is looked for first. */
static int by_start(const void *one, const void *other)
{
    const struct dsf_added *a = one, *b = other;
    size_t n = a->bytes < b->bytes ? a->bytes : b->bytes;
    int order;

    if (a->late != b->late)
        return a->late ? 1 : -1;
    order = memcmp(a->text, b->text, n);
    if (order != 0)
        return order;
    return a->bytes > b->bytes ? -1 : a->bytes < b->bytes;
}

void dsf_added_index(struct dsf_tokenizer *tok)
{
    const struct dsf_added *a;
    uint64_t *starts;
    unsigned pair;

    if (tok->nadded > 0)
        qsort(tok->added, tok->nadded, sizeof(*tok->added), by_start);
    for (unsigned i = 0; i < tok->nadded; i++) {
        a = &tok->added[i];
        if (tok->starts[a->late] == NULL) {
            tok->starts[a->late] = dsf_xcalloc(65536 / 64, sizeof(uint64_t));
            tok->first[a->late] = (unsigned char)a->text[0];
        }
        if (tok->first[a->late] != (unsigned char)a->text[0])
            tok->first[a->late] = -1;
        starts = tok->starts[a->late];
        pair = pair_of(a->text, a->bytes);
        /* One byte alone may be followed by any. */
        for (unsigned i2 = 0; i2 < (a->bytes > 1 ? 1u : 256u); i2++)
            starts[(pair + i2) / 64] |= (uint64_t)1 << (pair + i2) % 64;
    }
}

/* The longest added token at `text`, or NULL. */
static const struct dsf_added *added_at(const struct dsf_tokenizer *tok,
                                        int late, const char *text, size_t n)
{
    unsigned pair = pair_of(text, n), low = 0, high = tok->nadded;

    if ((tok->starts[late][pair / 64] >> pair % 64 & 1) == 0)
        return NULL;
    while (low < high) { /* the first of this half that may begin like it */
        unsigned mid = low + (high - low) / 2;
        const struct dsf_added *a = &tok->added[mid];

        if (a->late < late || (a->late == late && (unsigned char)a->text[0] <
                                                      (unsigned char)text[0]))
            low = mid + 1;
        else
            high = mid;
    }
    for (; low < tok->nadded; low++) {
        const struct dsf_added *a = &tok->added[low];

        if (a->late != late || a->text[0] != text[0])
            break;
        if (a->bytes <= n && memcmp(a->text, text, a->bytes) == 0)
            return a;
    }
    return NULL;
}

const struct dsf_added *dsf_added_find(const struct dsf_tokenizer *tok,
                                       int late, const char *text, size_t n,
                                       size_t *at, size_t end)
{
    const struct dsf_added *found = NULL;
    int first = tok->first[late];

    for (; *at < end; ++*at) {
        if (first >= 0) {
            const char *next = memchr(text + *at, first, end - *at);

            *at = next != NULL ? (size_t)(next - text) : end;
        }
        if (*at < end)
            found = added_at(tok, late, text + *at, n - *at);
        if (found != NULL || *at == end)
            break;
    }
    return found;
}
