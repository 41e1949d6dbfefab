/* attention_layout.c - the layout of a layer as the tasks of attention have it.
 */
#include "tasks/attention_layout.h"

#include "kernels/kernels.h"
#include "tasks/sparsity.h"
#include "tasks/tile.h"

#include <stdlib.h>
#include <string.h>

struct dsflow_need dsf_layout_need(int32_t layouts, int32_t blocks)
{
    return (struct dsflow_need){ (int64_t)layouts * blocks,
                                 (int64_t)dsf_layout_words((size_t)blocks),
                                 DSFLOW_INT64 };
}

size_t dsf_attention_layout_bytes(const struct dsf_attention_layout *l)
{
    const struct dsflow_need need = dsf_layout_need(l->heads, l->blocks);

    return (size_t)(need.rows * need.cols) * sizeof(*l->bits);
}

struct dsf_layout dsf_attention_layout_of(const struct dsf_attention_layout *l)
{
    const size_t words = dsf_layout_words((size_t)l->blocks);

    return (struct dsf_layout){
        .bits = l->bits,
        .block = (size_t)l->block,
        .words = words,
        .apart = l->heads > 1 ? words * (size_t)l->blocks : 0,
    };
}

void dsf_attention_layout_free(struct dsf_attention_layout *l)
{
    free(l->bits);
    l->bits = NULL;
}

bool dsf_attention_layout_equal(const struct dsf_attention_layout *a,
                                const struct dsf_attention_layout *b)
{
    return a->block == b->block && a->blocks == b->blocks &&
           a->heads == b->heads &&
           memcmp(a->bits, b->bits, dsf_attention_layout_bytes(a)) == 0;
}

/* The causal half of a head's blocks; fails where a row has none. */
static int take_head(const struct dsf_job *job,
                     const struct dsf_sparsity_layout *from, int32_t head,
                     uint64_t *bits, struct dsflow_err *err)
{
    const uint8_t *on = dsf_sparsity_head(from, head);
    const size_t n = (size_t)from->blocks, words = dsf_layout_words(n);

    for (size_t r = 0; r < n; r++) {
        uint64_t *row = bits + r * words, any = 0;

        for (size_t c = 0; c <= r; c++)
            row[c / 64] |= (uint64_t)on[r * n + c] << c % 64;
        for (size_t w = 0; w < words; w++)
            any |= row[w];
        if (any == 0)
            return dsf_job_fail(job, err, DSFLOW_EINVAL, "sparse_attention",
                                "mode",
                                "\"%s\": row %d of head %d has only blocks "
                                "behind it: its queries would see nothing",
                                job->sparse.mode, (int)r, (int)head);
    }
    return DSFLOW_OK;
}

int dsf_attention_layout_make(const struct dsf_job *job, int32_t heads,
                              int32_t layer, int64_t tokens,
                              struct dsf_attention_layout *l,
                              struct dsflow_err *err)
{
    struct dsf_sparsity_layout from;
    int status = dsf_sparsity_make(job, heads, layer, tokens, &from, err);
    size_t head;

    *l = (struct dsf_attention_layout){ .bits = NULL };
    if (status < 0)
        return status;
    l->block = (int32_t)job->sparse.block;
    l->blocks = from.blocks;
    l->heads = from.heads;
    head = dsf_layout_words((size_t)l->blocks) * (size_t)l->blocks;
    l->bits = calloc(head * (size_t)l->heads, sizeof(*l->bits));
    if (l->bits == NULL)
        status = dsflow_fail(err, DSFLOW_ENOMEM,
                             "memory: %zu bytes for the layout of attention",
                             dsf_attention_layout_bytes(l));
    for (int32_t h = 0; h < l->heads && status == DSFLOW_OK; h++)
        status = take_head(job, &from, h, l->bits + (size_t)h * head, err);
    dsf_sparsity_free(&from);
    if (status < 0)
        dsf_attention_layout_free(l);
    return status;
}

/* Pairs of a query and a key in a sequence that a layout could leave out. */
static double all_pairs(const struct dsf_layout_pair *p)
{
    double n = (double)p->queries * (double)p->keys;

    if (p->key_pos + p->keys > p->pos)
        n -= (double)p->queries * ((double)p->queries - 1) / 2;
    for (size_t i = 0; i < p->queries && p->window > 0; i++) {
        const size_t end = p->pos + i + 1, before = p->window + p->key_pos;
        const size_t none = end > before ? end - before : 0;

        n -= (double)(none < p->keys ? none : p->keys);
    }
    return n;
}

static struct dsf_layout_pair pair_of(const struct dsflow_attention_args *a)
{
    const struct dsflow_tile *t = &a->tile;

    return (struct dsf_layout_pair){
        .pos = (size_t)t->pos,
        .queries = dsf_tile_length(t),
        .key_pos = (size_t)a->key_pos,
        .keys = (size_t)a->keys / (size_t)t->nseq,
        .window = (size_t)a->window,
    };
}

/* The first of the heads of a layout that a task has. */
static size_t first_of(const struct dsf_attention_layout *layout, int32_t head)
{
    return layout->heads > 1 ? (size_t)head : 0;
}

static void lay_heads(const struct dsf_attention_layout *layout, int32_t head,
                      struct dsflow_attention_args *a)
{
    const struct dsf_layout l = dsf_attention_layout_of(layout);
    const struct dsf_layout_pair p = pair_of(a);
    const size_t first = first_of(layout, head), heads = (size_t)a->tile.heads;
    const size_t group = heads / (size_t)a->tile.kv_heads;
    size_t packed = 0;

    for (size_t h = 0; h < (l.apart > 0 ? heads : 1); h += group) {
        const size_t n = dsf_layout_pack(&l, &p, first + h, group, NULL);

        packed = n > packed ? n : packed;
    }
    a->block = layout->block;
    a->blocks = layout->blocks;
    a->layouts = layout->heads;
    a->head = (int32_t)first;
    a->packed = (int32_t)packed;
    a->in_place = 0;
    a->seen = dsf_layout_count(&l, &p, first, heads) * a->tile.nseq;
}

void dsf_attention_lay_part(const struct dsf_attention_layout *layout,
                            int32_t head,
                            const struct dsflow_attention_args *all,
                            struct dsflow_attention_args *a)
{
    lay_heads(layout, head, a);
    a->in_place = dsf_attention_in_place(all) ? 1 : -1;
}

void dsf_attention_lay_out(const struct dsf_attention_layout *layout,
                           int32_t head, struct dsflow_attention_args *a)
{
    const struct dsf_layout l = dsf_attention_layout_of(layout);
    const struct dsf_layout_pair p = pair_of(a);
    const size_t first = first_of(layout, head), heads = (size_t)a->tile.heads;

    a->block = a->blocks = a->layouts = a->head = a->packed = a->in_place = 0;
    a->seen = 0;
    if (dsf_layout_count(&l, &p, first, heads) != all_pairs(&p) * (double)heads)
        lay_heads(layout, head, a);
}

/* Pairs for each key that is packed from which on packing it pays, which were
 * measured (tests/bench/bench_layouts): products with queries of a short row of
 * blocks are slower. */
bool dsf_attention_in_place(const struct dsflow_attention_args *a)
{
    const double keys =
        (double)a->packed * (double)a->tile.kv_heads * (double)a->tile.nseq;

    if (a->in_place != 0)
        return a->in_place > 0;
    return a->block > 0 &&
           a->seen < (a->block < DSF_STRIP_IN_PLACE ? 56 : 88) * keys;
}
