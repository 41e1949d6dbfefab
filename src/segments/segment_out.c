/* segment_out.c - projection of the attention's output, and residual. */
#include "segments/segment.h"

static bool lay_out(const struct dsf_layout *layout, unsigned i,
                    struct dsf_unit *u)
{
    const struct dsf_dims *d = &layout->dims;
    const struct dsf_prefix p = dsf_unit_prefix(layout);
    bool gpt2 = layout->family == DSF_GPT2;
    const char *name = gpt2 ? "attn.c_proj" : "self_attn.o_proj";

    u->at[DSF_OUT_W] = 0;
    dsf_unit_matrix(u, d->width, (int64_t)d->heads * d->head_dim,
                    dsf_residual_std(layout), "%s.%s.weight", p.s, name)
        ->transposed = gpt2;
    dsf_unit_end_matrices(u);
    if (d->out_bias) {
        u->at[DSF_OUT_B] = u->elems;
        dsf_unit_vector(u, d->width, 0, "%s.%s.bias", p.s, name);
    }
    return true;
}

static void fill(const struct dsf_site *site, void *args)
{
    const int64_t *at = site->units[0]->at;

    *(struct dsflow_out_args *)args = (struct dsflow_out_args){
        .tile = site->tile,
        .w = at[DSF_OUT_W],
        .b = at[DSF_OUT_B],
        .residual = 1,
    };
}

/* Columns of some heads. */
static void own(struct dsf_part *p, const struct dsf_dims *d,
                const struct dsf_unit *u)
{
    int32_t first, n = dsf_share(d->heads, p->parts, p->part, &first);

    p->w = 0;
    dsf_part_take(p, u->at[DSF_OUT_W] + (int64_t)first * d->head_dim, d->width,
                  (int64_t)n * d->head_dim, (int64_t)d->heads * d->head_dim);
    p->decay = dsf_part_align(p);
}

static void share(struct dsf_part *p, const struct dsf_dims *d,
                  const struct dsf_unit *u)
{
    p->b = dsf_part_vector(p, u->at[DSF_OUT_B], d->width);
}

static uint32_t fill_part(int32_t parts, int32_t t, const struct dsf_part *part,
                          const struct dsf_part *shared, const void *whole,
                          void *args)
{
    *(struct dsflow_out_args *)args = (struct dsflow_out_args){
        .tile = dsf_part_tile(parts, t, whole), .w = part->w, .b = -1
    };
    return 0;
}

#define COLUMNS .cut = DSF_CUT_COLUMNS
#define ROWS    .cut = DSF_CUT_ROWS
#define OF_ATTENTION(port)                                                     \
    DSF_FROM_OTHER, .unit = DSFLOW_ATTENTION_##port,                           \
                    .other = &dsf_segment_attention

static const struct dsf_port ports[] = {
    [DSFLOW_OUT_X] = { "x", DSF_FROM_IN, ROWS },
    [DSFLOW_OUT_ATT] = { "att", OF_ATTENTION(ATT), COLUMNS },
    [DSFLOW_OUT_UNIT] = { "unit", DSF_FROM_PARAMETERS, .cut = DSF_CUT_UNIT },
    [DSFLOW_OUT_Y] = { "mid", DSF_FROM_OUT, ROWS,
                       .dropped = DSF_DROPPED_WITH_BLOCK },
    [DSFLOW_OUT_DY] = { "dmid", DSF_FROM_DOUT, ROWS },
    [DSFLOW_OUT_DATT] = { "datt", OF_ATTENTION(DATT), COLUMNS },
    [DSFLOW_OUT_DELTA] = { "delta", OF_ATTENTION(DELTA), COLUMNS },
    [DSFLOW_OUT_GRAD] = { "grad", DSF_FROM_GRADIENTS, .cut = DSF_CUT_UNIT },
};

static const struct dsf_op_rules rules[] = {
    { &dsf_op_out_forward,
      { DSF_PART(fill_part, DSF_OWN + DSFLOW_OUT_UNIT,
                 { DSFLOW_OUT_X, DSF_LEFT_OUT }, { DSFLOW_OUT_Y, DSF_Y }),
        DSF_SCATTER(DSF_R, DSF_Y),
        DSF_RESIDUAL_ROWS(DSFLOW_OUT_X, DSFLOW_OUT_Y, DSFLOW_OUT_UNIT) } },
    { &dsf_op_out_backward_input,
      { DSF_GATHER(DSF_D, DSF_OWN + DSFLOW_OUT_DY),
        DSF_PART(fill_part, DSF_OWN + DSFLOW_OUT_UNIT,
                 { DSFLOW_OUT_DY, DSF_D }) } },
    { &dsf_op_out_backward_weight,
      { DSF_GATHER(DSF_D, DSF_OWN + DSFLOW_OUT_DY),
        DSF_PART(fill_part, DSF_OWN + DSFLOW_OUT_GRAD,
                 { DSFLOW_OUT_DY, DSF_D }),
        DSF_RESIDUAL_WEIGHT(DSFLOW_OUT_DY, DSFLOW_OUT_GRAD) } },
    { .op = NULL },
};

const struct dsf_segment dsf_segment_out = {
    .name = "out",
    .units = { "out" },
    .nports = DSFLOW_OUT_NPORTS,
    .ports = ports,
    .needs = dsf_out_needs,
    .forward = &dsf_op_out_forward,
    .backward_input = &dsf_op_out_backward_input,
    .backward_weight = &dsf_op_out_backward_weight,
    .lay_out = lay_out,
    .fill = fill,
    .own = own,
    .share = share,
    .rules = rules,
};
