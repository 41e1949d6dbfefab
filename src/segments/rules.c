/* rules.c - tasks that the rules of several segments have in common. */
#include "segments/segment.h"

#include <string.h>

struct dsflow_tile dsf_part_tile(int32_t parts, int32_t t,
                                 const struct dsflow_tile *whole)
{
    struct dsflow_tile tile = *whole;
    int32_t first;

    tile.heads = dsf_share(tile.heads, parts, t, &first);
    tile.kv_heads = dsf_shares_kv(tile.kv_heads, parts)
                        ? 1
                        : dsf_share(tile.kv_heads, parts, t, &first);
    tile.ffn = dsf_share(tile.ffn, parts, t, &first);
    tile.vocab = dsf_share(tile.vocab, parts, t, &first);
    return tile;
}

struct dsflow_tile dsf_part_vocabulary(int32_t parts, int32_t t,
                                       const struct dsflow_tile *whole,
                                       const struct dsf_part *part)
{
    struct dsflow_tile tile = dsf_part_tile(parts, t, whole);

    tile.vocab = part->count;
    return tile;
}

/* The rows of one rank. */
static struct dsflow_tile rows_tile(int32_t parts, int32_t t,
                                    const struct dsflow_tile *whole)
{
    struct dsflow_tile tile = dsf_part_tile(parts, t, whole);
    int32_t first;

    tile.rows = dsf_share(tile.rows, parts, t, &first);
    tile.nseq = 1;
    tile.pos = 0;
    return tile;
}

static uint32_t fill_norm(int32_t parts, int32_t t, const struct dsf_part *part,
                          const struct dsf_part *shared, const void *whole,
                          void *args)
{
    struct dsf_norm_args *a = args;

    *a = (struct dsf_norm_args){
        .tile = rows_tile(parts, t, whole),
        .norm_w = part->norm_w,
        .norm_b = part->norm_b,
    };
    /* The segment's, which may not be that of the model. */
    a->tile.rms = part->norm_b < 0;
    return 0;
}

static uint32_t fill_norm_add(int32_t parts, int32_t t,
                              const struct dsf_part *part,
                              const struct dsf_part *shared, const void *whole,
                              void *args)
{
    fill_norm(parts, t, part, shared, whole, args);
    ((struct dsf_norm_args *)args)->residual = 1;
    return 0;
}

/* No bias, no unit. */
static uint32_t fill_residual(int32_t parts, int32_t t,
                              const struct dsf_part *part,
                              const struct dsf_part *shared, const void *whole,
                              void *args)
{
    *(struct dsf_residual_args *)args =
        (struct dsf_residual_args){ .tile = rows_tile(parts, t, whole),
                                    .b = part->b };
    return part->b < 0 ? 1u << DSFLOW_RESIDUAL_UNIT : 0;
}

static uint32_t fill_bias(int32_t parts, int32_t t, const struct dsf_part *part,
                          const struct dsf_part *shared, const void *whole,
                          void *args)
{
    return fill_residual(parts, t, part, shared, whole, args) == 0
               ? 0
               : DSF_NO_TASK;
}

/* What each rank does on its rows. */
static const struct {
    const struct dsflow_op *op;
    dsf_part_fill_fn fill;
    bool leaves_out; /* a port, or all of it, where the unit has no bias */
} on_rows[] = {
    [DSFLOW_RULE_NORM] = { &dsf_op_norm_forward, fill_norm },
    [DSFLOW_RULE_NORM_BACK] = { &dsf_op_norm_backward_input, fill_norm },
    [DSFLOW_RULE_NORM_BACK_ADD] = { &dsf_op_norm_backward_input,
                                    fill_norm_add },
    [DSFLOW_RULE_NORM_WEIGHT] = { &dsf_op_norm_backward_weight, fill_norm },
    [DSFLOW_RULE_RESIDUAL] = { &dsf_op_residual_forward, fill_residual, true },
    [DSFLOW_RULE_RESIDUAL_WEIGHT] = { &dsf_op_residual_backward_weight,
                                      fill_bias, true },
};
static bool is_on_rows(const struct dsflow_rule *rule)
{
    return rule->kind < sizeof(on_rows) / sizeof(*on_rows) &&
           on_rows[rule->kind].op != NULL;
}

const struct dsflow_op *dsf_rule_op(const struct dsflow_rule *rule,
                                    const struct dsflow_op *whole)
{
    if (is_on_rows(rule))
        return on_rows[rule->kind].op;
    return rule->kind == DSFLOW_RULE_OTHER ? rule->op : whole;
}

/* What a segment fills for a whole task, of a part: another tile, and places
 * of tensors in the part. */
static uint32_t fill_segment(const struct dsflow_rule *rule,
                             const struct dsflow_op *whole, int32_t parts,
                             int32_t t, const struct dsf_part *part,
                             const void *whole_args, void *args)
{
    struct dsflow_site site = { .parts = parts };

    if (part != NULL)
        site.at[0] = part->at;
    site.tile =
        rule->kind == DSFLOW_RULE_ROWS || rule->unit >= DSFLOW_REF_SHARED
            ? rows_tile(parts, t, whole_args)
            : dsf_part_tile(parts, t, whole_args);
    dsf_segment_of_op(whole)->fill(&site, args);
    return 0;
}

uint32_t dsf_rule_fill(const struct dsflow_rule *rule,
                       const struct dsflow_op *whole, int32_t parts, int32_t t,
                       const struct dsf_part *part,
                       const struct dsf_part *shared, const void *whole_args,
                       void *args)
{
    if (is_on_rows(rule))
        return on_rows[rule->kind].fill(parts, t, part, shared, whole_args,
                                        args);
    if (rule->fill != NULL)
        return rule->fill(parts, t, part, shared, whole_args, args);
    return fill_segment(rule, whole, parts, t, part, whole_args, args);
}

uint32_t dsf_rule_without(const struct dsflow_rule *rule,
                          const struct dsflow_op *whole, int32_t parts,
                          int32_t t, const struct dsf_part *part,
                          const struct dsf_part *shared, const void *whole_args,
                          void *args)
{
    const bool leaves_out =
        is_on_rows(rule) ? on_rows[rule->kind].leaves_out : rule->fill != NULL;

    return leaves_out ? dsf_rule_fill(rule, whole, parts, t, part, shared,
                                      whole_args, args)
                      : 0;
}

unsigned dsf_rule_ref(const struct dsflow_rule *rule,
                      const struct dsflow_op *whole, unsigned port)
{
    for (unsigned i = 0; i < rule->nports; i++)
        if (rule->ports[i].port == port)
            return rule->ports[i].ref;
    if (rule->kind == DSFLOW_RULE_PART)
        return DSFLOW_REF_OWN + port;
    if (rule->kind != DSFLOW_RULE_ROWS)
        return DSFLOW_LEFT_OUT;
    return (dsf_rules_cut(whole, port) == DSFLOW_CUT_UNIT ? DSFLOW_REF_SHARED
                                                          : DSFLOW_REF_OWN) +
           port;
}

/* Every rank loads the tokens of all rows. */
static uint32_t fill_load(int32_t parts, int32_t t, const struct dsf_part *part,
                          const struct dsf_part *shared, const void *whole,
                          void *args)
{
    memcpy(args, whole, sizeof(struct dsf_load_args));
    return 0;
}

/* Kinds of task of no segment; by the ports of each, how its data is cut. */
static const struct {
    struct dsflow_op_rules rules;
    uint8_t cuts[2];
} others[] = {
    { { &dsf_op_load_batch, { { DSFLOW_RULE_PART, .fill = fill_load } } },
      { DSFLOW_CUT_ONE, DSFLOW_CUT_EVERY } },
};
enum { NOTHERS = sizeof(others) / sizeof(*others) };

const struct dsflow_op_rules *dsf_rules_find(const struct dsflow_op *op)
{
    const struct dsflow_segment *segment = dsf_segment_of_op(op);

    for (size_t i = 0; i < NOTHERS; i++)
        if (others[i].rules.op == op)
            return &others[i].rules;
    for (const struct dsflow_op_rules *r = segment != NULL ? segment->rules
                                                           : NULL;
         r != NULL && r->op != NULL; r++)
        if (r->op == op)
            return r;
    return NULL;
}

enum dsflow_cut dsf_rules_cut(const struct dsflow_op *op, unsigned port)
{
    const struct dsflow_segment *segment = dsf_segment_of_op(op);

    for (size_t i = 0; i < NOTHERS; i++)
        if (others[i].rules.op == op)
            return (enum dsflow_cut)others[i].cuts[port];
    return segment != NULL ? (enum dsflow_cut)segment->ports[port].cut
                           : DSFLOW_CUT_UNKNOWN;
}
