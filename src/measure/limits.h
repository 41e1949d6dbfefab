/* limits.h - the limits of this machine, measured a part at a time: products of
 * matrices, memory, copies between ranks, and how well the rates of tasks fit
 * their times. */
#ifndef DSF_MEASURE_LIMITS_H
#define DSF_MEASURE_LIMITS_H

#include "measure/measured.h"
#include "sim/rates.h"

/* What one core does in a second, and what each of all cores does while all of
 * them work: operations, or bytes. */
struct dsf_limit {
    const char *what; /* "forward", "copy"; borrowed for good */
    char size[48];    /* "256 x 768 x 768 fp32", "256 MiB" */
    struct dsf_measured one, all;
};

struct dsf_limits {
    unsigned cores;
    double patience; /* 1: as the command measures; less is less exact */
    void *user;
    void (*on_limit)(void *user, const struct dsf_limit *limit); /* or NULL */
};

/* Each puts what it found, with its scatter, into `m`. DSFLOW_EFAIL: figures
 * that no machine has; DSFLOW_ENOMEM. */

/* Products as a segment has them, in fp32 and bf16; the best one in fp32 counts.
 */
int dsf_limits_gemm(const struct dsf_limits *how, struct dsf_machine_model *m,
                    struct dsflow_err *err);
/* Reading, writing, updating and copying of more than caches hold; the last
 * counts. */
int dsf_limits_memory(const struct dsf_limits *how, struct dsf_machine_model *m,
                      struct dsflow_err *err);
/* Copies between ranks of one memory: what a link gives, should it be split. */
int dsf_limits_link(const struct dsf_limits *how, struct dsf_machine_model *m,
                    struct dsflow_err *err);

/* A kind of task as it was measured on all cores, beside its rate. */
struct dsf_kind_limit {
    const struct dsf_rate_sample *longest; /* of its samples; borrowed */
    double against_one; /* its time / that on one core alone; NAN: not known */
    double off, most_off; /* rate / samples - 1: of all, and of the worst one
                             that is long enough */
};

/* false: no sample is of this kind. */
bool dsf_limits_kind(const struct dsf_kind_rate *rate,
                     const struct dsf_samples *one,
                     const struct dsf_samples *all, struct dsf_kind_limit *out);

#endif
