/* trials_segment.h - what random cases of segments and of attention share. */
#ifndef DSF_CODELETS_TRIALS_SEGMENT_H
#define DSF_CODELETS_TRIALS_SEGMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "tasks/args.h"

/* The arguments of a segment: each begins with its tile. */
union dsf_segment_args {
    struct dsflow_tile tile;
    struct dsflow_embed_args embed;
    struct dsflow_qkv_args qkv;
    struct dsflow_attention_args attention;
    struct dsflow_out_args out;
    struct dsflow_mlp_args mlp;
    struct dsflow_head_args head;
    struct dsf_head_columns_args columns;
    struct dsf_norm_args norm;
    struct dsf_residual_args residual;
};

/* trials_attention.c: the arguments of a case, whose tile is chosen; what is on
 * a port of it, 1 where that is other than any numbers; and sums that begin
 * with the task, as the arguments say. */
void dsf_choose_attention(uint64_t *state, bool part,
                          union dsf_segment_args *args);
int dsf_fill_attention(uint64_t *state, unsigned port, void *data,
                       int64_t elems, const union dsf_segment_args *args);
unsigned dsf_fresh_attention(const struct dsflow_attention_args *args);

/* The case with all keys of one tile, and no more. */
void dsf_simplify_attention(struct dsflow_attention_args *args);

#endif
