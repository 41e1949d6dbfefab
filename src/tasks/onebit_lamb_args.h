/* onebit_lamb_args.h - the arguments of the kinds of task of 1-bit LAMB (Li et
 * al. 2021, arXiv 2104.06069). Momenta are sent as those of 1-bit Adam are
 * (onebit_args.h), but all tensors at once: a worker has one scale for all of
 * them, and each group has one chunk of all. So that one scale fits, momenta of
 * a tensor are multiplied by a number of its own, which follows from how large
 * they are when the second moments freeze.
 *
 * lamb is struct dsf_lamb[DSFLOW_MAX_TENSORS], as doubles, of a unit.
 *
 * send_signs               { grad RW, error RW, squares R }
 *                                                    struct dsf_send_args
 *   With s the root of the mean square of `all` numbers, whose squares add up
 * to `squares`: coded numbers of grad become s where they are 0 or above, and
 * -s where they are below; error = what that takes, 0 of numbers that are not
 *   coded, and as it was where it is not finite.
 *
 * chunk_sums               { chunks W, sums R, ... }  struct dsf_united_args
 *   double[G][2]: of the blocks of the unit in each chunk the sum, and how many
 *   numbers they have; by_tensor: in each tensor of the unit, of which there
 * are G. sums: for each block, in order (chunk_squares).
 *
 * tensor_scales            { scales W, sums R, ... }  (no arguments)
 *   Of each tensor the root of the mean square, as a float: of the sums that
 *   chunk_sums leaves of the unit, or of its parts; 0 where nothing is coded.
 *
 * sum_each                 { out W, in R, ... }       (no arguments)
 *   out[i] = the sum of in[i], port by port.
 *
 * serve_lamb               { control R, grad R, chunks R?, lamb R?, server RW?,
 *                            m RW, fresh RW }         struct dsf_united_args
 *   With y = grad + server: x = y as it is with the scale of its chunk, server
 *   = y - x. With g = (x / scale - beta1 m) / (1 - beta1), the gradient as it
 * can be told from momenta: m = x / scale, fresh = beta2 fresh + (1 - beta2)
 * g^2. Of numbers that are not coded x = grad, and their scale is 1. Nothing
 *   where the step is skipped.
 *
 * lamb_norms               { control R, fresh R, param R, m R, v R, sums W }
 *                                                     struct dsf_weigh_args
 *   With d = sqrt(v) + eps and u = m / d + wd p: sums: double[blocks][width],
 * of each tensor of number i from [4 i] on the sums of (m / d)^2 and of u^2,
 * and the largest d / (sqrt(fresh) + eps).
 *
 * lamb_totals              { totals W, sums R, ... }  struct dsf_factor_args
 *   double[n][4]: the same of all blocks.
 *
 * lamb_factor              { control R, totals R, lamb RW, ratio W }
 *                                                     struct dsf_factor_args
 *   Of each tensor, with r = the norm of m / d by that of u, 1 at most:
 * f = r times the largest + 1 - r, within its limits, and within `threshold` of
 * the factor of the last step; factor = f, ratio = mean f.
 *
 * lamb_mean                { control R, ratio R, lamb RW } struct dsf_mean_args
 *   mean = beta mean + (1 - beta) ratio, unless ratio is 1.
 *
 * unite_scales             { own R, total R, lamb RW } struct dsf_unite_args
 *   Of each tensor, whose momenta have the root of the mean square own:
 * scale = total / n / own, or 1 where own is 0. Of all, factor = 1. */
#ifndef DSF_TASKS_ONEBIT_LAMB_ARGS_H
#define DSF_TASKS_ONEBIT_LAMB_ARGS_H

#include <dsflow/optimizer.h>

#include "tasks/args.h"

/* What is kept of the tensor of that number. */
struct dsf_lamb {
    double scale;  /* 1 where it is not coded */
    double mean;   /* of its ratios before the freeze, weighted */
    double factor; /* of the last step */
};
enum { DSF_LAMB_FIELDS = 3 };

struct dsf_send_args {
    struct dsf_coding coding;
    int64_t elems, grad_at, error_at;
    int64_t all; /* coded numbers of all units */
};

/* The unit has the coded numbers before .. of `all` that there are. */
struct dsf_united_args {
    struct dsf_chunk_args at;
    int64_t before, all, fresh_at;
    int64_t by_tensor; /* 1: chunks are tensors */
    double beta1, beta2;
};

/* grad_at is of `fresh`. */
struct dsf_weigh_args {
    struct dsf_update_args of;
    int64_t v_at; /* in v, which may be whole where `fresh` is cut */
};

struct dsf_factor_args {
    double least, most, threshold;
    int32_t n, width; /* tensors of the unit; numbers for each block */
};

struct dsf_mean_args {
    double beta;
    int64_t n; /* tensors of the unit */
};

struct dsf_unite_args {
    int64_t n;        /* coded tensors of all units */
    int64_t ntensors; /* of this one, coded or not */
};

/* The chunk of the block that begins with number `at` of the unit, and the
 * number of its tensor; -1: it is not coded. */
int64_t dsf_united_chunk(const struct dsf_united_args *a, int64_t at,
                         int64_t *tensor);

#endif
