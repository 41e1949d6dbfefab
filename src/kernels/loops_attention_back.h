/* loops_attention_back.h - gradients of attention of a tile of queries to a tile
 * of keys, whose keys and values are packed as in loops_attention.h. */
#ifndef DSF_KERNELS_LOOPS_ATTENTION_BACK_H
#define DSF_KERNELS_LOOPS_ATTENTION_BACK_H

enum { MOST_SUMS = 1 << 14 };

/* The strip of forward_strip, and what its backward adds. In pairs: q and dout
 * have those of each row, q2 and dout2 those of two rows; kt and vt those of
 * two numbers of a key, k those of two keys. Then, of two rows of s, the first
 * has the pairs of their P, the second those of their dS; ds has those of each
 * row. */
struct back_strip {
    int pairs;
    size_t i0, rows;
    float *kt, *vt, *k; /* packed keys and values of the head */
    struct packed packed;
    size_t ldk, ldd;
    float *q, *dout, *q2, *dout2, *dq, *s, *ds; /* working memory */
    float *dk, *dv; /* [packed keys][head_dim], sums so far */
    size_t nkeys;   /* of them */
    uint64_t added[MOST_SUMS / 16 / 64]; /* those of the i-th 16 are sums */
    int is_new;                          /* nothing is in dq so far */
    float lse[DSF_MAX_STRIP], delta[DSF_MAX_STRIP];
};

/* Sums of keys from `at` on become 0. */
static void clear_sums(struct back_strip *p, size_t at, size_t n)
{
    clear_rows(floats(p->dk + at * p->ldd), p->ldd, n, p->ldd);
    clear_rows(floats(p->dv + at * p->ldd), p->ldd, n, p->ldd);
}

/* Nothing is in the sums of keys. Of more than there are bits for they are set
 * to 0 at once, else where they are first added to, which is when they are in
 * the first cache anyway; MOST_SUMS: see back_strip. */
static void begin_key_sums(struct back_strip *p)
{
    const int all = p->nkeys > MOST_SUMS;

    memset(p->added, all ? 0xff : 0, sizeof(p->added));
    if (all)
        clear_sums(p, 0, p->nkeys);
}

/* Those 16 from `at` on are about to be added to; have they been? */
INLINE int is_added(const struct back_strip *p, size_t at)
{
    const size_t i = at / 16 % (MOST_SUMS / 16);

    return (int)(p->added[i / 64] >> i % 64 & 1);
}

/* The sums of a piece are about to be added to: those of a run that is new are
 * set, so that only those beside it need be 0. */
static void add_to(struct back_strip *p, struct piece *of)
{
    if (p->nkeys > MOST_SUMS)
        return;
    for (size_t r = 0; r < of->nruns; r++) {
        struct run *run = &of->run[r];
        const size_t end = run->at + run->n;

        run->is_new = 1;
        for (size_t at = run->at / 16 * 16; at < end; at += 16)
            run->is_new &= !is_added(p, at);
        for (size_t at = run->at / 16 * 16; at < end; at += 16) {
            const size_t until = at + 16 < p->nkeys ? at + 16 : p->nkeys;

            if (is_added(p, at))
                continue;
            p->added[at / 16 / 64] |= (uint64_t)1 << at / 16 % 64;
            if (!run->is_new)
                clear_sums(p, at, until - at);
            else if (at < run->at)
                clear_sums(p, at, run->at - at);
            if (run->is_new && until > end)
                clear_sums(p, end, until - end);
        }
    }
}

/* Those that nothing was added to are 0. */
static void end_key_sums(struct back_strip *p)
{
    for (size_t at = 0; at < p->nkeys && p->nkeys <= MOST_SUMS; at += 16)
        if (!is_added(p, at))
            clear_sums(p, at, p->nkeys - at < 16 ? p->nkeys - at : 16);
}

/* From i on of a row of scores: P = e^(S - lse), and dS = P (dP - delta); both
 * 0 past the m keys that are seen. */
INLINE void weigh(const float *s, const float *ds, size_t i, size_t m,
                  size_t left, float lse, float delta, vf *p, vf *dp)
{
    const size_t valid = i + VW <= m ? VW : m > i ? m - i : 0;
    vf e = vexp(vload(s + i, left) - vset(lse));
    vf g = e * (vload(ds + i, left) - vset(delta));

    *p = vpick(e, vzero(), valid);
    *dp = vpick(g, vzero(), valid);
}

/* Both are 0 of the first c keys, too, which the window hides. */
INLINE void hide(size_t i, size_t c, vf *p, vf *dp)
{
    const size_t none = c - i < VW ? c - i : VW;

    *p = vpick(vzero(), *p, none);
    *dp = vpick(vzero(), *dp, none);
}

static void weigh_row(float *s, float *ds, size_t c, size_t m, size_t n,
                      float lse, float delta)
{
    for (size_t i = 0; i < n; i += VW) {
        size_t left = n - i < VW ? n - i : VW;
        vf p, dp;

        weigh(s, ds, i, m, left, lse, delta, &p, &dp);
        vstore(s + i, p, left);
        vstore(ds + i, dp, left);
    }
    if (c > 0) {
        memset(s, 0, c * sizeof(float));
        memset(ds, 0, c * sizeof(float));
    }
}

/* Two rows, or one and none, that become pairs. */
static void weigh_pair(const struct dsf_attention *a,
                       const struct back_strip *b, size_t r,
                       const struct piece *of)
{
    const size_t ld = a->block, two = r + 1 < b->rows;
    const size_t i0 = b->i0 + r, n = of->n, m = seen_of(a, of, i0);
    const size_t m1 = two ? seen_of(a, of, i0 + 1) : 0;
    const size_t c = a->window > 0 ? hidden_of(a, of, i0, m) : 0;
    const size_t c1 = two && a->window > 0 ? hidden_of(a, of, i0 + 1, m1) : 0;
    float *s = b->s + r * ld, *ds = b->ds + r * ld;

    for (size_t i = 0; i < n; i += VW) {
        size_t left = n - i < VW ? n - i : VW;
        vf p, dp, p1 = vzero(), dp1 = vzero();

        weigh(s, ds, i, m, left, b->lse[r], b->delta[r], &p, &dp);
        if (two)
            weigh(s + ld, ds + ld, i, m1, left, b->lse[r + 1], b->delta[r + 1],
                  &p1, &dp1);
        if (i < c)
            hide(i, c, &p, &dp);
        if (i < c1)
            hide(i, c1, &p1, &dp1);
        vstore(s + i, vpair(p, p1), VW);
        vstore(s + ld + i, vpair(dp, dp1), VW);
        vstore_factor((uint16_t *)ds + i, dp);
        if (two)
            vstore_factor((uint16_t *)(ds + ld) + i, dp1);
    }
}

/* S = Q K^T, dV += P^T dO, dP = dO V^T, dQ += dS K, dK += dS^T Q. */
static void backward_strip(const struct dsf_attention *a,
                           struct back_strip *p, size_t head)
{
    const size_t d = a->head_dim, lds = a->block, rows = p->rows;
    struct walk walk = walk_from(a, &p->packed, head, p->i0, rows);
    struct piece of;

    while (next_piece(a, &p->packed, &walk, &of)) {
        const size_t n = of.n;

        mm_keys((struct product){ rows, n, d, p->q, p->ldd, 1, p->kt, p->ldk,
                                  p->s, lds, 0, 0, 1, NULL },
                &of);
        mm_keys((struct product){ rows, n, d, p->dout, p->ldd, 1, p->vt, p->ldk,
                                  p->ds, lds, 0, 0, 1, NULL },
                &of);
        for (size_t r = 0; r < rows; r++) {
            size_t m = seen_of(a, &of, p->i0 + r);

            weigh_row(p->s + r * lds, p->ds + r * lds,
                      a->window > 0 ? hidden_of(a, &of, p->i0 + r, m) : 0, m, n,
                      p->lse[r], p->delta[r]);
        }
        add_to(p, &of);
        mm_to_keys((struct product){ 0, d, rows, p->s, 1, lds, p->dout, p->ldd,
                                     p->dv, p->ldd, 1, 0, 1, NULL },
                   &of);
        mm_over_keys((struct product){ rows, d, 0, p->ds, lds, 1, p->k, p->ldd,
                                       p->dq, p->ldd, !p->is_new, 0, 1, NULL },
                     &of);
        mm_to_keys((struct product){ 0, d, rows, p->ds, 1, lds, p->q, p->ldd,
                                     p->dk, p->ldd, 1, 0, 1, NULL },
                   &of);
        p->is_new = 0;
    }
}

/* The same in pairs. Queries are not scaled: scores are, and in the end dQ and
 * dK. */
static void backward_strip_pairs(const struct dsf_attention *a,
                                 struct back_strip *p, size_t head)
{
    const size_t d = a->head_dim, lds = a->block, rows = p->rows;
    const size_t ldd = p->ldd, two = pairs_of(rows);
    struct walk walk = walk_from(a, &p->packed, head, p->i0, rows);
    struct piece of;

    while (next_piece(a, &p->packed, &walk, &of)) {
        const size_t n = of.n;

        mm_keys((struct product){ rows, n, pairs_of(d), p->q, ldd / 2, 1, p->kt,
                                  p->ldk, p->s, lds, 0, 1, a->scale, NULL },
                &of);
        mm_keys((struct product){ rows, n, pairs_of(d), p->dout, ldd / 2, 1,
                                  p->vt, p->ldk, p->ds, lds, 0, 1, 1, NULL },
                &of);
        for (size_t r = 0; r < rows; r += 2)
            weigh_pair(a, p, r, &of);
        add_to(p, &of);
        mm_to_keys((struct product){ 0, d, two, p->s, 1, 2 * lds, p->dout2, ldd,
                                     p->dv, ldd, 1, 1, 1, NULL },
                   &of);
        mm_over_keys((struct product){ rows, d, 0, p->ds, lds, 1, p->k, ldd,
                                       p->dq, ldd, !p->is_new, 1, 1, NULL },
                     &of);
        mm_to_keys((struct product){ 0, d, two, p->s + lds, 1, 2 * lds, p->q2,
                                     ldd, p->dk, ldd, 1, 1, 1, NULL },
                   &of);
        p->is_new = 0;
    }
}

static void backward_head(const struct dsf_attention *a, struct back_strip *p,
                          size_t head, struct dsf_numbers q,
                          struct dsf_numbers datt, const float *lse,
                          const float *delta, struct dsf_numbers dq)
{
    const size_t d = a->head_dim, ld = a->heads * d, ldd = p->ldd;

    for (p->i0 = 0; p->i0 < a->queries; p->i0 += p->rows) {
        struct dsf_numbers q0 = from(q, p->i0 * ld);
        struct dsf_numbers dout = from(datt, p->i0 * ld);

        p->rows = strip_rows(a, p->i0);
        if (!a->first_q && !sees(a, &p->packed, head, p->i0, p->rows))
            continue;
        for (size_t r = 0; r < p->rows; r++) {
            p->lse[r] = lse[(p->i0 + r) * a->heads];
            p->delta[r] = delta[(p->i0 + r) * a->heads];
        }
        p->is_new = 1;
        if (p->pairs) {
            pair_rows(p->q, ldd / 2, q0.p, ld, p->rows, d);
            pair_rows(p->dout, ldd / 2, dout.p, ld, p->rows, d);
            pair_columns(p->q2, ldd, q0.p, ld, p->rows, d);
            pair_columns(p->dout2, ldd, dout.p, ld, p->rows, d);
            backward_strip_pairs(a, p, head);
        } else {
            copy_rows(floats(p->q), ldd, q0, ld, p->rows, d, a->scale);
            copy_rows(floats(p->dout), ldd, dout, ld, p->rows, d, 1);
            backward_strip(a, p, head);
        }
        if (p->is_new)
            clear_rows(floats(p->dq), ldd, p->rows, d);
        copy_rows(floats(p->dq), ldd, floats(p->dq), ldd, p->rows, d, a->scale);
        put_rows(from(dq, p->i0 * ld), ld, p->dq, ldd, p->rows, d, a->first_q);
    }
}

static void pack_keys_back(const struct dsf_attention *a,
                           const struct back_strip *p, struct dsf_numbers keys,
                           struct dsf_numbers values)
{
    const size_t d = a->head_dim, ld = 2 * a->kv_heads * d, ldd = p->ldd;
    struct run run;

    for (size_t c = 0; next_packed(a, &p->packed, &c, &run);) {
        const struct dsf_numbers k = from(keys, run.key * ld);
        const struct dsf_numbers v = from(values, run.key * ld);
        const size_t n = run.n, at = run.at;

        if (p->pairs) {
            transpose_pairs(p->kt + at, p->ldk, k.p, ld, n, d);
            transpose_pairs(p->vt + at, p->ldk, v.p, ld, n, d);
            pair_columns(p->k + at / 2 * ldd, ldd, k.p, ld, n, d);
        } else {
            copy_rows(floats(p->k + at * ldd), ldd, k, ld, n, d, 1);
            transpose(p->kt + at, p->ldk, p->k + at * ldd, ldd, n, d);
            transpose_rows(p->vt + at, p->ldk, v, ld, n, d, p->q, ldd);
        }
    }
}

/* Gradients of keys or values, `sums` of those that are packed; none of the
 * others. */
static void put_keys(const struct dsf_attention *a, const struct back_strip *p,
                     struct dsf_numbers to, float *sums)
{
    const size_t d = a->head_dim, ld = 2 * a->kv_heads * d;
    size_t done = 0;
    struct run run;

    for (size_t c = 0; next_packed(a, &p->packed, &c, &run);) {
        if (a->first_kv)
            clear_rows(from(to, done * ld), ld, run.key - done, d);
        put_rows(from(to, run.key * ld), ld, sums + run.at * p->ldd, p->ldd,
                 run.n, d, a->first_kv);
        done = run.key + run.n;
    }
    if (a->first_kv)
        clear_rows(from(to, done * ld), ld, a->keys - done, d);
}

static void backward_tile(const struct dsf_attention *a,
                               struct dsf_numbers q, struct dsf_numbers kv,
                               struct dsf_numbers datt, const float *lse,
                               const float *delta, struct dsf_numbers dq,
                               struct dsf_numbers dkv, float *scratch)
{
    const size_t d = a->head_dim, ldkv = 2 * a->kv_heads * d;
    const int laid = a->layout.bits != NULL;
    const size_t first = first_key(a, 0);
    const size_t keys = laid ? a->packed : a->keys - first;
    const size_t ldd = round_up(d), ldk = round_up(keys);
    const size_t group = a->heads / a->kv_heads, values = a->kv_heads * d;
    float *kt = scratch, *vt = kt + d * ldk, *k = vt + d * ldk;
    struct back_strip p = {
        .kt = kt,
        .vt = vt,
        .k = k,
        .packed = { .from = first },
        .ldk = ldk,
        .ldd = ldd,
        .nkeys = keys,
        .pairs = in_pairs(q, kv, datt.type),
    };

    p.dk = k + keys * ldd;
    p.dv = p.dk + keys * ldd;
    p.q = p.dv + keys * ldd;
    p.dout = p.q + a->strip * ldd;
    p.dq = p.dout + a->strip * ldd;
    p.s = p.dq + a->strip * ldd;
    p.ds = p.s + a->strip * a->block;
    p.packed.slots = (void *)(p.ds + a->strip * a->block);
    p.q2 = p.q + a->strip * ldd / 2;
    p.dout2 = p.dout + a->strip * ldd / 2;
    assert(!p.pairs || a->strip % 2 == 0);
    for (size_t s = 0; s < a->nseq; s++) {
        for (size_t h = 0; h < a->heads; h++) {
            size_t at = s * a->queries * a->heads + h;
            size_t to = s * a->keys * ldkv + h / group * d;

            if (h % group == 0) {
                if (laid)
                    pack_layout(a, h, &p.packed);
                pack_keys_back(a, &p, from(kv, to), from(kv, to + values));
                begin_key_sums(&p);
            }
            backward_head(a, &p, h, from(q, at * d), from(datt, at * d),
                          lse + at, delta + at, from(dq, at * d));
            if ((h + 1) % group == 0) {
                end_key_sums(&p);
                if (p.pairs)
                    scale(p.dk, a->scale, keys * ldd);
                put_keys(a, &p, from(dkv, to), p.dk);
                put_keys(a, &p, from(dkv, to + values), p.dv);
            }
        }
    }
}

#endif
