/* loops_attention.h - attention of a tile of queries to a tile of keys, a strip
 * of queries and a block of keys at a time, so that scores stay in the first
 * cache (Dao et al. 2022; Milakov & Gimelshein 2018). Keys and values of a head
 * are packed first. Arithmetic is in fp32, whatever the type of the data; but
 * where the processor multiplies pairs of bf16, operands of products are bf16
 * where the data are: what is kept of scores is rounded, as there. */
#ifndef DSF_KERNELS_LOOPS_ATTENTION_H
#define DSF_KERNELS_LOOPS_ATTENTION_H

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

/* Of the m keys from k0 on that a query sees but for its window: how many does
 * that hide? `before`: of all keys. */
INLINE size_t hidden_from(size_t before, size_t k0, size_t m)
{
    if (before <= k0)
        return 0;
    return before - k0 < m ? before - k0 : m;
}

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
    const float *kt, *v; /* packed: [head_dim][keys], [keys][head_dim] … */
    size_t from;         /* … of keys from this one on */
    size_t ldk, ldd;
    float *q, *o, *s; /* working memory */
};

static void forward_strip(const struct dsf_attention *a, const struct strip *p,
                          float *top, float *sum)
{
    const size_t d = a->head_dim;

    for (size_t k0 = first_key(a, p->i0); k0 < a->keys; k0 += a->block) {
        size_t left = a->keys - k0 < a->block ? a->keys - k0 : a->block;
        size_t n = seen(a, p->i0 + p->rows - 1, k0, left), at = k0 - p->from;

        if (n == 0)
            break;
        mm(&(struct product){ p->rows, n, p->pairs ? pairs_of(d) : d, p->q,
                              p->pairs ? p->ldd / 2 : p->ldd, 1, p->kt + at,
                              p->ldk, p->s, a->block, 0, p->pairs, a->scale });
        for (size_t r = 0; r < p->rows; r++) {
            size_t m = seen(a, p->i0 + r, k0, n);
            size_t c =
                a->window > 0 ? hidden_from(hidden(a, p->i0 + r), k0, m) : 0;
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
        mm(&(struct product){ p->rows, d, p->pairs ? pairs_of(n) : n, p->s,
                              a->block, 1,
                              p->v + (p->pairs ? at / 2 : at) * p->ldd, p->ldd,
                              p->o, p->ldd, 1, p->pairs, 1 });
    }
}

/* One head: lse[0] and lse[1] stand `lsum` apart, their rows `heads` apart. */
static void forward_head(const struct dsf_attention *a, struct strip *p,
                         struct dsf_numbers q, struct dsf_numbers att,
                         float *lse, size_t lsum)
{
    const size_t d = a->head_dim, ld = a->heads * d;
    float top[DSF_MAX_STRIP], sum[DSF_MAX_STRIP];

    for (p->i0 = 0; p->i0 < a->queries; p->i0 += a->strip) {
        size_t left = a->queries - p->i0;
        float *l = lse + p->i0 * a->heads;
        struct dsf_numbers out = from(att, p->i0 * ld);

        p->rows = left < a->strip ? left : a->strip;
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
        forward_strip(a, p, top, sum);
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
    const size_t n = a->keys - p->from;

    keys = from(keys, p->from * ld);
    values = from(values, p->from * ld);
    if (p->pairs) {
        transpose_pairs(kt, p->ldk, keys.p, ld, n, d);
        pair_columns(v, p->ldd, values.p, ld, n, d);
    } else {
        transpose_rows(kt, p->ldk, keys, ld, n, d, p->q, p->ldd);
        copy_rows(floats(v), p->ldd, values, ld, n, d, 1);
    }
}

static void attention_forward(const struct dsf_attention *a,
                              struct dsf_numbers q, struct dsf_numbers kv,
                              struct dsf_numbers att, float *lse,
                              float *scratch)
{
    const size_t d = a->head_dim, ldkv = 2 * a->kv_heads * d;
    const size_t first = first_key(a, 0), keys = a->keys - first;
    const size_t ldd = round_up(d), ldk = round_up(keys);
    const size_t rows = a->nseq * a->queries, values = a->kv_heads * d;
    float *kt = scratch, *v = kt + d * ldk;
    struct strip p = { .kt = kt,
                       .v = v,
                       .from = first,
                       .ldk = ldk,
                       .ldd = ldd,
                       .pairs = in_pairs(q, kv, q.type) };

    p.q = v + keys * ldd;
    p.o = p.q + a->strip * ldd;
    p.s = p.o + a->strip * ldd;
    for (size_t s = 0; s < a->nseq; s++) {
        for (size_t h = 0; h < a->heads; h++) {
            size_t group = a->heads / a->kv_heads;
            size_t of = s * a->keys * ldkv + h / group * d;
            size_t at = s * a->queries * a->heads + h;

            if (h % group == 0)
                pack_keys(a, &p, kt, v, from(kv, of), from(kv, of + values));
            forward_head(a, &p, from(q, at * d), from(att, at * d), lse + at,
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
    float *kt, *vt, *k; /* packed keys and values of the head … */
    size_t from;        /* … from this one on */
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
                       const struct back_strip *b, size_t r, size_t k0,
                       size_t n)
{
    const size_t ld = a->block, two = r + 1 < b->rows;
    const size_t i0 = b->i0 + r, m = seen(a, i0, k0, n);
    const size_t m1 = two ? seen(a, i0 + 1, k0, n) : 0;
    const size_t c = a->window > 0 ? hidden_from(hidden(a, i0), k0, m) : 0;
    const size_t c1 =
        a->window > 0 ? hidden_from(hidden(a, i0 + 1), k0, m1) : 0;
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
                           const struct back_strip *p)
{
    const size_t d = a->head_dim, lds = a->block, rows = p->rows;

    for (size_t k0 = first_key(a, p->i0); k0 < a->keys; k0 += a->block) {
        size_t left = a->keys - k0 < a->block ? a->keys - k0 : a->block;
        size_t n = seen(a, p->i0 + rows - 1, k0, left), k = k0 - p->from;
        size_t at = k * p->ldd;

        if (n == 0)
            break;
        mm(&(struct product){ rows, n, d, p->q, p->ldd, 1, p->kt + k, p->ldk,
                              p->s, lds, 0, 0, 1 });
        mm(&(struct product){ rows, n, d, p->dout, p->ldd, 1, p->vt + k, p->ldk,
                              p->ds, lds, 0, 0, 1 });
        for (size_t r = 0; r < rows; r++) {
            size_t m = seen(a, p->i0 + r, k0, n);

            weigh_row(p->s + r * lds, p->ds + r * lds,
                      a->window > 0 ? hidden_from(hidden(a, p->i0 + r), k0, m)
                                    : 0,
                      m, n, p->lse[r], p->delta[r]);
        }
        mm(&(struct product){ n, d, rows, p->s, 1, lds, p->dout, p->ldd,
                              p->dv + at, p->ldd, 1, 0, 1 });
        mm(&(struct product){ rows, d, n, p->ds, lds, 1, p->k + at, p->ldd,
                              p->dq, p->ldd, 1, 0, 1 });
        mm(&(struct product){ n, d, rows, p->ds, 1, lds, p->q, p->ldd,
                              p->dk + at, p->ldd, 1, 0, 1 });
    }
}

/* The same in pairs. Queries are not scaled: scores are, and in the end dQ and
 * dK. */
static void backward_strip_pairs(const struct dsf_attention *a,
                                 const struct back_strip *p)
{
    const size_t d = a->head_dim, lds = a->block, rows = p->rows;
    const size_t ldd = p->ldd, two = pairs_of(rows);

    for (size_t k0 = first_key(a, p->i0); k0 < a->keys; k0 += a->block) {
        size_t left = a->keys - k0 < a->block ? a->keys - k0 : a->block;
        size_t n = seen(a, p->i0 + rows - 1, k0, left), k = k0 - p->from;
        size_t at = k * ldd;

        if (n == 0)
            break;
        mm(&(struct product){ rows, n, pairs_of(d), p->q, ldd / 2, 1, p->kt + k,
                              p->ldk, p->s, lds, 0, 1, a->scale });
        mm(&(struct product){ rows, n, pairs_of(d), p->dout, ldd / 2, 1,
                              p->vt + k, p->ldk, p->ds, lds, 0, 1, 1 });
        for (size_t r = 0; r < rows; r += 2)
            weigh_pair(a, p, r, k0, n);
        mm(&(struct product){ n, d, two, p->s, 1, 2 * lds, p->dout2, ldd,
                              p->dv + at, ldd, 1, 1, 1 });
        mm(&(struct product){ rows, d, pairs_of(n), p->ds, lds, 1,
                              p->k + at / 2, ldd, p->dq, ldd, 1, 1, 1 });
        mm(&(struct product){ n, d, two, p->s + lds, 1, 2 * lds, p->q2, ldd,
                              p->dk + at, ldd, 1, 1, 1 });
    }
}

static void backward_head(const struct dsf_attention *a, struct back_strip *p,
                          struct dsf_numbers q, struct dsf_numbers datt,
                          const float *lse, const float *delta,
                          struct dsf_numbers dq)
{
    const size_t d = a->head_dim, ld = a->heads * d, ldd = p->ldd;

    for (p->i0 = 0; p->i0 < a->queries; p->i0 += a->strip) {
        size_t left = a->queries - p->i0;
        struct dsf_numbers q0 = from(q, p->i0 * ld);
        struct dsf_numbers dout = from(datt, p->i0 * ld);

        p->rows = left < a->strip ? left : a->strip;
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
            backward_strip_pairs(a, p);
        } else {
            copy_rows(floats(p->q), ldd, q0, ld, p->rows, d, a->scale);
            copy_rows(floats(p->dout), ldd, dout, ld, p->rows, d, 1);
            backward_strip(a, p);
        }
        copy_rows(floats(p->dq), ldd, floats(p->dq), ldd, p->rows, d, a->scale);
        put_rows(from(dq, p->i0 * ld), ld, p->dq, ldd, p->rows, d, a->first_q);
    }
}

static void pack_keys_back(const struct dsf_attention *a,
                           const struct back_strip *p, struct dsf_numbers keys,
                           struct dsf_numbers values)
{
    const size_t d = a->head_dim, ld = 2 * a->kv_heads * d;
    const size_t n = a->keys - p->from;

    keys = from(keys, p->from * ld);
    values = from(values, p->from * ld);
    if (p->pairs) {
        transpose_pairs(p->kt, p->ldk, keys.p, ld, n, d);
        transpose_pairs(p->vt, p->ldk, values.p, ld, n, d);
        pair_columns(p->k, p->ldd, keys.p, ld, n, d);
    } else {
        copy_rows(floats(p->k), p->ldd, keys, ld, n, d, 1);
        transpose(p->kt, p->ldk, p->k, p->ldd, n, d);
        transpose_rows(p->vt, p->ldk, values, ld, n, d, p->q, p->ldd);
    }
}

/* Gradients of keys or values, `sums` of those that are packed; none of those
 * before. */
static void put_keys(const struct dsf_attention *a, const struct back_strip *p,
                     struct dsf_numbers to, float *sums)
{
    const size_t d = a->head_dim, ld = 2 * a->kv_heads * d;

    if (a->first_kv)
        clear_rows(to, ld, p->from, d);
    put_rows(from(to, p->from * ld), ld, sums, p->ldd, a->keys - p->from, d,
             a->first_kv);
}

static void attention_backward(const struct dsf_attention *a,
                               struct dsf_numbers q, struct dsf_numbers kv,
                               struct dsf_numbers datt, const float *lse,
                               const float *delta, struct dsf_numbers dq,
                               struct dsf_numbers dkv, float *scratch)
{
    const size_t d = a->head_dim, ldkv = 2 * a->kv_heads * d;
    const size_t first = first_key(a, 0), keys = a->keys - first;
    const size_t ldd = round_up(d), ldk = round_up(keys);
    const size_t group = a->heads / a->kv_heads, values = a->kv_heads * d;
    float *kt = scratch, *vt = kt + d * ldk, *k = vt + d * ldk;
    struct back_strip p = {
        .kt = kt,
        .vt = vt,
        .k = k,
        .from = first,
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
    p.q2 = p.q + a->strip * ldd / 2;
    p.dout2 = p.dout + a->strip * ldd / 2;
    assert(!p.pairs || a->strip % 2 == 0);
    for (size_t s = 0; s < a->nseq; s++) {
        for (size_t h = 0; h < a->heads; h++) {
            size_t at = s * a->queries * a->heads + h;
            size_t to = s * a->keys * ldkv + h / group * d;

            if (h % group == 0) {
                pack_keys_back(a, &p, from(kv, to), from(kv, to + values));
                memset(p.dk, 0, 2 * keys * ldd * sizeof(float));
            }
            backward_head(a, &p, from(q, at * d), from(datt, at * d), lse + at,
                          delta + at, from(dq, at * d));
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
