/* try_codelet.h - a codelet on random cases, beside a reference. */
#ifndef DSF_VERIFY_TRY_CODELET_H
#define DSF_VERIFY_TRY_CODELET_H

#include "verify/child.h"
#include "verify/try_case.h"

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
    bool on_gpu; /* cpu carries the call to a GPU (try_cuda.h); it is not timed */
    /* Of a reference: */
    const char *who; /* in messages; NULL: "its reference " */
    bool same_bits;  /* it is held against those, of the same narrow numbers */
};

/* How far numbers may be from a reference's, relative to their size. */
#define DSF_TRY_FP32 1e-4 /* where trials have no tolerance of their own */
#define DSF_TRY_BF16 0x1p-5
#define DSF_TRY_FP16 0x1p-8

/* What these do ends the child (child.h) when something is wrong. */

/* Try it on one case in every way: twice, with other garbage, at another
 * address, and beside `reference` (its cpu is NULL: there is none). */
void dsf_case_try(const struct dsf_case *c, const struct dsf_computes *codelet,
                  const struct dsf_computes *reference);

/* Both at the same time, again and again, on two threads: what a codelet keeps
 * of one would be found in the other. */
void dsf_case_try_beside(const struct dsf_case *c, const struct dsf_case *other,
                         const struct dsf_computes *what);

/* The median time of some calls. */
double dsf_case_time(const struct dsf_case *c, const struct dsf_computes *what);

/* What a run of it leaves in port `i`, on plain memory; freed by
 * dsf_port_left_free. */
struct dsf_port_left {
    void *v[DSFLOW_TRIAL_PORTS]; /* NULL: it only reads the port */
};
void dsf_case_run(const struct dsf_case *c, const struct dsf_computes *what,
                  struct dsf_port_left *left);
void dsf_port_left_free(struct dsf_port_left *left);

/* Try it on `how->cases` cases, and time it on the largest of them. What the
 * numbers of fp32, bf16 and fp16 may be apart: dsf_try_words. */
void dsf_try_codelet(const struct dsf_computes *codelet,
                     const struct dsf_computes *reference,
                     const struct dsflow_trials *trials,
                     const struct dsf_verify_options *how,
                     struct dsf_verdict *verdict);

#endif
