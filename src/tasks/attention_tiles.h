/* attention_tiles.h - how many tiles of scores attention on a GPU computes: its
 * kernels go by tiles of queries and keys, and leave out those in which no
 * query sees a key (gpu/attention_sight.h). */
#ifndef DSF_TASKS_ATTENTION_TILES_H
#define DSF_TASKS_ATTENTION_TILES_H

/* Of kernels for tensor cores, which are compiled for heads of `d` numbers:
 * forward, a block of threads has some queries and meets keys; back, one launch
 * has keys (in parts of their columns) and meets queries, and one has queries
 * and meets keys. Of plain kernels all tiles are DSF_PLAIN_TILE wide. */
#define DSF_FORWARD_QUERIES(d)     ((d) <= 128 ? 128 : 64)
#define DSF_FORWARD_KEYS(d)        ((d) <= 64 ? 64 : 32)
#define DSF_BACKWARD_KEYS(d)       ((d) <= 64 ? 128 : 64)
#define DSF_BACKWARD_KEYS_PARTS(d) ((d) <= 128 ? 1 : 2)
#define DSF_BACKWARD_KEYS_QUERIES(d)                                           \
    ((d) > 192 ? 16 : (d) == 64 || (d) == 192 ? 32 : 64)
#define DSF_BACKWARD_QUERIES(d)      ((d) <= 128 ? 128 : 64)
#define DSF_BACKWARD_QUERIES_KEYS(d) ((d) > 192 ? 16 : 32)
#define DSF_PLAIN_TILE               64

/* The rest is not for kernels. */
#ifndef __cplusplus
#include <stdbool.h>
#include <dsflow/segments.h>

#include "kernels/layout.h"

/* A launch: its tiles, in how many parts each is computed, and the products of
 * a pair of a query and a key in one, times the numbers of a head. */
struct dsf_attention_launch {
    int32_t queries, keys, parts;
    double products;
};

/* Those of a task, forward or back, of which there are at most 2; narrow: of
 * bf16 or fp16; hides: of kernels for windows and layouts. Returns how many. */
int dsf_attention_launches(const struct dsflow_attention_args *a, bool forward,
                           bool narrow, bool hides,
                           struct dsf_attention_launch *launches);

/* Tiles that one of them computes, in all heads and sequences. `layout` (NULL:
 * none) is that of the layer; window and layout count where `hides`. */
double dsf_attention_tiles(const struct dsflow_attention_args *a,
                           const struct dsf_layout *layout,
                           const struct dsf_attention_launch *launch,
                           bool hides);

/* Pairs of a query and a key, of dense attention, that take a GPU as long as
 * the task does: in proportion to the tiles. */
double dsf_attention_gpu_scores(const struct dsflow_attention_args *a,
                                const struct dsf_layout *layout, bool forward,
                                bool narrow);

/* Pairs of the task if it had neither window nor layout: task_attention.c. */
double dsf_attention_dense_scores(const struct dsflow_attention_args *a);
#endif

#endif
