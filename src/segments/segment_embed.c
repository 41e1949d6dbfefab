/* segment_embed.c - rows of the embedding of tokens, and of positions. */
#include "segments/segment.h"

static bool lay_out(const struct dsflow_layout *layout, unsigned i,
                    struct dsf_unit *u)
{
    const struct dsflow_tile *d = &layout->sizes;
    bool gpt2 = !layout->llama;

    u->matrices = DSFLOW_EMBEDDING;
    u->at[DSF_EMBED_WTE] = 0;
    dsf_unit_vocabulary(u, d->vocab, d->width,
                        gpt2 ? "transformer.wte.weight"
                             : "model.embed_tokens.weight");
    if (!d->rope) {
        u->at[DSF_EMBED_WPE] = dsf_unit_align(u);
        dsf_unit_matrix(u, d->context, d->width, DSF_INIT_STD,
                        "transformer.wpe.weight");
    }
    dsf_unit_end_matrices(u);
    return true;
}

static void fill(const struct dsflow_site *site, void *args)
{
    const int64_t *at = site->at[0];

    *(struct dsflow_embed_args *)args = (struct dsflow_embed_args){
        .tile = site->tile,
        .wte = at[DSF_EMBED_WTE],
        .wpe = at[DSF_EMBED_WPE],
        .npos = at[DSF_EMBED_WPE] < 0 ? 0 : site->tile.context,
    };
}

/* Rows of the vocabulary, and of the positions. */
static void own(struct dsf_part *p, const struct dsf_dims *d,
                const struct dsf_unit *u)
{
    int64_t width = d->width;

    p->count = dsf_share_vocabulary(d, p->parts, p->part, &p->first);
    p->w = 0;
    dsf_part_take(p, p->first * width, p->count, width, width);
    if (u->at[DSF_EMBED_WPE] >= 0) {
        p->w2 = dsf_part_align(p);
        p->npos = dsf_share(d->context, p->parts, p->part, &p->first_pos);
        dsf_part_take(p, u->at[DSF_EMBED_WPE] + p->first_pos * width, p->npos,
                      width, width);
    }
    p->decay = dsf_part_align(p);
}

static uint32_t fill_part(int32_t parts, int32_t t, const struct dsf_part *part,
                          const struct dsf_part *shared, const void *whole,
                          void *args)
{
    *(struct dsflow_embed_args *)args = (struct dsflow_embed_args){
        .tile = dsf_part_vocabulary(parts, t, whole, part),
        .wte = part->w,
        .wpe = part->w2,
        .first = part->first,
        .first_pos = part->first_pos,
        .npos = part->npos,
    };
    return 0;
}

static const struct dsflow_segment_port ports[] = {
    [DSFLOW_EMBED_BATCH] = { "batch", DSFLOW_FROM_BATCH,
                             .cut = DSFLOW_CUT_EVERY },
    [DSFLOW_EMBED_UNIT] = { "embed", DSFLOW_FROM_PARAMETERS,
                            .cut = DSFLOW_CUT_UNIT },
    [DSFLOW_EMBED_X] = { "x", DSFLOW_FROM_OUT, .cut = DSFLOW_CUT_ROWS },
    [DSFLOW_EMBED_DX] = { "dx", DSFLOW_FROM_DOUT, .cut = DSFLOW_CUT_ROWS },
    [DSFLOW_EMBED_GRAD] = { "grad", DSFLOW_FROM_GRADIENTS,
                            .cut = DSFLOW_CUT_UNIT },
};

static const struct dsflow_op_rules rules[] = {
    { &dsf_op_embed_forward,
      { DSF_PART(fill_part, DSFLOW_REF_OWN + DSFLOW_EMBED_UNIT,
                 { DSFLOW_EMBED_X, DSFLOW_REF_Y }),
        DSFLOW_SCATTER(DSFLOW_REF_OWN + DSFLOW_EMBED_X, DSFLOW_REF_Y) } },
    { &dsf_op_embed_backward_weight,
      { DSFLOW_GATHER(DSFLOW_REF_D, DSFLOW_REF_OWN + DSFLOW_EMBED_DX),
        DSF_PART(fill_part, DSFLOW_REF_OWN + DSFLOW_EMBED_GRAD,
                 { DSFLOW_EMBED_DX, DSFLOW_REF_D }) } },
    { .op = NULL },
};

static const struct dsf_segment_hooks hooks = {
    .units = { "embed" },
    .lay_out = lay_out,
    .own = own,
    .of_model = true,
};

DSF_SEGMENT(embed, EMBED,
            .summary = "rows of the embedding of tokens, and of positions",
            .backward_weight = &dsf_op_embed_backward_weight);
