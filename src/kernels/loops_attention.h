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
    if (width > n)
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
    int is_new;       /* nothing is in o so far */
    float *q, *o, *s; /* working memory */
};

/* Scores of a piece become weights, and sums so far what they are then. */
static void soften_piece(const struct dsf_attention *a, const struct strip *p,
                         const struct piece *of, float *top, float *sum)
{
    const size_t n = of->n;

    for (size_t r = 0; r < p->rows; r++) {
        size_t m = seen_of(a, of, p->i0 + r);
        size_t c = a->window > 0 ? hidden_of(a, of, p->i0 + r, m) : 0;
        float *score = p->s + r * a->block, by;

        if (m == c) {
            memset(score, 0, n * sizeof(float));
            continue;
        }
        if (c > 0)
            memset(score, 0, c * sizeof(float));
        by = soften(score + c, m - c, n - c, top + r, sum + r);
        if (by != 1 && !p->is_new)
            scale(p->o + r * p->ldd, by, a->head_dim);
        if (p->pairs)
            pair_row(score, n);
    }
}

static void forward_strip(const struct dsf_attention *a, struct strip *p,
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
        soften_piece(a, p, &of, top, sum);
        mm_over_keys((struct product){ p->rows, d, 0, p->s, a->block, 1, p->v,
                                       p->ldd, p->o, p->ldd, !p->is_new,
                                       p->pairs, 1, NULL },
                     &of);
        p->is_new = 0;
    }
    if (p->is_new)
        clear_rows(floats(p->o), p->ldd, p->rows, d);
}

/* Does the strip see any key? */
static int sees(const struct dsf_attention *a, const struct packed *p,
                size_t head, size_t i0, size_t rows)
{
    struct walk walk = walk_from(a, p, head, i0, rows);

    return a->layout.bits == NULL || next_column(a, p, &walk);
}

/* What a strip has so far: outputs in `out`, and in l and l + lsum the largest
 * scores and the sums, whose rows are `heads` apart. */
static void begin_strip(const struct dsf_attention *a, struct strip *p,
                        struct dsf_numbers out, const float *l, size_t lsum,
                        float *top, float *sum)
{
    const size_t d = a->head_dim;

    for (size_t r = 0; r < p->rows; r++) {
        top[r] = a->first ? -INFINITY : l[r * a->heads];
        sum[r] = a->first ? 0 : l[lsum + r * a->heads];
    }
    p->is_new = a->first;
    if (!a->first)
        copy_rows(floats(p->o), p->ldd, out, a->heads * d, p->rows, d, 1);
}

static void end_strip(const struct dsf_attention *a, const struct strip *p,
                      struct dsf_numbers out, float *l, size_t lsum,
                      const float *top, const float *sum)
{
    const size_t d = a->head_dim;

    for (size_t r = 0; r < p->rows; r++) {
        l[r * a->heads] = a->last ? top[r] + logf(sum[r]) : top[r];
        l[lsum + r * a->heads] = a->last ? 1 : sum[r];
        if (a->last)
            scale(p->o + r * p->ldd, 1 / sum[r], d);
    }
    copy_rows(out, a->heads * d, floats(p->o), p->ldd, p->rows, d, 1);
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
        begin_strip(a, p, out, l, lsum, top, sum);
        forward_strip(a, p, head, top, sum);
        end_strip(a, p, out, l, lsum, top, sum);
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

static void forward_tile(const struct dsf_attention *a, struct dsf_numbers q,
                         struct dsf_numbers kv, struct dsf_numbers att,
                         float *lse, float *scratch)
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

#endif
