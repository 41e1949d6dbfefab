/* sparsity.h - the layouts of sparse attention that a job asks for. */
#ifndef DSF_TASKS_SPARSITY_H
#define DSF_TASKS_SPARSITY_H

#include <stdbool.h>
#include <dsflow/sparsity.h>

#include "base/registry.h"
#include "config/job.h"

extern struct dsf_registry dsf_sparsities;

/* The built-in modes, by DeepSpeed's names. */
extern const struct dsflow_sparsity dsf_sparsity_dense, dsf_sparsity_fixed,
    dsf_sparsity_variable, dsf_sparsity_bigbird, dsf_sparsity_bslongformer,
    dsf_sparsity_local_sliding_window;

/* The layouts of one layer. */
struct dsf_sparsity_layout {
    int32_t blocks; /* rows and columns */
    int32_t heads;  /* 1: one for all heads */
    uint8_t *on;    /* [heads][blocks][blocks] */
};

/* For `heads` heads of layer `layer` and sequences of `tokens`. Errors name the
 * key that is wrong, or a row that has no block. */
int dsf_sparsity_make(const struct dsf_job *job, int32_t heads, int32_t layer,
                      int64_t tokens, struct dsf_sparsity_layout *layout,
                      struct dsflow_err *err);
void dsf_sparsity_free(struct dsf_sparsity_layout *layout);

/* The layout of a head: its rows follow each other. */
const uint8_t *dsf_sparsity_head(const struct dsf_sparsity_layout *layout,
                                 int32_t head);

/* Blocks that a head sees. */
int64_t dsf_sparsity_count(const struct dsf_sparsity_layout *layout,
                           int32_t head);

/* Does the job ask for another layout than all blocks? */
bool dsf_job_is_sparse(const struct dsf_job *job);

#endif
