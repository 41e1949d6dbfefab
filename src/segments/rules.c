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

uint32_t dsf_fill_norm(int32_t parts, int32_t t, const struct dsf_part *part,
                       const struct dsf_part *shared, const void *whole,
                       void *args)
{
    *(struct dsf_norm_args *)args = (struct dsf_norm_args){
        .tile = rows_tile(parts, t, whole),
        .norm_w = part->norm_w,
        .norm_b = part->norm_b,
    };
    return 0;
}

uint32_t dsf_fill_norm_add(int32_t parts, int32_t t,
                           const struct dsf_part *part,
                           const struct dsf_part *shared, const void *whole,
                           void *args)
{
    dsf_fill_norm(parts, t, part, shared, whole, args);
    ((struct dsf_norm_args *)args)->residual = 1;
    return 0;
}

/* No bias, no unit. */
uint32_t dsf_fill_residual(int32_t parts, int32_t t,
                           const struct dsf_part *part,
                           const struct dsf_part *shared, const void *whole,
                           void *args)
{
    *(struct dsf_residual_args *)args = (struct dsf_residual_args){
        .tile = rows_tile(parts, t, whole), .b = part->b
    };
    return part->b < 0 ? 1u << DSF_RESIDUAL_UNIT : 0;
}

uint32_t dsf_fill_bias(int32_t parts, int32_t t, const struct dsf_part *part,
                       const struct dsf_part *shared, const void *whole,
                       void *args)
{
    return dsf_fill_residual(parts, t, part, shared, whole, args) == 0
               ? 0
               : DSF_NO_TASK;
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
    struct dsf_op_rules rules;
    uint8_t cuts[2];
} others[] = {
    { { &dsf_op_load_batch, { { DSF_RULE_PART, .fill = fill_load } } },
      { DSF_CUT_ONE, DSF_CUT_EVERY } },
};
enum { NOTHERS = sizeof(others) / sizeof(*others) };

const struct dsf_op_rules *dsf_rules_find(const struct dsflow_op *op)
{
    const struct dsf_segment *segment = dsf_segment_of_op(op);

    for (size_t i = 0; i < NOTHERS; i++)
        if (others[i].rules.op == op)
            return &others[i].rules;
    for (const struct dsf_op_rules *r = segment != NULL ? segment->rules : NULL;
         r != NULL && r->op != NULL; r++)
        if (r->op == op)
            return r;
    return NULL;
}

enum dsf_cut dsf_rules_cut(const struct dsflow_op *op, unsigned port)
{
    const struct dsf_segment *segment = dsf_segment_of_op(op);

    for (size_t i = 0; i < NOTHERS; i++)
        if (others[i].rules.op == op)
            return (enum dsf_cut)others[i].cuts[port];
    return segment != NULL ? (enum dsf_cut)segment->ports[port].cut
                           : DSF_CUT_UNKNOWN;
}
