/* preds.c - what each task of a graph waits for in its own step: each task
 * once, in order. */
#include "graph/edges.h"
#include "graph/graph_private.h"

#include "base/alloc.h"

#include <assert.h>
#include <stdlib.h>

static int ascending(const void *a, const void *b)
{
    uint32_t x = ((const dsflow_task_id *)a)->i;
    uint32_t y = ((const dsflow_task_id *)b)->i;

    return (x > y) - (x < y);
}

/* The predecessors of task `i`, behind those of the tasks before it. `seen`, by
 * task: the last one it precedes, + 1. */
static void add_preds(struct dsflow_graph *g, uint32_t i, uint32_t first,
                      const struct dsf_edge *edges, uint32_t nedges,
                      uint32_t *seen)
{
    dsflow_task_id *v = g->preds + g->first_pred[i];
    uint32_t n = 0;
    bool sorted = true;

    for (uint32_t k = 0; k < nedges; k++) {
        uint32_t pred = first + edges[k].task;

        if (seen[pred] == i + 1)
            continue;
        seen[pred] = i + 1;
        sorted = sorted && (n == 0 || v[n - 1].i < pred);
        v[n++].i = pred;
    }
    if (!sorted)
        qsort(v, n, sizeof(*v), ascending);
    g->first_pred[i + 1] = g->first_pred[i] + n;
}

/* An edge needs a port that writes or reads at its end, and each reader is
 * waited for once. */
static size_t most_edges(const struct dsflow_graph *g)
{
    size_t ports = 0;

    for (uint32_t i = 0; i < g->ntasks; i++)
        ports += dsf_task_at(g, i)->ndata;
    return 2 * ports;
}

static uint32_t end_of_program(const struct dsflow_graph *g, uint32_t first)
{
    uint32_t end = first + 1;

    while (end < g->ntasks &&
           dsf_task_at(g, end)->program == dsf_task_at(g, first)->program)
        end++;
    return end;
}

static void find_preds(struct dsflow_graph *g)
{
    uint32_t *seen = dsf_xcalloc(g->ntasks + 1, sizeof(*seen));

    g->preds = dsf_xrealloc(NULL, most_edges(g) + 1, sizeof(*g->preds));
    g->first_pred = dsf_xcalloc(g->ntasks + 1, sizeof(*g->first_pred));
    /* Each program starts with everything settled. */
    for (uint32_t first = 0, end; first < g->ntasks; first = end) {
        const struct dsf_edge *edges;
        struct dsf_walk w;

        end = end_of_program(g, first);
        dsf_walk_begin(&w, g, first, end - first, DSF_EDGES_WITHIN);
        for (uint32_t i = first; i < end; i++) {
            uint32_t n = dsf_walk_next(&w, i - first, &edges);

            add_preds(g, i, first, edges, n, seen);
        }
        dsf_walk_end(&w);
    }
    g->preds = dsf_xrealloc(g->preds, g->first_pred[g->ntasks] + (size_t)1,
                            sizeof(*g->preds));
    free(seen);
}

void dsf_forget_edges(struct dsflow_graph *g)
{
    free(g->first_pred);
    free(g->preds);
    g->first_pred = NULL;
    g->preds = NULL;
}

uint32_t dsflow_graph_preds(struct dsflow_graph *g, dsflow_task_id id,
                            const dsflow_task_id **list)
{
    assert(id.i < g->ntasks);
    if (g->first_pred == NULL)
        find_preds(g);
    *list = g->preds + g->first_pred[id.i];
    return g->first_pred[id.i + 1] - g->first_pred[id.i];
}
