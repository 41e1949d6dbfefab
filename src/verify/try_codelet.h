/* try_codelet.h - a codelet on random cases, beside a reference. */
#ifndef DSF_VERIFY_TRY_CODELET_H
#define DSF_VERIFY_TRY_CODELET_H

#include <dsflow/codelet.h>

#include "verify/child.h"

struct dsf_verify_options {
    uint64_t seed; /* of the first case */
    unsigned cases;
    double limit;            /* seconds of a call */
    const char **sets; /* keys of the small jobs: "muon.adam=0.2" */
    unsigned nsets;
};

/* What computes a kind of task. */
struct dsf_computes {
    const struct dsflow_op *op;
    dsflow_cpu_fn cpu;
};

/* A case: everything a call begins with. */
struct dsf_case {
    uint64_t seed;
    const struct dsflow_trials *trials;
    const struct dsflow_op *op; /* whose ports they are */
    unsigned n, fresh;
    struct dsflow_shape shapes[DSFLOW_TRIAL_PORTS];
    void *args;
    void *before[DSFLOW_TRIAL_PORTS]; /* contents; of W and fresh ones: none */
};

/* What these do ends the child (child.h) when something is wrong. */

/* The case of a seed: its shapes are accepted, its ports are filled. */
void dsf_case_make(struct dsf_case *c, const struct dsflow_op *op,
                   const struct dsflow_trials *trials, uint64_t seed);
void dsf_case_free(struct dsf_case *c);

/* The same, as the functions of `op` see it. */
struct dsflow_case dsf_case_of(const struct dsf_case *c,
                               const struct dsflow_op *op);

/* Numbers of a normal distribution, the same for the same seed and port: what a
 * port has that nobody fills. */
void dsf_case_fill(uint64_t seed, unsigned port, float *v, size_t n);

/* The shapes of a case and its seed, in words. */
void dsf_case_words(const struct dsf_case *c, char *to, size_t size);

/* Try it on one case in every way: twice, with other garbage, at another
 * address, and beside `reference` (its cpu is NULL: there is none). */
void dsf_case_try(const struct dsf_case *c, const struct dsf_computes *codelet,
                  const struct dsf_computes *reference);

/* What a call costs, as `op` says; and the median time of some calls. */
struct dsflow_cost dsf_case_cost(const struct dsf_case *c,
                                 const struct dsflow_op *op);
double dsf_case_time(const struct dsf_case *c, const struct dsf_computes *what);

/* What a run of it leaves in port `i`, on plain memory; freed by
 * dsf_left_free. */
struct dsf_left {
    void *v[DSFLOW_TRIAL_PORTS]; /* NULL: it only reads the port */
};
void dsf_case_run(const struct dsf_case *c, const struct dsf_computes *what,
                  struct dsf_left *left);
void dsf_left_free(struct dsf_left *left);

/* Try it on `how->cases` cases, and time it on the largest of them. */
void dsf_try_codelet(const struct dsf_computes *codelet,
                     const struct dsf_computes *reference,
                     const struct dsflow_trials *trials,
                     const struct dsf_verify_options *how, struct dsf_verdict *verdict);

#endif
