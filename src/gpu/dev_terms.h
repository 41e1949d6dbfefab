/* dev_terms.h - doubles that a task has on all of its ports but the first,
 * which come again: one behind the other, or those of a place on each. */
#ifndef DSF_GPU_DEV_TERMS_H
#define DSF_GPU_DEV_TERMS_H

#include "gpu/dev.h"

#include <dsflow/codelet.h>

namespace {

/* So many ports at most, as they are arguments of a kernel. */
enum { TERMS = 128 };
struct terms {
    const double *of[TERMS];
    int64_t end[TERMS]; /* of these, from the first on */
    int64_t n;

    /* One behind the other. */
    DEV double at(int64_t i) const
    {
        int p = 0;

        while (end[p] <= i)
            p++;
        return of[p][i - (p > 0 ? end[p - 1] : 0)];
    }
    int64_t elems() const
    {
        return n > 0 ? end[n - 1] : 0;
    }
};

/* Calls launch(terms, from, last) for some ports after the other, in front of
 * which there are `from` numbers; once where there are none. */
template <class F> void by_terms(const struct dsflow_call *call, F launch)
{
    int64_t from = 0;
    unsigned p = 1;

    do {
        terms some = {};

        for (; p < call->nbufs && some.n < TERMS; p++, some.n++) {
            some.of[some.n] = (const double *)call->bufs[p].ptr;
            some.end[some.n] = some.elems() + call->bufs[p].elems;
        }
        launch(some, from, p >= call->nbufs);
        from += some.elems();
    } while (p < call->nbufs);
}

} // namespace

#endif
