/* arrows.c - what is seen of each piece of data, span by span. */
#include "trace/arrows.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

/* Of a piece of data, up to a span. */
struct seen {
    uint32_t writer; /* span that wrote it last, or NONE */
    uint32_t moved;  /* span that moves it, and whose arrow is to be drawn */
};

static void add_arrow(struct dsf_arrows *arrows, const struct dsf_span *v,
                      uint32_t from, uint32_t to)
{
    const struct dsf_span *a = &v[from], *b = &v[to];

    /* Not within a lane; not from what did not end as clocks have it. */
    if (a->lane == b->lane || a->end > b->start || a->step != b->step)
        return;
    dsf_grow(&arrows->v, &arrows->cap, arrows->n + 1, sizeof(*arrows->v));
    dsf_grow(&arrows->also, &arrows->cap_also, arrows->n + 1,
             sizeof(*arrows->also));
    arrows->v[arrows->n] = (struct dsf_arrow){ from, to };
    arrows->also[arrows->n] = arrows->leaves[from];
    arrows->leaves[from] = arrows->n++;
}

/* Moves data from one place to another. What gathers or sums takes from many,
 * and its arrows would be a veil over everything. */
static bool is_sent(const struct dsflow_task_spec *t)
{
    return t->op->swaps || (t->op->comm && !t->op->repeats);
}

/* The last that wrote what a task takes from other ranks, or memories. */
static uint32_t source_of(const struct dsf_trace *trace,
                          const struct seen *seen,
                          const struct dsflow_task_spec *t)
{
    const struct dsf_span *v = trace->timeline.v;
    uint32_t last = NONE;

    for (unsigned p = 0; p < t->ndata; p++) {
        uint32_t writer = seen[t->data[p].i].writer;
        const struct dsflow_data_spec *d =
            dsflow_graph_data(trace->graph, t->data[p]);

        if ((dsflow_task_access(t, p) & DSFLOW_R) && writer != NONE &&
            (d->home != t->rank || t->op->swaps) &&
            (last == NONE || v[writer].end > v[last].end))
            last = writer;
    }
    return last;
}

void dsf_arrows_init(struct dsf_arrows *a, const struct dsf_trace *trace)
{
    const struct dsf_span *v = trace->timeline.v;
    const size_t n = trace->timeline.n;
    const uint32_t ndata = dsflow_graph_ndata(trace->graph);
    struct seen *seen = dsf_xcalloc((size_t)ndata + 1, sizeof(*seen));

    *a = (struct dsf_arrows){ .v = NULL };
    a->leaves = dsf_xcalloc(n + 1, sizeof(*a->leaves));
    memset(a->leaves, 0xff, n * sizeof(*a->leaves));
    memset(seen, 0xff, ndata * sizeof(*seen));
    for (uint32_t i = 0; i < n; i++) {
        const struct dsf_span *s = &v[i];
        const struct dsflow_task_spec *t;
        uint32_t source;

        if (s->kind == DSF_SPAN_TRANSFER) {
            struct seen *d = &seen[s->what];

            if (d->writer != NONE)
                add_arrow(a, v, d->writer, i);
            d->moved = i;
            continue;
        }
        t = dsflow_graph_task(trace->graph, (dsflow_task_id){ s->what });
        source = is_sent(t) ? source_of(trace, seen, t) : NONE;
        if (source != NONE)
            add_arrow(a, v, source, i);
        for (unsigned p = 0; p < t->ndata; p++) {
            struct seen *d = &seen[t->data[p].i];
            bool writes = dsflow_task_access(t, p) & DSFLOW_W;

            if (d->moved != NONE && !t->op->comm &&
                (dsflow_task_access(t, p) & DSFLOW_R)) {
                add_arrow(a, v, d->moved, i);
                d->moved = NONE;
            }
            if (writes) {
                d->writer = i;
                d->moved = is_sent(t) ? i : NONE;
            }
        }
    }
    free(seen);
}

void dsf_arrows_fini(struct dsf_arrows *a)
{
    free(a->v);
    free(a->leaves);
    free(a->also);
}
