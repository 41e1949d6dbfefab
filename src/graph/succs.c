/* succs.c - edges the other way round, and those from a step to the next. */
#include "graph/succs.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

/* An edge of a list that is sorted by its first task later. */
struct edge {
    uint32_t from, to;
};

struct edges {
    struct edge *v;
    size_t n, cap;
};

static void add(struct edges *e, uint32_t from, uint32_t to)
{
    dsf_grow(&e->v, &e->cap, e->n + 1, sizeof(*e->v));
    e->v[e->n++] = (struct edge){ from, to };
}

/* Lists by first task; the order within a list is kept. */
static void index_edges(const struct edges *e, uint32_t ntasks,
                        uint32_t **first, uint32_t **v)
{
    uint32_t *at = dsf_xcalloc((size_t)ntasks + 2, sizeof(*at));

    *v = dsf_xcalloc(e->n + 1, sizeof(**v));
    for (size_t i = 0; i < e->n; i++)
        at[e->v[i].from + 2]++;
    for (uint32_t i = 0; i < ntasks; i++)
        at[i + 2] += at[i + 1];
    for (size_t i = 0; i < e->n; i++)
        (*v)[at[e->v[i].from + 1]++] = e->v[i].to;
    *first = at;
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

/* How a step leaves a piece of data: its last writer, and who read it since. */
struct tail {
    uint32_t writer;  /* + 1 */
    uint32_t readers; /* + 1, into a pool of linked lists */
    uint8_t written;  /* in the next step, so far */
};

struct reader {
    uint32_t task, next; /* next + 1 */
};

static void find_tails(struct tail *tails, struct reader **pool,
                       const struct dsflow_graph *g, uint32_t first,
                       uint32_t ntasks)
{
    size_t n = 0, cap = 0;

    for (uint32_t i = 0; i < ntasks; i++) {
        const struct dsflow_task_spec *t =
            dsflow_graph_task(g, (dsflow_task_id){ first + i });

        for (unsigned p = 0; p < t->ndata; p++) {
            struct tail *tail = &tails[t->data[p].i];

            if (dsflow_task_access(t, p) & DSFLOW_W) {
                tail->writer = i + 1;
                tail->readers = 0;
                continue;
            }
            dsf_grow(pool, &cap, n + 1, sizeof(**pool));
            (*pool)[n] = (struct reader){ i, tail->readers };
            tail->readers = (uint32_t)++n;
        }
    }
}

/* The last writer of a step precedes the next step's readers up to its first
 * writer, which the last readers precede. What no task writes makes no edge. */
static void across(struct edges *e, const struct dsflow_graph *g,
                   uint32_t first, uint32_t ntasks)
{
    struct tail *tails =
        dsf_xcalloc((size_t)dsflow_graph_ndata(g) + 1, sizeof(*tails));
    struct reader *pool = NULL;

    find_tails(tails, &pool, g, first, ntasks);
    for (uint32_t i = 0; i < ntasks; i++) {
        const struct dsflow_task_spec *t =
            dsflow_graph_task(g, (dsflow_task_id){ first + i });

        for (unsigned p = 0; p < t->ndata; p++) {
            struct tail *tail = &tails[t->data[p].i];

            if (tail->written || tail->writer == 0)
                continue;
            if (dsflow_task_access(t, p) & DSFLOW_W) {
                tail->written = 1;
                for (uint32_t r = tail->readers; r != 0; r = pool[r - 1].next)
                    add(e, pool[r - 1].task, i);
            }
            add(e, tail->writer - 1, i);
        }
    }
    free(tails);
    free(pool);
}

void dsf_succs_init(struct dsf_succs *s, struct dsflow_graph *g, uint32_t first,
                    uint32_t ntasks, bool next)
{
    struct edges e = { 0 };

    memset(s, 0, sizeof(*s));
    within(&e, g, first, ntasks);
    index_edges(&e, ntasks, &s->first, &s->v);
    if (next) {
        /* There may be millions, and fewer from a step to the next. */
        free(e.v);
        memset(&e, 0, sizeof(e));
        across(&e, g, first, ntasks);
        index_edges(&e, ntasks, &s->first_next, &s->v_next);
    }
    free(e.v);
}

void dsf_succs_fini(struct dsf_succs *s)
{
    free(s->first);
    free(s->v);
    free(s->first_next);
    free(s->v_next);
    memset(s, 0, sizeof(*s));
}
