/* bpe.c - byte pair encoding: of all neighbours that can be merged, the pair
 * of lowest rank first, the leftmost first among equals. */
#include "text/bpe.h"

#include "base/alloc.h"
#include "base/utf8.h"
#include "text/bpe_vocab.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* Words of up to SHORT bytes: look at every pair for each merge. */
#define SHORT 48u

/* The token of one character, or -1. */
static int32_t token_of(const struct dsf_bpe *bpe, const char *text, size_t n)
{
    bool space = n == 3 && memcmp(text, DSF_SPACE, 3) == 0;

    return n == 0 ? -1
                  : dsf_strings_find(&bpe->bytes, space ? " " : text,
                                     space ? 1 : n);
}

/* What merging begins with, of a word of `n` bytes: as many at most. */
static size_t symbols_of(const struct dsf_bpe *bpe, const char *word, size_t n,
                         uint32_t *to)
{
    size_t k = 0;

    if (!bpe->characters) {
        for (size_t i = 0; i < n; i++)
            to[i] = (uint32_t)bpe->byte[(unsigned char)word[i]];
        return n;
    }
    for (size_t i = 0, end; i < n; i = end) {
        size_t len = dsf_utf8_char(word + i, n - i);
        int32_t id = token_of(bpe, word + i, len);

        end = i + (len > 0 ? len : 1);
        if (id >= 0)
            to[k++] = (uint32_t)id;
        for (size_t j = i; id < 0 && j < end; j++)
            to[k++] = (uint32_t)bpe->byte[(unsigned char)word[j]];
    }
    return k;
}

static uint32_t rank_of(const struct dsf_bpe *bpe, uint32_t left,
                        uint32_t right, uint32_t *id)
{
    const struct dsf_pair_merge *m = dsf_bpe_find_merge(bpe, left, right);

    *id = m->id;
    return m->rank;
}

/* `symbols` become the tokens; their number is returned. */
static unsigned merge_short(const struct dsf_bpe *bpe, uint32_t *symbols,
                            unsigned n)
{
    uint32_t ranks[SHORT], ids[SHORT];

    for (unsigned i = 0; i + 1 < n; i++)
        ranks[i] = rank_of(bpe, symbols[i], symbols[i + 1], &ids[i]);
    while (n > 1) {
        unsigned best = 0;

        for (unsigned i = 1; i + 1 < n; i++)
            if (ranks[i] < ranks[best])
                best = i;
        if (ranks[best] == DSF_NO_RANK)
            break;
        symbols[best] = ids[best];
        n--;
        for (unsigned i = best + 1; i < n; i++) {
            symbols[i] = symbols[i + 1];
            if (i + 1 < n) {
                ranks[i] = ranks[i + 1];
                ids[i] = ids[i + 1];
            }
        }
        if (best + 1 < n)
            ranks[best] =
                rank_of(bpe, symbols[best], symbols[best + 1], &ids[best]);
        if (best > 0)
            ranks[best - 1] =
                rank_of(bpe, symbols[best - 1], symbols[best], &ids[best - 1]);
    }
    return n;
}

/* Longer words: the pairs wait in a heap, and the symbols are a list. */
struct candidate {
    uint32_t rank, id;
    size_t at;            /* of the left symbol */
    uint32_t left, right; /* as they were: others by now, it is void */
};

struct symbol {
    uint32_t id;       /* UINT32_MAX: merged into the one before it */
    size_t prev, next; /* SIZE_MAX: none */
};

struct heap {
    struct candidate *v;
    size_t n, cap;
};

static bool is_before(const struct candidate *a, const struct candidate *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static void push(struct heap *heap, struct candidate c)
{
    size_t i = heap->n++, up;

    dsf_grow(&heap->v, &heap->cap, heap->n, sizeof(*heap->v));
    for (; i > 0; i = up) {
        up = (i - 1) / 2;
        if (!is_before(&c, &heap->v[up]))
            break;
        heap->v[i] = heap->v[up];
    }
    heap->v[i] = c;
}

static struct candidate pop(struct heap *heap)
{
    struct candidate top = heap->v[0], last = heap->v[--heap->n];
    size_t i = 0, down;

    for (; (down = 2 * i + 1) < heap->n; i = down) {
        if (down + 1 < heap->n && is_before(&heap->v[down + 1], &heap->v[down]))
            down++;
        if (!is_before(&heap->v[down], &last))
            break;
        heap->v[i] = heap->v[down];
    }
    heap->v[i] = last;
    return top;
}

static void offer(const struct dsf_bpe *bpe, struct heap *heap,
                  const struct symbol *s, size_t at)
{
    struct candidate c = { .at = at };

    if (at == SIZE_MAX || s[at].next == SIZE_MAX)
        return;
    c.left = s[at].id;
    c.right = s[s[at].next].id;
    c.rank = rank_of(bpe, c.left, c.right, &c.id);
    if (c.rank != DSF_NO_RANK)
        push(heap, c);
}

static void merge_long(const struct dsf_bpe *bpe, const char *word, size_t n,
                       struct dsf_tokens *out)
{
    uint32_t *symbols = dsf_xcalloc(n, sizeof(*symbols));
    struct symbol *s = dsf_xcalloc(n, sizeof(*s));
    struct heap heap = { 0 };

    n = symbols_of(bpe, word, n, symbols);
    for (size_t i = 0; i < n; i++)
        s[i] = (struct symbol){ symbols[i], i > 0 ? i - 1 : SIZE_MAX,
                                i + 1 < n ? i + 1 : SIZE_MAX };
    free(symbols);
    for (size_t i = 0; i < n; i++)
        offer(bpe, &heap, s, i);
    while (heap.n > 0) {
        struct candidate c = pop(&heap);
        size_t next = s[c.at].next;

        if (s[c.at].id != c.left || next == SIZE_MAX || s[next].id != c.right)
            continue;
        s[c.at].id = c.id;
        s[c.at].next = s[next].next;
        s[next].id = UINT32_MAX;
        if (s[c.at].next != SIZE_MAX)
            s[s[c.at].next].prev = c.at;
        offer(bpe, &heap, s, s[c.at].prev);
        offer(bpe, &heap, s, c.at);
    }
    dsf_grow(&out->v, &out->cap, out->n + n, sizeof(*out->v));
    for (size_t i = 0; i != SIZE_MAX; i = s[i].next)
        out->v[out->n++] = (int32_t)s[i].id;
    free(s);
    free(heap.v);
}

/* Words that were seen, each in the one place its hash gives: text repeats its
 * words so much that nothing finer is worth it. */
#define CACHED_BYTES  30u
#define CACHED_TOKENS 8u
#define CACHE_SIZE    (1u << 15)

struct dsf_bpe_cache {
    struct word {
        unsigned char n, ntokens; /* n 0: free */
        char text[CACHED_BYTES];
        int32_t tokens[CACHED_TOKENS];
    } words[CACHE_SIZE];
};

struct dsf_bpe_cache *dsf_bpe_cache_new(void)
{
    return dsf_xcalloc(1, sizeof(struct dsf_bpe_cache));
}

void dsf_bpe_cache_free(struct dsf_bpe_cache *cache)
{
    free(cache);
}

static void keep(struct word *w, const char *text, unsigned n,
                 const int32_t *tokens, unsigned ntokens)
{
    w->n = (unsigned char)n;
    w->ntokens = (unsigned char)ntokens;
    memcpy(w->text, text, n);
    memcpy(w->tokens, tokens, ntokens * sizeof(*tokens));
}

static void encode_short(const struct dsf_bpe *bpe, const char *text,
                         unsigned n, struct dsf_tokens *out)
{
    uint32_t symbols[SHORT];

    n = (unsigned)symbols_of(bpe, text, n, symbols);
    n = merge_short(bpe, symbols, n);
    dsf_grow(&out->v, &out->cap, out->n + n, sizeof(*out->v));
    for (unsigned i = 0; i < n; i++)
        out->v[out->n++] = (int32_t)symbols[i];
}

void dsf_bpe_encode(const struct dsf_bpe *bpe, struct dsf_bpe_cache *cache,
                    const char *text, size_t n, struct dsf_tokens *out)
{
    struct word *w = NULL;
    size_t before = out->n;
    int32_t whole;

    if (n == 0)
        return;
    if (cache != NULL && n <= CACHED_BYTES) {
        w = &cache->words[XXH3_64bits(text, n) & (CACHE_SIZE - 1)];
        if (w->n == n && memcmp(w->text, text, n) == 0) {
            dsf_grow(&out->v, &out->cap, out->n + CACHED_TOKENS,
                     sizeof(*out->v));
            memcpy(out->v + out->n, w->tokens, sizeof(w->tokens));
            out->n += w->ntokens;
            return;
        }
    }
    whole = bpe->ignore_merges ? dsf_strings_find(&bpe->bytes, text, n) : -1;
    if (whole >= 0) {
        dsf_grow(&out->v, &out->cap, out->n + 1, sizeof(*out->v));
        out->v[out->n++] = whole;
    } else if (n <= SHORT) {
        encode_short(bpe, text, (unsigned)n, out);
    } else {
        merge_long(bpe, text, n, out);
    }
    if (w != NULL && out->n - before <= CACHED_TOKENS)
        keep(w, text, (unsigned)n, out->v + before,
             (unsigned)(out->n - before));
}
