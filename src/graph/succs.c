/* succs.c - edges the other way round, and those from a step to the next. */
#include "graph/succs.h"

#include "base/alloc.h"
#include "graph/edges.h"

#include <stdlib.h>
#include <string.h>

/* Edges by the task they come from. They are found twice: first counted, then
 * put where they go, as there may be millions. */
struct edges {
    uint32_t *first; /* by task, and two more while they are counted */
    uint32_t *v;     /* NULL: they are counted */
};

static void begin(struct edges *e, uint32_t ntasks)
{
    e->first = dsf_xcalloc((size_t)ntasks + 2, sizeof(*e->first));
    e->v = NULL;
}

static void add(struct edges *e, uint32_t from, uint32_t to)
{
    if (e->v == NULL)
        e->first[from + 2]++;
    else
        e->v[e->first[from + 1]++] = to;
}

/* All are counted. Putting them in moves first[i + 1] from the first of task i
 * to the first of the next. */
static void make_room(struct edges *e, uint32_t ntasks)
{
    for (uint32_t i = 0; i < ntasks; i++)
        e->first[i + 2] += e->first[i + 1];
    e->v = dsf_xrealloc(NULL, (size_t)e->first[ntasks + 1] + 1, sizeof(*e->v));
}

static void within(struct edges *e, struct dsflow_graph *g, uint32_t first,
                   uint32_t ntasks)
{
    for (uint32_t i = 0; i < ntasks; i++) {
        const dsflow_task_id *preds;
        uint32_t n =
            dsflow_graph_preds(g, (dsflow_task_id){ first + i }, &preds);

        for (uint32_t k = 0; k < n; k++)
            add(e, preds[k].i - first, i);
    }
}

static void across(struct edges *e, struct dsf_walk *w)
{
    for (uint32_t i = 0; i < w->ntasks; i++) {
        const struct dsf_edge *edges;
        uint32_t n = dsf_walk_next(w, i, &edges);

        for (uint32_t k = 0; k < n; k++)
            add(e, edges[k].task, i);
    }
}

static void find_across(struct edges *e, const struct dsflow_graph *g,
                        uint32_t first, uint32_t ntasks)
{
    struct dsf_walk w;

    dsf_walk_begin(&w, g, first, ntasks, DSF_EDGES_ACROSS);
    begin(e, ntasks);
    across(e, &w);
    make_room(e, ntasks);
    dsf_walk_again(&w);
    across(e, &w);
    dsf_walk_end(&w);
}

void dsf_succs_init(struct dsf_succs *s, struct dsflow_graph *g, uint32_t first,
                    uint32_t ntasks, bool next)
{
    struct edges e;

    memset(s, 0, sizeof(*s));
    begin(&e, ntasks);
    within(&e, g, first, ntasks);
    make_room(&e, ntasks);
    within(&e, g, first, ntasks);
    s->first = e.first;
    s->v = e.v;
    if (!next)
        return;
    find_across(&e, g, first, ntasks);
    s->first_next = e.first;
    s->v_next = e.v;
}

void dsf_succs_fini(struct dsf_succs *s)
{
    free(s->first);
    free(s->v);
    free(s->first_next);
    free(s->v_next);
    memset(s, 0, sizeof(*s));
}
