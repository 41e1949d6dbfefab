/* segment_qkv.c - norm, then queries, keys and values of a layer. */
#include "segments/segment.h"

static bool lay_out(const struct dsflow_layout *layout, unsigned i,
                    struct dsf_unit *u)
{
    static const char *const names[] = { "q", "k", "v" };
    const struct dsflow_tile *d = &layout->sizes;
    const struct dsf_prefix p = dsf_unit_prefix(layout);
    const int64_t nq = (int64_t)d->heads * d->head_dim;
    const int64_t nk = (int64_t)d->kv_heads * d->head_dim;
    bool gpt2 = !layout->llama;
    char norm[96];

    u->at[DSF_QKV_W] = 0;
    if (gpt2)
        dsf_unit_matrix(u, nq + 2 * nk, d->width, DSF_INIT_STD,
                        "%s.attn.c_attn.weight", p.s)
            ->transposed = true;
    for (int k = 0; k < 3 && !gpt2; k++)
        dsf_unit_matrix(u, k == 0 ? nq : nk, d->width, DSF_INIT_STD,
                        "%s.self_attn.%s_proj.weight", p.s, names[k]);
    dsf_unit_end_matrices(u);
    if (layout->qkv_bias)
        u->at[DSF_QKV_B] = u->elems;
    if (layout->qkv_bias && gpt2)
        dsf_unit_vector(u, nq + 2 * nk, 0, "%s.attn.c_attn.bias", p.s);
    for (int k = 0; k < 3 && layout->qkv_bias && !gpt2; k++)
        dsf_unit_vector(u, k == 0 ? nq : nk, 0, "%s.self_attn.%s_proj.bias",
                        p.s, names[k]);
    snprintf(norm, sizeof(norm), "%s.%s", p.s,
             gpt2 ? "ln_1" : "input_layernorm");
    dsf_unit_norm(u, d, norm, &u->at[DSF_QKV_NORM_W], &u->at[DSF_QKV_NORM_B]);
    return true;
}

static void fill(const struct dsflow_site *site, void *args)
{
    const int64_t *at = site->at[0];

    *(struct dsflow_qkv_args *)args = (struct dsflow_qkv_args){
        .tile = site->tile,
        .w = at[DSF_QKV_W],
        .b = at[DSF_QKV_B],
        .norm_w = at[DSF_QKV_NORM_W],
        .norm_b = at[DSF_QKV_NORM_B],
        .k = -1,
        .v = -1,
        .kb = -1,
        .vb = -1,
        .kv_rows = site->kv_rows,
        .kv_at = site->kv_at,
    };
}

/* The first of several tiles in a buffer of keys sets it. */
static uint32_t fresh(const struct dsflow_op *op, const void *args)
{
    const struct dsflow_qkv_args *a = args;

    return op == &dsf_op_qkv_forward && a->kv_at == 0 ? 1u << DSFLOW_QKV_KV : 0;
}

/* Rows of the queries, of the keys and of the values of some heads; the whole
 * has `cols` columns from `at` on. */
static int64_t take_heads(struct dsf_part *p, const struct dsf_dims *d,
                          int64_t at, int64_t cols)
{
    const int32_t heads[] = { d->heads, d->kv_heads, d->kv_heads };
    int64_t here = dsf_part_align(p);

    if (at < 0)
        return -1;
    for (int i = 0; i < (dsf_shares_kv(d->kv_heads, p->parts) ? 1 : 3); i++) {
        int32_t first, n = dsf_share(heads[i], p->parts, p->part, &first);

        dsf_part_take(p, at + first * d->head_dim * cols,
                      (int64_t)n * d->head_dim, cols, cols);
        at += heads[i] * d->head_dim * cols;
    }
    return here;
}

static void own(struct dsf_part *p, const struct dsf_dims *d,
                const struct dsf_unit *u)
{
    p->w = take_heads(p, d, u->at[DSF_QKV_W], d->width);
    p->decay = dsf_part_align(p);
    p->b = take_heads(p, d, u->at[DSF_QKV_B], 1);
}

/* Keys and values of all heads, where there are too few of them to split. */
static int64_t take_kv(struct dsf_part *p, const struct dsf_dims *d, int64_t at,
                       int64_t cols)
{
    int64_t here = dsf_part_align(p);

    if (at < 0)
        return -1;
    dsf_part_take(p, at + (int64_t)d->heads * d->head_dim * cols,
                  (int64_t)2 * d->kv_heads * d->head_dim, cols, cols);
    return here;
}

static void share(struct dsf_part *p, const struct dsf_dims *d,
                  const struct dsf_unit *u)
{
    if (dsf_shares_kv(d->kv_heads, p->parts)) {
        p->w = take_kv(p, d, u->at[DSF_QKV_W], d->width);
        p->decay = dsf_part_align(p);
        p->b = take_kv(p, d, u->at[DSF_QKV_B], 1);
    }
    p->norm_w = dsf_part_vector(p, u->at[DSF_QKV_NORM_W], d->width);
    p->norm_b = dsf_part_vector(p, u->at[DSF_QKV_NORM_B], d->width);
}

static uint32_t fill_part(int32_t parts, int32_t t, const struct dsf_part *part,
                          const struct dsf_part *shared, const void *whole,
                          void *args)
{
    const struct dsflow_qkv_args *of = whole;
    const struct dsflow_tile *tile = &of->tile;
    struct dsflow_qkv_args *a = args;
    const int64_t rows = tile->head_dim, kv_heads = tile->kv_heads;
    int64_t head;

    *a = (struct dsflow_qkv_args){
        .tile = dsf_part_tile(parts, t, tile),
        .w = part->w,
        .b = part->b,
        .norm_w = -1,
        .norm_b = -1,
        .k = -1,
        .v = -1,
        .kb = -1,
        .vb = -1,
        .kv_rows = of->kv_rows,
        .kv_at = of->kv_at,
    };
    if (!dsf_shares_kv(tile->kv_heads, parts))
        return 1u << DSFLOW_QKV_SHARED | 1u << DSFLOW_QKV_SHARED_GRAD;
    /* The head that follows this part's queries. */
    head = t * kv_heads / parts * rows;
    a->k = shared->w + head * tile->width;
    a->v = a->k + kv_heads * rows * tile->width;
    if (shared->b >= 0) {
        a->kb = shared->b + head;
        a->vb = a->kb + kv_heads * rows;
    }
    return 0;
}

#define COLUMNS .cut = DSFLOW_CUT_COLUMNS
#define KV      .cut = DSFLOW_CUT_KV, .of_keys = 1
#define ROWS    .cut = DSFLOW_CUT_ROWS

static const struct dsflow_segment_port ports[] = {
    [DSFLOW_QKV_X] = { "x", DSFLOW_FROM_IN, ROWS },
    [DSFLOW_QKV_UNIT] = { "unit", DSFLOW_FROM_PARAMETERS,
                          .cut = DSFLOW_CUT_UNIT },
    [DSFLOW_QKV_Q] = { "q", DSFLOW_FROM_KEPT, COLUMNS,
                       .dropped = DSFLOW_DROPPED_WITH_ATTENTION },
    [DSFLOW_QKV_KV] = { "kv", DSFLOW_FROM_KEPT, KV,
                        .dropped = DSFLOW_DROPPED_WITH_ATTENTION },
    [DSFLOW_QKV_ROPE] = { "rope", DSFLOW_FROM_ROPE, .cut = DSFLOW_CUT_ONE },
    [DSFLOW_QKV_SHARED] = { "shared", DSFLOW_FROM_NOTHING },
    [DSFLOW_QKV_DQ] = { "dq", DSFLOW_FROM_PASSING, COLUMNS },
    [DSFLOW_QKV_DKV] = { "dkv", DSFLOW_FROM_PASSING, KV },
    [DSFLOW_QKV_DRES] = { "dres", DSFLOW_FROM_DOUT, ROWS },
    [DSFLOW_QKV_DX] = { "dx", DSFLOW_FROM_DIN, ROWS },
    [DSFLOW_QKV_DNORM] = { "dnorm_qkv", DSFLOW_FROM_PASSING,
                           .cut = DSFLOW_CUT_EVERY },
    [DSFLOW_QKV_GRAD] = { "grad", DSFLOW_FROM_GRADIENTS,
                          .cut = DSFLOW_CUT_UNIT },
    [DSFLOW_QKV_SHARED_GRAD] = { "shared_grad", DSFLOW_FROM_NOTHING },
};

static const struct dsflow_op_rules rules[] = {
    { &dsf_op_qkv_forward,
      { DSFLOW_NORM_ROWS(DSFLOW_QKV_X, DSFLOW_QKV_UNIT),
        DSFLOW_GATHER(DSFLOW_REF_X, DSFLOW_REF_XN),
        DSF_PART(
            fill_part, DSFLOW_REF_OWN + DSFLOW_QKV_UNIT,
            { DSFLOW_QKV_X, DSFLOW_REF_X },
            { DSFLOW_QKV_SHARED, DSFLOW_REF_SHARED + DSFLOW_QKV_UNIT }) } },
    { &dsf_op_qkv_backward_input,
      { DSF_PART(fill_part, DSFLOW_REF_OWN + DSFLOW_QKV_UNIT,
                 { DSFLOW_QKV_X, DSFLOW_LEFT_OUT },
                 { DSFLOW_QKV_SHARED, DSFLOW_REF_SHARED + DSFLOW_QKV_UNIT },
                 { DSFLOW_QKV_DRES, DSFLOW_LEFT_OUT },
                 { DSFLOW_QKV_DX, DSFLOW_REF_Y },
                 { DSFLOW_QKV_DNORM, DSFLOW_LEFT_OUT }),
        DSFLOW_SCATTER(DSFLOW_REF_R, DSFLOW_REF_Y),
        DSFLOW_NORM_BACK_ADD(DSFLOW_QKV_X, DSFLOW_QKV_UNIT, DSFLOW_QKV_DX,
                             DSFLOW_QKV_DNORM, DSFLOW_QKV_DRES) } },
    { &dsf_op_qkv_backward_weight,
      { DSFLOW_NORM_ROWS(DSFLOW_QKV_X, DSFLOW_QKV_UNIT),
        DSFLOW_GATHER(DSFLOW_REF_X, DSFLOW_REF_XN),
        DSF_PART(
            fill_part, DSFLOW_REF_OWN + DSFLOW_QKV_GRAD,
            { DSFLOW_QKV_X, DSFLOW_REF_X },
            { DSFLOW_QKV_UNIT, DSFLOW_LEFT_OUT },
            { DSFLOW_QKV_DNORM, DSFLOW_LEFT_OUT },
            { DSFLOW_QKV_SHARED_GRAD, DSFLOW_REF_SHARED + DSFLOW_QKV_GRAD }),
        DSFLOW_NORM_WEIGHT(DSFLOW_QKV_DNORM, DSFLOW_QKV_GRAD) } },
    { .op = NULL },
};

static const struct dsf_segment_hooks hooks = {
    .units = { "qkv" },
    .lay_out = lay_out,
    .own = own,
    .share = share,
    .next = "attention",
};

DSF_SEGMENT(qkv, QKV, .summary = "norm, then queries, keys and values",
            .backward_input = &dsf_op_qkv_backward_input,
            .backward_weight = &dsf_op_qkv_backward_weight, .fresh = fresh);
