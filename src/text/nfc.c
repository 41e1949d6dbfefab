/* nfc.c - normal form C (Unicode Standard Annex 15), with utf8proc, as Hugging
 * Face's tokenizers computes it. */
#include "text/nfc.h"

#include "base/alloc.h"
#include "base/fatal.h"
#include "base/utf8.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#define NFC (UTF8PROC_STABLE | UTF8PROC_COMPOSE)

/* Tokenizers knows Unicode 9. These are the marks, and the characters that are
 * made of others, of Unicode 10 to 17: whatever utf8proc knows of them, they
 * are neither ordered nor composed, and the same text gives the same tokens
 * with every version of it. Before its version 2.9, utf8proc also loses U+11A7
 * after a syllable. */
/* clang-format off */
static const struct {
    uint32_t first, last;
} kept[] = {
    { 0x7fd, 0x7fd }, { 0x897, 0x89f }, { 0x8ca, 0x8d3 }, { 0x9fe, 0x9fe },
    { 0xc3c, 0xc3c }, { 0xd3b, 0xd3c }, { 0xeba, 0xeba }, { 0x11a7, 0x11a7 },
    { 0x1715, 0x1715 }, { 0x1abf, 0x1add }, { 0x1ae0, 0x1aeb },
    { 0x1df6, 0x1dfa }, { 0xa82c, 0xa82c }, { 0x105c9, 0x105c9 },
    { 0x105d2, 0x105d2 }, { 0x105da, 0x105da }, { 0x105e4, 0x105e4 },
    { 0x10d24, 0x10d27 }, { 0x10d69, 0x10d6d }, { 0x10eab, 0x10eac },
    { 0x10efa, 0x10efb }, { 0x10efd, 0x10eff }, { 0x10f46, 0x10f50 },
    { 0x10f82, 0x10f85 }, { 0x11070, 0x11070 }, { 0x1133b, 0x1133b },
    { 0x11382, 0x11385 }, { 0x1138b, 0x1138b }, { 0x1138e, 0x1138e },
    { 0x11390, 0x11391 }, { 0x113b8, 0x113b8 }, { 0x113bb, 0x113bb },
    { 0x113c2, 0x113c2 }, { 0x113c5, 0x113c5 }, { 0x113c7, 0x113c9 },
    { 0x113ce, 0x113d0 }, { 0x1145e, 0x1145e }, { 0x11839, 0x1183a },
    { 0x11930, 0x11930 }, { 0x11935, 0x11935 }, { 0x11938, 0x11938 },
    { 0x1193d, 0x1193e }, { 0x11943, 0x11943 }, { 0x119e0, 0x119e0 },
    { 0x11a34, 0x11a34 }, { 0x11a47, 0x11a47 }, { 0x11a99, 0x11a99 },
    { 0x11d42, 0x11d42 }, { 0x11d44, 0x11d45 }, { 0x11d97, 0x11d97 },
    { 0x11f41, 0x11f42 }, { 0x1611e, 0x16129 }, { 0x1612f, 0x1612f },
    { 0x16d63, 0x16d63 }, { 0x16d67, 0x16d6a }, { 0x16ff0, 0x16ff1 },
    { 0x1e08f, 0x1e08f }, { 0x1e130, 0x1e136 }, { 0x1e2ae, 0x1e2ae },
    { 0x1e2ec, 0x1e2ef }, { 0x1e4ec, 0x1e4ef }, { 0x1e5ee, 0x1e5ef },
    { 0x1e6e3, 0x1e6e3 }, { 0x1e6e6, 0x1e6e6 }, { 0x1e6ee, 0x1e6ef },
    { 0x1e6f5, 0x1e6f5 },
};
/* clang-format on */

#define NKEPT (sizeof(kept) / sizeof(*kept))

static bool is_kept(uint32_t code)
{
    size_t low = 0, high = NKEPT;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (kept[mid].last < code)
            low = mid + 1;
        else
            high = mid;
    }
    return low < NKEPT && kept[low].first <= code;
}

enum kind {
    LETTER, /* begins anew: takes no part in what is before it */
    OTHER,  /* perhaps an accent, perhaps to be taken apart */
    KEPT,   /* to stay as it is, and between others */
};

/* The character at `s`, or the byte that makes none. */
static enum kind next_char(const char *s, size_t n, size_t *len)
{
    uint32_t code;

    *len = dsf_utf8_char(s, n);
    if (*len == 0) {
        *len = 1;
        return KEPT;
    }
    code = dsf_utf8_code(s, *len);
    if (code < 0x300)
        return LETTER;
    return is_kept(code) ? KEPT : OTHER;
}

struct nfc {
    char *out;
    size_t n, cap;
    int32_t *codes, *sorted; /* of a few characters */
    size_t codes_cap, sorted_cap;
};

static void put(struct nfc *c, const void *bytes, size_t n)
{
    dsf_grow(&c->out, &c->cap, c->n + n, 1);
    if (n > 0)
        memcpy(c->out + c->n, bytes, n);
    c->n += n;
}

static unsigned class_of(int32_t code)
{
    return (unsigned)utf8proc_get_property(code)->combining_class;
}

/* Sort `n` marks by their class, those of one class in the order they had. A
 * text may consist of nothing else, so this takes a time that grows like n. */
static void sort_marks(struct nfc *c, int32_t *marks, size_t n)
{
    size_t at[257] = { 0 };

    dsf_grow(&c->sorted, &c->sorted_cap, n, sizeof(*c->sorted));
    for (size_t i = 0; i < n; i++)
        at[class_of(marks[i]) + 1]++;
    for (unsigned k = 1; k < 257; k++)
        at[k] += at[k - 1];
    for (size_t i = 0; i < n; i++)
        c->sorted[at[class_of(marks[i])]++] = marks[i];
    memcpy(marks, c->sorted, n * sizeof(*marks));
}

static void order_marks(struct nfc *c, size_t n)
{
    size_t first = 0, i;

    while (first < n) {
        bool sorted = true;
        unsigned last = 0, class;

        for (i = first; i < n && (class = class_of(c->codes[i])) > 0; i++) {
            sorted &= class >= last;
            last = class;
        }
        if (!sorted)
            sort_marks(c, c->codes + first, i - first);
        first = i + 1;
    }
}

/* A letter, and what follows until the next. */
static void compose(struct nfc *c, const char *text, size_t n)
{
    utf8proc_ssize_t k;
    size_t ncodes = 0;

    for (size_t i = 0, len; i < n; i += len) {
        len = dsf_utf8_char(text + i, n - i);
        /* One character is at most four, and reencode adds a NUL. */
        dsf_grow(&c->codes, &c->codes_cap, ncodes + 5, sizeof(*c->codes));
        k = utf8proc_decompose_char((int32_t)dsf_utf8_code(text + i, len),
                                    c->codes + ncodes, 4, NFC, NULL);
        if (k < 0 || k > 4)
            dsf_fatal("bug: utf8proc: %s", utf8proc_errmsg(k));
        ncodes += (size_t)k;
    }
    order_marks(c, ncodes);
    k = utf8proc_reencode(c->codes, (utf8proc_ssize_t)ncodes, NFC);
    if (k < 0)
        dsf_fatal("bug: utf8proc: %s", utf8proc_errmsg(k));
    put(c, c->codes, (size_t)k);
}

/* Could there be anything but letters? 0xcc begins U+0300. */
static bool is_plain(const char *text, size_t n)
{
    unsigned char most = 0;

    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] > most)
            most = (unsigned char)text[i];
    return most < 0xcc;
}

bool dsf_nfc_begins(char first)
{
    const unsigned char byte = (unsigned char)first;

    return byte < 0x80 || (byte >= 0xc0 && byte < 0xcc);
}

char *dsf_nfc(const char *text, size_t n, size_t *out_bytes)
{
    struct nfc c = { .out = NULL };
    size_t from = 0, before = 0; /* what waits, and its last letter */
    bool others = false;         /* among what waits */

    if (is_plain(text, n))
        return NULL;
    for (size_t i = 0, len; i < n; i += len) {
        enum kind kind = next_char(text + i, n - i, &len);

        if (kind == OTHER) {
            if (!others)
                put(&c, text + from, before - from);
            from = others ? from : before;
            others = true;
            continue;
        }
        if (others) {
            compose(&c, text + from, i - from);
            from = i;
            others = false;
        }
        before = i;
        if (kind == KEPT) {
            before = i + len;
            put(&c, text + from, before - from);
            from = before;
        }
    }
    if (others)
        compose(&c, text + from, n - from);
    else
        put(&c, text + from, n - from);
    free(c.codes);
    free(c.sorted);
    *out_bytes = c.n;
    return c.out;
}
