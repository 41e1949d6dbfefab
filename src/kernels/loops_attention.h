/* loops_attention.h - attention of a tile of queries to a tile of keys, a strip
 * of queries and a block of keys at a time, so that scores stay in the first
 * cache (Dao et al. 2022; Milakov & Gimelshein 2018). Keys and values of a head
 * are packed first: their rows are far apart, and by powers of two. What is
 * packed is fp32, whatever the type of the data: all arithmetic is the same. */
#ifndef DSF_KERNELS_LOOPS_ATTENTION_H
#define DSF_KERNELS_LOOPS_ATTENTION_H

/* A tile of the product that fits in registers: MM_ROWS x MM_VECS vectors. */
#if defined(DSF_VEC_AVX512)
enum { MM_ROWS = 6, MM_VECS = 4 };
#elif defined(DSF_VEC_AVX2)
enum { MM_ROWS = 6, MM_VECS = 2 };
#else
enum { MM_ROWS = 4, MM_VECS = 2 };
#endif

/* C[m][n] = or += A B. A(i, k) is a[i * ai + k * ak], so A may be transposed;
 * rows of B and C are consecutive numbers. */
struct product {
    size_t m, n, k;
    const float *a;
    size_t ai, ak;
    const float *b;
    size_t ldb;
    float *c;
    size_t ldc;
    int add;
};

/* rows, vecs and, but for the last vector, lanes are constants. */
INLINE void mm_tile(const struct product *p, size_t i, size_t j, size_t rows,
                    size_t vecs, size_t lanes)
{
    const float *a = p->a + i * p->ai, *b = p->b + j;
    const size_t ai = p->ai, ak = p->ak, ldb = p->ldb;
    float *c = p->c + i * p->ldc + j;
    vf t[MM_ROWS][MM_VECS];

    UNROLL
    for (size_t r = 0; r < rows; r++) {
        UNROLL
        for (size_t v = 0; v < vecs; v++)
            t[r][v] = p->add ? vload(c + r * p->ldc + v * VW, lanes) : vzero();
    }
    for (size_t k = p->k; k > 0; k--, a += ak, b += ldb) {
        vf x[MM_VECS];

        UNROLL
        for (size_t v = 0; v < vecs; v++)
            x[v] = vload(b + v * VW, lanes);
        UNROLL
        for (size_t r = 0; r < rows; r++) {
            vf y = vset(a[r * ai]);

            UNROLL
            for (size_t v = 0; v < vecs; v++)
                t[r][v] = vfma(y, x[v], t[r][v]);
        }
    }
    UNROLL
    for (size_t r = 0; r < rows; r++) {
        UNROLL
        for (size_t v = 0; v < vecs; v++)
            vstore(c + r * p->ldc + v * VW, t[r][v], lanes);
    }
}

INLINE void mm_panel(const struct product *p, size_t j, size_t vecs,
                     size_t lanes)
{
    size_t i = 0;

    for (; i + MM_ROWS <= p->m; i += MM_ROWS)
        mm_tile(p, i, j, MM_ROWS, vecs, lanes);
    for (; i + 2 <= p->m; i += 2)
        mm_tile(p, i, j, 2, vecs, lanes);
    if (i < p->m)
        mm_tile(p, i, j, 1, vecs, lanes);
}

static void mm(const struct product *p)
{
    size_t j = 0;

    for (; j + MM_VECS * VW <= p->n; j += MM_VECS * VW)
        mm_panel(p, j, MM_VECS, VW);
    for (; j + VW <= p->n; j += VW)
        mm_panel(p, j, 1, VW);
    if (j < p->n)
        mm_panel(p, j, 1, p->n - j);
}

/* Numbers i .. i + k of a type, a constant. */
INLINE vf load_as(enum dsflow_dtype type, const void *p, size_t i, size_t k)
{
    if (type == DSFLOW_BF16)
        return vload_bf16((const uint16_t *)p + i, k);
    if (type == DSFLOW_FP16)
        return vload_fp16((const uint16_t *)p + i, k);
    return vload((const float *)p + i, k);
}

INLINE void store_as(enum dsflow_dtype type, void *p, size_t i, vf a, size_t k)
{
    if (type == DSFLOW_BF16)
        vstore_bf16((uint16_t *)p + i, a, k);
    else if (type == DSFLOW_FP16)
        vstore_fp16((uint16_t *)p + i, a, k);
    else
        vstore((float *)p + i, a, k);
}

/* Those from the i-th on. */
INLINE struct dsf_numbers from(struct dsf_numbers a, size_t i)
{
    a.p = (char *)a.p + i * (a.type == DSFLOW_FP32 ? sizeof(float) : 2);
    return a;
}

INLINE struct dsf_numbers floats(float *p)
{
    return (struct dsf_numbers){ p, DSFLOW_FP32 };
}

INLINE void copy_as(enum dsflow_dtype to_type, enum dsflow_dtype from_type,
                    void *to, size_t ldt, const void *in, size_t ldf,
                    size_t rows, size_t n, float by)
{
    const vf f = vset(by);

    for (size_t r = 0; r < rows; r++) {
        size_t i = 0, t = r * ldt, s = r * ldf;

        for (; i + VW <= n; i += VW)
            store_as(to_type, to, t + i, load_as(from_type, in, s + i, VW) * f,
                     VW);
        if (i < n)
            store_as(to_type, to, t + i,
                     load_as(from_type, in, s + i, n - i) * f, n - i);
    }
}

/* to[n] = from[n] * by, over rows. One of the two may be narrow. */
static void copy_rows(struct dsf_numbers to, size_t ldt, struct dsf_numbers in,
                      size_t ldf, size_t rows, size_t n, float by)
{
    const enum dsflow_dtype wide = DSFLOW_FP32;

    if (in.type == DSFLOW_BF16)
        copy_as(wide, DSFLOW_BF16, to.p, ldt, in.p, ldf, rows, n, by);
    else if (in.type == DSFLOW_FP16)
        copy_as(wide, DSFLOW_FP16, to.p, ldt, in.p, ldf, rows, n, by);
    else if (to.type == DSFLOW_BF16)
        copy_as(DSFLOW_BF16, wide, to.p, ldt, in.p, ldf, rows, n, by);
    else if (to.type == DSFLOW_FP16)
        copy_as(DSFLOW_FP16, wide, to.p, ldt, in.p, ldf, rows, n, by);
    else
        copy_as(wide, wide, to.p, ldt, in.p, ldf, rows, n, by);
}

/* to[j][i] = from[i][j], eight rows at a time: whole cache lines of `to` would
 * be better, but its rows are many. */
static void transpose(float *to, size_t ldt, const float *from, size_t ldf,
                      size_t rows, size_t n)
{
    size_t i = 0;

    for (; i + 8 <= rows; i += 8) {
        const float *f = from + i * ldf;

        for (size_t j = 0; j < n; j++) {
            float *t = to + j * ldt + i;

            t[0] = f[j];
            t[1] = f[ldf + j];
            t[2] = f[2 * ldf + j];
            t[3] = f[3 * ldf + j];
            t[4] = f[4 * ldf + j];
            t[5] = f[5 * ldf + j];
            t[6] = f[6 * ldf + j];
            t[7] = f[7 * ldf + j];
        }
    }
    for (; i < rows; i++) {
        for (size_t j = 0; j < n; j++)
            to[j * ldt + i] = from[i * ldf + j];
    }
}

/* The same of keys or values of any type; `wide` has room for eight rows. */
static void transpose_rows(float *to, size_t ldt, struct dsf_numbers in,
                           size_t ldf, size_t rows, size_t n, float *wide,
                           size_t ldw)
{
    if (in.type == DSFLOW_FP32) {
        transpose(to, ldt, in.p, ldf, rows, n);
        return;
    }
    for (size_t i = 0; i < rows; i += 8) {
        size_t m = rows - i < 8 ? rows - i : 8;

        copy_rows(floats(wide), ldw, from(in, i * ldf), ldf, m, n, 1);
        transpose(to + i, ldt, wide, ldw, m, n);
    }
}

/* to = or += from, over rows; narrow numbers are only set. */
static void put_rows(struct dsf_numbers to, size_t ldt, float *in, size_t ldf,
                     size_t rows, size_t n, int set)
{
    float *sum = to.p;

    assert(set || to.type == DSFLOW_FP32);
    if (set)
        copy_rows(to, ldt, floats(in), ldf, rows, n, 1);
    else
        for (size_t r = 0; r < rows; r++)
            sum2(sum + r * ldt, sum + r * ldt, in + r * ldf, n);
}

/* How many of the keys from k0 on does query i see, at most n? */
INLINE size_t seen(const struct dsf_attention *a, size_t i, size_t k0, size_t n)
{
    if (!a->diagonal)
        return n;
    if (i < k0)
        return 0;
    return i - k0 + 1 < n ? i - k0 + 1 : n;
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

/* A strip of queries i0 .. i0+rows of one head against all keys. */
struct strip {
    size_t i0, rows;
    const float *kt, *v; /* packed: [head_dim][keys], [keys][head_dim] */
    size_t ldk, ldd;
    float *q, *o, *s; /* working memory */
};

static void forward_strip(const struct dsf_attention *a, const struct strip *p,
                          float *top, float *sum)
{
    const size_t d = a->head_dim;

    for (size_t k0 = 0; k0 < a->keys; k0 += a->block) {
        size_t left = a->keys - k0 < a->block ? a->keys - k0 : a->block;
        size_t n = seen(a, p->i0 + p->rows - 1, k0, left);

        if (n == 0)
            break;
        mm(&(struct product){ p->rows, n, d, p->q, p->ldd, 1, p->kt + k0,
                              p->ldk, p->s, a->block, 0 });
        for (size_t r = 0; r < p->rows; r++) {
            size_t m = seen(a, p->i0 + r, k0, n);
            float *score = p->s + r * a->block, by;

            if (m == 0) {
                memset(score, 0, n * sizeof(float));
                continue;
            }
            by = soften(score, m, n, top + r, sum + r);
            if (by != 1)
                scale(p->o + r * p->ldd, by, d);
        }
        mm(&(struct product){ p->rows, d, n, p->s, a->block, 1,
                              p->v + k0 * p->ldd, p->ldd, p->o, p->ldd, 1 });
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

static void attention_forward(const struct dsf_attention *a,
                              struct dsf_numbers q, struct dsf_numbers kv,
                              struct dsf_numbers att, float *lse,
                              float *scratch)
{
    const size_t d = a->head_dim, ldkv = 2 * a->kv_heads * d;
    const size_t ldd = round_up(d), ldk = round_up(a->keys);
    const size_t rows = a->nseq * a->queries;
    float *kt = scratch, *v = kt + d * ldk;
    struct strip p = { .kt = kt, .v = v, .ldk = ldk, .ldd = ldd };

    p.q = v + a->keys * ldd;
    p.o = p.q + a->strip * ldd;
    p.s = p.o + a->strip * ldd;
    for (size_t s = 0; s < a->nseq; s++) {
        for (size_t h = 0; h < a->heads; h++) {
            size_t group = a->heads / a->kv_heads;
            size_t of = s * a->keys * ldkv + h / group * d;
            size_t at = s * a->queries * a->heads + h;

            if (h % group == 0) {
                transpose_rows(kt, ldk, from(kv, of), ldkv, a->keys, d, p.q,
                               ldd);
                copy_rows(floats(v), ldd, from(kv, of + a->kv_heads * d), ldkv,
                          a->keys, d, 1);
            }
            forward_head(a, &p, from(q, at * d), from(att, at * d), lse + at,
                         rows * a->heads);
        }
    }
}

/* The strip of forward_strip, and what its backward adds. */
struct back_strip {
    size_t i0, rows;
    const float *kt, *vt, *k; /* packed keys and values of the head */
    size_t ldk, ldd;
    float *q, *dout, *dq, *s, *ds; /* working memory */
    float *dk, *dv;                /* [keys][head_dim], sums so far */
    float lse[DSF_MAX_STRIP], delta[DSF_MAX_STRIP];
};

/* P = e^(S - lse), then dS = P (dP - delta); both 0 past the m seen keys. */
static void weigh_row(float *s, float *ds, size_t m, size_t n, float lse,
                      float delta)
{
    const vf l = vset(lse), dl = vset(delta);

    for (size_t i = 0; i < n; i += VW) {
        size_t left = n - i < VW ? n - i : VW;
        size_t valid = i + VW <= m ? VW : m > i ? m - i : 0;
        vf e = vexp(vload(s + i, left) - l);
        vf g = e * (vload(ds + i, left) - dl);

        vstore(s + i, vpick(e, vzero(), valid), left);
        vstore(ds + i, vpick(g, vzero(), valid), left);
    }
}

/* S = Q K^T, dV += P^T dO, dP = dO V^T, dQ += dS K, dK += dS^T Q. */
static void backward_strip(const struct dsf_attention *a,
                           const struct back_strip *p)
{
    const size_t d = a->head_dim, lds = a->block, rows = p->rows;

    for (size_t k0 = 0; k0 < a->keys; k0 += a->block) {
        size_t left = a->keys - k0 < a->block ? a->keys - k0 : a->block;
        size_t n = seen(a, p->i0 + rows - 1, k0, left), at = k0 * p->ldd;

        if (n == 0)
            break;
        mm(&(struct product){ rows, n, d, p->q, p->ldd, 1, p->kt + k0, p->ldk,
                              p->s, lds, 0 });
        mm(&(struct product){ rows, n, d, p->dout, p->ldd, 1, p->vt + k0,
                              p->ldk, p->ds, lds, 0 });
        for (size_t r = 0; r < rows; r++)
            weigh_row(p->s + r * lds, p->ds + r * lds,
                      seen(a, p->i0 + r, k0, n), n, p->lse[r], p->delta[r]);
        mm(&(struct product){ n, d, rows, p->s, 1, lds, p->dout, p->ldd,
                              p->dv + at, p->ldd, 1 });
        mm(&(struct product){ rows, d, n, p->ds, lds, 1, p->k + at, p->ldd,
                              p->dq, p->ldd, 1 });
        mm(&(struct product){ n, d, rows, p->ds, 1, lds, p->q, p->ldd,
                              p->dk + at, p->ldd, 1 });
    }
}

static void backward_head(const struct dsf_attention *a, struct back_strip *p,
                          struct dsf_numbers q, struct dsf_numbers datt,
                          const float *lse, const float *delta,
                          struct dsf_numbers dq)
{
    const size_t d = a->head_dim, ld = a->heads * d;

    for (p->i0 = 0; p->i0 < a->queries; p->i0 += a->strip) {
        size_t left = a->queries - p->i0;

        p->rows = left < a->strip ? left : a->strip;
        copy_rows(floats(p->q), p->ldd, from(q, p->i0 * ld), ld, p->rows, d,
                  a->scale);
        copy_rows(floats(p->dout), p->ldd, from(datt, p->i0 * ld), ld, p->rows,
                  d, 1);
        for (size_t r = 0; r < p->rows; r++) {
            p->lse[r] = lse[(p->i0 + r) * a->heads];
            p->delta[r] = delta[(p->i0 + r) * a->heads];
        }
        memset(p->dq, 0, p->rows * p->ldd * sizeof(float));
        backward_strip(a, p);
        copy_rows(floats(p->dq), p->ldd, floats(p->dq), p->ldd, p->rows, d,
                  a->scale);
        put_rows(from(dq, p->i0 * ld), ld, p->dq, p->ldd, p->rows, d,
                 a->first_q);
    }
}

static void attention_backward(const struct dsf_attention *a,
                               struct dsf_numbers q, struct dsf_numbers kv,
                               struct dsf_numbers datt, const float *lse,
                               const float *delta, struct dsf_numbers dq,
                               struct dsf_numbers dkv, float *scratch)
{
    const size_t d = a->head_dim, ldkv = 2 * a->kv_heads * d;
    const size_t ldd = round_up(d), ldk = round_up(a->keys);
    const size_t group = a->heads / a->kv_heads;
    float *kt = scratch, *vt = kt + d * ldk, *k = vt + d * ldk;
    struct back_strip p = {
        .kt = kt, .vt = vt, .k = k, .ldk = ldk, .ldd = ldd
    };

    p.dk = k + a->keys * ldd;
    p.dv = p.dk + a->keys * ldd;
    p.q = p.dv + a->keys * ldd;
    p.dout = p.q + a->strip * ldd;
    p.dq = p.dout + a->strip * ldd;
    p.s = p.dq + a->strip * ldd;
    p.ds = p.s + a->strip * a->block;
    for (size_t s = 0; s < a->nseq; s++) {
        for (size_t h = 0; h < a->heads; h++) {
            size_t at = s * a->queries * a->heads + h;
            size_t to = s * a->keys * ldkv + h / group * d;
            size_t values = a->kv_heads * d;

            if (h % group == 0) {
                copy_rows(floats(k), ldd, from(kv, to), ldkv, a->keys, d, 1);
                transpose(kt, ldk, k, ldd, a->keys, d);
                transpose_rows(vt, ldk, from(kv, to + values), ldkv, a->keys, d,
                               p.q, ldd);
                memset(p.dk, 0, 2 * a->keys * ldd * sizeof(float));
            }
            backward_head(a, &p, from(q, at * d), from(datt, at * d), lse + at,
                          delta + at, from(dq, at * d));
            if ((h + 1) % group == 0) {
                put_rows(from(dkv, to), ldkv, p.dk, ldd, a->keys, d,
                         a->first_kv);
                put_rows(from(dkv, to + values), ldkv, p.dv, ldd, a->keys, d,
                         a->first_kv);
            }
        }
    }
}

#endif
