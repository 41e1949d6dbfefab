/* parts.c - what each tensor rank has of a unit. */
#include "model/parts.h"

#include <stdio.h>
#include <string.h>

int32_t dsf_share(int32_t n, int32_t parts, int32_t p, int32_t *first)
{
    int32_t more = n % parts;

    *first = n / parts * p + (p < more ? p : more);
    return n / parts + (p < more);
}

static int64_t round_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

static int64_t align(struct dsf_part *p)
{
    return p->elems = round_up(p->elems, 16);
}

/* The next numbers of the part: `rows` x `cols` of the whole unit, whose rows
 * are `ld` apart. */
static void take(struct dsf_part *p, int64_t at, int64_t rows, int64_t cols,
                 int64_t ld)
{
    p->blocks[p->nblocks++] =
        (struct dsf_block){ p->elems, at, rows, cols, cols, ld };
    p->elems += rows * cols;
}

/* A vector that all parts need whole. */
static int64_t take_shared(struct dsf_part *p, const struct dsf_model *m,
                           int64_t at)
{
    int64_t here = align(p);

    if (at < 0)
        return -1;
    take(p, at, 1, m->dims.width, m->dims.width);
    return here;
}

bool dsf_parts_share_kv(const struct dsf_model *m, int32_t parts)
{
    return parts > m->dims.kv_heads;
}

/* Rows of the queries, of the keys and of the values of some heads; the whole
 * has `cols` columns from `at` on. */
static int64_t take_heads(struct dsf_part *p, const struct dsf_model *m,
                          int32_t parts, int64_t at, int64_t cols)
{
    const struct dsf_dims *d = &m->dims;
    const int32_t heads[] = { d->heads, d->kv_heads, d->kv_heads };
    int64_t here = align(p);

    if (at < 0)
        return -1;
    for (int i = 0; i < (dsf_parts_share_kv(m, parts) ? 1 : 3); i++) {
        int32_t first, n = dsf_share(heads[i], parts, p->part, &first);

        take(p, at + first * d->head_dim * cols, (int64_t)n * d->head_dim, cols,
             cols);
        at += heads[i] * d->head_dim * cols;
    }
    return here;
}

/* Rows of W1 or b1: with SwiGLU, of the gate and of up. */
static int64_t take_ffn(struct dsf_part *p, const struct dsf_model *m,
                        int32_t parts, int64_t at, int64_t cols)
{
    int32_t ffn = m->dims.ffn, first;
    int32_t n = dsf_share(ffn, parts, p->part, &first);
    int64_t here = align(p);

    if (at < 0)
        return -1;
    for (int i = 0; i < (m->dims.swiglu ? 2 : 1); i++)
        take(p, at + (i * (int64_t)ffn + first) * cols, n, cols, cols);
    return here;
}

static void init_own(struct dsf_part *p, const struct dsf_model *m,
                     int32_t parts)
{
    const struct dsf_dims *d = &m->dims;
    int64_t width = d->width, q = (int64_t)d->heads * d->head_dim;
    int32_t first, n;

    switch (m->units[p->unit].segment) {
    case DSF_EMBED:
    case DSF_HEAD:
        p->count = dsf_share(d->vocab, parts, p->part, &p->first);
        p->w = 0;
        take(p, p->first * width, p->count, width, width);
        if (m->units[p->unit].segment == DSF_HEAD || m->embed_at.wpe < 0)
            break;
        p->w2 = align(p);
        p->npos = dsf_share(d->context, parts, p->part, &p->first_pos);
        take(p, m->embed_at.wpe + p->first_pos * width, p->npos, width, width);
        break;
    case DSF_QKV:
        p->w = take_heads(p, m, parts, m->qkv_at.w, width);
        p->decay = align(p);
        p->b = take_heads(p, m, parts, m->qkv_at.b, 1);
        return;
    case DSF_OUT:
        n = dsf_share(d->heads, parts, p->part, &first);
        p->w = 0;
        take(p, m->out_at.w + (int64_t)first * d->head_dim, width,
             (int64_t)n * d->head_dim, q);
        break;
    case DSF_MLP:
        n = dsf_share(d->ffn, parts, p->part, &first);
        p->w = take_ffn(p, m, parts, m->mlp_at.w1, width);
        p->w2 = align(p);
        take(p, m->mlp_at.w2 + first, width, n, d->ffn);
        p->decay = align(p);
        p->b = take_ffn(p, m, parts, m->mlp_at.b1, 1);
        return;
    case DSF_NORM:
        return;
    }
    p->decay = align(p);
}

/* Keys and values of all heads, where there are too few of them to split. */
static int64_t take_kv(struct dsf_part *p, const struct dsf_model *m,
                       int64_t at, int64_t cols)
{
    const struct dsf_dims *d = &m->dims;
    int64_t here = align(p);

    if (at < 0)
        return -1;
    take(p, at + (int64_t)d->heads * d->head_dim * cols,
         (int64_t)2 * d->kv_heads * d->head_dim, cols, cols);
    return here;
}

static void init_shared(struct dsf_part *p, const struct dsf_model *m,
                        int32_t parts)
{
    switch (m->units[p->unit].segment) {
    case DSF_QKV:
        if (dsf_parts_share_kv(m, parts)) {
            p->w = take_kv(p, m, m->qkv_at.w, m->dims.width);
            p->decay = align(p);
            p->b = take_kv(p, m, m->qkv_at.b, 1);
        }
        p->norm_w = take_shared(p, m, m->qkv_at.norm_w);
        p->norm_b = take_shared(p, m, m->qkv_at.norm_b);
        break;
    case DSF_OUT:
        p->b = take_shared(p, m, m->out_at.b);
        break;
    case DSF_MLP:
        p->b = take_shared(p, m, m->mlp_at.b2);
        p->norm_w = take_shared(p, m, m->mlp_at.norm_w);
        p->norm_b = take_shared(p, m, m->mlp_at.norm_b);
        break;
    case DSF_NORM:
        p->norm_w = take_shared(p, m, m->norm_at.w);
        p->norm_b = take_shared(p, m, m->norm_at.b);
        break;
    case DSF_EMBED:
    case DSF_HEAD:
        break;
    }
}

/* One part has all, where it stands in the unit. */
static void init_whole(struct dsf_part *p, const struct dsf_model *m)
{
    const struct dsf_unit *u = &m->units[p->unit];
    const struct {
        int64_t w, w2, b, norm_w, norm_b;
    } at[] = {
        [DSF_EMBED] = { m->embed_at.wte, m->embed_at.wpe, -1, -1, -1 },
        [DSF_QKV] = { m->qkv_at.w, -1, m->qkv_at.b, m->qkv_at.norm_w,
                      m->qkv_at.norm_b },
        [DSF_OUT] = { m->out_at.w, -1, m->out_at.b, -1, -1 },
        [DSF_MLP] = { m->mlp_at.w1, m->mlp_at.w2, m->mlp_at.b1,
                      m->mlp_at.norm_w, m->mlp_at.norm_b },
        [DSF_NORM] = { -1, -1, -1, m->norm_at.w, m->norm_at.b },
        [DSF_HEAD] = { 0, -1, -1, -1, -1 },
    };

    snprintf(p->name, sizeof(p->name), "%s", u->name);
    take(p, 0, 1, u->elems, u->elems);
    p->decay = u->decay;
    p->w = at[u->segment].w;
    p->w2 = at[u->segment].w2;
    p->b = at[u->segment].b;
    p->norm_w = at[u->segment].norm_w;
    p->norm_b = at[u->segment].norm_b;
    p->count = m->dims.vocab;
    p->npos = p->w2 < 0 ? 0 : m->dims.context;
}

void dsf_part_init(struct dsf_part *p, const struct dsf_model *m, int32_t parts,
                   unsigned unit, int32_t index)
{
    const char *name = m->units[unit].name;

    *p = (struct dsf_part){ .unit = unit,
                            .part = index,
                            .w = -1,
                            .w2 = -1,
                            .b = -1,
                            .norm_w = -1,
                            .norm_b = -1 };
    if (parts > 1 && index < parts) {
        snprintf(p->name, sizeof(p->name), "%s.p%d", name, (int)index);
        init_own(p, m, parts);
    } else if (parts > 1) {
        snprintf(p->name, sizeof(p->name), "%s.shared", name);
        init_shared(p, m, parts);
    } else if (index == 0) {
        init_whole(p, m);
    }
    if (p->elems == 0)
        return;
    p->block = dsf_unit_block(p->elems);
    p->elems = round_up(p->elems, p->block);
}

void dsf_part_split(const struct dsf_part *p, const float *whole, float *own)
{
    memset(own, 0, (size_t)p->elems * sizeof(float));
    for (unsigned i = 0; i < p->nblocks; i++) {
        const struct dsf_block *b = &p->blocks[i];

        for (int64_t r = 0; r < b->rows; r++)
            memcpy(own + b->at_part + r * b->ld_part,
                   whole + b->at_whole + r * b->ld_whole,
                   (size_t)b->cols * sizeof(float));
    }
}

void dsf_part_merge(const struct dsf_part *p, const float *own, float *whole)
{
    for (unsigned i = 0; i < p->nblocks; i++) {
        const struct dsf_block *b = &p->blocks[i];

        for (int64_t r = 0; r < b->rows; r++)
            memcpy(whole + b->at_whole + r * b->ld_whole,
                   own + b->at_part + r * b->ld_part,
                   (size_t)b->cols * sizeof(float));
    }
}
