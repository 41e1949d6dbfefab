/* layout.c - which blocks of keys a task of sparse attention packs, and how
 * many pairs of a query and a key it is for. */
#include "kernels/layout.h"

size_t dsf_layout_next(const uint64_t *row, size_t c, size_t end)
{
    while (c < end) {
        const uint64_t left = row[c / 64] >> c % 64;

        if (left != 0) {
            c += (size_t)__builtin_ctzll(left);
            return c < end ? c : end;
        }
        c = (c / 64 + 1) * 64;
    }
    return end;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t most(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* The blocks of queries of a tile: from *row to the one returned. */
static size_t rows_of(const struct dsf_layout *l,
                      const struct dsf_layout_pair *p, size_t *row)
{
    *row = p->pos / l->block;
    return (p->pos + p->queries + l->block - 1) / l->block;
}

/* How many of the keys the window hides from all queries. */
static size_t hidden(const struct dsf_layout_pair *p)
{
    const size_t before = p->window + p->key_pos;

    return p->window > 0 && p->pos + 1 > before ? p->pos + 1 - before : 0;
}

/* The 64 columns of a word: the bits of those that some query sees. */
static uint64_t seen_of_word(const struct dsf_layout *l,
                             const struct dsf_layout_pair *p, size_t head,
                             size_t heads, size_t word)
{
    size_t row, end = rows_of(l, p, &row);
    uint64_t seen = 0;

    row = most(row, word * 64);
    for (size_t h = head; h < head + heads; h++)
        for (size_t r = row; r < end && seen != UINT64_MAX; r++)
            seen |= dsf_layout_row(l, h, r)[word];
    return seen;
}

size_t dsf_layout_pack(const struct dsf_layout *l,
                       const struct dsf_layout_pair *p, size_t head,
                       size_t heads, struct dsf_layout_slot *slots)
{
    const size_t first = dsf_layout_first(l, p), end = dsf_layout_end(l, p);
    const size_t none = hidden(p);
    uint64_t seen = 0;
    size_t at = 0;

    heads = l->apart == 0 ? 1 : heads;
    for (size_t c = first; c < end; c++) {
        size_t key = most(c * l->block, p->key_pos) - p->key_pos;
        size_t until = least((c + 1) * l->block - p->key_pos, p->keys), n;

        if (c == first || c % 64 == 0)
            seen = seen_of_word(l, p, head, heads, c / 64);
        if (none > key)
            key = least(key + (none - key) / 16 * 16, until);
        n = none < until && seen >> c % 64 & 1 ? until - key : 0;
        if (slots != NULL)
            slots[c - first] =
                (struct dsf_layout_slot){ (uint32_t)key, (uint32_t)n,
                                          (uint32_t)at };
        at += (n + 15) / 16 * 16;
    }
    return at;
}

/* Of the queries q .. q_end and the keys k .. k_end of a sequence. */
static double count_block(size_t q, size_t q_end, size_t k, size_t k_end,
                          size_t window)
{
    double n = 0;

    if (k_end <= q + 1 && (window == 0 || q_end - k <= window))
        return (double)(q_end - q) * (double)(k_end - k);
    for (; q < q_end; q++) {
        const size_t hides = window > 0 && q + 1 > window ? q + 1 - window : 0;
        const size_t from = most(k, hides), to = least(k_end, q + 1);

        n += to > from ? (double)(to - from) : 0;
    }
    return n;
}

/* Of the columns c .. end of a row of blocks. */
static double count_columns(const struct dsf_layout *l,
                            const struct dsf_layout_pair *p,
                            const uint64_t *row, size_t r, size_t c, size_t end)
{
    const size_t b = l->block;
    double n = 0;

    for (c = dsf_layout_next(row, c, end); c < end;
         c = dsf_layout_next(row, c + 1, end))
        n += count_block(most(r * b, p->pos),
                         least((r + 1) * b, p->pos + p->queries),
                         most(c * b, p->key_pos),
                         least((c + 1) * b, p->key_pos + p->keys), p->window);
    return n;
}

/* How many of the columns c .. end a row sees. */
static size_t count_bits(const uint64_t *row, size_t c, size_t end)
{
    size_t n = 0;

    while (c < end) {
        const size_t next = least((c / 64 + 1) * 64, end);
        const uint64_t bits = row[c / 64] >> c % 64;

        n += (size_t)__builtin_popcountll(bits << (64 - (next - c)));
        c = next;
    }
    return n;
}

/* Of a row of blocks; columns before it that the keys have all of are counted
 * as bits. */
static double count_row(const struct dsf_layout *l,
                        const struct dsf_layout_pair *p, const uint64_t *row,
                        size_t r)
{
    const size_t b = l->block, first = dsf_layout_first(l, p);
    const size_t from = (p->key_pos + b - 1) / b, end = dsf_layout_end(l, p);
    const size_t until = least((p->key_pos + p->keys) / b, r);
    const size_t queries =
        least((r + 1) * b, p->pos + p->queries) - most(r * b, p->pos);

    if (p->window > 0 || from >= until)
        return count_columns(l, p, row, r, first, end);
    return count_columns(l, p, row, r, first, from) +
           (double)(count_bits(row, from, until) * b * queries) +
           count_columns(l, p, row, r, until, end);
}

double dsf_layout_count(const struct dsf_layout *l,
                        const struct dsf_layout_pair *p, size_t head,
                        size_t heads)
{
    const size_t each = l->apart == 0 ? 1 : heads;
    double n = 0;

    for (size_t h = head; h < head + each; h++) {
        size_t r, last = rows_of(l, p, &r);

        for (; r < last; r++)
            n += count_row(l, p, dsf_layout_row(l, h, r), r);
    }
    return n * (double)(heads / each);
}
