/* segment_head.c - the last norm, logits and their loss. */
#include "segments/segment.h"

static bool lay_out(const struct dsflow_layout *layout, unsigned i,
                    struct dsf_unit *u)
{
    const struct dsflow_tile *d = &layout->sizes;

    if (i == DSF_HEAD_UNIT_NORM) {
        dsf_unit_norm(u, d, !layout->llama ? "transformer.ln_f" : "model.norm",
                      &u->at[DSF_HEAD_NORM_W], &u->at[DSF_HEAD_NORM_B]);
        return true;
    }
    if (layout->tied)
        return false;
    u->matrices = DSFLOW_HEAD;
    u->at[DSF_HEAD_W] = 0;
    dsf_unit_vocabulary(u, d->vocab, d->width, "lm_head.weight");
    dsf_unit_end_matrices(u);
    return true;
}

static void fill(const struct dsflow_site *site, void *args)
{
    const int64_t *norm = site->at[DSF_HEAD_UNIT_NORM];

    if (site->columns > 0)
        ((struct dsf_head_columns_args *)args)->columns = site->columns;
    *(struct dsflow_head_args *)args = (struct dsflow_head_args){
        .tile = site->tile,
        .w = site->at[DSF_HEAD_UNIT_W][DSF_HEAD_W],
        .norm_w = norm[DSF_HEAD_NORM_W],
        .norm_b = norm[DSF_HEAD_NORM_B],
        .whole = site->tile.vocab - site->padding,
        .parts = 1,
        .scale = (float)(1 / site->tokens),
    };
}

/* Is it the unit of the matrix, and not that of the norm? */
static bool has_matrix(const struct dsf_unit *u)
{
    return u->matrices == DSFLOW_HEAD;
}

/* Rows of the vocabulary. */
static void own(struct dsf_part *p, const struct dsf_dims *d,
                const struct dsf_unit *u)
{
    if (!has_matrix(u))
        return;
    p->count = dsf_share_vocabulary(d, p->parts, p->part, &p->first);
    p->w = 0;
    dsf_part_take(p, p->first * (int64_t)d->width, p->count, d->width,
                  d->width);
    p->decay = dsf_part_align(p);
}

static void share(struct dsf_part *p, const struct dsf_dims *d,
                  const struct dsf_unit *u)
{
    if (has_matrix(u))
        return;
    p->norm_w = dsf_part_vector(p, u->at[DSF_HEAD_NORM_W], d->width);
    p->norm_b = dsf_part_vector(p, u->at[DSF_HEAD_NORM_B], d->width);
}

static uint32_t fill_part(int32_t parts, int32_t t, const struct dsf_part *part,
                          const struct dsf_part *shared, const void *whole,
                          void *args)
{
    const struct dsflow_head_args *a = whole;

    *(struct dsflow_head_args *)args = (struct dsflow_head_args){
        .tile = dsf_part_vocabulary(parts, t, &a->tile, part),
        .w = part->w,
        .norm_w = -1,
        .norm_b = -1,
        .first = part->first,
        .whole = a->whole,
        .parts = parts,
        .scale = a->scale,
    };
    return 0;
}

static uint32_t fill_columns(int32_t parts, int32_t t,
                             const struct dsf_part *part,
                             const struct dsf_part *shared, const void *whole,
                             void *args)
{
    ((struct dsf_head_columns_args *)args)->columns =
        ((const struct dsf_head_columns_args *)whole)->columns;
    return fill_part(parts, t, part, shared, whole, args);
}

#define VOCAB .cut = DSFLOW_CUT_VOCAB
#define EVERY .cut = DSFLOW_CUT_EVERY
#define ROWS  .cut = DSFLOW_CUT_ROWS
#define ONE   .cut = DSFLOW_CUT_ONE
#define NORM  .unit = DSF_HEAD_UNIT_NORM, .cut = DSFLOW_CUT_UNIT
#define W     .unit = DSF_HEAD_UNIT_W, .cut = DSFLOW_CUT_UNIT

static const struct dsflow_segment_port ports[] = {
    [DSFLOW_HEAD_X] = { "x", DSFLOW_FROM_IN, ROWS },
    [DSFLOW_HEAD_NORM] = { "norm", DSFLOW_FROM_PARAMETERS, NORM },
    [DSFLOW_HEAD_WEIGHT] = { "weight", DSFLOW_FROM_PARAMETERS, W },
    [DSFLOW_HEAD_BATCH] = { "batch", DSFLOW_FROM_BATCH, EVERY },
    [DSFLOW_HEAD_LOGITS] = { "logits", DSFLOW_FROM_LOGITS, VOCAB },
    [DSFLOW_HEAD_LOSS] = { "loss", DSFLOW_FROM_LOSS, EVERY },
    [DSFLOW_HEAD_STATS] = { "stats", DSFLOW_FROM_NOTHING },
    [DSFLOW_HEAD_TOPS] = { "tops", DSFLOW_FROM_NOTHING },
    [DSFLOW_HEAD_ALL_STATS] = { "all_stats", DSFLOW_FROM_NOTHING },
    [DSFLOW_HEAD_DX] = { "dx", DSFLOW_FROM_DIN, ROWS },
    [DSFLOW_HEAD_DNORM] = { "dnorm", DSFLOW_FROM_LOGITS, EVERY },
    [DSFLOW_HEAD_GRAD] = { "grad", DSFLOW_FROM_GRADIENTS, W },
    [DSFLOW_HEAD_NORM_GRAD] = { "norm_grad", DSFLOW_FROM_GRADIENTS, NORM },
    [DSFLOW_HEAD_CONTROL] = { "control", DSFLOW_FROM_CONTROL, ONE },
    [DSFLOW_HEAD_SUMS] = { "sums", DSFLOW_FROM_LOGITS, EVERY },
};

static const struct dsflow_op_rules rules[] = {
    { &dsf_op_head_forward,
      { DSFLOW_NORM_ROWS(DSFLOW_HEAD_X, DSFLOW_HEAD_NORM),
        DSFLOW_GATHER(DSFLOW_REF_X, DSFLOW_REF_XN),
        DSF_PART(fill_part, DSFLOW_REF_OWN + DSFLOW_HEAD_WEIGHT,
                 { DSFLOW_HEAD_X, DSFLOW_REF_X },
                 { DSFLOW_HEAD_NORM, DSFLOW_LEFT_OUT },
                 { DSFLOW_HEAD_LOSS, DSFLOW_LEFT_OUT },
                 { DSFLOW_HEAD_STATS, DSFLOW_REF_STATS },
                 { DSFLOW_HEAD_TOPS, DSFLOW_REF_TOPS },
                 { DSFLOW_HEAD_CONTROL, DSFLOW_LEFT_OUT }),
        DSFLOW_GATHER(DSFLOW_REF_ALL, DSFLOW_REF_STATS),
        DSF_OTHER(
            head_loss, fill_part, DSFLOW_REF_OWN + DSFLOW_HEAD_WEIGHT,
            { DSFLOW_HEAD_BATCH, DSFLOW_REF_OWN + DSFLOW_HEAD_BATCH },
            { DSFLOW_HEAD_LOGITS, DSFLOW_REF_OWN + DSFLOW_HEAD_LOGITS },
            { DSFLOW_HEAD_LOSS, DSFLOW_REF_OWN + DSFLOW_HEAD_LOSS },
            { DSFLOW_HEAD_TOPS, DSFLOW_REF_TOPS },
            { DSFLOW_HEAD_ALL_STATS, DSFLOW_REF_ALL },
            { DSFLOW_HEAD_CONTROL, DSFLOW_REF_OWN + DSFLOW_HEAD_CONTROL }) } },
    { &dsf_op_head_backward_input,
      { DSF_PART(fill_part, DSFLOW_REF_OWN + DSFLOW_HEAD_WEIGHT,
                 { DSFLOW_HEAD_X, DSFLOW_LEFT_OUT },
                 { DSFLOW_HEAD_NORM, DSFLOW_LEFT_OUT },
                 { DSFLOW_HEAD_DX, DSFLOW_REF_Y },
                 { DSFLOW_HEAD_DNORM, DSFLOW_LEFT_OUT }),
        DSFLOW_SCATTER(DSFLOW_REF_R, DSFLOW_REF_Y),
        DSFLOW_NORM_BACK(DSFLOW_HEAD_X, DSFLOW_HEAD_NORM, DSFLOW_HEAD_DX,
                         DSFLOW_HEAD_DNORM) } },
    { &dsf_op_head_backward_weight,
      { DSFLOW_NORM_ROWS(DSFLOW_HEAD_X, DSFLOW_HEAD_NORM),
        DSFLOW_GATHER(DSFLOW_REF_X, DSFLOW_REF_XN),
        DSF_PART(fill_part, DSFLOW_REF_OWN + DSFLOW_HEAD_GRAD,
                 { DSFLOW_HEAD_X, DSFLOW_REF_X },
                 { DSFLOW_HEAD_NORM, DSFLOW_LEFT_OUT },
                 { DSFLOW_HEAD_DNORM, DSFLOW_LEFT_OUT },
                 { DSFLOW_HEAD_NORM_GRAD, DSFLOW_LEFT_OUT }),
        DSFLOW_NORM_WEIGHT(DSFLOW_HEAD_DNORM, DSFLOW_HEAD_NORM_GRAD) } },
    { &dsf_op_head_forward_columns,
      { DSFLOW_NORM_ROWS(DSFLOW_HEAD_X, DSFLOW_HEAD_NORM),
        DSFLOW_GATHER(DSFLOW_REF_X, DSFLOW_REF_XN),
        DSF_PART(fill_columns, DSFLOW_REF_OWN + DSFLOW_HEAD_WEIGHT,
                 { DSFLOW_HEAD_X, DSFLOW_REF_X },
                 { DSFLOW_HEAD_NORM, DSFLOW_LEFT_OUT },
                 { DSFLOW_HEAD_LOSS, DSFLOW_LEFT_OUT },
                 { DSFLOW_HEAD_STATS, DSFLOW_REF_STATS },
                 { DSFLOW_HEAD_SUMS, DSFLOW_LEFT_OUT }),
        DSFLOW_GATHER(DSFLOW_REF_ALL, DSFLOW_REF_STATS),
        DSF_OTHER(head_loss_columns, fill_columns,
                  DSFLOW_REF_OWN + DSFLOW_HEAD_WEIGHT,
                  { DSFLOW_HEAD_BATCH, DSFLOW_REF_OWN + DSFLOW_HEAD_BATCH },
                  { DSFLOW_HEAD_LOSS, DSFLOW_REF_OWN + DSFLOW_HEAD_LOSS },
                  { DSFLOW_HEAD_ALL_STATS, DSFLOW_REF_ALL },
                  { DSFLOW_HEAD_SUMS, DSFLOW_REF_OWN + DSFLOW_HEAD_SUMS }) } },
    { &dsf_op_head_backward_columns,
      { DSFLOW_NORM_ROWS(DSFLOW_HEAD_X, DSFLOW_HEAD_NORM),
        DSFLOW_GATHER(DSFLOW_REF_X, DSFLOW_REF_XN),
        DSF_PART(fill_columns, DSFLOW_REF_OWN + DSFLOW_HEAD_WEIGHT,
                 { DSFLOW_HEAD_X, DSFLOW_REF_X },
                 { DSFLOW_HEAD_NORM, DSFLOW_LEFT_OUT },
                 { DSFLOW_HEAD_DX, DSFLOW_REF_Y },
                 { DSFLOW_HEAD_DNORM, DSFLOW_LEFT_OUT },
                 { DSFLOW_HEAD_NORM_GRAD, DSFLOW_LEFT_OUT }),
        DSFLOW_SCATTER(DSFLOW_REF_R, DSFLOW_REF_Y),
        DSFLOW_NORM_BACK(DSFLOW_HEAD_X, DSFLOW_HEAD_NORM, DSFLOW_HEAD_DX,
                         DSFLOW_HEAD_DNORM),
        DSFLOW_NORM_WEIGHT(DSFLOW_HEAD_DNORM, DSFLOW_HEAD_NORM_GRAD) } },
    { &dsf_op_head_backward_input_columns,
      { DSFLOW_NORM_ROWS(DSFLOW_HEAD_X, DSFLOW_HEAD_NORM),
        DSFLOW_GATHER(DSFLOW_REF_X, DSFLOW_REF_XN),
        DSF_PART(fill_columns, DSFLOW_REF_OWN + DSFLOW_HEAD_WEIGHT,
                 { DSFLOW_HEAD_X, DSFLOW_REF_X },
                 { DSFLOW_HEAD_NORM, DSFLOW_LEFT_OUT },
                 { DSFLOW_HEAD_DX, DSFLOW_REF_Y },
                 { DSFLOW_HEAD_DNORM, DSFLOW_LEFT_OUT }),
        DSFLOW_SCATTER(DSFLOW_REF_R, DSFLOW_REF_Y),
        DSFLOW_NORM_BACK(DSFLOW_HEAD_X, DSFLOW_HEAD_NORM, DSFLOW_HEAD_DX,
                         DSFLOW_HEAD_DNORM) } },
    { &dsf_op_head_backward_weight_columns,
      { DSFLOW_NORM_ROWS(DSFLOW_HEAD_X, DSFLOW_HEAD_NORM),
        DSFLOW_GATHER(DSFLOW_REF_X, DSFLOW_REF_XN),
        DSF_PART(fill_columns, DSFLOW_REF_OWN + DSFLOW_HEAD_WEIGHT,
                 { DSFLOW_HEAD_X, DSFLOW_REF_X },
                 { DSFLOW_HEAD_NORM, DSFLOW_LEFT_OUT },
                 { DSFLOW_HEAD_DNORM, DSFLOW_LEFT_OUT },
                 { DSFLOW_HEAD_NORM_GRAD, DSFLOW_LEFT_OUT }),
        DSFLOW_NORM_WEIGHT(DSFLOW_HEAD_DNORM, DSFLOW_HEAD_NORM_GRAD) } },
    { .op = NULL },
};

static const struct dsf_segment_hooks hooks = {
    .units = { [DSF_HEAD_UNIT_NORM] = "norm", [DSF_HEAD_UNIT_W] = "head" },
    .lay_out = lay_out,
    .own = own,
    .share = share,
    .of_model = true,
    .forward_columns = &dsf_op_head_forward_columns,
    .backward_columns = &dsf_op_head_backward_columns,
    .input_columns = &dsf_op_head_backward_input_columns,
    .weight_columns = &dsf_op_head_backward_weight_columns,
};

DSF_SEGMENT(head, HEAD, .summary = "norm, logits and their loss",
            .backward_input = &dsf_op_head_backward_input,
            .backward_weight = &dsf_op_head_backward_weight,
            .logits = &dsf_op_head_logits);
