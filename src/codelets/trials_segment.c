/* trials_segment.c - random cases of the built-in segments, and of what a
 * tensor rank does of them: shapes that are small and odd, with every flag of a
 * model at both of its values. */
#include "codelets/trials_segment.h"

#include "base/alloc.h"
#include "base/random.h"
#include "codelets/trials.h"
#include "tasks/tasks.h"
#include "tasks/tile.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

const struct dsflow_tile *dsf_trials_tile;

struct dsflow_tile dsf_any_tile(uint64_t *s)
{
    bool large = dsf_any(s, 0, 7) == 0; /* worth timing */
    int32_t kv_heads = dsf_any(s, 1, 3), nseq = dsf_any(s, 1, 3);
    struct dsflow_tile t = {
        .rows = nseq * (large ? 64 : dsf_any(s, 1, 19)),
        .nseq = nseq,
        .width = large ? 256 : dsf_any(s, 1, 40),
        .heads = kv_heads * dsf_any(s, 1, 3),
        .kv_heads = kv_heads,
        .head_dim = large ? 64 : 2 * dsf_any(s, 1, 17),
        .ffn = large ? 1024 : dsf_any(s, 1, 50),
        .vocab = large ? 2100 : dsf_any(s, 2, 90),
        .rms = dsf_any(s, 0, 1),
        .swiglu = dsf_any(s, 0, 1),
        .rope = dsf_any(s, 0, 1),
        .eps = 1e-5f,
    };

    t.pos = nseq > 1 ? 0 : dsf_any(s, 0, 30);
    t.context = t.pos + t.rows / nseq + dsf_any(s, 0, 5);
    return dsf_trials_tile != NULL ? *dsf_trials_tile : t;
}

/* The next tensor of a unit of `*at` numbers so far; -1 where it has none. */
static int64_t place(size_t *at, size_t n, bool has)
{
    int64_t here = (int64_t)*at;

    *at += has ? dsf_round16(n) : 0;
    return has ? here : -1;
}

static void embed(uint64_t *s, bool part, union dsf_segment_args *a)
{
    struct dsflow_tile *t = &a->tile;
    size_t n = 0, width = (size_t)t->width;

    if (part) {
        a->embed.first = dsf_any(s, 0, 20);
        a->embed.first_pos = dsf_any(s, 0, t->context - 1);
    }
    if (!t->rope)
        a->embed.npos = t->context - a->embed.first_pos;
    if (part && !t->rope)
        a->embed.npos = dsf_any(s, 0, a->embed.npos);
    a->embed.wte = place(&n, (size_t)t->vocab * width, true);
    a->embed.wpe = place(&n, (size_t)a->embed.npos * width, !t->rope);
}

/* A part whose heads of keys others use too has them in a unit of their own. */
static void qkv(uint64_t *s, bool part, union dsf_segment_args *a)
{
    struct dsflow_tile *t = &a->tile;
    size_t width = (size_t)t->width, nkv = dsf_tile_kvwidth(t);
    bool bias = dsf_any(s, 0, 1), shares = part && dsf_any(s, 0, 1);
    size_t n = 0, shared = 0, out = dsf_tile_qwidth(t) + (shares ? 0 : nkv);

    a->qkv.w = place(&n, out * width, true);
    a->qkv.b = place(&n, out, bias);
    a->qkv.norm_w = place(&n, width, !part);
    a->qkv.norm_b = place(&n, width, !part && !t->rms);
    a->qkv.k = place(&shared, nkv / 2 * width, shares);
    a->qkv.v = place(&shared, nkv / 2 * width, shares);
    if (t->nseq == 1 && dsf_any(s, 0, 1)) {
        a->qkv.kv_rows = t->rows + dsf_any(s, 0, 9);
        a->qkv.kv_at = dsf_any(s, 0, a->qkv.kv_rows - t->rows);
    }
    a->qkv.kb = place(&shared, nkv / 2, shares && bias);
    a->qkv.vb = place(&shared, nkv / 2, shares && bias);
}

static void out(uint64_t *s, bool part, union dsf_segment_args *a)
{
    struct dsflow_tile *t = &a->tile;
    size_t n = 0;

    a->out.w = place(&n, (size_t)t->width * dsf_tile_qwidth(t), true);
    a->out.b = place(&n, (size_t)t->width, dsf_any(s, 0, 1) && !part);
    a->out.residual = !part;
}

static void mlp(uint64_t *s, bool part, union dsf_segment_args *a)
{
    struct dsflow_tile *t = &a->tile;
    size_t n = 0, width = (size_t)t->width;
    bool biases = !t->swiglu && dsf_any(s, 0, 1);

    a->mlp.w1 = place(&n, dsf_tile_hwidth(t) * width, true);
    a->mlp.w2 = place(&n, (size_t)t->ffn * width, true);
    a->mlp.b1 = place(&n, dsf_tile_hwidth(t), biases);
    a->mlp.b2 = place(&n, width, biases && !part);
    a->mlp.norm_w = place(&n, width, !part);
    a->mlp.norm_b = place(&n, width, !part && !t->rms);
}

static void head(uint64_t *s, bool part, union dsf_segment_args *a)
{
    struct dsflow_tile *t = &a->tile;
    size_t n = 0, norm = 0;

    a->head.w = place(&n, (size_t)t->vocab * (size_t)t->width, true);
    a->head.norm_w = place(&norm, (size_t)t->width, !part);
    a->head.norm_b = place(&norm, (size_t)t->width, !part && !t->rms);
    a->head.first = part ? dsf_any(s, 0, 40) : 0;
    a->head.whole = a->head.first + t->vocab;
    if (dsf_any(s, 0, 2) == 0)
        a->head.whole -= dsf_any(s, 0, t->vocab < 40 ? t->vocab - 1 : 40);
    else if (part)
        a->head.whole += dsf_any(s, 0, 40);
    a->head.parts = part ? dsf_any(s, 1, 5) : 1;
    a->head.scale = 0.25f;
    /* In a few turns. */
    a->columns.columns = dsf_any(s, (t->vocab + 7) / 8, t->vocab);
}

static void norm(uint64_t *s, bool part, union dsf_segment_args *a)
{
    struct dsflow_tile *t = &a->tile;
    size_t n = 0;

    a->norm.norm_w = place(&n, (size_t)t->width, true);
    a->norm.norm_b = place(&n, (size_t)t->width, !t->rms);
    a->norm.residual = dsf_any(s, 0, 1);
}

static void residual(uint64_t *s, bool part, union dsf_segment_args *a)
{
    a->residual.b = 16 * dsf_any(s, 0, 2);
}

/* Tokens and targets below `vocab`, a few of them none. */
static int fill_batch(uint64_t *state, int32_t *batch, int32_t rows,
                      int32_t vocab)
{
    for (int32_t i = 0; i < 2 * rows; i++) {
        batch[i] = dsf_any(state, 0, vocab - 1);
        if (i >= rows && dsf_any(state, 0, 7) == 0)
            batch[i] = -1;
    }
    return 1;
}

/* Of a part, tokens that others have too. */
static int fill_embed(uint64_t *state, unsigned port, void *data, int64_t elems,
                      const union dsf_segment_args *a)
{
    return port == DSFLOW_EMBED_BATCH
               ? fill_batch(state, data, a->tile.rows,
                            a->tile.vocab + 2 * a->embed.first)
               : 0;
}

/* Logits of a model that has learned little: the exponential of a large one
 * would show its rounding, and nothing else. */
static int fill_weight(uint64_t *state, float *v, int64_t elems,
                       const struct dsflow_tile *t)
{
    for (int64_t i = 0; i < elems; i++)
        v[i] = (float)(1.6 / sqrt(t->width) * dsf_random_normal(state));
    return 1;
}

/* Exponentials of a part: where stats and tops are 0, that of a target is 1. */
static int fill_exponentials(uint64_t *state, float *v, int64_t elems,
                             const union dsf_segment_args *a)
{
    const int32_t rows = a->tile.rows;
    int32_t *batch = dsf_xcalloc(2 * (size_t)rows, sizeof(*batch));

    fill_batch(state, batch, rows, a->head.whole);
    for (int64_t i = 0; i < elems; i++)
        v[i] = i % a->tile.vocab < (int64_t)dsf_head_words(&a->head)
                   ? (float)dsf_random_unit(state)
                   : 0;
    for (int32_t r = 0; r < rows; r++) {
        int64_t column = (int64_t)batch[rows + r] - a->head.first;

        if (column >= 0 && column < a->tile.vocab)
            v[(int64_t)r * a->tile.vocab + column] = 1;
    }
    free(batch);
    return 1;
}

/* Gradients of logits: padding has none. */
static int fill_gradients(uint64_t *state, float *v, int64_t elems,
                          const struct dsflow_head_args *a)
{
    const int64_t vocab = a->tile.vocab, words = (int64_t)dsf_head_words(a);

    for (int64_t i = 0; i < elems; i++)
        v[i] = i % vocab < words ? (float)dsf_random_normal(state) : 0;
    return 1;
}

/* The sum of a softmax is 1 or more. */
static int fill_head(uint64_t *state, unsigned port, void *data, int64_t elems,
                     const union dsf_segment_args *a)
{
    struct dsflow_head_stats *stats = data;

    if (port == DSFLOW_HEAD_CONTROL)
        *(struct dsflow_control *)data =
            (struct dsflow_control){ .loss_scale = dsf_any(state, 1, 99) };
    if (port == DSFLOW_HEAD_CONTROL)
        return 1;
    if (port == DSFLOW_HEAD_BATCH)
        return fill_batch(state, data, a->tile.rows, a->head.whole);
    if (port == DSFLOW_HEAD_WEIGHT)
        return fill_weight(state, data, elems, &a->tile);
    if (port == DSFLOW_HEAD_LOGITS && a->head.norm_w < 0)
        return fill_exponentials(state, data, elems, a);
    if (port == DSFLOW_HEAD_LOGITS)
        return fill_gradients(state, data, elems, &a->head);
    if (port == DSFLOW_HEAD_TOPS)
        memset(data, 0, (size_t)elems * sizeof(float));
    if (port != DSFLOW_HEAD_ALL_STATS && port != DSFLOW_HEAD_SUMS)
        return port == DSFLOW_HEAD_TOPS;
    /* Where logits are computed, none is far above the top. */
    for (int64_t i = 0; i < elems / DSF_HEAD_STATS; i++)
        stats[i] = (struct dsflow_head_stats){
            .top =
                dsf_random_normal(state) + (port == DSFLOW_HEAD_SUMS ? 6 : 0),
            .sum = 1 + fabs(dsf_random_normal(state)),
        };
    return 1;
}

/* Does a task write all that is in its buffer of keys? */
static bool fills_keys(const struct dsflow_op *op,
                       const struct dsflow_qkv_args *a)
{
    return op->direction == DSFLOW_DIR_FORWARD &&
           (a->kv_rows == 0 || a->kv_rows == a->tile.rows);
}

static const struct segment {
    const char *name;
    dsflow_needs_fn *needs;
    /* Choose the arguments; the tile is chosen. */
    void (*choose)(uint64_t *s, bool part, union dsf_segment_args *a);
    int (*fill)(uint64_t *state, unsigned port, void *data, int64_t elems,
                const union dsf_segment_args *a);
} segments[] = {
    { "embed", dsf_embed_needs, embed, fill_embed },
    { "qkv", dsf_qkv_needs, qkv },
    { "attention", dsf_attention_needs, dsf_choose_attention,
      dsf_fill_attention },
    { "out", dsf_out_needs, out },
    { "mlp", dsf_mlp_needs, mlp },
    { "head", dsf_head_needs, head, fill_head },
    { "norm", dsf_norm_needs, norm },
    { "residual", dsf_residual_needs, residual },
};

static bool has_gradients(const struct dsflow_op *op)
{
    return op->direction == DSFLOW_DIR_BACKWARD_WEIGHT ||
           op == &dsf_op_head_backward_columns;
}

static const struct segment *segment_of(const struct dsflow_op *op)
{
    const struct segment *s = segments;

    while (strcmp(s->name, op->segment) != 0)
        s++;
    return s;
}

/* What takes the place of attention is asked for all keys of one tile only, and
 * what takes that of qkv for those of its tile. */
static void simplify(const struct dsflow_op *op, const struct segment *segment,
                     union dsf_segment_args *a)
{
    if (dsflow_op_find(op->name) != op ||
        strncmp(op->name, op->segment, strlen(op->segment)) == 0)
        return;
    if (segment->choose == qkv)
        a->qkv.kv_rows = a->qkv.kv_at = 0;
    if (segment->choose == dsf_choose_attention)
        dsf_simplify_attention(&a->attention);
}

/* A case of an op: what it needs, on each of its ports. A gradient is fresh for
 * every other seed. */
static int make(const struct dsflow_op *op, uint64_t seed, bool part,
                struct dsflow_shape *shapes, unsigned *n, void *args,
                unsigned *fresh)
{
    const struct segment *segment = segment_of(op);
    struct dsflow_need need[DSFLOW_SEGMENT_PORTS] = { { 0 } };
    union dsf_segment_args a = { .tile = { 0 } };
    uint64_t state = seed;
    int status;

    a.tile = dsf_any_tile(&state);
    segment->choose(&state, part, &a);
    simplify(op, segment, &a);
    status = segment->needs(op, &a, need, NULL);
    *n = op->nports;
    *fresh = segment->choose == dsf_choose_attention
                 ? dsf_fresh_attention(&a.attention)
             : segment->choose == qkv && fills_keys(op, &a.qkv)
                 ? 1u << DSFLOW_QKV_KV
             : has_gradients(op) && seed & 1 ? ~0u
                                             : 0;
    for (unsigned p = 0; p < op->nports; p++) {
        /* The control of a step is where losses are scaled only. */
        bool has = op->ports[p].name != NULL && need[p].rows > 0 &&
                   (need[p].dtype != DSFLOW_BYTES || seed & 2);

        shapes[p] = has ? dsflow_shape_of(need[p].dtype,
                                          need[p].rows * need[p].cols)
                        : (struct dsflow_shape){ 0 };
        if (!has || op->ports[p].access != DSFLOW_RW)
            *fresh &= ~(1u << p);
    }
    memcpy(args, &a, op->args_size);
    return status;
}

static int make_whole(const struct dsflow_op *op, uint64_t seed,
                      struct dsflow_shape *shapes, unsigned *n, void *args,
                      unsigned *fresh)
{
    return make(op, seed, false, shapes, n, args, fresh);
}

static int make_part(const struct dsflow_op *op, uint64_t seed,
                     struct dsflow_shape *shapes, unsigned *n, void *args,
                     unsigned *fresh)
{
    return make(op, seed, true, shapes, n, args, fresh);
}

static int fill_segment(const struct dsflow_op *op, uint64_t seed,
                        unsigned port, void *data, int64_t elems,
                        const void *args)
{
    const struct segment *segment = segment_of(op);
    uint64_t state = seed + 1;

    return segment->fill != NULL && elems > 0
               ? segment->fill(&state, port, data, elems, args)
               : 0;
}

const struct dsflow_trials dsf_trials_segment = { .make = make_whole,
                                                  .fill = fill_segment };
const struct dsflow_trials dsf_trials_part = { .make = make_part,
                                               .fill = fill_segment };
