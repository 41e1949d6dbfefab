/* trials_attention.c - random cases of attention: keys of one tile or of
 * several, windows, and layouts of blocks. */
#include "codelets/trials_segment.h"

#include "base/alloc.h"
#include "base/random.h"
#include "codelets/trials.h"
#include "tasks/attention_layout.h"

#include <math.h>
#include <string.h>

/* Which keys there are: in half of the cases that may have some, of several
 * tiles. */
static void keys(uint64_t *s, struct dsflow_attention_args *x)
{
    const struct dsflow_tile *t = &x->tile;

    x->diagonal = t->nseq > 1 || t->pos == 0 || dsf_any(s, 0, 1);
    x->keys = x->diagonal ? t->rows : dsf_any(s, 1, t->pos);
    x->key_tile = x->before = 0;
    if (t->nseq > 1 || dsf_any(s, 0, 1) == 0)
        return;
    if (!x->diagonal && x->keys > 1)
        x->key_tile = dsf_any(s, 1, x->keys - 1);
    if (x->diagonal && t->pos >= t->rows) {
        x->key_tile = dsf_any(s, t->rows, t->pos);
        x->before = x->key_tile * dsf_any(s, 1, t->pos / x->key_tile);
        x->keys += x->before;
    }
}

/* One that leaves every query a key, as the last one of a row of tasks does. */
static void window(uint64_t *s, struct dsflow_attention_args *x)
{
    const int32_t pos = x->tile.pos, nseq = x->tile.nseq;
    const int32_t keys = x->keys / nseq;

    x->key_pos = x->diagonal ? pos - x->before : dsf_any(s, 0, pos - keys);
    x->window = x->diagonal ? dsf_any(s, 1, keys)
                            : pos + x->tile.rows / nseq - x->key_pos - keys +
                                  dsf_any(s, 1, keys);
}

static void set_block(uint64_t *row, int32_t column)
{
    row[column / 64] |= (uint64_t)1 << column % 64;
}

/* Half of the blocks, or fewer, and those that leave every query a key: the
 * same for the same arguments. */
static void fill_layout(const struct dsflow_attention_args *x, uint64_t *bits)
{
    const int32_t last = (x->key_pos + x->keys / x->tile.nseq - 1) / x->block;
    const size_t words = dsf_layout_words((size_t)x->blocks);
    uint64_t state = (uint64_t)x->blocks * 1000003 + (uint64_t)x->tile.rows;
    const int32_t of = dsf_any(&state, 1, 5);

    memset(bits, 0,
           (size_t)x->layouts * (size_t)x->blocks * words * sizeof(*bits));
    for (int32_t i = 0; i < x->layouts * x->blocks; i++) {
        const int32_t row = i % x->blocks;

        for (int32_t c = 0; c <= row; c++)
            if (dsf_any(&state, 0, of) == 0)
                set_block(bits + (size_t)i * words, c);
        set_block(bits + (size_t)i * words,
                  x->diagonal || last > row ? row : last);
    }
}

static void layout(uint64_t *s, struct dsflow_attention_args *x)
{
    struct dsflow_tile *t = &x->tile;
    struct dsf_attention_layout l = { .block = 16 * dsf_any(s, 1, 3) };

    if (dsf_trials_tile == NULL && t->width <= 40) {
        t->rows = t->nseq * dsf_any(s, 1, 99);
        t->pos = t->nseq > 1 ? 0 : dsf_any(s, 0, 150);
        t->context = t->pos + t->rows / t->nseq + dsf_any(s, 0, 5);
        keys(s, x);
        x->window = 0;
        if (dsf_any(s, 0, 2) == 0)
            window(s, x);
    }
    if (x->window == 0)
        x->key_pos =
            x->diagonal ? t->pos - x->before : dsf_any(s, 0, t->pos - x->keys);
    l.blocks = (t->context + l.block - 1) / l.block + dsf_any(s, 0, 2);
    x->head = dsf_any(s, 0, 2);
    l.heads = dsf_any(s, 0, 1) ? x->head + t->heads + dsf_any(s, 0, 1) : 1;
    l.bits = dsf_xcalloc(1, dsf_attention_layout_bytes(&l));
    x->block = l.block;
    x->blocks = l.blocks;
    x->layouts = l.heads;
    fill_layout(x, l.bits);
    dsf_attention_lay_out(&l, x->head, x);
    dsf_attention_layout_free(&l);
}

void dsf_simplify_attention(struct dsflow_attention_args *x)
{
    x->keys -= x->before;
    x->window = x->key_pos = x->key_tile = x->before = 0;
    x->block = x->blocks = x->layouts = x->head = x->packed = x->in_place = 0;
    x->seen = 0;
}

void dsf_choose_attention(uint64_t *s, bool part, union dsf_segment_args *a)
{
    struct dsflow_attention_args *x = &a->attention;

    keys(s, x);
    x->first = dsf_any(s, 0, 1);
    x->last = x->diagonal;
    x->first_q = dsf_any(s, 0, 1);
    x->first_kv = dsf_any(s, 0, 1);
    if (dsf_any(s, 0, 2) == 0)
        window(s, x);
    if (dsf_any(s, 0, 1) == 0)
        layout(s, x);
    x->last = x->diagonal;
}

int dsf_fill_attention(uint64_t *state, unsigned port, void *data,
                       int64_t elems, const union dsf_segment_args *a)
{
    size_t n = (size_t)elems / 2;
    float *lse = data;

    if (port == DSFLOW_ATTENTION_LAYOUT)
        fill_layout(&a->attention, data);
    if (port != DSFLOW_ATTENTION_LSE)
        return port == DSFLOW_ATTENTION_LAYOUT;
    for (size_t i = 0; i < n; i++) {
        lse[i] = (float)(3 + fabs(dsf_random_normal(state)));
        lse[n + i] = (float)(1 + fabs(dsf_random_normal(state)));
    }
    return 1;
}

#define PORT(name) (1u << DSFLOW_ATTENTION_##name)

unsigned dsf_fresh_attention(const struct dsflow_attention_args *a)
{
    return (a->first ? PORT(ATT) | PORT(LSE) : 0) |
           (a->first_q ? PORT(DQ) : 0) | (a->first_kv ? PORT(DKV) : 0);
}
