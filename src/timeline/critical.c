/* critical.c - the critical path through the tasks of a step. */
#include "timeline/critical.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

/* The critical paths that end with each task of each step. */
struct paths {
    double *level;
    uint32_t *from;
};

static void extend(struct paths *w, uint32_t x, const uint32_t *list, uint32_t n,
                   uint32_t base)
{
    for (uint32_t k = 0; k < n; k++)
        if (w->level[x] > w->level[base + list[k]]) {
            w->level[base + list[k]] = w->level[x];
            w->from[base + list[k]] = x;
        }
}

double dsf_critical(const struct dsf_succs *edges, const double *cost,
                    uint32_t ntasks, unsigned step, uint32_t **path, uint32_t *n)
{
    uint32_t begin = step * ntasks, end = begin + ntasks, last = NONE;
    struct paths w = { dsf_xcalloc((size_t)end + 1, sizeof(*w.level)),
                      dsf_xcalloc((size_t)end + 1, sizeof(*w.from)) };
    double all = 0, before = 0;

    memset(w.from, 0xff, end * sizeof(*w.from));
    for (uint32_t x = 0; x < end; x++) {
        uint32_t base = x / ntasks * ntasks, next = base + ntasks, count;
        const uint32_t *list = dsf_succs(edges, x - base, &count);

        w.level[x] += cost[x - base];
        if (x < begin && w.level[x] > before)
            before = w.level[x];
        if (w.level[x] > all) {
            all = w.level[x];
            last = x;
        }
        extend(&w, x, list, count, base);
        if (next >= end)
            continue;
        list = dsf_succs_next(edges, x - base, &count);
        extend(&w, x, list, count, next);
    }
    if (path != NULL) {
        *n = 0;
        for (uint32_t x = last; x != NONE && x >= begin; x = w.from[x])
            (*n)++;
        *path = dsf_xcalloc((size_t)*n + 1, sizeof(**path));
        for (uint32_t x = last, i = *n; i > 0; x = w.from[x])
            (*path)[--i] = x % ntasks;
    }
    free(w.level);
    free(w.from);
    return all - before;
}
