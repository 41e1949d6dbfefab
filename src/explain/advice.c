/* advice.c - changes that would make the steps of a trace shorter. */
#include "explain/advice.h"

#include <stdlib.h>
#include <string.h>

void dsf_advices_drop(struct dsf_advices *advices)
{
    struct dsf_advice *x = &advices->v[--advices->n];

    free(x->cause);
    free(x->key);
    free(x->from);
    free(x->to);
    free(x->also);
}

void dsf_advices_fini(struct dsf_advices *advices)
{
    while (advices->n > 0)
        dsf_advices_drop(advices);
    free(advices->v);
    free(advices->missing);
    free(advices->limit);
    memset(advices, 0, sizeof(*advices));
}
