/* bpe_vocab.c - the vocabulary and the merges of byte pair encoding. */
#include "text/bpe_vocab.h"

#include "base/alloc.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

int32_t dsf_strings_find(const struct dsf_strings *s, const char *text,
                         size_t n)
{
    const struct dsf_span *span;
    size_t mask = s->nslots - 1;

    if (s->nslots == 0)
        return -1;
    for (size_t i = (size_t)XXH3_64bits(text, n) & mask; s->slots[i] != 0;
         i = (i + 1) & mask) {
        span = &s->spans[s->slots[i] - 1];
        if (span->len == n && memcmp(s->text + span->at, text, n) == 0)
            return (int32_t)(s->slots[i] - 1);
    }
    return -1;
}

static void put_slot(struct dsf_strings *s, uint32_t number)
{
    const struct dsf_span *span = &s->spans[number];
    size_t mask = s->nslots - 1;
    size_t i = (size_t)XXH3_64bits(s->text + span->at, span->len) & mask;

    while (s->slots[i] != 0)
        i = (i + 1) & mask;
    s->slots[i] = number + 1;
}

static void grow_slots(struct dsf_strings *s)
{
    uint32_t *old = s->slots;
    size_t n = s->nslots;

    if (n > 0 && 2 * (s->used + 1) <= n)
        return;
    s->nslots = n > 0 ? 2 * n : 1024;
    s->slots = dsf_xcalloc(s->nslots, sizeof(*s->slots));
    for (size_t i = 0; i < n; i++)
        if (old[i] != 0)
            put_slot(s, old[i] - 1);
    free(old);
}

/* `listed`: it can be found by its text. */
static void add_string(struct dsf_strings *s, const char *text, size_t n,
                       uint32_t number, bool listed)
{
    dsf_grow(&s->spans, &s->spans_cap, number + 1, sizeof(*s->spans));
    dsf_grow(&s->text, &s->cap, s->n + n, 1);
    if (n > 0)
        memcpy(s->text + s->n, text, n);
    s->spans[number] = (struct dsf_span){ s->n, n, true };
    s->n += n;
    if (number >= s->nspans)
        s->nspans = number + 1;
    if (!listed)
        return;
    grow_slots(s);
    s->used++;
    put_slot(s, number);
}

static const char *string_at(const struct dsf_strings *s, int32_t number,
                             size_t *n)
{
    *n = 0;
    if (number < 0 || (size_t)number >= s->nspans || !s->spans[number].there)
        return "";
    *n = s->spans[number].len;
    return s->text + s->spans[number].at;
}

static void free_strings(struct dsf_strings *s)
{
    free(s->text);
    free(s->spans);
    free(s->slots);
}

/* GPT-2's alphabet: bytes that Latin-1 prints are themselves, the others are
 * the characters from U+0100 on, in order. */
static bool is_itself(uint32_t byte)
{
    return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) ||
           (byte >= 0xae && byte <= 0xff);
}

static uint32_t character_of(uint32_t byte)
{
    uint32_t other = 0x100;

    if (is_itself(byte))
        return byte;
    for (uint32_t b = 0; b < byte; b++)
        other += !is_itself(b);
    return other;
}

void dsf_bpe_byte_name(unsigned byte, char name[3])
{
    uint32_t c = character_of(byte);

    memset(name, 0, 3);
    if (c < 0x80) {
        name[0] = (char)c;
    } else {
        name[0] = (char)(0xc0 | c >> 6);
        name[1] = (char)(0x80 | (c & 0x3f));
    }
}

struct dsf_bpe *dsf_bpe_new(void)
{
    struct dsf_bpe *bpe = dsf_xcalloc(1, sizeof(*bpe));

    for (unsigned i = 0; i < DSF_ALPHABET; i++)
        bpe->alphabet[i] = -1;
    for (uint32_t byte = 0; byte < 0x100; byte++)
        bpe->alphabet[character_of(byte)] = (int16_t)byte;
    return bpe;
}

void dsf_bpe_free(struct dsf_bpe *bpe)
{
    if (bpe == NULL)
        return;
    free_strings(&bpe->names);
    free_strings(&bpe->bytes);
    free(bpe->merges);
    free(bpe);
}

/* The bytes a name stands for in `to` (room for `n`), or false if a character
 * is not of the alphabet. */
static bool bytes_of(const struct dsf_bpe *bpe, const char *name, size_t n,
                     char *to, size_t *nto)
{
    *nto = 0;
    for (size_t i = 0, len; i < n; i += len) {
        uint32_t code;

        len = dsf_utf8_char(name + i, n - i);
        code = len == 0 ? DSF_ALPHABET : dsf_utf8_code(name + i, len);
        if (code >= DSF_ALPHABET || bpe->alphabet[code] < 0)
            return false;
        to[(*nto)++] = (char)bpe->alphabet[code];
    }
    return true;
}

void dsf_bpe_of_characters(struct dsf_bpe *bpe)
{
    bpe->characters = true;
    for (unsigned i = 0; i < 256; i++)
        bpe->byte[i] = -1;
}

/* "<0x0A>": the byte, or -1. */
static int byte_named(const char *name, size_t n)
{
    static const char digits[] = "0123456789ABCDEF";
    const char *high, *low;

    if (n != 6 || memcmp(name, "<0x", 3) != 0 || name[5] != '>')
        return -1;
    high = memchr(digits, name[3], 16);
    low = memchr(digits, name[4], 16);
    return high != NULL && low != NULL
               ? (int)((high - digits) * 16 + (low - digits))
               : -1;
}

/* What a name stands for, in which a space is U+2581. */
static void add_piece(struct dsf_bpe *bpe, const char *name, size_t n,
                      uint32_t id)
{
    int byte = byte_named(name, n);
    char *text = dsf_xcalloc(n, 1);
    size_t len = 0;

    for (size_t i = 0; i < n; i++) {
        bool space = n - i >= 3 && memcmp(name + i, DSF_SPACE, 3) == 0;

        text[len++] = space ? ' ' : name[i];
        i += space ? 2 : 0;
    }
    if (byte >= 0) {
        text[0] = (char)byte;
        len = 1;
        bpe->byte[byte] = (int32_t)id;
    }
    /* No text has a space that is one in a name, too. */
    add_string(&bpe->bytes, text, len, id,
               byte < 0 && memchr(name, ' ', n) == NULL);
    free(text);
}

int dsf_bpe_token(struct dsf_bpe *bpe, const char *name, size_t n, int64_t id,
                  struct dsflow_err *err)
{
    size_t nbytes;
    char *bytes;

    if (id < 0 || id >= DSF_MOST_TOKENS)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "token \"%.*s\": id %lld; expected 0 to %d", (int)n,
                           name, (long long)id, DSF_MOST_TOKENS - 1);
    if ((size_t)id < bpe->names.nspans && bpe->names.spans[id].there)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "token \"%.*s\": id %lld is also that of another",
                           (int)n, name, (long long)id);
    if (dsf_strings_find(&bpe->names, name, n) >= 0)
        return dsflow_fail(err, DSFLOW_EINVAL, "token \"%.*s\" is there twice",
                           (int)n, name);
    add_string(&bpe->names, name, n, (uint32_t)id, true);
    if (bpe->characters) {
        add_piece(bpe, name, n, (uint32_t)id);
        return DSFLOW_OK;
    }
    bytes = dsf_xcalloc(n, 1);
    /* What the alphabet does not spell, no word gives; it stands for its own
     * name when it is decoded. */
    if (bytes_of(bpe, name, n, bytes, &nbytes))
        add_string(&bpe->bytes, bytes, nbytes, (uint32_t)id, true);
    else
        add_string(&bpe->bytes, name, n, (uint32_t)id, false);
    free(bytes);
    return DSFLOW_OK;
}

static void grow_merges(struct dsf_bpe *bpe)
{
    size_t n = bpe->merges != NULL ? bpe->mask + 1 : 0;
    size_t to = n > 0 ? 2 * n : 1024;
    struct dsf_pair_merge *old = bpe->merges;

    if (n > 0 && 2 * (bpe->nmerges + 1) <= n)
        return;
    bpe->merges = dsf_xcalloc(to, sizeof(*bpe->merges));
    bpe->mask = to - 1;
    for (size_t i = 0; i < to; i++)
        bpe->merges[i] = (struct dsf_pair_merge){ UINT64_MAX, DSF_NO_RANK, 0 };
    for (size_t i = 0; i < n; i++)
        if (old[i].pair != UINT64_MAX)
            *dsf_bpe_find_merge(bpe, (uint32_t)(old[i].pair >> 32),
                                (uint32_t)old[i].pair) = old[i];
    free(old);
}

static int lacks(struct dsflow_err *err, const char *name, size_t n,
                 uint32_t rank)
{
    return dsflow_fail(err, DSFLOW_EINVAL,
                       "merge %u: \"%.*s\" is not in the vocabulary", rank + 1,
                       (int)n, name);
}

/* What a text may not be cut at, as a merge makes this token. */
static void note_merged(struct dsf_bpe *bpe, int32_t id)
{
    size_t n;
    const char *text = string_at(&bpe->bytes, id, &n);

    for (size_t i = 1; i < n; i++)
        bpe->spaces_behind |= text[i] == ' ' && text[i - 1] != ' ';
    bpe->lines |= memchr(text, '\n', n) != NULL;
}

bool dsf_bpe_keeps_words(const struct dsf_bpe *bpe)
{
    return !bpe->spaces_behind;
}

bool dsf_bpe_keeps_lines(const struct dsf_bpe *bpe)
{
    return !bpe->lines;
}

int dsf_bpe_merge(struct dsf_bpe *bpe, const char *left, size_t nleft,
                  const char *right, size_t nright, struct dsflow_err *err)
{
    int32_t a = dsf_strings_find(&bpe->names, left, nleft), both;
    int32_t b = dsf_strings_find(&bpe->names, right, nright);
    struct dsf_pair_merge *merge;
    char *name;

    if (a < 0)
        return lacks(err, left, nleft, bpe->next_rank);
    if (b < 0)
        return lacks(err, right, nright, bpe->next_rank);
    name = dsf_xcalloc(nleft + nright, 1);
    memcpy(name, left, nleft);
    memcpy(name + nleft, right, nright);
    both = dsf_strings_find(&bpe->names, name, nleft + nright);
    if (both < 0)
        lacks(err, name, nleft + nright, bpe->next_rank);
    free(name);
    if (both < 0)
        return DSFLOW_EINVAL;
    if (bpe->characters)
        note_merged(bpe, both);
    grow_merges(bpe);
    merge = dsf_bpe_find_merge(bpe, (uint32_t)a, (uint32_t)b);
    bpe->nmerges += merge->pair == UINT64_MAX;
    /* Of a merge that is listed twice, the last counts, as elsewhere. */
    *merge = (struct dsf_pair_merge){ (uint64_t)(uint32_t)a << 32 | (uint32_t)b,
                                      bpe->next_rank++, (uint32_t)both };
    return DSFLOW_OK;
}

int dsf_bpe_finish(struct dsf_bpe *bpe, bool ignore_merges,
                   struct dsflow_err *err)
{
    bpe->ignore_merges = ignore_merges;
    grow_merges(bpe);
    for (unsigned i = 0; i < 256; i++) {
        char byte = (char)i;

        if (!bpe->characters)
            bpe->byte[i] = dsf_strings_find(&bpe->bytes, &byte, 1);
        if (bpe->byte[i] < 0)
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "the vocabulary has no token for byte 0x%02x; "
                               "expected all 256",
                               i);
    }
    return DSFLOW_OK;
}

int32_t dsf_bpe_vocab(const struct dsf_bpe *bpe)
{
    return (int32_t)bpe->names.nspans;
}

size_t dsf_bpe_count(const struct dsf_bpe *bpe)
{
    return bpe->names.used;
}

bool dsf_bpe_is_bytes(const struct dsf_bpe *bpe)
{
    for (int i = 0; i < 256; i++)
        if (bpe->byte[i] != i)
            return false;
    return bpe->names.used == 256 && bpe->nmerges == 0 && !bpe->characters;
}

int32_t dsf_bpe_find(const struct dsf_bpe *bpe, const char *name, size_t n)
{
    return dsf_strings_find(&bpe->names, name, n);
}

bool dsf_bpe_has(const struct dsf_bpe *bpe, int32_t id)
{
    return id >= 0 && (size_t)id < bpe->names.nspans &&
           bpe->names.spans[id].there;
}

const char *dsf_bpe_bytes(const struct dsf_bpe *bpe, int32_t id, size_t *n)
{
    return string_at(&bpe->bytes, id, n);
}
