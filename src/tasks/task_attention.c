/* task_attention.c - queries of one tile against keys of one or several. */
#include "tasks/tasks.h"

#include "kernels/layout.h"
#include "kernels/narrow.h"
#include "tasks/attention_layout.h"
#include "tasks/attention_tiles.h"
#include "tasks/tile.h"

static int has_key_pos(const struct dsflow_attention_args *a)
{
    return a->window > 0 || a->block > 0;
}

/* Keys stand where they can: the tile's own with it, others before it. */
static int check_window(const struct dsflow_op *op,
                        const struct dsflow_attention_args *a,
                        struct dsflow_err *err)
{
    const int32_t pos = a->tile.pos;
    const int32_t most = a->diagonal ? pos - a->before : pos - a->keys;
    const int32_t least = a->diagonal ? most : 0;

    if (a->window < 0)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: window: %d: expected 1 or more, or 0: none",
                           op->name, (int)a->window);
    if ((a->key_pos > most || a->key_pos < least) &&
        (a->key_pos != 0 || has_key_pos(a)))
        return dsflow_fail(err, DSFLOW_EINVAL, "%s: key_pos: %d: expected %s%d",
                           op->name, (int)a->key_pos,
                           a->diagonal || !has_key_pos(a) ? "" : "0 to ",
                           (int)most);
    return DSFLOW_OK;
}

/* Keys are whole tiles but for the last, which on the diagonal is that of the
 * queries. */
static int check_tiles(const struct dsflow_op *op,
                       const struct dsflow_attention_args *a,
                       struct dsflow_err *err)
{
    if (a->key_tile == 0 && a->before == 0)
        return DSFLOW_OK;
    if (a->tile.nseq != 1 || a->key_tile < 1 || a->key_tile >= a->keys)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: key_tile: %d of %d keys in %d sequences: "
                           "expected some of those of one, or 0: one tile",
                           op->name, (int)a->key_tile, (int)a->keys,
                           (int)a->tile.nseq);
    if (a->before < 0 || a->before > a->tile.pos ||
        a->before % a->key_tile != 0 || (a->before > 0) != (a->diagonal != 0) ||
        (a->before > 0 && a->tile.rows > a->key_tile))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: before: %d: expected whole tiles of %d, and "
                           "tokens %d and on behind them; or 0: none",
                           op->name, (int)a->before, (int)a->key_tile,
                           (int)a->tile.pos);
    return DSFLOW_OK;
}

/* The layout has the blocks and the heads of the tile. */
static int check_layout(const struct dsflow_op *op,
                        const struct dsflow_attention_args *a,
                        struct dsflow_err *err)
{
    const struct dsflow_tile *t = &a->tile;
    const int64_t end = (int64_t)t->pos + t->rows / t->nseq;

    if (a->block == 0 && a->blocks == 0 && a->layouts == 0 && a->head == 0 &&
        a->in_place == 0)
        return DSFLOW_OK;
    if (a->block < 1 || a->block % 16 != 0)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: block: %d: expected a multiple of 16", op->name,
                           (int)a->block);
    if ((int64_t)a->blocks * a->block < end)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: blocks: %d: expected those of %d tokens, of %d "
                           "each",
                           op->name, (int)a->blocks, (int)end, (int)a->block);
    if (a->head < 0 ||
        (a->layouts == 1 ? a->head > 0 : a->layouts - a->head < t->heads))
        return dsflow_fail(
            err, DSFLOW_EINVAL, "%s: head: %d of %d: expected %d from there on",
            op->name, (int)a->head, (int)a->layouts, (int)t->heads);
    if (a->packed < 0 || !(a->seen >= 0))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: packed: %d, seen: %g: expected 0 or more",
                           op->name, (int)a->packed, a->seen);
    return DSFLOW_OK;
}

int dsf_attention_needs(const struct dsflow_op *op, const void *args,
                        struct dsflow_need *need, struct dsflow_err *err)
{
    const struct dsflow_attention_args *a = args;
    const struct dsflow_tile *t = &a->tile;
    const size_t nq = dsf_tile_qwidth(t), heads = (size_t)t->heads;
    int status = dsf_tile_check(op, t, err);

    if (status < 0)
        return status;
    status = check_tiles(op, a, err);
    if (status < 0)
        return status;
    if (a->diagonal && a->keys != a->before + t->rows)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: keys: %d: expected the %d rows of the tile",
                           op->name, (int)a->keys, (int)(a->before + t->rows));
    if (!a->diagonal && t->nseq != 1)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: nseq: %d: expected 1 for keys of another tile",
                           op->name, (int)t->nseq);
    if (!a->diagonal && (a->keys < 1 || a->keys > t->pos))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: keys: %d: expected 1 to %d, before the tile",
                           op->name, (int)a->keys, (int)t->pos);
    status = check_window(op, a, err);
    if (status == DSFLOW_OK)
        status = check_layout(op, a, err);
    if (status < 0)
        return status;
    need[DSFLOW_ATTENTION_Q] = need[DSFLOW_ATTENTION_ATT] =
        need[DSFLOW_ATTENTION_DATT] = need[DSFLOW_ATTENTION_DQ] =
            dsf_rows_of(t, nq);
    need[DSFLOW_ATTENTION_KV] = need[DSFLOW_ATTENTION_DKV] =
        dsf_matrix((size_t)a->keys, dsf_tile_kvwidth(t));
    need[DSFLOW_ATTENTION_LSE] = dsf_matrix(2, (size_t)t->rows * heads);
    need[DSFLOW_ATTENTION_DELTA] = dsf_rows_of(t, heads);
    if (a->block > 0)
        need[DSFLOW_ATTENTION_LAYOUT] = dsf_layout_need(a->layouts, a->blocks);
    return DSFLOW_OK;
}

static size_t keys_of_one(const struct dsflow_attention_args *a)
{
    return (size_t)a->keys / (size_t)a->tile.nseq;
}

/* How many of the keys are in front of the window of query `i` of a sequence?
 */
static size_t hidden(const struct dsflow_attention_args *a, size_t i)
{
    const int64_t before =
        (int64_t)a->tile.pos + (int64_t)i + 1 - a->window - a->key_pos;
    const int64_t keys = (int64_t)keys_of_one(a);

    return a->window == 0 || before <= 0 ? 0
           : before < keys               ? (size_t)before
                                         : (size_t)keys;
}

/* Where blocks are left out, fewer queries see each key that any sees: the time
 * of a task follows from 0.8 of the pairs that are seen, and as much for each
 * key that is packed as for 60. That is 1 for each pair where a tile of 256
 * sees all keys, which is what was measured of this kind of task. Keys that are
 * used where they are are less, and pairs more. Fitted to
 * tests/bench/bench_layouts (docs/performance.md). */
static double packed_scores(const struct dsflow_attention_args *a)
{
    const double packed =
        (double)a->packed * (double)a->tile.kv_heads * (double)a->tile.nseq;

    if (dsf_attention_in_place(a))
        return 1.05 * a->seen + 44 * packed;
    return 0.8 * a->seen + 60 * packed;
}

double dsf_attention_dense_scores(const struct dsflow_attention_args *a)
{
    const struct dsflow_tile *t = &a->tile;
    const double seen = a->diagonal
                            ? a->before + ((double)dsf_tile_length(t) + 1) / 2
                            : a->keys;

    return t->rows * seen * t->heads;
}

/* Pairs of a query and a key that it sees, in all heads; each costs an
 * exponential. */
static double scores(const struct dsflow_attention_args *a)
{
    const struct dsflow_tile *t = &a->tile;
    double pairs = dsf_attention_dense_scores(a);

    if (a->block > 0)
        return packed_scores(a);
    for (size_t i = 0; i < dsf_tile_length(t) && a->window > 0; i++)
        pairs -= (double)t->nseq * (double)hidden(a, i) * (double)t->heads;
    return pairs;
}

/* Those that the kernel packs at a time, at most: those of a layout, or of a
 * tile from the first one that a query sees on. */
static size_t packed_keys(const struct dsflow_attention_args *a)
{
    const size_t seen = keys_of_one(a) - hidden(a, 0) / 16 * 16;
    const size_t tile = (size_t)a->key_tile;

    if (a->block > 0)
        return (size_t)a->packed;
    return tile > 0 && tile < seen ? tile : seen;
}

/* Where several tiles of keys add to narrow results of this task alone, their
 * sums: fp32. */
static size_t sums_scratch(const struct dsflow_case *c, unsigned port)
{
    const struct dsflow_attention_args *a = c->args;

    return a->key_tile > 0 && port < c->n &&
                   dsf_is_narrow(c->shapes[port].dtype)
               ? DSF_CELL * dsf_round16((size_t)a->tile.rows *
                                        dsf_tile_qwidth(&a->tile))
               : 0;
}

/* Are narrow results those of one task? A sum that is rounded for each tile of
 * keys would be off by more with every tile. */
static int attention_check(const struct dsflow_case *c, struct dsflow_err *err)
{
    const struct dsflow_attention_args *a = c->args;
    const struct {
        unsigned port;
        int alone;
    } sums[] = {
        { DSFLOW_ATTENTION_ATT, a->first && a->last },
        { DSFLOW_ATTENTION_DQ, a->first_q },
        { DSFLOW_ATTENTION_DKV, a->first_kv },
    };
    int status = dsflow_segment_check(c, dsf_attention_needs, err);

    for (unsigned i = 0; i < 3 && status == DSFLOW_OK; i++) {
        unsigned p = sums[i].port;

        if (p < c->n && c->shapes[p].bytes > 0 &&
            c->shapes[p].dtype != DSFLOW_FP32 && !sums[i].alone)
            status = dsflow_fail(err, DSFLOW_EINVAL,
                                 "%s: %s: %s: expected fp32, as several tasks "
                                 "add to it",
                                 c->op->name, c->op->ports[p].name,
                                 dsflow_dtype_str(c->shapes[p].dtype));
    }
    return status;
}

/* What the keys of a task are of what is on a port: it may have more. */
static double keys_bytes(const struct dsflow_case *c, unsigned port)
{
    const struct dsflow_attention_args *a = c->args;

    return port < c->n
               ? (double)dsflow_dtype_bytes(
                     c->shapes[port].dtype,
                     (int64_t)a->keys * (int64_t)dsf_tile_kvwidth(&a->tile))
               : 0;
}

/* Forward, two products of a score's length, and about 10 for its exponential;
 * back, five products, one of them the scores again. */
static void cost(const struct dsflow_case *c, struct dsflow_cost *cost)
{
    const struct dsflow_attention_args *a = c->args;
    const double d = a->tile.head_dim;
    const int forward = c->op->direction == DSFLOW_DIR_FORWARD;

    cost->scores = scores(a);
    cost->flops = cost->scores * (forward ? 4 * d + 10 : 10 * d + 12);
    cost->bytes = dsf_ports_bytes(c, 1u << DSFLOW_ATTENTION_KV |
                                         1u << DSFLOW_ATTENTION_DKV) +
                  keys_bytes(c, DSFLOW_ATTENTION_KV) +
                  (forward ? 0 : 2 * keys_bytes(c, DSFLOW_ATTENTION_DKV));
}

/* Where the kernel packs what of a layout. */
static size_t layout_scratch(const struct dsflow_attention_args *a)
{
    if (a->block == 0)
        return 0;
    return sizeof(struct dsf_layout_slot) *
           (keys_of_one(a) / (size_t)a->block + 2);
}

/* Keys (transposed) and values of a head; a strip of queries, outputs and
 * scores: in fp32, whatever the type of the data. */
static size_t forward_scratch(const struct dsflow_case *c)
{
    const struct dsflow_attention_args *a = c->args;
    size_t d = (size_t)a->tile.head_dim, ldd = dsf_round16(d);
    size_t keys = packed_keys(a);
    size_t packed = d * dsf_round16(keys) + keys * ldd +
                    DSF_STRIP_FORWARD * (2 * ldd + DSF_KEY_BLOCK);
    size_t in_place = DSF_STRIP_IN_PLACE * (d + ldd + 2 * DSF_KEY_BLOCK);

    in_place = dsf_attention_in_place(a) ? in_place : 0;
    return DSF_CELL * (in_place > packed ? in_place : packed) +
           layout_scratch(a) + sums_scratch(c, DSFLOW_ATTENTION_ATT);
}

/* A port, by its name in the list of the segment. */
#define P(port, name, access, ...)                                             \
    DSF_PORT(ATTENTION, port, name, access, __VA_ARGS__)
#define NARROW .floats = DSFLOW_NARROW
#define SUM    .floats = DSFLOW_NARROW_SUM
#define LAYOUT_PORT P(LAYOUT, "layout", R, .dtype = DSFLOW_INT64, .optional = 1)

DSF_SEGMENT_OP(attention, forward, FORWARD, struct dsflow_attention_args,
               .summary = "attention of a tile of queries to a tile of keys",
               .cost = cost, .scratch = forward_scratch,
               DSFLOW_PORTS(P(Q, "q", R, NARROW), P(KV, "kv", R, NARROW),
                            P(ATT, "att", RW, SUM), P(LSE, "lse", RW),
                            LAYOUT_PORT));

/* With a layout whose keys stay where they are: queries and gradients of
 * outputs of the heads that have a head of keys in common, each also
 * transposed, in strips; gradients of the keys of a tile; and what a strip has.
 */
static size_t backward_in_place(const struct dsflow_attention_args *a)
{
    const size_t d = (size_t)a->tile.head_dim, ldd = dsf_round16(d);
    const size_t group = (size_t)(a->tile.heads / a->tile.kv_heads);
    const size_t queries = dsf_tile_length(&a->tile);
    const size_t strip = DSF_STRIP_IN_PLACE;
    const size_t keys = a->key_tile > 0 ? (size_t)a->key_tile : keys_of_one(a);
    size_t strips;

    if (!dsf_attention_in_place(a))
        return 0;
    strips = (queries / (size_t)a->block + 2) *
             (((size_t)a->block + strip - 1) / strip);
    return group * (2 * queries * ldd + 2 * d * (queries + 16 * strips)) +
           2 * keys * ldd + strip * (ldd + 2 * DSF_KEY_BLOCK);
}

/* Keys and values transposed, keys, gradients of both; a strip of queries,
 * gradients of outputs and of queries, scores and their gradients. */
static size_t backward_input_scratch(const struct dsflow_case *c)
{
    const struct dsflow_attention_args *a = c->args;
    size_t d = (size_t)a->tile.head_dim, ldd = dsf_round16(d);
    size_t keys = packed_keys(a);
    size_t packed = 2 * d * dsf_round16(keys) + 3 * keys * ldd +
                    DSF_STRIP_BACKWARD * (3 * ldd + 2 * DSF_KEY_BLOCK);
    size_t in_place = backward_in_place(a);

    return DSF_CELL * (in_place > packed ? in_place : packed) +
           layout_scratch(a) + sums_scratch(c, DSFLOW_ATTENTION_DQ);
}

DSF_SEGMENT_OP(attention, backward_input, BACKWARD_INPUT,
               struct dsflow_attention_args,
               .summary = "gradients of queries, keys and values", .cost = cost,
               .scratch = backward_input_scratch,
               DSFLOW_PORTS(P(Q, "q", R, NARROW), P(KV, "kv", R, NARROW),
                            P(LSE, "lse", R), P(DATT, "datt", R, NARROW),
                            P(DELTA, "delta", R), P(DQ, "dq", RW, SUM),
                            P(DKV, "dkv", RW, SUM), LAYOUT_PORT));
