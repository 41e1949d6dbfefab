/* segment_attention.c - causal softmax attention, tile by tile. */
#include "segments/segment.h"

#include "tasks/attention_layout.h"

/* Does the window hide a key from a query? The last query and the first key are
 * the farthest from each other. */
static bool hides(const struct dsflow_site *site)
{
    const struct dsflow_tile *t = &site->tile;

    return site->window > 0 &&
           t->pos + t->rows / t->nseq - site->key_pos > site->window;
}

static void fill(const struct dsflow_site *site, void *args)
{
    const bool hidden = hides(site);

    *(struct dsflow_attention_args *)args = (struct dsflow_attention_args){
        .tile = site->tile,
        .keys = site->keys,
        .diagonal = site->diagonal,
        .first = site->first_keys,
        .last = site->diagonal,
        .first_q = site->diagonal,
        .first_kv = site->last_queries,
        .window = hidden ? site->window : 0,
        .key_pos = hidden || site->layout != NULL ? site->key_pos : 0,
        .key_tile = site->keys > site->key_tile ? site->key_tile : 0,
        .before = site->diagonal ? site->kv_at : 0,
    };
    if (site->layout != NULL)
        dsf_attention_lay_out(site->layout, site->head, args);
}

/* What the first of several tasks sets. */
static uint32_t fresh(const struct dsflow_op *op, const void *args)
{
    const struct dsflow_attention_args *a = args;

    if (op == &dsf_op_attention_forward)
        return a->first
                   ? 1u << DSFLOW_ATTENTION_ATT | 1u << DSFLOW_ATTENTION_LSE
                   : 0;
    return (a->first_q ? 1u << DSFLOW_ATTENTION_DQ : 0) |
           (a->first_kv ? 1u << DSFLOW_ATTENTION_DKV : 0);
}

static uint32_t fill_part(int32_t parts, int32_t t, const struct dsf_part *part,
                          const struct dsf_part *shared, const void *whole,
                          void *args)
{
    struct dsflow_attention_args *a = args;

    *a = *(const struct dsflow_attention_args *)whole;
    a->tile = dsf_part_tile(parts, t, &a->tile);
    return 0;
}

#define COLUMNS .cut = DSFLOW_CUT_COLUMNS
#define KV      .cut = DSFLOW_CUT_KV, .of_keys = 1
#define OF_QKV(port)                                                           \
    DSFLOW_FROM_OTHER, .unit = DSFLOW_QKV_##port, .other = "qkv"

static const struct dsflow_segment_port ports[] = {
    [DSFLOW_ATTENTION_Q] = { "q", OF_QKV(Q), COLUMNS },
    [DSFLOW_ATTENTION_KV] = { "kv", OF_QKV(KV), KV },
    [DSFLOW_ATTENTION_ATT] = { "att", DSFLOW_FROM_KEPT, COLUMNS,
                               .dropped = DSFLOW_DROPPED_WITH_ATTENTION },
    [DSFLOW_ATTENTION_LSE] = { "lse", DSFLOW_FROM_KEPT, COLUMNS,
                               .dropped = DSFLOW_DROPPED_WITH_ATTENTION },
    [DSFLOW_ATTENTION_DATT] = { "datt", DSFLOW_FROM_BRIEF, COLUMNS },
    [DSFLOW_ATTENTION_DELTA] = { "delta", DSFLOW_FROM_BRIEF, COLUMNS },
    [DSFLOW_ATTENTION_DQ] = { "dq", OF_QKV(DQ), COLUMNS },
    [DSFLOW_ATTENTION_DKV] = { "dkv", OF_QKV(DKV), KV },
    [DSFLOW_ATTENTION_LAYOUT] = { "layout", DSFLOW_FROM_LAYOUT,
                                  .cut = DSFLOW_CUT_ONE },
};

static const struct dsflow_op_rules rules[] = {
    { &dsf_op_attention_forward, { { DSFLOW_RULE_PART, .fill = fill_part } } },
    { &dsf_op_attention_backward_input,
      { { DSFLOW_RULE_PART, .fill = fill_part } } },
    { .op = NULL },
};

static const struct dsf_segment_hooks hooks = {
    .next = "out",
};

DSF_SEGMENT(attention, ATTENTION, .summary = "causal softmax attention",
            .backward_input = &dsf_op_attention_backward_input, .pairs = true,
            .fresh = fresh);
