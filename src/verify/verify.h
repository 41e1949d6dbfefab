/* verify.h - try everything that a library brings, each in a process of its
 * own: codelets, schedules of the learning rate, policies. */
#ifndef DSF_VERIFY_VERIFY_H
#define DSF_VERIFY_VERIFY_H

#include "verify/try_codelet.h"

struct dsf_verified {
    const char *sort; /* "", "CUDA ", "schedule ", "policy " */
    const char *name;
    struct dsf_verdict verdict;
};

struct dsf_verify {
    const char *origin; /* a library that was loaded, or DSF_BUILTIN */
    const struct dsf_verify_options *how;
    const char *const *names; /* only these; none: all */
    unsigned nnames;
    bool *seen; /* by name: there is such a thing */
    bool on_gpu;  /* CUDA sides are tried, too: dsf_cuda_find found a GPU */
    bool untried; /* `each` is told what there is, and nothing is tried */
    void (*each)(void *user, const struct dsf_verified *v);
    void *user;
};

/* Has any of it a CUDA side? */
bool dsf_verify_has_cuda(const struct dsf_verify *v);

/* What is written to streams has been flushed, as in dsf_child_run. */
void dsf_verify(const struct dsf_verify *v);

#endif
