/* timeline.c - lists of spans and of lanes. */
#include "timeline/timeline.h"

#include "base/alloc.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void dsf_timeline_add(struct dsf_timeline *timeline,
                      const struct dsf_span *span)
{
    dsf_grow(&timeline->v, &timeline->cap, timeline->n + 1,
             sizeof(*timeline->v));
    timeline->v[timeline->n++] = *span;
}

void dsf_timeline_add_lane(struct dsf_timeline *timeline,
                           enum dsf_lane_kind kind, int rank, const char *fmt,
                           ...)
{
    struct dsf_lane *lane;
    va_list ap;

    timeline->lanes =
        dsf_xrealloc(timeline->lanes, timeline->nlanes + 1,
                     sizeof(*timeline->lanes));
    lane = &timeline->lanes[timeline->nlanes++];
    memset(lane, 0, sizeof(*lane));
    lane->kind = (uint8_t)kind;
    lane->rank = (int16_t)rank;
    va_start(ap, fmt);
    vsnprintf(lane->name, sizeof(lane->name), fmt, ap);
    va_end(ap);
    if (kind == DSF_LANE_WORKER)
        timeline->workers = timeline->nlanes;
}

static int by_start(const void *a, const void *b)
{
    const struct dsf_span *x = a, *y = b;

    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    if (x->lane != y->lane)
        return x->lane < y->lane ? -1 : 1;
    if (x->end != y->end)
        return x->end < y->end ? -1 : 1;
    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    return x->what < y->what ? -1 : x->what > y->what;
}

void dsf_timeline_sort(struct dsf_timeline *timeline)
{
    if (timeline->n > 1)
        qsort(timeline->v, timeline->n, sizeof(*timeline->v), by_start);
}

void dsf_timeline_fini(struct dsf_timeline *timeline)
{
    free(timeline->v);
    free(timeline->lanes);
    memset(timeline, 0, sizeof(*timeline));
}
