/* hidden.c - how much of the moving of data goes on while its rank computes. */
#include "explain/account.h"

#include "base/alloc.h"
#include "explain/account_private.h"

#include <stdlib.h>
#include <string.h>

/* Times when anything computes: apart from each other, in order. */
struct interval {
    double start, end;
};
struct cover {
    struct interval *v;
    size_t n, cap;
};

/* Spans come in order of start. */
static void add(struct cover *c, const struct dsf_span *s)
{
    struct interval *last = c->n > 0 ? &c->v[c->n - 1] : NULL;

    if (last != NULL && s->start <= last->end) {
        if (s->end > last->end)
            last->end = s->end;
        return;
    }
    dsf_grow(&c->v, &c->cap, c->n + 1, sizeof(*c->v));
    c->v[c->n++] = (struct interval){ s->start, s->end };
}

static double overlap(const struct cover *c, double start, double end)
{
    size_t low = 0, high = c->n;
    double sum = 0;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (c->v[mid].end <= start)
            low = mid + 1;
        else
            high = mid;
    }
    for (; low < c->n && c->v[low].start < end; low++) {
        double from = c->v[low].start > start ? c->v[low].start : start;
        double to = c->v[low].end < end ? c->v[low].end : end;

        sum += to - from;
    }
    return sum;
}

static bool moves(const struct dsf_account *a, const struct dsf_span *s)
{
    return s->kind == DSF_SPAN_TRANSFER || dsf_task_of(a, s)->op->comm;
}

void dsf_account_hidden(struct dsf_account *a)
{
    const struct dsf_timeline *t = &a->trace->timeline;
    /* Of each rank, and of all: for what is of none. */
    struct cover *covers = dsf_xcalloc(a->nranks + 1, sizeof(*covers));

    for (size_t i = 0; i < t->n; i++)
        if (!moves(a, &t->v[i])) {
            add(&covers[dsf_rank_of(a, &t->v[i])], &t->v[i]);
            add(&covers[a->nranks], &t->v[i]);
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
        hidden =
            overlap(&covers[of_none ? a->nranks : (unsigned)dsf_rank_of(a, s)],
                    start, end);
        *(disk ? &a->io : &a->comm) += end - start;
        *(disk ? &a->io_hidden : &a->comm_hidden) += hidden;
    }
    for (unsigned r = 0; r <= a->nranks; r++)
        free(covers[r].v);
    free(covers);
}
