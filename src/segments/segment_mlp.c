/* segment_mlp.c - norm, then two layers with GELU or SwiGLU, and residual. */
#include "segments/segment.h"

static bool lay_out(const struct dsf_layout *layout, unsigned i,
                    struct dsf_unit *u)
{
    const struct dsf_dims *d = &layout->dims;
    const struct dsf_prefix p = dsf_unit_prefix(layout);
    bool gpt2 = layout->family == DSF_GPT2;
    const char *second = gpt2 ? "c_proj" : "down_proj";
    char norm[96];

    u->at[DSF_MLP_W1] = 0;
    if (d->swiglu) {
        dsf_unit_matrix(u, d->ffn, d->width, DSF_INIT_STD,
                        "%s.mlp.gate_proj.weight", p.s);
        dsf_unit_matrix(u, d->ffn, d->width, DSF_INIT_STD,
                        "%s.mlp.up_proj.weight", p.s);
    } else {
        dsf_unit_matrix(u, d->ffn, d->width, DSF_INIT_STD,
                        "%s.mlp.c_fc.weight", p.s)
            ->transposed = true;
    }
    u->at[DSF_MLP_W2] = dsf_unit_align(u);
    dsf_unit_matrix(u, d->width, d->ffn, dsf_residual_std(layout),
                    "%s.mlp.%s.weight", p.s, second)
        ->transposed = gpt2;
    dsf_unit_end_matrices(u);
    if (d->mlp_bias) {
        u->at[DSF_MLP_B1] = u->elems;
        dsf_unit_vector(u, d->ffn, 0, "%s.mlp.c_fc.bias", p.s);
        u->at[DSF_MLP_B2] = dsf_unit_align(u);
        dsf_unit_vector(u, d->width, 0, "%s.mlp.%s.bias", p.s, second);
    }
    snprintf(norm, sizeof(norm), "%s.%s", p.s,
             gpt2 ? "ln_2" : "post_attention_layernorm");
    dsf_unit_norm(u, d, norm, &u->at[DSF_MLP_NORM_W], &u->at[DSF_MLP_NORM_B]);
    return true;
}

static void fill(const struct dsf_site *site, void *args)
{
    const int64_t *at = site->units[0]->at;

    *(struct dsflow_mlp_args *)args = (struct dsflow_mlp_args){
        .tile = site->tile,
        .w1 = at[DSF_MLP_W1],
        .b1 = at[DSF_MLP_B1],
        .w2 = at[DSF_MLP_W2],
        .b2 = at[DSF_MLP_B2],
        .norm_w = at[DSF_MLP_NORM_W],
        .norm_b = at[DSF_MLP_NORM_B],
    };
}

/* Rows of W1 or b1: with SwiGLU, of the gate and of up. */
static int64_t take_ffn(struct dsf_part *p, const struct dsf_dims *d,
                        int64_t at, int64_t cols)
{
    int32_t first, n = dsf_share(d->ffn, p->parts, p->part, &first);
    int64_t here = dsf_part_align(p);

    if (at < 0)
        return -1;
    for (int i = 0; i < (d->swiglu ? 2 : 1); i++)
        dsf_part_take(p, at + (i * (int64_t)d->ffn + first) * cols, n, cols,
                      cols);
    return here;
}

/* And columns of W2. */
static void own(struct dsf_part *p, const struct dsf_dims *d,
                const struct dsf_unit *u)
{
    int32_t first, n = dsf_share(d->ffn, p->parts, p->part, &first);

    p->w = take_ffn(p, d, u->at[DSF_MLP_W1], d->width);
    p->w2 = dsf_part_align(p);
    dsf_part_take(p, u->at[DSF_MLP_W2] + first, d->width, n, d->ffn);
    p->decay = dsf_part_align(p);
    p->b = take_ffn(p, d, u->at[DSF_MLP_B1], 1);
}

static void share(struct dsf_part *p, const struct dsf_dims *d,
                  const struct dsf_unit *u)
{
    p->b = dsf_part_vector(p, u->at[DSF_MLP_B2], d->width);
    p->norm_w = dsf_part_vector(p, u->at[DSF_MLP_NORM_W], d->width);
    p->norm_b = dsf_part_vector(p, u->at[DSF_MLP_NORM_B], d->width);
}

static uint32_t fill_part(int32_t parts, int32_t t, const struct dsf_part *part,
                          const struct dsf_part *shared, const void *whole,
                          void *args)
{
    *(struct dsflow_mlp_args *)args = (struct dsflow_mlp_args){
        .tile = dsf_part_tile(parts, t, whole),
        .w1 = part->w,
        .b1 = part->b,
        .w2 = part->w2,
        .b2 = -1,
        .norm_w = -1,
        .norm_b = -1,
    };
    return 0;
}

#define COLUMNS .cut = DSF_CUT_COLUMNS
#define ROWS    .cut = DSF_CUT_ROWS

static const struct dsf_port ports[] = {
    [DSFLOW_MLP_X] = { "x", DSF_FROM_IN, ROWS },
    [DSFLOW_MLP_UNIT] = { "unit", DSF_FROM_PARAMETERS, .cut = DSF_CUT_UNIT },
    [DSFLOW_MLP_H] = { "h", DSF_FROM_KEPT, COLUMNS,
                       .dropped = DSF_DROPPED_WITH_BLOCK },
    [DSFLOW_MLP_Y] = { "mlp", DSF_FROM_OUT, ROWS,
                       .dropped = DSF_DROPPED_WITH_BLOCK },
    [DSFLOW_MLP_DY] = { "dy", DSF_FROM_DOUT, ROWS },
    [DSFLOW_MLP_DH] = { "dh", DSF_FROM_PASSING, COLUMNS },
    [DSFLOW_MLP_DX] = { "dx", DSF_FROM_DIN, ROWS },
    [DSFLOW_MLP_DNORM] = { "dnorm_mlp", DSF_FROM_PASSING,
                           .cut = DSF_CUT_EVERY },
    [DSFLOW_MLP_GRAD] = { "grad", DSF_FROM_GRADIENTS, .cut = DSF_CUT_UNIT },
};

static const struct dsf_op_rules rules[] = {
    { &dsf_op_mlp_forward,
      { DSF_NORM_ROWS(DSFLOW_MLP_X, DSFLOW_MLP_UNIT), DSF_GATHER(DSF_X, DSF_XN),
        DSF_PART(fill_part, DSF_OWN + DSFLOW_MLP_UNIT, { DSFLOW_MLP_X, DSF_X },
                 { DSFLOW_MLP_Y, DSF_Y }),
        DSF_SCATTER(DSF_R, DSF_Y),
        DSF_RESIDUAL_ROWS(DSFLOW_MLP_X, DSFLOW_MLP_Y, DSFLOW_MLP_UNIT) } },
    { &dsf_op_mlp_hidden,
      { DSF_NORM_ROWS(DSFLOW_MLP_X, DSFLOW_MLP_UNIT), DSF_GATHER(DSF_X, DSF_XN),
        DSF_PART(fill_part, DSF_OWN + DSFLOW_MLP_UNIT,
                 { DSFLOW_MLP_X, DSF_X }) } },
    { &dsf_op_mlp_backward_input,
      { DSF_GATHER(DSF_D, DSF_OWN + DSFLOW_MLP_DY),
        DSF_PART(fill_part, DSF_OWN + DSFLOW_MLP_UNIT,
                 { DSFLOW_MLP_X, DSF_LEFT_OUT }, { DSFLOW_MLP_DY, DSF_D },
                 { DSFLOW_MLP_DX, DSF_Y }, { DSFLOW_MLP_DNORM, DSF_LEFT_OUT }),
        DSF_SCATTER(DSF_R, DSF_Y),
        DSF_NORM_BACK_ADD(DSFLOW_MLP_X, DSFLOW_MLP_UNIT, DSFLOW_MLP_DX,
                          DSFLOW_MLP_DNORM, DSFLOW_MLP_DY) } },
    { &dsf_op_mlp_backward_weight,
      { DSF_NORM_ROWS(DSFLOW_MLP_X, DSFLOW_MLP_UNIT), DSF_GATHER(DSF_X, DSF_XN),
        DSF_GATHER(DSF_D, DSF_OWN + DSFLOW_MLP_DY),
        DSF_PART(fill_part, DSF_OWN + DSFLOW_MLP_GRAD, { DSFLOW_MLP_X, DSF_X },
                 { DSFLOW_MLP_UNIT, DSF_LEFT_OUT }, { DSFLOW_MLP_DY, DSF_D },
                 { DSFLOW_MLP_DNORM, DSF_LEFT_OUT }),
        DSF_RESIDUAL_WEIGHT(DSFLOW_MLP_DY, DSFLOW_MLP_GRAD),
        DSF_NORM_WEIGHT(DSFLOW_MLP_DNORM, DSFLOW_MLP_GRAD) } },
    { .op = NULL },
};

const struct dsf_segment dsf_segment_mlp = {
    .name = "mlp",
    .units = { "mlp" },
    .nports = DSFLOW_MLP_NPORTS,
    .ports = ports,
    .needs = dsf_mlp_needs,
    .forward = &dsf_op_mlp_forward,
    .hidden = &dsf_op_mlp_hidden,
    .backward_input = &dsf_op_mlp_backward_input,
    .backward_weight = &dsf_op_mlp_backward_weight,
    .lay_out = lay_out,
    .fill = fill,
    .own = own,
    .share = share,
    .rules = rules,
};
