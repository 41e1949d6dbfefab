/* segment_table.c - the segments there are, and which ones a layer has. */
#include "segments/segment.h"

#include "base/fatal.h"


const struct dsf_segment *const dsf_segment_list[] = {
    &dsf_segment_embed, &dsf_segment_qkv, &dsf_segment_attention,
    &dsf_segment_out,   &dsf_segment_mlp, &dsf_segment_head,
    NULL,
};

static const struct dsf_segment *const first[] = { &dsf_segment_embed, NULL };
static const struct dsf_segment *const block[] = {
    &dsf_segment_qkv, &dsf_segment_attention, &dsf_segment_out,
    &dsf_segment_mlp, NULL,
};
static const struct dsf_segment *const last[] = { &dsf_segment_head, NULL };

const struct dsf_segment *const *dsf_layer_segments(int32_t layer,
                                                    int32_t layers)
{
    return layer < 0 ? first : layer < layers ? block : last;
}

const struct dsf_segment *dsf_segment_of_op(const struct dsflow_op *op)
{
    for (unsigned i = 0; dsf_segment_list[i] != NULL; i++) {
        const struct dsf_segment *s = dsf_segment_list[i];

        if (op == s->forward || op == s->hidden || op == s->backward_input ||
            op == s->backward_weight || op == s->logits)
            return s;
    }
    return NULL;
}

/* The arguments are those of a whole segment: no check refuses them. */
struct dsf_need dsf_segment_need(const struct dsf_segment *segment,
                                 const struct dsf_site *site, unsigned port)
{
    struct dsf_need need[DSF_SEGMENT_PORTS] = { { 0 } };
    _Alignas(16) unsigned char args[DSF_MAX_ARGS] = { 0 };
    struct dsflow_err err;

    segment->fill(site, args);
    if (segment->needs(segment->forward, args, need, &err) < 0)
        dsf_fatal("bug: %s", err.msg);
    return need[port];
}
