/* zeroone_args.h - the arguments of the kinds of task of 0/1 Adam (Lu et al.
 * 2022, arXiv 2202.06009). A group of micro-batches is a worker, which in local
 * steps has weights param + local, with what it has moved away from those of
 * all, and a momentum of its own. v are second moments, which do not change any
 * more: a number whose v is 0 is not moved, but for its decay.
 *
 * held_update              { control R, grad R, param RW, m RW, v R }
 *                                                    struct dsf_held_args
 *   m = beta1 m + (1 - beta1) grad; param -= lr (m / (sqrt(v) + eps) + decay
 *   param).
 *
 * local_step               { control R, step W }
 *                                                    struct dsf_local_step_args
 *   What tasks of a local step have to know of its number: step is a struct
 *   dsf_zeroone_step, as doubles. Few numbers, in main memory.
 *
 * local_weights            { step R, param R, local R, weights W }
 *                                                    struct dsf_local_args
 *   weights = param + local; param, where all have the same.
 *
 * local_update             { step R, grad R, param R, v R, m R, own RW,
 *                            local RW }             struct dsf_local_args
 *   own = beta1 own + (1 - beta1) G grad, G being the number of groups: grad is
 *   a share of the mean; local -= lr (own / (sqrt(v) + eps) + decay (param +
 *   local)). Where all have the same weights, own counts as m and local as 0.
 *
 * feed_local               { control R, local R, v R, grad RW, error RW? }
 *                                                    struct dsf_feed_local_args
 *   grad = local (sqrt(v) + eps) / G + error; error = what coding takes from
 *   that, as of feed_momentum.
 *
 * serve_mean               { control R, mean RW, scales R, server RW }
 *                                                    struct dsf_chunk_args
 *   As serve (onebit_args.h), in the place of what is served.
 *
 * local_settle             { step R, mean R, param RW, m RW, v R }
 *                                                    struct dsf_settle_args
 *   param += mean / (sqrt(v) + eps); m = -mean / the sum of the rates of the
 *   local steps that end with this one, or 0 where that is 0. */
#ifndef DSF_TASKS_ZEROONE_ARGS_H
#define DSF_TASKS_ZEROONE_ARGS_H

#include "tasks/args.h"
#include "tasks/coding.h"

/* Of which kind steps are (zeroone.h): keys of [zeroone_adam]. */
struct dsf_zeroone_schedule {
    int64_t var_freeze_step, var_update_scaler;
    int64_t local_step_scaler, local_step_clipper;
};

struct dsf_local_step_args {
    struct dsf_zeroone_schedule schedule;
    struct dsf_begin_args rates; /* of which the learning rate follows */
};

struct dsf_zeroone_step {
    double fresh; /* 1: all workers have the same weights before it; or 0 */
    double lr;
    double rates; /* the sum of those of the local steps that end with it, where
                     it synchronises; 0: the momentum begins anew there */
};
enum { DSF_ZEROONE_STEP_FIELDS = 3 };

/* Numbers [0, decay) decay. */
struct dsf_held_args {
    int64_t elems, decay;
    int64_t grad_at, param_at, m_at, v_at;
    double beta1;
    float eps, weight_decay;
};

struct dsf_local_args {
    int64_t elems, decay;
    int64_t at; /* number of the unit: in param, v and m, which are whole */
    int64_t grad_at, own_at, local_at, weights_at;
    int64_t groups;
    double beta1;
    float eps, weight_decay;
};

struct dsf_feed_local_args {
    struct dsf_coding coding; /* nothing is coded: no tensors */
    int64_t elems, at, local_at, grad_at, error_at;
    int64_t groups;
    double eps;
};

struct dsf_settle_args {
    int64_t elems, mean_at, param_at, m_at, v_at;
    double eps;
};

#endif
