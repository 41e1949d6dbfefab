/* segment_out.c - projection of the attention's output, and residual. */
#include "segments/segment.h"

static bool lay_out(const struct dsflow_layout *layout, unsigned i,
                    struct dsf_unit *u)
{
    const struct dsflow_tile *d = &layout->sizes;
    const struct dsf_prefix p = dsf_unit_prefix(layout);
    bool gpt2 = !layout->llama;
    const char *name = gpt2 ? "attn.c_proj" : "self_attn.o_proj";

    u->at[DSF_OUT_W] = 0;
    dsf_unit_matrix(u, d->width, (int64_t)d->heads * d->head_dim,
                    dsf_residual_std(layout), "%s.%s.weight", p.s, name)
        ->transposed = gpt2;
    dsf_unit_end_matrices(u);
    if (layout->out_bias) {
        u->at[DSF_OUT_B] = u->elems;
        dsf_unit_vector(u, d->width, 0, "%s.%s.bias", p.s, name);
    }
    return true;
}

static void fill(const struct dsflow_site *site, void *args)
{
    const int64_t *at = site->at[0];

    *(struct dsflow_out_args *)args = (struct dsflow_out_args){
        .tile = site->tile,
        .w = at[DSF_OUT_W],
        .b = at[DSF_OUT_B],
        .residual = site->parts <= 1,
    };
}

/* Columns of some heads. */
static void own(struct dsf_part *p, const struct dsf_dims *d,
                const struct dsf_unit *u)
{
    int32_t first, n = dsf_share(d->heads, p->parts, p->part, &first);

    p->at[DSF_OUT_W] = 0;
    dsf_part_take(p, u->at[DSF_OUT_W] + (int64_t)first * d->head_dim, d->width,
                  (int64_t)n * d->head_dim, (int64_t)d->heads * d->head_dim);
    p->decay = dsf_part_align(p);
}

static void share(struct dsf_part *p, const struct dsf_dims *d,
                  const struct dsf_unit *u)
{
    p->b = dsf_part_vector(p, u->at[DSF_OUT_B], d->width);
}

#define COLUMNS .cut = DSFLOW_CUT_COLUMNS
#define ROWS    .cut = DSFLOW_CUT_ROWS
#define OF_ATTENTION(port)                                                     \
    DSFLOW_FROM_OTHER, .unit = DSFLOW_ATTENTION_##port, .other = "attention"

static const struct dsflow_segment_port ports[] = {
    [DSFLOW_OUT_X] = { "x", DSFLOW_FROM_IN, ROWS },
    [DSFLOW_OUT_ATT] = { "att", OF_ATTENTION(ATT), COLUMNS },
    [DSFLOW_OUT_UNIT] = { "unit", DSFLOW_FROM_PARAMETERS,
                          .cut = DSFLOW_CUT_UNIT },
    [DSFLOW_OUT_Y] = { "mid", DSFLOW_FROM_OUT, ROWS,
                       .dropped = DSFLOW_DROPPED_WITH_BLOCK },
    [DSFLOW_OUT_DY] = { "dmid", DSFLOW_FROM_DOUT, ROWS },
    [DSFLOW_OUT_DATT] = { "datt", OF_ATTENTION(DATT), COLUMNS },
    [DSFLOW_OUT_DELTA] = { "delta", OF_ATTENTION(DELTA), COLUMNS },
    [DSFLOW_OUT_GRAD] = { "grad", DSFLOW_FROM_GRADIENTS,
                          .cut = DSFLOW_CUT_UNIT },
};

static const struct dsflow_op_rules rules[] = {
    { &dsf_op_out_forward,
      { DSFLOW_RULE(PART, DSFLOW_REF_OWN + DSFLOW_OUT_UNIT,
                    { DSFLOW_OUT_X, DSFLOW_LEFT_OUT },
                    { DSFLOW_OUT_Y, DSFLOW_REF_Y }),
        DSFLOW_SCATTER(DSFLOW_REF_R, DSFLOW_REF_Y),
        DSFLOW_RESIDUAL_ROWS(DSFLOW_OUT_X, DSFLOW_OUT_Y, DSFLOW_OUT_UNIT) } },
    { &dsf_op_out_backward_input,
      { DSFLOW_GATHER(DSFLOW_REF_D, DSFLOW_REF_OWN + DSFLOW_OUT_DY),
        DSFLOW_RULE(PART, DSFLOW_REF_OWN + DSFLOW_OUT_UNIT,
                    { DSFLOW_OUT_DY, DSFLOW_REF_D }) } },
    { &dsf_op_out_backward_weight,
      { DSFLOW_GATHER(DSFLOW_REF_D, DSFLOW_REF_OWN + DSFLOW_OUT_DY),
        DSFLOW_RULE(PART, DSFLOW_REF_OWN + DSFLOW_OUT_GRAD,
                    { DSFLOW_OUT_DY, DSFLOW_REF_D }),
        DSFLOW_RESIDUAL_WEIGHT(DSFLOW_OUT_DY, DSFLOW_OUT_GRAD) } },
    { .op = NULL },
};

static const struct dsf_segment_hooks hooks = {
    .units = { "out" },
    .lay_out = lay_out,
    .own = own,
    .share = share,
};

DSF_SEGMENT(out, OUT, .summary = "projection of the attention's output",
            .backward_input = &dsf_op_out_backward_input,
            .backward_weight = &dsf_op_out_backward_weight);
