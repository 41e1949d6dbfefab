/* attention.h - sequences cut in tiles, their attention in double precision,
 * and the tasks of them. */
#ifndef DSF_UNIT_CODELETS_ATTENTION_H
#define DSF_UNIT_CODELETS_ATTENTION_H

#include "unit/codelets/segment.h"

#include "base/random.h"
#include "tasks/attention_layout.h"

static inline struct dsflow_tile shape(int32_t nseq, int32_t heads,
                                       int32_t kv_heads, int32_t head_dim)
{
    return (struct dsflow_tile){ .rows = 1,
                                 .nseq = nseq,
                                 .width = 1,
                                 .heads = heads,
                                 .kv_heads = kv_heads,
                                 .head_dim = head_dim,
                                 .ffn = 1,
                                 .vocab = 1,
                                 .context = 1000,
                                 .eps = 1e-5f };
}

enum { MOST_TILES = 32 };

/* A sequence cut in `ntiles` tiles, or one tile of several sequences. */
struct sequence {
    struct dsflow_tile tile;
    enum dsflow_dtype type; /* of q, kv and datt; 0: fp32 */
    int ntiles;
    int32_t window;                     /* 0: none */
    struct dsf_attention_layout layout; /* without bits: none */
    struct tensor bits;                 /* the same, as tasks have it */
    int32_t rows[MOST_TILES], pos[MOST_TILES];
    struct tensor q[MOST_TILES], kv[MOST_TILES], att[MOST_TILES],
        lse[MOST_TILES], datt[MOST_TILES], delta[MOST_TILES], dq[MOST_TILES],
        dkv[MOST_TILES];
    double *y, *lsum; /* of the reference, for all tiles */
};

static inline struct sequence sequence_new(struct dsflow_tile t, int ntiles,
                                           const int32_t *rows)
{
    struct sequence s = { .tile = t, .ntiles = ntiles };
    size_t nq = dsf_tile_qwidth(&t), nkv = dsf_tile_kvwidth(&t), total = 0;

    for (int i = 0; i < ntiles; i++) {
        size_t n = (size_t)rows[i];
        uint64_t seed = 10 * (uint64_t)i;

        s.rows[i] = rows[i];
        s.pos[i] = (int32_t)total;
        s.q[i] = tensor_new(n * nq, 3, seed + 1);
        s.kv[i] = tensor_new(n * nkv, 3, seed + 2);
        s.att[i] = tensor_unset(n * nq);
        s.lse[i] = tensor_unset(2 * n * (size_t)t.heads);
        s.datt[i] = tensor_new(n * nq, 1, seed + 3);
        s.delta[i] = tensor_unset(n * (size_t)t.heads);
        s.dq[i] = tensor_unset(n * nq);
        s.dkv[i] = tensor_unset(n * nkv);
        total += n;
    }
    s.y = zeroes(total * nq);
    s.lsum = zeroes(total * (size_t)t.heads);
    return s;
}

static inline void sequence_free(struct sequence *s)
{
    for (int i = 0; i < s->ntiles; i++) {
        tensor_free(&s->q[i]);
        tensor_free(&s->kv[i]);
        tensor_free(&s->att[i]);
        tensor_free(&s->lse[i]);
        tensor_free(&s->datt[i]);
        tensor_free(&s->delta[i]);
        tensor_free(&s->dq[i]);
        tensor_free(&s->dkv[i]);
    }
    free(s->y);
    free(s->lsum);
    if (s->layout.bits != NULL)
        tensor_free(&s->bits);
    dsf_attention_layout_free(&s->layout);
}

/* A layout of random blocks, about one of `of`; each row sees its own, or one
 * before it. */
static inline void sequence_lay_out(struct sequence *s, int32_t block,
                                    int32_t heads, int32_t of, uint64_t seed)
{
    const int32_t last = s->ntiles - 1;
    struct dsf_attention_layout *l = &s->layout;
    size_t words;

    l->block = block;
    l->blocks = (s->pos[last] + s->rows[last] + block - 1) / block;
    l->heads = heads;
    words = dsf_layout_words((size_t)l->blocks);
    l->bits = calloc(dsf_attention_layout_bytes(l), 1);
    assert_non_null(l->bits);
    for (int32_t i = 0; i < heads * l->blocks; i++) {
        const int32_t r = i % l->blocks;
        uint64_t *row = l->bits + (size_t)i * words;
        const int32_t own = of > 1 && r > 0 && s->window == 0 ? r - 1 : r;

        row[own / 64] |= (uint64_t)1 << own % 64;
        for (int32_t c = 0; c <= r; c++)
            if (dsf_random(&seed) % (uint64_t)of == 0)
                row[c / 64] |= (uint64_t)1 << c % 64;
    }
    s->bits = tensor_unset(dsf_attention_layout_bytes(l) / sizeof(float));
    memcpy(s->bits.f, l->bits, dsf_attention_layout_bytes(l));
}

/* Is the block of a query and that of a key, of their sequence, on? */
static inline int is_on(const struct sequence *s, size_t h, size_t query,
                        size_t key)
{
    const struct dsf_layout l = dsf_attention_layout_of(&s->layout);
    const size_t c = l.block > 0 ? key / l.block : 0;

    return l.bits == NULL ||
           (dsf_layout_row(&l, h, query / l.block)[c / 64] >> c % 64 & 1);
}

/* Row `p` of all the rows, as a row of a tile. */
static inline double *row_of(const struct sequence *s,
                             const struct tensor *tiles, size_t p, size_t width)
{
    int i = 0;

    while (p >= (size_t)(s->pos[i] + s->rows[i]))
        i++;
    return tiles[i].d + (p - (size_t)s->pos[i]) * width;
}

/* The first row that a row sees, of a sequence that begins at `first`. */
static inline size_t first_seen(const struct sequence *s, size_t row,
                                size_t first)
{
    const size_t window = (size_t)s->window;

    return window > 0 && row + 1 > first + window ? row + 1 - window : first;
}

static inline void attend(const struct sequence *s, size_t row, size_t begin,
                          size_t h)
{
    const struct dsflow_tile *t = &s->tile;
    size_t d = (size_t)t->head_dim, heads = (size_t)t->heads;
    size_t nq = dsf_tile_qwidth(t), nkv = dsf_tile_kvwidth(t);
    size_t g = h / (heads / (size_t)t->kv_heads);
    const double *q = row_of(s, s->q, row, nq) + h * d;
    double *y = s->y + row * nq + h * d, sum = 0, top = -INFINITY;
    const size_t first = first_seen(s, row, begin);

    for (size_t j = first; j <= row; j++) {
        const double *k = row_of(s, s->kv, j, nkv) + g * d;

        if (!is_on(s, h, row - begin, j - begin))
            continue;
        top = fmax(top, dot_ref(q, k, d) / sqrt((double)d));
    }
    memset(y, 0, d * sizeof(double));
    for (size_t j = first; j <= row; j++) {
        const double *k = row_of(s, s->kv, j, nkv) + g * d, *v = k + nkv / 2;
        double p = exp(dot_ref(q, k, d) / sqrt((double)d) - top);

        if (!is_on(s, h, row - begin, j - begin))
            continue;
        sum += p;
        for (size_t i = 0; i < d; i++)
            y[i] += p * v[i];
    }
    for (size_t i = 0; i < d; i++)
        y[i] /= sum;
    s->lsum[row * heads + h] = top + log(sum);
}

/* Does tile i see a key of tile k? */
static inline int sees(const struct sequence *s, int i, int k)
{
    const int32_t last = s->pos[k] + s->rows[k] - 1;
    int any = s->layout.bits == NULL;

    for (int32_t h = 0; h < s->layout.heads; h++)
        for (int32_t q = s->pos[i]; q < s->pos[i] + s->rows[i] && !any; q++)
            for (int32_t key = s->pos[k]; key <= last && !any; key++)
                any = is_on(s, (size_t)h, (size_t)q, (size_t)key) &&
                      (s->window == 0 || q - key < s->window);
    return k == i || (any && (s->window == 0 || s->pos[i] - last < s->window));
}

static inline int first_tile(const struct sequence *s, int i)
{
    int k = 0;

    while (!sees(s, i, k))
        k++;
    return k;
}

static inline int last_tile(const struct sequence *s, int k)
{
    int i = s->ntiles - 1;

    while (!sees(s, i, k))
        i--;
    return i;
}

static inline struct dsflow_attention_args pair_args(const struct sequence *s,
                                                     int i, int k)
{
    struct dsflow_attention_args a = {
        .tile = s->tile,
        .keys = s->rows[k],
        .diagonal = k == i,
        .first = k == first_tile(s, i),
        .last = k == i,
        .first_q = k == i,
        .first_kv = i == last_tile(s, k),
        .window = s->window,
        .key_pos = s->window > 0 || s->layout.bits != NULL ? s->pos[k] : 0,
    };

    a.tile.rows = s->rows[i];
    a.tile.pos = s->pos[i];
    if (s->layout.bits != NULL)
        dsf_attention_lay_out(&s->layout, 0, &a);
    return a;
}

/* A layout is the last port: not where a task sees all keys. */
static inline void run_pair(const struct dsflow_codelet *codelet,
                            const struct dsflow_attention_args *a, unsigned n,
                            const struct on *ports)
{
    run(codelet, a, 0, a->block > 0 ? n : n - 1, ports);
}
#define RUN_PAIR(codelet, args, ...)                                           \
    run_pair(codelet, args,                                                    \
             sizeof((struct on[]){ __VA_ARGS__ }) / sizeof(struct on),         \
             (struct on[]){ __VA_ARGS__ })

/* Of what one task does alone, that of the sequence; of sums, fp32. */
static inline enum dsflow_dtype type_of(const struct sequence *s, int alone)
{
    return alone ? s->type : 0;
}

static inline void forward_by(struct sequence *s,
                              const struct dsflow_codelet *codelet)
{
    for (int i = 0; i < s->ntiles; i++) {
        for (int k = 0; k <= i; k++) {
            struct dsflow_attention_args a = pair_args(s, i, k);

            if (!sees(s, i, k))
                continue;
            RUN_PAIR(codelet, &a, { DSFLOW_ATTENTION_Q, &s->q[i], s->type },
                     { DSFLOW_ATTENTION_KV, &s->kv[k], s->type },
                     { DSFLOW_ATTENTION_ATT, &s->att[i],
                       type_of(s, first_tile(s, i) == i) },
                     { DSFLOW_ATTENTION_LSE, &s->lse[i] },
                     { DSFLOW_ATTENTION_LAYOUT, &s->bits });
        }
    }
}

static inline void forward(struct sequence *s)
{
    forward_by(s, &dsf_codelet_attention_forward);
}

static inline void fill_delta(struct sequence *s)
{
    for (int i = 0; i < s->ntiles; i++)
        dsf_head_dots(s->datt[i].f, s->att[i].f, s->delta[i].f,
                      (size_t)s->rows[i], (size_t)s->tile.heads,
                      (size_t)s->tile.head_dim);
}

/* After fill_delta. */
static inline void backward_by(struct sequence *s,
                               const struct dsflow_codelet *codelet)
{
    for (int i = s->ntiles - 1; i >= 0; i--) {
        for (int k = i; k >= 0; k--) {
            struct dsflow_attention_args a = pair_args(s, i, k);

            if (!sees(s, i, k))
                continue;
            RUN_PAIR(codelet, &a, { DSFLOW_ATTENTION_Q, &s->q[i], s->type },
                     { DSFLOW_ATTENTION_KV, &s->kv[k], s->type },
                     { DSFLOW_ATTENTION_DATT, &s->datt[i], s->type },
                     { DSFLOW_ATTENTION_LSE, &s->lse[i] },
                     { DSFLOW_ATTENTION_DELTA, &s->delta[i] },
                     { DSFLOW_ATTENTION_DQ, &s->dq[i],
                       type_of(s, first_tile(s, i) == i) },
                     { DSFLOW_ATTENTION_DKV, &s->dkv[k],
                       type_of(s, last_tile(s, k) == k) },
                     { DSFLOW_ATTENTION_LAYOUT, &s->bits });
        }
    }
}

static inline void backward(struct sequence *s)
{
    backward_by(s, &dsf_codelet_attention_backward_input);
}

#endif
