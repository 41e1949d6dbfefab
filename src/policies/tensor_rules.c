/* tensor_rules.c - what tensor parallelism makes of each kind of task
 * (Shoeybi et al. 2019; Korthikanti et al. 2022).
 *
 * Between the segments a rank has its rows of the tile. Before a product with
 * its columns of a matrix, the normed rows of all are gathered; after one with
 * its rows, the partial products are summed, each rank receiving its own rows.
 * The backward pass does the same with gradients, and gathers the normed rows
 * once more for those of the weights, so that they are not kept.
 */
#include "policies/tensor_private.h"

#include <assert.h>
#include <string.h>

/* The part's shape, and all rows. */
static struct dsflow_tile part_tile(const struct dsflow_plan *plan, int32_t t,
                                    const void *whole)
{
    struct dsflow_tile tile;
    int32_t parts = plan->nparts, first;

    memcpy(&tile, whole, sizeof(tile));
    tile.heads = dsf_share(tile.heads, parts, t, &first);
    tile.kv_heads = dsf_parts_share_kv(plan->model, parts)
                        ? 1
                        : dsf_share(tile.kv_heads, parts, t, &first);
    tile.ffn = dsf_share(tile.ffn, parts, t, &first);
    tile.vocab = dsf_share(tile.vocab, parts, t, &first);
    return tile;
}

/* The rows of one rank. */
static struct dsflow_tile rows_tile(const struct dsflow_plan *plan, int32_t t,
                                    const void *whole)
{
    struct dsflow_tile tile = part_tile(plan, t, whole);
    int32_t first;

    tile.rows = dsf_share(tile.rows, plan->nparts, t, &first);
    tile.nseq = 1;
    tile.pos = 0;
    return tile;
}

static int fill_load(const struct dsflow_plan *plan, int32_t t,
                     const struct dsf_part *part, const struct dsf_part *shared,
                     const void *whole, union dsf_part_args *args)
{
    memcpy(&args->load, whole, sizeof(args->load));
    return 0;
}

static int fill_norm(const struct dsflow_plan *plan, int32_t t,
                     const struct dsf_part *part, const struct dsf_part *shared,
                     const void *whole, union dsf_part_args *args)
{
    args->norm = (struct dsf_norm_args){ rows_tile(plan, t, whole),
                                         part->norm_w, part->norm_b };
    return 0;
}

static int fill_residual(const struct dsflow_plan *plan, int32_t t,
                         const struct dsf_part *part,
                         const struct dsf_part *shared, const void *whole,
                         union dsf_part_args *args)
{
    args->residual =
        (struct dsf_residual_args){ rows_tile(plan, t, whole), part->b };
    return part->b < 0; /* no bias, no unit */
}

static int fill_bias(const struct dsflow_plan *plan, int32_t t,
                     const struct dsf_part *part, const struct dsf_part *shared,
                     const void *whole, union dsf_part_args *args)
{
    return fill_residual(plan, t, part, shared, whole, args) ? -1 : 0;
}

static int fill_embed(const struct dsflow_plan *plan, int32_t t,
                      const struct dsf_part *part,
                      const struct dsf_part *shared, const void *whole,
                      union dsf_part_args *args)
{
    args->embed = (struct dsf_embed_part_args){
        part_tile(plan, t, whole), part->w,   part->w2, part->first,
        part->first_pos,           part->npos
    };
    return 0;
}

static int fill_qkv(const struct dsflow_plan *plan, int32_t t,
                    const struct dsf_part *part, const struct dsf_part *shared,
                    const void *whole, union dsf_part_args *args)
{
    const struct dsf_dims *d = &plan->model->dims;
    struct dsf_qkv_part_args *a = &args->qkv;
    int64_t rows = d->head_dim, head;

    *a = (struct dsf_qkv_part_args){ .tile = part_tile(plan, t, whole),
                                     .w = part->w,
                                     .b = part->b,
                                     .k = -1,
                                     .v = -1,
                                     .kb = -1,
                                     .vb = -1 };
    if (!dsf_parts_share_kv(plan->model, plan->nparts))
        return 1;
    /* The head that follows this part's queries. */
    head = (int64_t)t * d->kv_heads / plan->nparts * rows;
    a->k = shared->w + head * d->width;
    a->v = a->k + d->kv_heads * rows * d->width;
    if (shared->b >= 0) {
        a->kb = shared->b + head;
        a->vb = a->kb + d->kv_heads * rows;
    }
    return 0;
}

static int fill_attention(const struct dsflow_plan *plan, int32_t t,
                          const struct dsf_part *part,
                          const struct dsf_part *shared, const void *whole,
                          union dsf_part_args *args)
{
    memcpy(&args->attention, whole, sizeof(args->attention));
    args->attention.tile = part_tile(plan, t, whole);
    return 0;
}

static int fill_out(const struct dsflow_plan *plan, int32_t t,
                    const struct dsf_part *part, const struct dsf_part *shared,
                    const void *whole, union dsf_part_args *args)
{
    args->out =
        (struct dsflow_out_args){ part_tile(plan, t, whole), part->w, -1 };
    return 0;
}

static int fill_mlp(const struct dsflow_plan *plan, int32_t t,
                    const struct dsf_part *part, const struct dsf_part *shared,
                    const void *whole, union dsf_part_args *args)
{
    args->mlp = (struct dsf_mlp_part_args){ part_tile(plan, t, whole), part->w,
                                            part->b, part->w2 };
    return 0;
}

static int fill_head(const struct dsflow_plan *plan, int32_t t,
                     const struct dsf_part *part, const struct dsf_part *shared,
                     const void *whole, union dsf_part_args *args)
{
    const struct dsflow_head_args *a = whole;

    args->head = (struct dsf_head_part_args){ .tile = part_tile(plan, t, whole),
                                              .w = part->w,
                                              .first = part->first,
                                              .whole = a->tile.vocab,
                                              .parts = plan->nparts,
                                              .scale = a->scale };
    return 0;
}

#define PORTS(...)                                                             \
    .nports = sizeof((uint8_t[]){ __VA_ARGS__ }), .ports = { __VA_ARGS__ }
#define EACH(name, fill_fn, of, ...)                                           \
    {                                                                          \
        .kind = DSF_RULE_EACH, .op = &dsf_op_##name, .fill = fill_##fill_fn,   \
        .unit = of, PORTS(__VA_ARGS__)                                         \
    }
#define GATHER(to, from)                                                       \
    {                                                                          \
        .kind = DSF_RULE_GATHER, PORTS(to, from)                               \
    }
#define SCATTER(to, from)                                                      \
    {                                                                          \
        .kind = DSF_RULE_SCATTER, PORTS(to, from)                              \
    }
#define SHARED(port) (DSF_SHARED + (port))

enum {
    ONE = DSF_CUT_ONE,
    EVERY = DSF_CUT_EVERY,
    ROWS = DSF_CUT_ROWS,
    COLUMNS = DSF_CUT_COLUMNS,
    KV = DSF_CUT_KV,
    VOCAB = DSF_CUT_VOCAB,
    UNIT = DSF_CUT_UNIT,
    XN = DSF_XN,
    X = DSF_X,
    Y = DSF_Y,
    D = DSF_D,
    R = DSF_R,
    STATS = DSF_STATS,
    ALL = DSF_ALL,
    TOPS = DSF_TOPS,
    NONE = DSF_NO_UNIT
};

/* The numbers are ports of the kind on the left, as args.h gives them; what the
 * rules connect stands in the order of the ports of the kind they name. */
static const struct dsf_op_rules table[] = {
    { &dsf_op_load_batch,
      { ONE, EVERY },
      { EACH(load_batch, load, NONE, 0, 1) } },

    /* batch, embed, x */
    { &dsf_op_embed_forward,
      { EVERY, UNIT, ROWS },
      { EACH(embed_part_forward, embed, 1, 0, 1, Y), SCATTER(2, Y) } },
    /* batch, dx, grad */
    { &dsf_op_embed_backward_weight,
      { EVERY, ROWS, UNIT },
      { GATHER(D, 1), EACH(embed_part_backward_weight, embed, 2, 0, D, 2) } },

    /* x, unit, q, kv, rope */
    { &dsf_op_qkv_forward,
      { ROWS, UNIT, COLUMNS, KV, ONE },
      { EACH(norm_forward, norm, SHARED(1), 0, SHARED(1), XN), GATHER(X, XN),
        EACH(qkv_part_forward, qkv, 1, X, 1, 2, 3, 4, SHARED(1)) } },
    /* dq, dkv, x, unit, dres, dx, dnorm, rope */
    { &dsf_op_qkv_backward_input,
      { COLUMNS, KV, ROWS, UNIT, ROWS, ROWS, EVERY, ONE },
      { EACH(qkv_part_backward_input, qkv, 3, 0, 1, 3, Y, 7, SHARED(3)),
        SCATTER(R, Y),
        EACH(norm_backward_input, norm, SHARED(3), R, 2, SHARED(3), 5, 6,
             4) } },
    /* dq, dkv, x, unit, dnorm, grad */
    { &dsf_op_qkv_backward_weight,
      { COLUMNS, KV, ROWS, UNIT, EVERY, UNIT },
      { EACH(norm_forward, norm, SHARED(3), 2, SHARED(3), XN), GATHER(X, XN),
        EACH(qkv_part_backward_weight, qkv, 5, 0, 1, X, 5, SHARED(5)),
        EACH(norm_backward_weight, norm, SHARED(5), 4, SHARED(5)) } },

    /* q, kv, att, lse */
    { &dsf_op_attention_forward,
      { COLUMNS, KV, COLUMNS, COLUMNS },
      { EACH(attention_forward, attention, NONE, 0, 1, 2, 3) } },
    /* q, kv, datt, lse, delta, dq, dkv */
    { &dsf_op_attention_backward_input,
      { COLUMNS, KV, COLUMNS, COLUMNS, COLUMNS, COLUMNS, KV },
      { EACH(attention_backward_input, attention, NONE, 0, 1, 2, 3, 4, 5,
             6) } },

    /* x, att, unit, y */
    { &dsf_op_out_forward,
      { ROWS, COLUMNS, UNIT, ROWS },
      { EACH(out_part_forward, out, 2, 1, 2, Y), SCATTER(R, Y),
        EACH(residual_forward, residual, SHARED(2), 0, R, 3, SHARED(2)) } },
    /* dy, att, unit, datt, delta */
    { &dsf_op_out_backward_input,
      { ROWS, COLUMNS, UNIT, COLUMNS, COLUMNS },
      { GATHER(D, 0), EACH(out_backward_input, out, 2, D, 1, 2, 3, 4) } },
    /* dy, att, grad */
    { &dsf_op_out_backward_weight,
      { ROWS, COLUMNS, UNIT },
      { GATHER(D, 0), EACH(out_backward_weight, out, 2, D, 1, 2),
        EACH(residual_backward_weight, bias, SHARED(2), 0, SHARED(2)) } },

    /* x, unit, h, y */
    { &dsf_op_mlp_forward,
      { ROWS, UNIT, COLUMNS, ROWS },
      { EACH(norm_forward, norm, SHARED(1), 0, SHARED(1), XN), GATHER(X, XN),
        EACH(mlp_part_forward, mlp, 1, X, 1, 2, Y), SCATTER(R, Y),
        EACH(residual_forward, residual, SHARED(1), 0, R, 3, SHARED(1)) } },
    /* x, unit, h */
    { &dsf_op_mlp_hidden,
      { ROWS, UNIT, COLUMNS },
      { EACH(norm_forward, norm, SHARED(1), 0, SHARED(1), XN), GATHER(X, XN),
        EACH(mlp_part_hidden, mlp, 1, X, 1, 2) } },
    /* dy, x, unit, h, dh, dx, dnorm */
    { &dsf_op_mlp_backward_input,
      { ROWS, ROWS, UNIT, COLUMNS, COLUMNS, ROWS, EVERY },
      { GATHER(D, 0), EACH(mlp_part_backward_input, mlp, 2, D, 2, 3, 4, Y),
        SCATTER(R, Y),
        EACH(norm_backward_input, norm, SHARED(2), R, 1, SHARED(2), 5, 6,
             0) } },
    /* dy, x, unit, h, dh, dnorm, grad */
    { &dsf_op_mlp_backward_weight,
      { ROWS, ROWS, UNIT, COLUMNS, COLUMNS, EVERY, UNIT },
      { EACH(norm_forward, norm, SHARED(2), 1, SHARED(2), XN), GATHER(X, XN),
        GATHER(D, 0), EACH(mlp_part_backward_weight, mlp, 6, D, X, 3, 4, 6),
        EACH(residual_backward_weight, bias, SHARED(6), 0, SHARED(6)),
        EACH(norm_backward_weight, norm, SHARED(6), 5, SHARED(6)) } },

    /* x, norm, weight, batch, logits, loss */
    { &dsf_op_head_forward,
      { ROWS, UNIT, UNIT, EVERY, VOCAB, EVERY },
      { EACH(norm_forward, norm, SHARED(1), 0, SHARED(1), XN), GATHER(X, XN),
        EACH(head_part_forward, head, 2, X, 2, 3, 4, STATS, TOPS),
        GATHER(ALL, STATS),
        EACH(head_part_loss, head, 2, 4, 3, ALL, TOPS, 5) } },
    /* logits, x, norm, weight, dx, dnorm */
    { &dsf_op_head_backward_input,
      { VOCAB, ROWS, UNIT, UNIT, ROWS, EVERY },
      { EACH(head_part_backward_input, head, 3, 0, 3, Y), SCATTER(R, Y),
        EACH(norm_backward_input, norm, SHARED(2), R, 1, SHARED(2), 4, 5) } },
    /* logits, x, norm, dnorm, grad, norm_grad */
    { &dsf_op_head_backward_weight,
      { VOCAB, ROWS, UNIT, EVERY, UNIT, UNIT },
      { EACH(norm_forward, norm, SHARED(2), 1, SHARED(2), XN), GATHER(X, XN),
        EACH(head_part_backward_weight, head, 4, 0, X, 4),
        EACH(norm_backward_weight, norm, SHARED(5), 3, SHARED(5)) } },
};

const struct dsf_op_rules *dsf_rules_find(const struct dsflow_op *op)
{
    for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
        if (table[i].op == op)
            return &table[i];
    return NULL;
}
