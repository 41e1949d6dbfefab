/* slices.h - how several workers do the forward pass of few rows together: each
 * some columns of what every segment leaves, from whole units, and then all of
 * them side by side. No sum is cut: the number of workers changes none. */
#ifndef DSF_SEGMENTS_SLICES_H
#define DSF_SEGMENTS_SLICES_H

#include "segments/segment.h"

/* A task that worker `t` of `parts` does of a segment. */
struct dsf_slice {
    const struct dsflow_op *op;
    dsflow_needs_fn *needs;
    /* `args` is zeroed. */
    void (*fill)(const struct dsflow_site *site, int32_t parts, int32_t t,
                 void *args);
};

/* In the order in which the tasks of a layer follow each other. The ports are
 * those of the op; of dsf_slice_qkv the port `shared` is the unit once more. */
extern const struct dsf_slice dsf_slice_qkv, dsf_slice_attention, dsf_slice_out,
    dsf_slice_up, dsf_slice_down, dsf_slice_logits;

/* Columns side by side: of attention, of the feed-forward, of the stream; and
 * those of the stream that a worker adds to. */
extern const struct dsf_slice dsf_slice_join_att, dsf_slice_join_act,
    dsf_slice_join_stream, dsf_slice_own_stream;

/* Can layers of such sizes be cut in so many parts? */
bool dsf_slices_fit(const struct dsf_dims *dims, int32_t parts);

#endif
