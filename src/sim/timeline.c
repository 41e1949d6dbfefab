/* timeline.c - a list of spans. */
#include "sim/timeline.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

void dsf_timeline_add(struct dsf_timeline *timeline,
                      const struct dsf_span *span)
{
    dsf_grow(&timeline->v, &timeline->cap, timeline->n + 1,
             sizeof(*timeline->v));
    timeline->v[timeline->n++] = *span;
}

void dsf_timeline_fini(struct dsf_timeline *timeline)
{
    free(timeline->v);
    memset(timeline, 0, sizeof(*timeline));
}
