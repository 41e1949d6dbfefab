/* loops_in_place.h - attention with a layout, whose keys and values of fp32 are
 * used where they are. Few strips of queries see a key, so that packing it
 * would take longer than what it is for; queries are transposed instead, once
 * for all keys of a task, and then scores back, which are fewer numbers than
 * keys have. Each number is the sum of the same products in the same order as
 * with packed keys: the bits are the same. */
#ifndef DSF_KERNELS_LOOPS_IN_PLACE_H
#define DSF_KERNELS_LOOPS_IN_PLACE_H

/* Whole vectors of queries. */
enum { IN_PLACE = DSF_STRIP_IN_PLACE };

INLINE int used_in_place(const struct dsf_attention *a, struct dsf_numbers kv)
{
    return a->in_place && a->layout.bits != NULL && kv.type == DSFLOW_FP32;
}

/* to[i][j], of key i and query j, is the product of key and query over `d`
 * numbers; keys are `ld` apart, queries transposed. */
static void mm_keys_in_place(const struct piece *of, const float *keys,
                             size_t ld, size_t d, const float *qt, size_t ldq,
                             size_t rows, float *to)
{
    for (size_t r = 0, i = 0; r < of->nruns; i += of->run[r++].n)
        mm(&(struct product){ of->run[r].n, rows, d, keys + of->run[r].key * ld,
                              ld, 1, qt, ldq, to + i * IN_PLACE, IN_PLACE, 0, 0,
                              1, NULL });
}

/* The strip p sees keys of one tile. */
static void forward_piece(const struct dsf_attention *a, struct strip *p,
                          const struct piece *of, const float *keys,
                          const float *values, float *st, float *top,
                          float *sum)
{
    const size_t d = a->head_dim, ld = 2 * a->kv_heads * d;

    mm_keys_in_place(of, keys, ld, d, p->q, IN_PLACE, p->rows, st);
    transpose(p->s, a->block, st, IN_PLACE, of->n, p->rows);
    soften_piece(a, p, of, top, sum);
    mm_over_keys((struct product){ p->rows, d, 0, p->s, a->block, 1, values, ld,
                                   p->o, p->ldd, !p->is_new, 0, 1, NULL },
                 of);
    p->is_new = 0;
}

/* Does the strip see any key of any tile? */
static int sees_any(const struct dsf_attention *a, size_t head, size_t i0,
                    size_t rows)
{
    const struct packed p = columns_of(a);

    return sees(a, &p, head, i0, rows);
}

/* One strip of head `head` and all keys; `st` has room for its scores. */
static void strip_in_place(const struct dsf_attention *a, struct strip *p,
                           size_t head, const float *keys, const float *values,
                           float *st, float *top, float *sum)
{
    const size_t ld = 2 * a->kv_heads * a->head_dim;

    for (size_t i = 0; i < key_tiles(a); i++) {
        const struct dsf_attention t = key_tile(a, i);
        const size_t at = i * a->key_tile * ld;
        const struct packed columns = columns_of(&t);
        struct walk walk;
        struct piece of;

        if (all_hidden(&t))
            continue;
        walk = walk_from(&t, &columns, head, p->i0, p->rows);
        while (next_piece(&t, &columns, &walk, &of))
            forward_piece(&t, p, &of, keys + at, values + at, st, top, sum);
    }
}

/* One head: as forward_head. */
static void head_in_place(const struct dsf_attention *a, struct strip *p,
                          size_t head, struct dsf_numbers q, const float *keys,
                          const float *values, struct dsf_numbers att,
                          float *lse, size_t lsum, float *st)
{
    const size_t d = a->head_dim, ld = a->heads * d;
    float top[DSF_MAX_STRIP], sum[DSF_MAX_STRIP];

    for (p->i0 = 0; p->i0 < a->queries; p->i0 += p->rows) {
        float *l = lse + p->i0 * a->heads;
        struct dsf_numbers out = from(att, p->i0 * ld);
        int sees;

        p->rows = strip_rows(a, p->i0);
        sees = sees_any(a, head, p->i0, p->rows);
        if (!a->first && !a->last && !sees)
            continue;
        if (sees) {
            copy_rows(floats(p->o), p->ldd, from(q, p->i0 * ld), ld, p->rows, d,
                      a->scale);
            transpose(p->q, IN_PLACE, p->o, p->ldd, p->rows, d);
        }
        begin_strip(a, p, out, l, lsum, top, sum);
        if (sees)
            strip_in_place(a, p, head, keys, values, st, top, sum);
        if (p->is_new)
            clear_rows(floats(p->o), p->ldd, p->rows, d);
        end_strip(a, p, out, l, lsum, top, sum);
    }
}

static void forward_in_place(const struct dsf_attention *whole,
                             struct dsf_numbers q, const float *kv,
                             struct dsf_numbers att, float *lse, float *scratch)
{
    struct dsf_attention a = *whole;
    const size_t d = a.head_dim, ldkv = 2 * a.kv_heads * d;
    const size_t rows = a.nseq * a.queries, group = a.heads / a.kv_heads;
    struct strip p = { .ldd = round_up(d), .q = scratch };
    float *st;

    a.strip = IN_PLACE;
    p.o = p.q + d * IN_PLACE;
    p.s = p.o + IN_PLACE * p.ldd;
    st = p.s + IN_PLACE * a.block;
    for (size_t s = 0; s < a.nseq; s++)
        for (size_t h = 0; h < a.heads; h++) {
            const float *keys = kv + s * a.keys * ldkv + h / group * d;
            const size_t at = s * a.queries * a.heads + h;

            head_in_place(&a, &p, h, from(q, at * d), keys,
                          keys + a.kv_heads * d, from(att, at * d), lse + at,
                          rows * a.heads, st);
        }
}

/* A strip of queries of the backward pass: rows of queries (scaled) and of
 * gradients of outputs, and both transposed, `wide` numbers a row. */
struct back_in_place {
    size_t rows, wide;
    float *q, *dout, *qt, *doutt;
};

/* P = e^(S - lse) and dS = P (dP - delta) of a key and a strip: both 0 but of
 * queries from..until. */
INLINE void weigh_key(float *s, float *ds, const struct back_strip *p,
                      size_t from, size_t until)
{
    for (size_t r = 0; r < p->rows; r += VW) {
        const size_t left = p->rows - r < VW ? p->rows - r : VW;
        const size_t none = from <= r ? 0 : from - r < VW ? from - r : VW;
        const size_t some = until <= r ? 0 : until - r < VW ? until - r : VW;
        vf e = vexp(vload(s + r, left) - vload(p->lse + r, left));
        vf g = e * (vload(ds + r, left) - vload(p->delta + r, left));

        if (none > 0 || some < VW) {
            e = vpick(vzero(), vpick(e, vzero(), some), none);
            g = vpick(vzero(), vpick(g, vzero(), some), none);
        }
        vstore(s + r, e, left);
        vstore(ds + r, g, left);
    }
}

static void weigh_keys(const struct dsf_attention *a,
                       const struct back_strip *p, const struct piece *of)
{
    const size_t first = a->pos + p->i0;
    float *s = p->s, *ds = p->ds;

    for (size_t r = 0; r < of->nruns; r++) {
        const size_t end = of->run[r].key + of->run[r].n;

        for (size_t key = of->run[r].key; key < end; key++) {
            const size_t last = key + a->key_pos + a->window;
            const size_t from = a->diagonal && key > p->i0 ? key - p->i0 : 0;
            const size_t until = a->window == 0 ? p->rows
                                 : last > first ? last - first
                                                : 0;

            weigh_key(s, ds, p, from, until < p->rows ? until : p->rows);
            s += IN_PLACE;
            ds += IN_PLACE;
        }
    }
}

/* As backward_strip. */
static void back_strip_in_place(const struct dsf_attention *a,
                                struct back_strip *p, size_t head,
                                const struct back_in_place *of,
                                const float *keys, const float *values)
{
    const size_t d = a->head_dim, ld = 2 * a->kv_heads * d, rows = p->rows;
    struct walk walk = walk_from(a, &p->packed, head, p->i0, rows);
    struct piece piece;

    while (next_piece(a, &p->packed, &walk, &piece)) {
        mm_keys_in_place(&piece, keys, ld, d, of->qt, of->wide, rows, p->s);
        mm_keys_in_place(&piece, values, ld, d, of->doutt, of->wide, rows,
                         p->ds);
        weigh_keys(a, p, &piece);
        add_to(p, &piece);
        mm_to_keys((struct product){ 0, d, rows, p->s, IN_PLACE, 1, of->dout,
                                     p->ldd, p->dv, p->ldd, 1, 0, 1, NULL },
                   &piece);
        mm_over_keys((struct product){ rows, d, 0, p->ds, 1, IN_PLACE, keys, ld,
                                       p->dq, p->ldd, !p->is_new, 0, 1, NULL },
                     &piece);
        mm_to_keys((struct product){ 0, d, rows, p->ds, IN_PLACE, 1, of->q,
                                     p->ldd, p->dk, p->ldd, 1, 0, 1, NULL },
                   &piece);
        p->is_new = 0;
    }
}

/* Where the strip from query i0 on is in working memory; *room is what is left
 * of that. */
static struct back_in_place place_strip(const struct dsf_attention *a,
                                        size_t i0, float **room)
{
    const size_t d = a->head_dim, ldd = round_up(d);
    struct back_in_place of = { .rows = strip_rows(a, i0) };

    of.wide = round_up(of.rows);
    of.q = *room;
    of.dout = of.q + of.rows * ldd;
    of.qt = of.dout + of.rows * ldd;
    of.doutt = of.qt + d * of.wide;
    *room = of.doutt + d * of.wide;
    return of;
}

/* The queries of a head, and gradients of its outputs, are laid out; of strips
 * that see nothing they are not. Returns what is left of the room. */
static float *lay_queries(const struct dsf_attention *a, size_t head,
                          struct dsf_numbers q, struct dsf_numbers datt,
                          float *room)
{
    const size_t d = a->head_dim, ld = a->heads * d, ldd = round_up(d);

    for (size_t i0 = 0, rows; i0 < a->queries; i0 += rows) {
        const struct back_in_place s = place_strip(a, i0, &room);

        rows = s.rows;
        if (!sees_any(a, head, i0, rows))
            continue;
        copy_rows(floats(s.q), ldd, from(q, i0 * ld), ld, rows, d, a->scale);
        copy_rows(floats(s.dout), ldd, from(datt, i0 * ld), ld, rows, d, 1);
        transpose(s.qt, s.wide, s.q, ldd, rows, d);
        transpose(s.doutt, s.wide, s.dout, ldd, rows, d);
    }
    return room;
}

/* to += in * by, over rows; two roundings, as of two passes. */
static void add_scaled(float *to, size_t ldt, float *in, size_t ldf,
                       size_t rows, size_t n, float by)
{
    for (size_t r = 0; r < rows; r++) {
        scale(in + r * ldf, by, n);
        sum2(to + r * ldt, to + r * ldt, in + r * ldf, n);
    }
}

/* One head and the keys of one tile; returns the room behind the head's. */
static float *back_head_in_place(const struct dsf_attention *a,
                                 struct back_strip *p, size_t head,
                                 const float *keys, const float *lse,
                                 const float *delta, struct dsf_numbers dq,
                                 float *room)
{
    const size_t d = a->head_dim, ld = a->heads * d, ldd = p->ldd;

    for (p->i0 = 0; p->i0 < a->queries; p->i0 += p->rows) {
        const struct back_in_place of = place_strip(a, p->i0, &room);
        const size_t rows = of.rows;
        struct dsf_numbers to;

        p->rows = rows;
        if (!a->first_q && !sees(a, &p->packed, head, p->i0, rows))
            continue;
        for (size_t r = 0; r < rows; r++) {
            p->lse[r] = lse[(p->i0 + r) * a->heads];
            p->delta[r] = delta[(p->i0 + r) * a->heads];
        }
        p->is_new = 1;
        back_strip_in_place(a, p, head, &of, keys, keys + a->kv_heads * d);
        to = from(dq, p->i0 * ld);
        if (p->is_new && a->first_q)
            clear_rows(to, ld, rows, d);
        else if (a->first_q)
            copy_rows(to, ld, floats(p->dq), ldd, rows, d, a->scale);
        else if (!p->is_new)
            add_scaled(to.p, ld, p->dq, ldd, rows, d, a->scale);
    }
    return room;
}

/* Gradients of keys or values: `sums` of those that there are, else 0. */
static void put_in_place(const struct dsf_attention *a,
                         const struct back_strip *p, struct dsf_numbers to,
                         float *sums)
{
    const size_t d = a->head_dim, ld = 2 * a->kv_heads * d, ldd = p->ldd;

    for (size_t at = 0; at < a->keys; at += 16) {
        const size_t n = a->keys - at < 16 ? a->keys - at : 16;

        if (is_added(p, at))
            put_rows(from(to, at * ld), ld, sums + at * ldd, ldd, n, d,
                     a->first_kv);
        else if (a->first_kv)
            clear_rows(from(to, at * ld), ld, n, d);
    }
}

/* The group of heads from `head` on, whose queries are laid out from `room`
 * on, and the keys of one tile. */
static void back_tile_in_place(const struct dsf_attention *a,
                               struct back_strip *p, size_t head,
                               const float *keys, const float *lse,
                               const float *delta, struct dsf_numbers dq,
                               struct dsf_numbers dkeys, float *room)
{
    const size_t d = a->head_dim, group = a->heads / a->kv_heads;

    p->packed = columns_of(a);
    p->nkeys = a->keys;
    p->dv = p->dk + a->keys * p->ldd;
    begin_key_sums(p);
    for (size_t h = 0; h < group && !all_hidden(a); h++)
        room = back_head_in_place(a, p, head + h, keys, lse + h, delta + h,
                                  from(dq, h * d), room);
    put_in_place(a, p, dkeys, p->dk);
    put_in_place(a, p, from(dkeys, a->kv_heads * d), p->dv);
}

static void backward_in_place(const struct dsf_attention *whole,
                              struct dsf_numbers q, const float *kv,
                              struct dsf_numbers datt, const float *lse,
                              const float *delta, struct dsf_numbers dq,
                              struct dsf_numbers dkv, float *scratch)
{
    struct dsf_attention a = *whole;
    const size_t d = a.head_dim, ldkv = 2 * a.kv_heads * d;
    const size_t group = a.heads / a.kv_heads, tiles = key_tiles(&a);
    const size_t each = a.key_tile > 0 ? a.key_tile : a.keys;
    struct back_strip p = { .ldd = round_up(d), .s = scratch };

    a.strip = IN_PLACE;
    p.ds = p.s + IN_PLACE * a.block;
    p.dq = p.ds + IN_PLACE * a.block;
    p.dk = p.dq + IN_PLACE * p.ldd;
    for (size_t s = 0; s < a.nseq; s++)
        for (size_t h = 0; h < a.heads; h += group) {
            const size_t at = s * a.queries * a.heads + h;
            const size_t to = s * a.keys * ldkv + h / group * d;
            float *laid = p.dk + 2 * each * p.ldd, *room = laid;
            int first = a.first_q;

            for (size_t g = 0; g < group; g++)
                room = lay_queries(&a, h + g, from(q, (at + g) * d),
                                   from(datt, (at + g) * d), room);
            for (size_t i = tiles; i-- > 0;) {
                struct dsf_attention t = key_tile(&a, i);
                const size_t key = to + i * each * ldkv;

                t.first_q = first;
                first &= all_hidden(&t);
                back_tile_in_place(&t, &p, h, kv + key, lse + at, delta + at,
                                   from(dq, at * d), from(dkv, key), laid);
            }
        }
}

#endif
