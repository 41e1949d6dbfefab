/* critical_path.c - the path that a step took: back from its end, from each
 * task to what it started after. */
#include "explain/account.h"

#include "base/alloc.h"
#include "explain/account_private.h"

#include <stdlib.h>

static void add_stretch(struct dsf_account *a, const struct dsf_span *span,
                        double seconds)
{
    const struct dsflow_task_spec *t = dsf_task_of(a, span);
    size_t i = 0;

    while (i < a->npath &&
           (a->path[i].op != t->op || a->path[i].layer != t->layer))
        i++;
    if (i == a->npath) {
        dsf_grow(&a->path, &a->cap_path, a->npath + 1, sizeof(*a->path));
        a->path[a->npath++] =
            (struct dsf_stretch){ .op = t->op, .layer = t->layer };
    }
    a->path[i].count++;
    a->path[i].seconds += seconds;
}

/* The last task of the step. */
static const struct dsf_span *find_end(const struct dsf_account *a)
{
    const struct dsf_span *last = NULL;

    for (uint32_t i = 0; i < a->steps.ntasks; i++) {
        const struct dsf_span *s =
            dsf_executed_span(&a->steps, a->trace, i, a->step);

        if (s != NULL && (last == NULL || s->end > last->end))
            last = s;
    }
    return last;
}

/* The lane of the other direction, where a disk does one or the other. */
static int other_way(const struct dsf_account *a, unsigned lane)
{
    const struct dsf_timeline *t = &a->trace->timeline;
    unsigned before = 0;

    if (t->lanes[lane].kind != DSF_LANE_DISK || a->trace->facts.duplex)
        return -1;
    for (unsigned l = 0; l < lane; l++)
        before += t->lanes[l].kind == DSF_LANE_DISK;
    if (before % 2 == 1)
        return (int)lane - 1;
    return lane + 1 < t->nlanes ? (int)lane + 1 : -1;
}

/* What had the worker, or the disk, before a span. */
static const struct dsf_span *find_on_lane(const struct dsf_account *a,
                                           const struct dsf_span *span)
{
    const struct dsf_span *last =
        dsf_executed_before(&a->steps, a->trace, span);
    int other = other_way(a, span->lane);
    const struct dsf_span *s =
        other < 0 ? NULL
                  : dsf_executed_until(&a->steps, a->trace, (unsigned)other,
                                       span->start);

    return s != NULL && (last == NULL || s->end > last->end) ? s : last;
}

/* What a task started after: the last of its predecessors, or what had its
 * worker before it. */
static const struct dsf_span *find_before(const struct dsf_account *a,
                                          const struct dsf_span *span)
{
    const struct dsf_span *lane = find_on_lane(a, span);
    struct dsf_blocker b = { NULL, NULL };

    if (span->kind == DSF_SPAN_TASK &&
        dsf_task_of(a, span)->program == DSFLOW_STEP)
        b = dsf_blocker_of(a, span);
    if (b.span == NULL || (lane != NULL && lane->end > b.span->end))
        return lane;
    return b.span;
}

static int longer(const void *x, const void *y)
{
    const struct dsf_stretch *a = x, *b = y;

    if (a->seconds != b->seconds)
        return a->seconds > b->seconds ? -1 : 1;
    return a->layer < b->layer ? -1 : a->layer > b->layer;
}

void dsf_account_path(struct dsf_account *a)
{
    struct dsf_transfers *transfers = dsf_transfers_new(a->trace);
    const struct dsf_executed *s = &a->steps;
    uint32_t step = a->step = s->middle;
    const struct dsf_span *x = find_end(a);
    double begun = a->trace->laps.v[step].begin;
    double at = a->trace->laps.v[step].end;

    a->path_seconds = at - begun;
    /* In a file that is damaged, spans of no length may go round in circles. */
    for (size_t n = 0; x != NULL && at > begun && n <= a->trace->timeline.n;
         n++) {
        const struct dsf_span *next = find_before(a, x);
        double start = x->start > begun ? x->start : begun;
        double end = next != NULL && next->end > begun ? next->end : begun;
        double moving = 0;

        if (start < at && x->kind == DSF_SPAN_TASK) {
            add_stretch(a, x, at - start);
            at = start;
        }
        if (at <= begun)
            break;
        if (end > at)
            end = at;
        if (next == NULL)
            a->path_gaps[DSF_CAUSE_END] += at - begun;
        if (next == NULL)
            break;
        if (x->kind == DSF_SPAN_TASK)
            moving = dsf_transfers_seconds(transfers, a->trace, x, end, at);
        a->path_gaps[DSF_CAUSE_TRANSFER] += moving;
        a->path_gaps[DSF_CAUSE_RUNTIME] += at - end - moving;
        at = end;
        x = next;
    }
    if (a->npath > 1)
        qsort(a->path, a->npath, sizeof(*a->path), longer);
    dsf_transfers_free(transfers);
}
