/* waits.c - why workers did nothing.
 *
 * A worker that is idle waits for the task that it runs next. Back from when
 * that began: while it was ready, its data was on the way (a transfer), or
 * nothing held it (the runtime). Before, it waited for the last of those that
 * it follows; where that one moves data, for the moving, and then for what that
 * one waited for. The parts of a gap are the gap. */
#include "explain/account.h"

#include "base/alloc.h"
#include "explain/account_private.h"
#include "timeline/cover.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct dsf_transfers {
    unsigned nlanes;
    uint32_t *first;      /* by data, and one more */
    uint32_t *v;          /* spans, in order of start */
    struct dsf_cover any; /* all of them */
    struct dsf_cover *own; /* [lanes]: what a worker copies itself */
    bool *copies;          /* [lanes]: is it one that does? */
};

/* A device does the copying to and from its memory, and nothing else meanwhile.
 */
static void find_copiers(struct dsf_transfers *t,
                         const struct dsf_timeline *timeline)
{
    t->own = dsf_xcalloc((size_t)timeline->nlanes + 1, sizeof(*t->own));
    t->copies = dsf_xcalloc((size_t)timeline->nlanes + 1, sizeof(*t->copies));
    for (unsigned l = 0; l < timeline->nlanes; l++)
        for (int end = 0; end < 2; end++)
            if (timeline->lanes[l].ends[end] > 0)
                t->copies[timeline->lanes[l].ends[end] - 1] = true;
}

static void add_own(struct dsf_transfers *t,
                    const struct dsf_timeline *timeline,
                    const struct dsf_span *span)
{
    const struct dsf_lane *link = &timeline->lanes[span->lane];

    for (int end = 0; end < 2; end++)
        if (link->ends[end] > 0)
            dsf_cover_add(&t->own[link->ends[end] - 1], span);
}

struct dsf_transfers *dsf_transfers_new(const struct dsf_trace *trace)
{
    uint32_t ndata = dsflow_graph_ndata(trace->graph);
    const struct dsf_timeline *timeline = &trace->timeline;
    struct dsf_transfers *t = dsf_xcalloc(1, sizeof(*t));

    t->nlanes = timeline->nlanes;
    find_copiers(t, timeline);
    t->first = dsf_xcalloc((size_t)ndata + 2, sizeof(*t->first));
    t->v = dsf_xcalloc(timeline->n + 1, sizeof(*t->v));
    for (size_t i = 0; i < timeline->n; i++)
        if (timeline->v[i].kind == DSF_SPAN_TRANSFER)
            t->first[timeline->v[i].what + 2]++;
    for (uint32_t d = 0; d < ndata; d++)
        t->first[d + 2] += t->first[d + 1];
    for (size_t i = 0; i < timeline->n; i++) {
        if (timeline->v[i].kind != DSF_SPAN_TRANSFER)
            continue;
        t->v[t->first[timeline->v[i].what + 1]++] = (uint32_t)i;
        dsf_cover_add(&t->any, &timeline->v[i]);
        add_own(t, timeline, &timeline->v[i]);
    }
    return t;
}

void dsf_transfers_free(struct dsf_transfers *t)
{
    for (unsigned l = 0; l < t->nlanes; l++)
        dsf_cover_fini(&t->own[l]);
    dsf_cover_fini(&t->any);
    free(t->own);
    free(t->copies);
    free(t->first);
    free(t->v);
    free(t);
}

/* The first transfer of a piece of data that starts at `when` or later. */
static uint32_t find_start(const struct dsf_transfers *t,
                           const struct dsf_trace *trace, uint32_t data,
                           double when)
{
    uint32_t low = t->first[data], high = t->first[data + 1];

    while (low < high) {
        uint32_t mid = low + (high - low) / 2;

        if (trace->timeline.v[t->v[mid]].start < when)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* When the last transfer of a task's data ends, in [from, to]. */
static double last_transfer(const struct dsf_transfers *t,
                            const struct dsf_trace *trace,
                            const struct dsf_span *task, double from, double to)
{
    const struct dsflow_task_spec *spec =
        dsflow_graph_task(trace->graph, (dsflow_task_id){ task->what });
    double last = from;

    for (unsigned p = 0; p < spec->ndata; p++) {
        uint32_t data = spec->data[p].i;

        for (uint32_t i = find_start(t, trace, data, to); i > t->first[data];
             i--) {
            double end = trace->timeline.v[t->v[i - 1]].end;

            if (end <= from)
                break;
            last = fmax(last, fmin(end, to));
        }
    }
    return last;
}

double dsf_transfers_seconds(const struct dsf_transfers *t,
                             const struct dsf_trace *trace,
                             const struct dsf_span *task, double from,
                             double to)
{
    if (t->any.n == 0 || to <= from)
        return 0;
    if (t->copies[task->lane])
        return dsf_cover_overlap(&t->own[task->lane], from, to);
    return dsf_cover_overlap(&t->any, from,
                             last_transfer(t, trace, task, from, to));
}

/* What a part of a gap is put down to. */
struct reason {
    enum dsf_cause cause;
    const struct dsf_span *on; /* the task waited for, or NULL */
    const struct dsf_edge *edge;
};

struct waits {
    struct dsf_account *a;
    struct dsf_transfers *transfers;
    double bubble;
};

static void add_wait(struct waits *w, int rank, const struct reason *why,
                     double seconds)
{
    struct dsf_account *a = w->a;
    struct dsf_wait x = { .rank = rank,
                          .cause = why->cause,
                          .from = DSFLOW_ANYWHERE,
                          .seconds = seconds };
    size_t i = 0;

    if (why->cause == DSF_CAUSE_SLOT) {
        const struct dsflow_data_spec *d = dsflow_graph_data(
            a->trace->graph, (dsflow_data_id){ why->edge->data });

        x.ring = d->ring != NULL;
        x.what = d->ring;
    }
    if (x.what == NULL && why->on != NULL)
        x.what = dsf_task_of(a, why->on)->op->name;
    if (why->on != NULL)
        x.from = dsf_rank_of(a, why->on);
    while (i < a->nwaits &&
           (a->waits[i].rank != x.rank || a->waits[i].cause != x.cause ||
            a->waits[i].what != x.what || a->waits[i].from != x.from))
        i++;
    if (i == a->nwaits) {
        dsf_grow(&a->waits, &a->cap_waits, a->nwaits + 1, sizeof(*a->waits));
        a->waits[a->nwaits++] = x;
        return;
    }
    a->waits[i].seconds += seconds;
}

static void put_down(struct waits *w, int rank, struct reason why,
                     double seconds)
{
    struct dsf_account *a = w->a;

    if (!(seconds > 0))
        return;
    a->ranks[rank].idle[why.cause] += seconds;
    if (why.on != NULL && dsf_account_stage(a, dsf_rank_of(a, why.on)) !=
                              dsf_account_stage(a, rank))
        w->bubble += seconds;
    add_wait(w, rank, &why, seconds);
}

static struct reason reason_of(const struct waits *w, int rank,
                               const struct dsf_blocker *b)
{
    struct reason why = { DSF_CAUSE_DATA, b->span, b->edge };

    if (b->edge->slot)
        why.cause = DSF_CAUSE_SLOT;
    else if (dsf_rank_of(w->a, b->span) != rank)
        why.cause = DSF_CAUSE_RANK;
    return why;
}

/* Does a task nothing but wait for others? */
static bool only_waits(const struct waits *w, const struct dsf_span *span)
{
    const struct dsf_trace_task *t = &w->a->trace->tasks[span->what];

    return t->flops == 0 && t->bytes == 0;
}

/* [from, to]: it waited for the task of `b`, which ended at `to` or later. */
static void blame(struct waits *w, int rank, struct dsf_blocker b, double from,
                  double to)
{
    while (to > from) {
        struct reason moving = { DSF_CAUSE_TRANSFER, b.span, b.edge };
        struct dsf_blocker before = dsf_blocker_of(w->a, b.span);
        double begun, ready;

        if (before.span != NULL && only_waits(w, b.span)) {
            b = before;
            continue;
        }
        if (!dsf_moves(w->a, b.span)) {
            put_down(w, rank, reason_of(w, rank, &b), to - from);
            return;
        }
        begun = fmax(from, fmin(to, b.span->start));
        put_down(w, rank, moving, to - begun);
        to = begun;
        b = before;
        ready = b.span == NULL ? from : fmax(from, fmin(to, b.span->end));
        /* It waited for the link, or the worker, that was to do it. */
        put_down(w, rank, moving, to - ready);
        to = ready;
    }
}

/* A worker was idle in [from, to], then ran `next`. */
static void explain(struct waits *w, const struct dsf_span *next, double from,
                    double to)
{
    int rank = dsf_rank_of(w->a, next);
    struct dsf_blocker b = { NULL, NULL };
    struct reason why = { DSF_CAUSE_TRANSFER, NULL, NULL };
    double ready = from, moving;

    if (dsf_task_of(w->a, next)->program == DSFLOW_STEP)
        b = dsf_blocker_of(w->a, next);
    if (b.span != NULL)
        ready = fmax(from, fmin(to, b.span->end));
    moving = dsf_transfers_seconds(w->transfers, w->a->trace, next, ready, to);
    put_down(w, rank, why, moving);
    why.cause = DSF_CAUSE_RUNTIME;
    put_down(w, rank, why, to - ready - moving);
    if (ready > from)
        blame(w, rank, b, from, ready);
}

/* The first rank whose worker a lane is: for time that no task ends. */
static int rank_of_lane(const struct dsf_account *a, unsigned lane)
{
    int rank = a->trace->timeline.lanes[lane].rank;

    return rank >= 0 && (unsigned)rank < a->nranks ? rank : 0;
}

static void explain_lane(struct waits *w, unsigned lane)
{
    const struct dsf_executed *s = &w->a->steps;
    struct reason none = { DSF_CAUSE_END, NULL, NULL };
    double at = s->start;

    for (uint32_t i = 0; i < s->nlane[lane] && at < s->end; i++) {
        const struct dsf_span *span =
            &w->a->trace->timeline.v[s->lane[lane][i]];

        if (span->end <= at && span->start < at)
            continue;
        if (span->start > at)
            explain(w, span, at, fmin(span->start, s->end));
        at = fmax(at, span->end);
    }
    if (at < s->end)
        put_down(w, rank_of_lane(w->a, lane), none, s->end - at);
}

static void add_delay(struct dsf_account *a, const char *ring, int rank,
                      double seconds)
{
    size_t i = 0;

    while (i < a->nrings &&
           (a->rings[i].ring != ring || a->rings[i].rank != rank))
        i++;
    if (i == a->nrings) {
        dsf_grow(&a->rings, &a->cap_rings, a->nrings + 1, sizeof(*a->rings));
        a->rings[a->nrings++] =
            (struct dsf_ring_delay){ .ring = ring, .rank = rank };
    }
    a->rings[i].tasks++;
    a->rings[i].seconds += seconds;
}

/* How long was a slot the only thing that a task waited for? */
static void find_delay(struct dsf_account *a, const struct dsf_span *span)
{
    double data = 0, slot = 0;
    const char *ring = NULL;
    uint32_t i = a->edges.first[span->what];

    for (; i < a->edges.first[span->what + 1]; i++) {
        const struct dsf_edge *e = &a->edges.v[i];
        const struct dsf_span *s = dsf_executed_span(
            &a->steps, a->trace, e->task, (int64_t)span->step - e->before);

        if (s == NULL)
            continue;
        if (!e->slot) {
            data = fmax(data, s->end);
        } else if (s->end > slot) {
            slot = s->end;
            ring =
                dsflow_graph_data(a->trace->graph, (dsflow_data_id){ e->data })
                    ->ring;
        }
    }
    if (ring != NULL && slot > data)
        add_delay(a, ring, dsf_rank_of(a, span), slot - data);
}

/* Ready, and its worker had another. */
static void find_queued(struct dsf_account *a, const struct dsf_span *span)
{
    const struct dsf_span *before =
        dsf_executed_before(&a->steps, a->trace, span);
    struct dsf_blocker b = dsf_blocker_of(a, span);

    if (b.span == NULL || before == NULL || before->end <= b.span->end ||
        a->trace->timeline.lanes[span->lane].kind != DSF_LANE_WORKER)
        return;
    a->queued += before->end - b.span->end;
    a->nqueued++;
}

static int longer(const void *x, const void *y)
{
    const struct dsf_wait *a = x, *b = y;

    if (a->seconds != b->seconds)
        return a->seconds > b->seconds ? -1 : 1;
    return a->rank != b->rank ? (a->rank < b->rank ? -1 : 1)
                              : (int)a->cause - (int)b->cause;
}

static int later(const void *x, const void *y)
{
    const struct dsf_ring_delay *a = x, *b = y;

    if (a->seconds != b->seconds)
        return a->seconds > b->seconds ? -1 : 1;
    return a->rank < b->rank ? -1 : a->rank > b->rank;
}

void dsf_account_waits(struct dsf_account *a)
{
    struct waits w = { .a = a, .transfers = dsf_transfers_new(a->trace) };
    const struct dsf_executed *s = &a->steps;

    for (unsigned l = 0; l < a->trace->timeline.workers; l++)
        explain_lane(&w, l);
    for (uint32_t n = s->from; n < s->to; n++)
        for (uint32_t i = 0; i < s->ntasks; i++) {
            const struct dsf_span *span = dsf_executed_span(s, a->trace, i, n);

            if (span == NULL)
                continue;
            find_delay(a, span);
            find_queued(a, span);
        }
    if (a->seconds > 0)
        a->bubble = w.bubble / (a->seconds * a->trace->timeline.workers);
    if (a->nwaits > 1)
        qsort(a->waits, a->nwaits, sizeof(*a->waits), longer);
    if (a->nrings > 1)
        qsort(a->rings, a->nrings, sizeof(*a->rings), later);
    dsf_transfers_free(w.transfers);
}
