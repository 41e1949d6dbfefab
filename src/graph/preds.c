/* preds.c - the edges of a graph: what each task waits for. They follow from
 * the order of the tasks and from how they use their data. */
#include "graph/graph_private.h"

#include "base/alloc.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Readers since the last write of a piece of data, as linked lists in one pool.
 */
struct reader {
    uint32_t task, next; /* both + 1, 0 is none */
};

struct readers {
    struct reader *v;
    size_t n, cap;
    uint32_t unused; /* + 1: a list of those that may be used again */
};

/* What was done last to a piece of data. */
struct trail {
    uint32_t writer;  /* + 1 */
    uint32_t readers; /* + 1, into the pool */
};

/* The predecessors of the task that is looked at. */
struct preds {
    dsflow_task_id *v;
    uint32_t n;
    uint32_t *of; /* by task: the last one it precedes, + 1 */
    bool sorted;
};

static void add_pred(struct preds *list, uint32_t pred, uint32_t task)
{
    if (list->of[pred] == task + 1)
        return;
    list->of[pred] = task + 1;
    list->sorted =
        list->sorted && (list->n == 0 || list->v[list->n - 1].i < pred);
    list->v[list->n++].i = pred;
}

static int ascending(const void *a, const void *b)
{
    uint32_t x = ((const dsflow_task_id *)a)->i;
    uint32_t y = ((const dsflow_task_id *)b)->i;

    return (x > y) - (x < y);
}

/* The edges into task `i`. */
static void find_preds(struct preds *list, const struct dsflow_task_spec *t,
                       uint32_t i, const struct trail *trails,
                       const struct readers *pool)
{
    list->n = 0;
    list->sorted = true;
    for (uint32_t p = 0; p < t->ndata; p++) {
        const struct trail *trail = &trails[t->data[p].i];
        bool writes = dsflow_task_access(t, p) & DSFLOW_W;

        for (uint32_t r = writes ? trail->readers : 0; r != 0;
             r = pool->v[r - 1].next)
            add_pred(list, pool->v[r - 1].task - 1, i);
        if (trail->writer != 0 && (!writes || trail->readers == 0))
            add_pred(list, trail->writer - 1, i);
    }
    if (!list->sorted)
        qsort(list->v, list->n, sizeof(*list->v), ascending);
}

static uint32_t new_reader(struct readers *pool, uint32_t task, uint32_t next)
{
    uint32_t r = pool->unused;

    if (r != 0) {
        pool->unused = pool->v[r - 1].next;
    } else {
        dsf_grow(&pool->v, &pool->cap, pool->n + 1, sizeof(*pool->v));
        r = (uint32_t)++pool->n;
    }
    pool->v[r - 1] = (struct reader){ task + 1, next };
    return r;
}

static void drop_readers(struct readers *pool, uint32_t list)
{
    while (list != 0) {
        uint32_t next = pool->v[list - 1].next;

        pool->v[list - 1].next = pool->unused;
        pool->unused = list;
        list = next;
    }
}

/* Task `i` has used its data. */
static void leave_trails(struct trail *trails, struct readers *pool,
                         const struct dsflow_task_spec *t, uint32_t i)
{
    for (uint32_t p = 0; p < t->ndata; p++) {
        struct trail *trail = &trails[t->data[p].i];

        if (dsflow_task_access(t, p) & DSFLOW_W) {
            drop_readers(pool, trail->readers);
            *trail = (struct trail){ i + 1, 0 };
        } else {
            trail->readers = new_reader(pool, i, trail->readers);
        }
    }
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

static void find_edges(struct dsflow_graph *g)
{
    struct trail *trails = dsf_xcalloc(g->ndata + 1, sizeof(*trails));
    struct preds list = { .of = dsf_xcalloc(g->ntasks + 1, sizeof(uint32_t)) };
    struct readers pool = { 0 };
    int program = -1;

    g->preds = dsf_xrealloc(NULL, most_edges(g) + 1, sizeof(*g->preds));
    g->first_pred = dsf_xcalloc(g->ntasks + 1, sizeof(*g->first_pred));
    for (uint32_t i = 0; i < g->ntasks; i++) {
        const struct dsflow_task_spec *t = dsf_task_at(g, i);

        if (t->program != program) { /* it starts with everything settled */
            memset(trails, 0, g->ndata * sizeof(*trails));
            pool.n = pool.unused = 0;
            program = t->program;
        }
        list.v = g->preds + g->first_pred[i];
        find_preds(&list, t, i, trails, &pool);
        leave_trails(trails, &pool, t, i);
        g->first_pred[i + 1] = g->first_pred[i] + list.n;
    }
    g->preds = dsf_xrealloc(g->preds, g->first_pred[g->ntasks] + (size_t)1,
                            sizeof(*g->preds));
    free(list.of);
    free(pool.v);
    free(trails);
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
        find_edges(g);
    *list = g->preds + g->first_pred[id.i];
    return g->first_pred[id.i + 1] - g->first_pred[id.i];
}
