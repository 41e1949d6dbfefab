/* segment_mlp.c - norm, then two layers with GELU or SwiGLU, and residual. */
#include "segments/segment.h"

static bool lay_out(const struct dsflow_layout *layout, unsigned i,
                    struct dsf_unit *u)
{
    const struct dsflow_tile *d = &layout->sizes;
    const struct dsf_prefix p = dsf_unit_prefix(layout);
    bool gpt2 = !layout->llama;
    const char *second = gpt2 ? "c_proj" : "down_proj";
    char norm[96];

    u->at[DSF_MLP_W1] = 0;
    if (d->swiglu) {
        dsf_unit_matrix(u, d->ffn, d->width, DSF_INIT_STD,
                        "%s.mlp.gate_proj.weight", p.s);
        dsf_unit_matrix(u, d->ffn, d->width, DSF_INIT_STD,
                        "%s.mlp.up_proj.weight", p.s);
    } else {
        dsf_unit_matrix(u, d->ffn, d->width, DSF_INIT_STD, "%s.mlp.c_fc.weight",
                        p.s)
            ->transposed = true;
    }
    u->at[DSF_MLP_W2] = dsf_unit_align(u);
    dsf_unit_matrix(u, d->width, d->ffn, dsf_residual_std(layout),
                    "%s.mlp.%s.weight", p.s, second)
        ->transposed = gpt2;
    dsf_unit_end_matrices(u);
    if (layout->mlp_bias) {
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

static void fill(const struct dsflow_site *site, void *args)
{
    const int64_t *at = site->at[0];

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

    p->at[DSF_MLP_W1] = take_ffn(p, d, u->at[DSF_MLP_W1], d->width);
    p->at[DSF_MLP_W2] = dsf_part_align(p);
    dsf_part_take(p, u->at[DSF_MLP_W2] + first, d->width, n, d->ffn);
    p->decay = dsf_part_align(p);
    p->at[DSF_MLP_B1] = take_ffn(p, d, u->at[DSF_MLP_B1], 1);
}

static void share(struct dsf_part *p, const struct dsf_dims *d,
                  const struct dsf_unit *u)
{
    p->b = dsf_part_vector(p, u->at[DSF_MLP_B2], d->width);
    p->norm_w = dsf_part_vector(p, u->at[DSF_MLP_NORM_W], d->width);
    p->norm_b = dsf_part_vector(p, u->at[DSF_MLP_NORM_B], d->width);
}

#define COLUMNS .cut = DSFLOW_CUT_COLUMNS
#define ROWS    .cut = DSFLOW_CUT_ROWS

static const struct dsflow_segment_port ports[] = {
    [DSFLOW_MLP_X] = { "x", DSFLOW_FROM_IN, ROWS },
    [DSFLOW_MLP_UNIT] = { "unit", DSFLOW_FROM_PARAMETERS,
                          .cut = DSFLOW_CUT_UNIT },
    [DSFLOW_MLP_H] = { "h", DSFLOW_FROM_KEPT, COLUMNS,
                       .dropped = DSFLOW_DROPPED_WITH_BLOCK },
    [DSFLOW_MLP_Y] = { "mlp", DSFLOW_FROM_OUT, ROWS,
                       .dropped = DSFLOW_DROPPED_WITH_BLOCK },
    [DSFLOW_MLP_DY] = { "dy", DSFLOW_FROM_DOUT, ROWS },
    [DSFLOW_MLP_DH] = { "dh", DSFLOW_FROM_PASSING, COLUMNS },
    [DSFLOW_MLP_DX] = { "dx", DSFLOW_FROM_DIN, ROWS },
    [DSFLOW_MLP_DNORM] = { "dnorm_mlp", DSFLOW_FROM_PASSING,
                           .cut = DSFLOW_CUT_EVERY },
    [DSFLOW_MLP_GRAD] = { "grad", DSFLOW_FROM_GRADIENTS,
                          .cut = DSFLOW_CUT_UNIT },
};

static const struct dsflow_op_rules rules[] = {
    { &dsf_op_mlp_forward,
      { DSFLOW_NORM_ROWS(DSFLOW_MLP_X, DSFLOW_MLP_UNIT),
        DSFLOW_GATHER(DSFLOW_REF_X, DSFLOW_REF_XN),
        DSFLOW_RULE(PART, DSFLOW_REF_OWN + DSFLOW_MLP_UNIT,
                    { DSFLOW_MLP_X, DSFLOW_REF_X },
                    { DSFLOW_MLP_Y, DSFLOW_REF_Y }),
        DSFLOW_SCATTER(DSFLOW_REF_R, DSFLOW_REF_Y),
        DSFLOW_RESIDUAL_ROWS(DSFLOW_MLP_X, DSFLOW_MLP_Y, DSFLOW_MLP_UNIT) } },
    { &dsf_op_mlp_hidden,
      { DSFLOW_NORM_ROWS(DSFLOW_MLP_X, DSFLOW_MLP_UNIT),
        DSFLOW_GATHER(DSFLOW_REF_X, DSFLOW_REF_XN),
        DSFLOW_RULE(PART, DSFLOW_REF_OWN + DSFLOW_MLP_UNIT,
                    { DSFLOW_MLP_X, DSFLOW_REF_X }) } },
    { &dsf_op_mlp_backward_input,
      { DSFLOW_GATHER(DSFLOW_REF_D, DSFLOW_REF_OWN + DSFLOW_MLP_DY),
        DSFLOW_RULE(PART, DSFLOW_REF_OWN + DSFLOW_MLP_UNIT,
                    { DSFLOW_MLP_X, DSFLOW_LEFT_OUT },
                    { DSFLOW_MLP_DY, DSFLOW_REF_D },
                    { DSFLOW_MLP_DX, DSFLOW_REF_Y },
                    { DSFLOW_MLP_DNORM, DSFLOW_LEFT_OUT }),
        DSFLOW_SCATTER(DSFLOW_REF_R, DSFLOW_REF_Y),
        DSFLOW_NORM_BACK_ADD(DSFLOW_MLP_X, DSFLOW_MLP_UNIT, DSFLOW_MLP_DX,
                             DSFLOW_MLP_DNORM, DSFLOW_MLP_DY) } },
    { &dsf_op_mlp_backward_weight,
      { DSFLOW_NORM_ROWS(DSFLOW_MLP_X, DSFLOW_MLP_UNIT),
        DSFLOW_GATHER(DSFLOW_REF_X, DSFLOW_REF_XN),
        DSFLOW_GATHER(DSFLOW_REF_D, DSFLOW_REF_OWN + DSFLOW_MLP_DY),
        DSFLOW_RULE(PART, DSFLOW_REF_OWN + DSFLOW_MLP_GRAD,
                    { DSFLOW_MLP_X, DSFLOW_REF_X },
                    { DSFLOW_MLP_UNIT, DSFLOW_LEFT_OUT },
                    { DSFLOW_MLP_DY, DSFLOW_REF_D },
                    { DSFLOW_MLP_DNORM, DSFLOW_LEFT_OUT }),
        DSFLOW_RESIDUAL_WEIGHT(DSFLOW_MLP_DY, DSFLOW_MLP_GRAD),
        DSFLOW_NORM_WEIGHT(DSFLOW_MLP_DNORM, DSFLOW_MLP_GRAD) } },
    { .op = NULL },
};

static const struct dsf_segment_hooks hooks = {
    .units = { "mlp" },
    .lay_out = lay_out,
    .own = own,
    .share = share,
};

DSF_SEGMENT(mlp, MLP, .summary = "norm, then two layers with GELU or SwiGLU",
            .hidden = &dsf_op_mlp_hidden,
            .backward_input = &dsf_op_mlp_backward_input,
            .backward_weight = &dsf_op_mlp_backward_weight);
