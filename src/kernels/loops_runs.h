/* loops_runs.h - which keys a strip of queries sees, as attention goes through
 * them: of all that a task has, or of the blocks of a layout. */
#ifndef DSF_KERNELS_LOOPS_RUNS_H
#define DSF_KERNELS_LOOPS_RUNS_H

/* How many times `key_tile` keys there are, and those of the i-th time. */
INLINE size_t key_tiles(const struct dsf_attention *a)
{
    return a->key_tile > 0 ? (a->keys + a->key_tile - 1) / a->key_tile : 1;
}

INLINE struct dsf_attention key_tile(const struct dsf_attention *a, size_t i)
{
    const size_t at = i * a->key_tile, left = a->keys - at;
    const int end = i + 1 == key_tiles(a);
    struct dsf_attention t = *a;

    if (a->key_tile == 0)
        return t;
    t.key_tile = 0;
    t.keys = left < a->key_tile ? left : a->key_tile;
    t.key_pos += at;
    t.diagonal = a->diagonal && end;
    t.last = a->last && end;
    return t;
}

/* Does the window hide all keys from all queries? */
INLINE int all_hidden(const struct dsf_attention *a)
{
    return a->window > 0 && a->pos + 1 >= a->window + a->key_pos + a->keys;
}

/* How many of the keys from k0 on does query i see, at most n? Those that a
 * window hides are among them. */
INLINE size_t seen(const struct dsf_attention *a, size_t i, size_t k0, size_t n)
{
    if (!a->diagonal)
        return n;
    if (i < k0)
        return 0;
    return i - k0 + 1 < n ? i - k0 + 1 : n;
}

/* How many of all keys are in front of the window of query i? */
INLINE size_t hidden(const struct dsf_attention *a, size_t i)
{
    const size_t end = a->window > 0 ? a->pos + i + 1 : 0;

    return end > a->window + a->key_pos ? end - a->window - a->key_pos : 0;
}

/* The first key that a strip from query i0 on looks at. */
INLINE size_t first_key(const struct dsf_attention *a, size_t i0)
{
    return hidden(a, i0) / 16 * 16;
}

/* Keys that stand side by side, in the data from `key` on and packed from `at`
 * on. */
struct run {
    size_t key, n, at;
    int is_new; /* of sums: nothing has been added to them so far */
};

/* The keys whose scores are computed together, at most a->block: runs of them,
 * each but the last a multiple of 16 long. `last`: of all of them, where the
 * last run begins; only that one has keys behind a query of the strip. */
enum { MOST_RUNS = 16 };
struct piece {
    size_t n, nruns, last;
    struct run run[MOST_RUNS];
};

/* What of the keys is packed: all from `from` on, or the slots of a layout,
 * whose first one is of column `first`. NULL: keys stay where they are. */
struct packed {
    size_t from, first, end;
    struct dsf_layout_slot *slots;
};

/* A walk over the keys that the queries i0 .. i0 + rows see. */
struct walk {
    size_t i0, rows;
    size_t key;          /* without a layout: the next one */
    const uint64_t *row; /* of the layout */
    size_t column, end;
    struct run next;
};

INLINE struct walk walk_from(const struct dsf_attention *a,
                             const struct packed *p, size_t head, size_t i0,
                             size_t rows)
{
    struct walk w = { .i0 = i0, .rows = rows };

    if (a->layout.bits == NULL) {
        w.key = first_key(a, i0);
        return w;
    }
    w.row = dsf_layout_row(&a->layout, a->head + head,
                           (a->pos + i0) / a->layout.block);
    w.column = p->first;
    w.end = p->end;
    return w;
}

/* The keys of a column, where they are. */
INLINE struct dsf_layout_slot in_place(const struct dsf_attention *a,
                                       size_t column)
{
    const size_t begin = column * a->layout.block;
    const size_t end = begin + a->layout.block;
    const size_t key = begin > a->key_pos ? begin - a->key_pos : 0;
    const size_t until =
        end - a->key_pos < a->keys ? end - a->key_pos : a->keys;

    return (struct dsf_layout_slot){ (uint32_t)key, (uint32_t)(until - key),
                                     (uint32_t)key };
}

/* The next column that the strip sees becomes w->next; 0: there is none. */
static int next_column(const struct dsf_attention *a, const struct packed *p,
                       struct walk *w)
{
    const size_t none = hidden(a, w->i0);

    while (w->next.n == 0) {
        struct dsf_layout_slot slot;

        w->column = dsf_layout_next(w->row, w->column, w->end);
        if (w->column >= w->end)
            return 0;
        slot = p->slots == NULL ? in_place(a, w->column)
                                : p->slots[w->column - p->first];
        w->column++;
        w->next = (struct run){ slot.key, slot.n, slot.at, 0 };
        if (none > slot.key) {
            size_t skip = (none - slot.key) / 16 * 16;

            skip = none >= slot.key + slot.n ? slot.n : skip;
            w->next.key += skip;
            w->next.at += skip;
            w->next.n -= skip;
        }
    }
    return 1;
}

/* The next piece of a layout: columns that stand side by side are one run. */
static int next_runs(const struct dsf_attention *a, const struct packed *p,
                     struct walk *w, struct piece *of)
{
    of->n = of->nruns = of->last = 0;
    while (of->n < a->block && of->n % 16 == 0 && next_column(a, p, w)) {
        struct run *run = of->nruns > 0 ? &of->run[of->nruns - 1] : NULL;
        const size_t room = a->block - of->n;
        const size_t take = w->next.n < room ? w->next.n : room;
        const size_t n = seen(a, w->i0 + w->rows - 1, w->next.key, take);

        if (n == 0) {
            w->column = w->end;
            w->next.n = 0;
            break;
        }
        if (run != NULL && run->key + run->n == w->next.key &&
            run->at + run->n == w->next.at) {
            run->n += n;
        } else {
            of->last = of->n;
            of->run[of->nruns++] =
                (struct run){ w->next.key, n, w->next.at, 0 };
        }
        of->n += n;
        w->next.key += take;
        w->next.at += take;
        w->next.n -= take;
    }
    return of->n > 0;
}

INLINE int next_piece(const struct dsf_attention *a, const struct packed *p,
                      struct walk *w, struct piece *of)
{
    size_t left = a->keys - w->key < a->block ? a->keys - w->key : a->block;

    if (a->layout.bits != NULL)
        return next_runs(a, p, w, of);
    if (w->key >= a->keys)
        return 0;
    of->n = seen(a, w->i0 + w->rows - 1, w->key, left);
    of->nruns = 1;
    of->last = 0;
    of->run[0] = (struct run){ w->key, of->n, w->key - p->from, 0 };
    w->key += a->block;
    return of->n > 0;
}

/* How many keys of the piece does query i see, but for its window? */
INLINE size_t seen_of(const struct dsf_attention *a, const struct piece *p,
                      size_t i)
{
    const struct run *run = &p->run[p->nruns - 1];

    return p->last + seen(a, i, run->key, run->n);
}

/* Of the first m keys of a piece: how many does the window of query i hide? */
INLINE size_t hidden_of(const struct dsf_attention *a, const struct piece *p,
                        size_t i, size_t m)
{
    const size_t before = hidden(a, i);
    size_t n = 0;

    for (size_t r = 0; r < p->nruns; r++) {
        const struct run *run = &p->run[r];

        if (before <= run->key)
            break;
        n += before - run->key < run->n ? before - run->key : run->n;
    }
    return n < m ? n : m;
}

/* C = A B, of columns of B that are packed keys. */
static void mm_keys(struct product p, const struct piece *of)
{
    size_t at[MOST_RUNS];

    if (of->nruns == 1) {
        p.b += of->run[0].at;
        mm(&p);
        return;
    }
    for (size_t r = 0, n = 0; r < of->nruns; r++)
        for (size_t i = 0; i < of->run[r].n; i += 16)
            at[n++] = of->run[r].at + i;
    p.at = at;
    mm_apart(&p);
}

/* C = or += A B, whose sums are over the keys of a piece: rows of B are packed
 * keys, or pairs of them. */
static void mm_over_keys(struct product p, const struct piece *of)
{
    const size_t two = p.pairs ? 2 : 1;
    const float *a = p.a, *b = p.b;

    for (size_t r = 0, i = 0; r < of->nruns; i += of->run[r++].n) {
        p.k = p.pairs ? pairs_of(of->run[r].n) : of->run[r].n;
        p.a = a + i / two * p.ak;
        p.b = b + of->run[r].at / two * p.ldb;
        mm(&p);
        p.add = 1;
    }
}

/* C += A B, of rows of C that are packed keys; C = A B of those that are new.
 */
static void mm_to_keys(struct product p, const struct piece *of)
{
    const float *a = p.a;
    float *c = p.c;

    for (size_t r = 0, i = 0; r < of->nruns; i += of->run[r++].n) {
        p.add = !of->run[r].is_new;
        p.m = of->run[r].n;
        p.a = a + i * p.ai;
        p.c = c + of->run[r].at * p.ldc;
        mm(&p);
    }
}

/* Queries of a strip from i0 on: all there is room for, but not those of the
 * next row of blocks. */
INLINE size_t strip_rows(const struct dsf_attention *a, size_t i0)
{
    const size_t block = a->layout.block;
    size_t left = a->queries - i0;

    if (a->layout.bits != NULL && block - (a->pos + i0) % block < left)
        left = block - (a->pos + i0) % block;
    return left < a->strip ? left : a->strip;
}

INLINE struct dsf_layout_pair pair_of(const struct dsf_attention *a)
{
    return (struct dsf_layout_pair){ a->pos, a->queries, a->key_pos, a->keys,
                                     a->window };
}

/* The columns of a layout, whose keys stay where they are. */
INLINE struct packed columns_of(const struct dsf_attention *a)
{
    const struct dsf_layout_pair pair = pair_of(a);

    return (struct packed){ .first = dsf_layout_first(&a->layout, &pair),
                            .end = dsf_layout_end(&a->layout, &pair) };
}

/* What a head of keys has of a layout is packed; returns how many. */
static size_t pack_layout(const struct dsf_attention *a, size_t head,
                          struct packed *p)
{
    const struct dsf_layout_pair pair = pair_of(a);

    p->first = dsf_layout_first(&a->layout, &pair);
    p->end = dsf_layout_end(&a->layout, &pair);
    return dsf_layout_pack(&a->layout, &pair, a->head + head,
                           a->heads / a->kv_heads, p->slots);
}

/* Runs of keys that are packed together, one after the other from column *c on;
 * 0: there is none any more. */
static int next_packed(const struct dsf_attention *a, const struct packed *p,
                       size_t *c, struct run *run)
{
    if (a->layout.bits == NULL) {
        *run = (struct run){ p->from, a->keys - p->from, 0, 0 };
        return (*c)++ == 0 && run->n > 0;
    }
    run->n = 0;
    for (; p->first + *c < p->end; ++*c) {
        const struct dsf_layout_slot *slot = &p->slots[*c];

        if (run->n == 0)
            *run = (struct run){ slot->key, slot->n, slot->at, 0 };
        else if (slot->n > 0 && run->key + run->n == slot->key &&
                 run->at + run->n == slot->at)
            run->n += slot->n;
        else
            break;
    }
    return run->n > 0;
}

#endif
