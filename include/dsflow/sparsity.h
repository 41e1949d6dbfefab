/* sparsity.h - a layout of sparse attention: which blocks of keys each block of
 * queries sees. A job names one by sparse_attention.mode; the built-in ones
 * have the names, the keys and the blocks that DeepSpeed's sparse attention has
 * (Child et al. 2019; Zaheer et al. 2020; Beltagy et al. 2020).
 */
#ifndef DSFLOW_SPARSITY_H
#define DSFLOW_SPARSITY_H

#include <stdint.h>
#include <dsflow/error.h>
#include <dsflow/option.h>

DSFLOW_BEGIN_DECLS

#define DSFLOW_SPARSITY_ABI 1

/* The keys of [sparse_attention], which are there for all, and for what a
 * layout is made. */
struct dsflow_sparsity_keys {
    int32_t blocks;   /* rows and columns of the layout */
    int32_t per_head; /* different_layout_per_head */
    int32_t head;     /* the one that it is for; 0 where all have the same */
    uint64_t seed;    /* of sparse_attention.seed and the layer */

    int32_t causal; /* attention = "unidirectional" */
    int64_t num_local_blocks, num_global_blocks;
    int64_t num_different_global_patterns;
    int32_t horizontal_global_attention;
    int64_t num_random_blocks; /* "auto" is what the mode takes */
    int64_t num_sliding_window_blocks;
    struct dsflow_ints local_window_blocks;
    struct dsflow_ints global_block_indices, global_block_end_indices;
};

struct dsflow_sparsity {
    unsigned abi;        /* DSFLOW_SPARSITY_ABI */
    const char *name;    /* "fixed": the value of sparse_attention.mode */
    const char *summary; /* one line, for `dsflow list layouts` */

    int64_t random_blocks; /* num_random_blocks where it is "auto" */
    int32_t causal;        /* attention where it is "auto": 1: unidirectional */
    int32_t one_for_all;   /* 1: heads never have layouts of their own */

    /* Keys of its own: the table of job.toml that has its name. NULL: none. */
    const struct dsflow_option *options;
    size_t part_size;

    /* Do the keys go together? The message begins with the key that is wrong:
     * "num_local_blocks: 5: expected …". NULL: always. */
    int (*check)(const void *part, const struct dsflow_sparsity_keys *keys,
                 struct dsflow_err *err);

    /* on[row * blocks + col] = 1 where the queries of block `row` see the keys
     * of block `col`; all is 0 before. It depends on nothing else. A causal
     * layout may have blocks behind the queries: tasks leave them out. */
    void (*fill)(const void *part, const struct dsflow_sparsity_keys *keys,
                 uint8_t *on);
};

/* Make it known by its name. It is borrowed for good: make it static. */
DSFLOW_API int dsflow_sparsity_register(const struct dsflow_sparsity *sparsity,
                                        struct dsflow_err *err);
DSFLOW_API const struct dsflow_sparsity *dsflow_sparsity_find(const char *name);

/* The i-th known, in order of registration; NULL past the last. */
DSFLOW_API const struct dsflow_sparsity *dsflow_sparsity_at(unsigned i);

DSFLOW_END_DECLS

#endif
