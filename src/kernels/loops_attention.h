/* loops_attention.h - attention of a tile of queries to a tile of keys, a strip
 * of queries and a block of keys at a time, so that scores stay in the first
 * cache (Dao et al. 2022; Milakov & Gimelshein 2018). Keys and values of a head
 * are packed first. Arithmetic is in fp32, whatever the type of the data; but
 * where the processor multiplies pairs of bf16, operands of products are bf16
 * where the data are: what is kept of scores is rounded, as there. */
#ifndef DSF_KERNELS_LOOPS_ATTENTION_H
#define DSF_KERNELS_LOOPS_ATTENTION_H

/* Scores of row i become e^(score - top), those it does not see 0; top and sum
 * are the running ones. Returns by what the sums so far must be multiplied. */
INLINE float soften(float *score, size_t n, size_t width, float *top,
                    float *sum)
{
    float t = row_top(score, n), by;

    t = t > *top ? t : *top;
    by = *top == t ? 1 : expf(*top - t);
    *sum = *sum * by + row_exp(score, t, n);
    *top = t;
    memset(score + n, 0, (width - n) * sizeof(float));
    return by;
}

/* Are all of bf16, and products of it fast? */
INLINE int in_pairs(struct dsf_numbers q, struct dsf_numbers kv,
                    enum dsflow_dtype out)
{
    return PAIRS && q.type == DSFLOW_BF16 && kv.type == DSFLOW_BF16 &&
           out == DSFLOW_BF16;
}

/* A strip of queries i0 .. i0+rows of one head against all keys. In pairs: q
 * has those of each row, kt and v those of two numbers of a key and of two
 * keys; queries are not scaled, but scores are. */
struct strip {
    int pairs;
    size_t i0, rows;
    const float *kt, *v;  /* packed: [head_dim][keys], [keys][head_dim] */
    struct packed packed; /* which those are */
    size_t ldk, ldd;
    float *q, *o, *s; /* working memory */
};

static void forward_strip(const struct dsf_attention *a, const struct strip *p,
                          size_t head, float *top, float *sum)
{
    const size_t d = a->head_dim;
    struct walk walk = walk_from(a, &p->packed, head, p->i0, p->rows);
    struct piece of;

    while (next_piece(a, &p->packed, &walk, &of)) {
        const size_t n = of.n;

        mm_keys((struct product){ p->rows, n, p->pairs ? pairs_of(d) : d, p->q,
                                  p->pairs ? p->ldd / 2 : p->ldd, 1, p->kt,
                                  p->ldk, p->s, a->block, 0, p->pairs, a->scale,
                                  NULL },
                &of);
        for (size_t r = 0; r < p->rows; r++) {
            size_t m = seen_of(a, &of, p->i0 + r);
            size_t c = a->window > 0 ? hidden_of(a, &of, p->i0 + r, m) : 0;
            float *score = p->s + r * a->block, by;

            if (m == c) {
                memset(score, 0, n * sizeof(float));
                continue;
            }
            if (c > 0)
                memset(score, 0, c * sizeof(float));
            by = soften(score + c, m - c, n - c, top + r, sum + r);
            if (by != 1)
                scale(p->o + r * p->ldd, by, d);
            if (p->pairs)
                pair_row(score, n);
        }
        mm_over_keys((struct product){ p->rows, d, 0, p->s, a->block, 1, p->v,
                                       p->ldd, p->o, p->ldd, 1, p->pairs, 1,
                                       NULL },
                     &of);
    }
}

/* Does the strip see any key? */
static int sees(const struct dsf_attention *a, const struct packed *p,
                size_t head, size_t i0, size_t rows)
{
    struct walk walk = walk_from(a, p, head, i0, rows);

    return a->layout.bits == NULL || next_column(a, p, &walk);
}

/* One head: lse[0] and lse[1] stand `lsum` apart, their rows `heads` apart. */
static void forward_head(const struct dsf_attention *a, struct strip *p,
                         size_t head, struct dsf_numbers q,
                         struct dsf_numbers att, float *lse, size_t lsum)
{
    const size_t d = a->head_dim, ld = a->heads * d;
    float top[DSF_MAX_STRIP], sum[DSF_MAX_STRIP];

    for (p->i0 = 0; p->i0 < a->queries; p->i0 += p->rows) {
        float *l = lse + p->i0 * a->heads;
        struct dsf_numbers out = from(att, p->i0 * ld);

        p->rows = strip_rows(a, p->i0);
        if (!a->first && !a->last && !sees(a, &p->packed, head, p->i0, p->rows))
            continue;
        if (p->pairs)
            pair_rows(p->q, p->ldd / 2, from(q, p->i0 * ld).p, ld, p->rows, d);
        else
            copy_rows(floats(p->q), p->ldd, from(q, p->i0 * ld), ld, p->rows, d,
                      a->scale);
        for (size_t r = 0; r < p->rows; r++) {
            top[r] = a->first ? -INFINITY : l[r * a->heads];
            sum[r] = a->first ? 0 : l[lsum + r * a->heads];
        }
        if (a->first)
            memset(p->o, 0, p->rows * p->ldd * sizeof(float));
        else
            copy_rows(floats(p->o), p->ldd, out, ld, p->rows, d, 1);
        forward_strip(a, p, head, top, sum);
        for (size_t r = 0; r < p->rows; r++) {
            float by = a->last ? 1 / sum[r] : 1;

            l[r * a->heads] = a->last ? top[r] + logf(sum[r]) : top[r];
            l[lsum + r * a->heads] = sum[r];
            copy_rows(from(out, r * ld), ld, floats(p->o + r * p->ldd), p->ldd,
                      1, d, by);
        }
    }
}

static size_t round_up(size_t n)
{
    return (n + 15) / 16 * 16;
}

static void pack_keys(const struct dsf_attention *a, const struct strip *p,
                      float *kt, float *v, struct dsf_numbers keys,
                      struct dsf_numbers values)
{
    const size_t d = a->head_dim, ld = 2 * a->kv_heads * d;
    struct run run;

    for (size_t c = 0; next_packed(a, &p->packed, &c, &run);) {
        const struct dsf_numbers k = from(keys, run.key * ld);
        const struct dsf_numbers w = from(values, run.key * ld);
        const size_t n = run.n, at = run.at;

        if (p->pairs) {
            transpose_pairs(kt + at, p->ldk, k.p, ld, n, d);
            pair_columns(v + at / 2 * p->ldd, p->ldd, w.p, ld, n, d);
        } else {
            transpose_rows(kt + at, p->ldk, k, ld, n, d, p->q, p->ldd);
            copy_rows(floats(v + at * p->ldd), p->ldd, w, ld, n, d, 1);
        }
    }
}

static void attention_forward(const struct dsf_attention *a,
                              struct dsf_numbers q, struct dsf_numbers kv,
                              struct dsf_numbers att, float *lse,
                              float *scratch)
{
    const size_t d = a->head_dim, ldkv = 2 * a->kv_heads * d;
    const int laid = a->layout.bits != NULL;
    const size_t first = first_key(a, 0);
    const size_t keys = laid ? a->packed : a->keys - first;
    const size_t ldd = round_up(d), ldk = round_up(keys);
    const size_t rows = a->nseq * a->queries, values = a->kv_heads * d;
    float *kt = scratch, *v = kt + d * ldk;
    struct strip p = { .kt = kt,
                       .v = v,
                       .packed = { .from = first },
                       .ldk = ldk,
                       .ldd = ldd,
                       .pairs = in_pairs(q, kv, q.type) };

    p.q = v + keys * ldd;
    p.o = p.q + a->strip * ldd;
    p.s = p.o + a->strip * ldd;
    p.packed.slots = (void *)(p.s + a->strip * a->block);
    for (size_t s = 0; s < a->nseq; s++) {
        for (size_t h = 0; h < a->heads; h++) {
            size_t group = a->heads / a->kv_heads;
            size_t of = s * a->keys * ldkv + h / group * d;
            size_t at = s * a->queries * a->heads + h;

            if (h % group == 0) {
                if (laid)
                    pack_layout(a, h, &p.packed);
                pack_keys(a, &p, kt, v, from(kv, of), from(kv, of + values));
            }
            forward_head(a, &p, h, from(q, at * d), from(att, at * d), lse + at,
                         rows * a->heads);
        }
    }
}

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
    float lse[DSF_MAX_STRIP], delta[DSF_MAX_STRIP];
};

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
                           const struct back_strip *p, size_t head)
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
        mm_to_keys((struct product){ 0, d, rows, p->s, 1, lds, p->dout, p->ldd,
                                     p->dv, p->ldd, 1, 0, 1, NULL },
                   &of);
        mm_over_keys((struct product){ rows, d, 0, p->ds, lds, 1, p->k, p->ldd,
                                       p->dq, p->ldd, 1, 0, 1, NULL },
                     &of);
        mm_to_keys((struct product){ 0, d, rows, p->ds, 1, lds, p->q, p->ldd,
                                     p->dk, p->ldd, 1, 0, 1, NULL },
                   &of);
    }
}

/* The same in pairs. Queries are not scaled: scores are, and in the end dQ and
 * dK. */
static void backward_strip_pairs(const struct dsf_attention *a,
                                 const struct back_strip *p, size_t head)
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
        mm_to_keys((struct product){ 0, d, two, p->s, 1, 2 * lds, p->dout2, ldd,
                                     p->dv, ldd, 1, 1, 1, NULL },
                   &of);
        mm_over_keys((struct product){ rows, d, 0, p->ds, lds, 1, p->k, ldd,
                                       p->dq, ldd, 1, 1, 1, NULL },
                     &of);
        mm_to_keys((struct product){ 0, d, two, p->s + lds, 1, 2 * lds, p->q2,
                                     ldd, p->dk, ldd, 1, 1, 1, NULL },
                   &of);
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
        memset(p->dq, 0, p->rows * ldd * sizeof(float));
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

static void attention_backward(const struct dsf_attention *a,
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
                memset(p.dk, 0, 2 * keys * ldd * sizeof(float));
            }
            backward_head(a, &p, h, from(q, at * d), from(datt, at * d),
                          lse + at, delta + at, from(dq, at * d));
            if ((h + 1) % group == 0) {
                if (p.pairs)
                    scale(p.dk, a->scale, keys * ldd);
                put_keys(a, &p, from(dkv, to), p.dk);
                put_keys(a, &p, from(dkv, to + values), p.dv);
            }
        }
    }
}

#endif
