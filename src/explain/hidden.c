/* hidden.c - how much of the moving of data goes on while its rank computes. */
#include "explain/account.h"

#include "base/alloc.h"
#include "explain/account_private.h"
#include "trace/cover.h"

#include <stdlib.h>
#include <string.h>

static bool moves(const struct dsf_account *a, const struct dsf_span *s)
{
    return s->kind == DSF_SPAN_TRANSFER || dsf_task_of(a, s)->op->comm;
}

void dsf_account_hidden(struct dsf_account *a)
{
    const struct dsf_timeline *t = &a->trace->timeline;
    /* Of each rank, and of all: for what is of none. */
    struct dsf_cover *covers = dsf_xcalloc(a->nranks + 1, sizeof(*covers));

    for (size_t i = 0; i < t->n; i++)
        if (!moves(a, &t->v[i])) {
            dsf_cover_add(&covers[dsf_rank_of(a, &t->v[i])], &t->v[i]);
            dsf_cover_add(&covers[a->nranks], &t->v[i]);
        }
    for (size_t i = 0; i < t->n; i++) {
        const struct dsf_span *s = &t->v[i];
        double start = s->start > a->steps.start ? s->start : a->steps.start;
        double end = s->end < a->steps.end ? s->end : a->steps.end;
        bool disk = t->lanes[s->lane].kind == DSF_LANE_DISK;
        bool of_none = s->kind == DSF_SPAN_TRANSFER && s->rank < 0;
        double hidden;

        if (!(end > start) || (!moves(a, s) && !disk))
            continue;
        hidden = dsf_cover_overlap(
            &covers[of_none ? a->nranks : (unsigned)dsf_rank_of(a, s)], start,
            end);
        *(disk ? &a->io : &a->comm) += end - start;
        *(disk ? &a->io_hidden : &a->comm_hidden) += hidden;
    }
    for (unsigned r = 0; r <= a->nranks; r++)
        dsf_cover_fini(&covers[r]);
    free(covers);
}
