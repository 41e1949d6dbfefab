/* merge.h - one tensor out of what tensor ranks have of it. */
#ifndef DSF_FOREIGN_MERGE_H
#define DSF_FOREIGN_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <dsflow/error.h>

enum dsf_merge_kind {
    DSF_MERGE_FIRST,   /* all have it whole: rank 0's */
    DSF_MERGE_SAME,    /* the same, and an error where they differ */
    DSF_MERGE_AVERAGE, /* all have it whole: their mean, summed in order */
    DSF_MERGE_JOIN,    /* each has a share */
};

/* Joined is the middle one of three dimensions, [outer][n][inner]. It has
 * `blocks` (queries, keys, values; or gate, up; or 1), and of each of them rank
 * r has widths[block * ranks + r]. A rank has its shares of all blocks one
 * after the other. */
struct dsf_merge {
    enum dsf_merge_kind kind;
    int ranks;
    unsigned blocks;
    int64_t outer, inner;
    int64_t *widths;
};

/* Joined along dimension `dim` of a tensor, of which each rank has `dims`, in
 * `blocks` equal blocks; dims[dim] is a multiple of those. */
void dsf_merge_join(struct dsf_merge *m, int ranks, unsigned blocks,
                    unsigned dim, unsigned ndims, const int64_t *dims);
void dsf_merge_fini(struct dsf_merge *m);

/* How long the middle dimension is: of all ranks, and of one. */
int64_t dsf_merge_length(const struct dsf_merge *m);
int64_t dsf_merge_share(const struct dsf_merge *m, int rank);

/* Where element `at` of the whole is: a rank, and its element there. `run`: so
 * many follow it in both. */
int dsf_merge_find(const struct dsf_merge *m, int64_t at, int64_t *there,
                   int64_t *run);

/* Elements [at, at + n) of what `rank` has. */
typedef int (*dsf_merge_fn)(void *of, int rank, int64_t at, int64_t n,
                            float *to, struct dsflow_err *err);

/* Elements [first, first + n) of the whole. DSFLOW_EINVAL where ranks differ
 * that should not. */
int dsf_merge_read(const struct dsf_merge *m, dsf_merge_fn read, void *of,
                   int64_t first, int64_t n, float *to, struct dsflow_err *err);

#endif
