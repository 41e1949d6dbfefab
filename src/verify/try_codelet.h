/* try_codelet.h - a codelet on random cases, beside a reference. */
#ifndef DSF_VERIFY_TRY_CODELET_H
#define DSF_VERIFY_TRY_CODELET_H

#include "verify/case_run.h"
#include "verify/child.h"

struct dsf_verify_options {
    uint64_t seed; /* of the first case */
    unsigned cases;
    double limit;            /* seconds of a call */
    const char **sets; /* keys of the small jobs: "muon.adam=0.2" */
    unsigned nsets;
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

/* Try it on `how->cases` cases, and time it on the largest of them. What the
 * numbers of fp32, bf16 and fp16 may be apart: dsf_try_words. */
void dsf_try_codelet(const struct dsf_computes *codelet,
                     const struct dsf_computes *reference,
                     const struct dsflow_trials *trials,
                     const struct dsf_verify_options *how,
                     struct dsf_verdict *verdict);

#endif
