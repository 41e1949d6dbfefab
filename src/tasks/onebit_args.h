/* onebit_args.h - the arguments of the kinds of task of 1-bit Adam (Tang et al.
 * 2021, arXiv 2102.02888), in which momenta are sent, coded, instead of
 * gradients. A tensor has as many chunks as there are groups of micro-batches:
 * chunk c of G has its coded blocks n c / G .. n (c + 1) / G of n.
 *
 * feed_momentum            { control R, grad RW, m R?, error RW?, lamb R? }
 *                                                    struct dsf_momentum_args
 *   With x = beta1 / G m + (1 - beta1) / S grad + error, S being the loss
 * scale: grad = x, error = x - x as it is when it has been sent. The sum of
 * what all groups send is the mean of their momenta. Errors may be bf16,
 * rounded to the nearest. Without `error` nothing of the unit is coded; without
 * m, beta1 is 0: gradients are sent. In step `last` error becomes 0. With
 * `lamb` (onebit_lamb_args.h) m and grad of a coded tensor are `scale` times as
 * large, and the error stays as it is.
 *
 * chunk_squares            { grad R, server R?, sums W } struct dsf_chunk_args
 *   sums: for each block of the coding the sum of (grad + server)^2; 0 where it
 *   is not coded.
 *
 * chunk_scales             { scales W, sums R, ... }
 *                                              struct dsf_chunk_scales_args
 *   double[tensors][G]: the root of the mean square of each chunk, as a float.
 *
 * serve                    { control R, grad R, scales R?, server RW?, m RW }
 *                                                    struct dsf_chunk_args
 *   With x = grad + server: m = x as it is with the scale of its chunk, server
 * = x - m. Of numbers that are not coded m = grad, and server stays. Nothing
 *   where the step is skipped. */
#ifndef DSF_TASKS_ONEBIT_ARGS_H
#define DSF_TASKS_ONEBIT_ARGS_H

#include "tasks/coding.h"

struct dsf_momentum_args {
    struct dsf_coding coding; /* nothing is coded: no tensors */
    int64_t elems, grad_at, error_at;
    int64_t groups;
    double beta1;
    int64_t last; /* 0: there is none */
};

/* Number `at` of the unit is the first. */
struct dsf_chunk_args {
    struct dsf_coding coding;
    int64_t elems, at, grad_at, server_at, m_at;
    int64_t groups;
    int64_t last; /* of serve_mean: in this step server becomes 0; 0: in none */
};

struct dsf_chunk_scales_args {
    struct dsf_coding coding;
    int64_t groups;
};

/* One group of micro-batches at least? */
int dsf_groups_check(const struct dsflow_case *c, int64_t groups,
                     struct dsflow_err *err);

/* The place among the scales of the block that begins with number `at` of the
 * unit; -1: it is not coded. */
int64_t dsf_chunk_of(const struct dsf_coding *c, int64_t groups, int64_t at);

/* How many numbers that chunk has. */
int64_t dsf_chunk_elems(const struct dsf_coding *c, int64_t groups,
                        int64_t chunk);

#endif
