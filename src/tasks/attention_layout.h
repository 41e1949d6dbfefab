/* attention_layout.h - the layout of a layer as the tasks of attention have it:
 * bits, of blocks that are not behind the queries. */
#ifndef DSF_TASKS_ATTENTION_LAYOUT_H
#define DSF_TASKS_ATTENTION_LAYOUT_H

#include <stdbool.h>
#include <dsflow/segments.h>

#include "config/job.h"
#include "kernels/layout.h"

struct dsf_attention_layout {
    int32_t block, blocks; /* tokens of a block; rows and columns */
    int32_t heads;         /* 1: one for all */
    uint64_t *bits;        /* as on the port of attention (segments.h) */
};

/* That of layer `layer`, for `heads` heads and sequences of `tokens`. Errors
 * name the key that is wrong, or a row that sees no block. */
int dsf_attention_layout_make(const struct dsf_job *job, int32_t heads,
                              int32_t layer, int64_t tokens,
                              struct dsf_attention_layout *layout,
                              struct dsflow_err *err);
void dsf_attention_layout_free(struct dsf_attention_layout *layout);

bool dsf_attention_layout_equal(const struct dsf_attention_layout *a,
                                const struct dsf_attention_layout *b);

/* Bytes of its bits. */
size_t dsf_attention_layout_bytes(const struct dsf_attention_layout *layout);

/* The same as the kernel has it. */
struct dsf_layout
dsf_attention_layout_of(const struct dsf_attention_layout *layout);

/* The shape of the data on the port. */
struct dsflow_need dsf_layout_need(int32_t layouts, int32_t blocks);

/* The arguments of a task that say what of `layout` it is about; tile, keys,
 * diagonal, window and key_pos are there, and `head` is the first of the tile.
 * Where no key is left out, they are those of a task without a layout. */
void dsf_attention_lay_out(const struct dsf_attention_layout *layout,
                           int32_t head, struct dsflow_attention_args *args);

/* Those of some heads of a task with a layout, `all` being of all its heads:
 * with the layout also where these see all keys, and with keys in place as with
 * all heads. Else keys may be taken in other pieces, with other bits: where a
 * tile does not begin with a block, or where a window hides keys in front of a
 * strip of queries, as strips are not equally long. */
void dsf_attention_lay_part(const struct dsf_attention_layout *layout,
                            int32_t head,
                            const struct dsflow_attention_args *all,
                            struct dsflow_attention_args *args);

/* Are keys of fp32 used where they are? Packing them would take longer, as few
 * queries see each of them. */
bool dsf_attention_in_place(const struct dsflow_attention_args *args);

#endif
