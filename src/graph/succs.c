/* succs.c - edges the other way round, and those from a step to the next. */
#include "graph/succs.h"

#include "base/alloc.h"

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

/* How a step leaves a piece of data: its last writer, and who read it since. */
struct tail {
    uint32_t writer;  /* + 1 */
    uint32_t readers; /* + 1, into a pool of linked lists */
    uint8_t
        written; /* in the next step, so far: as often as it was looked at */
};

struct reader {
    uint32_t task, next; /* next + 1 */
};

static void drop(struct reader *pool, uint32_t *unused, uint32_t *list)
{
    while (*list != 0) {
        uint32_t r = *list;

        *list = pool[r - 1].next;
        pool[r - 1].next = *unused;
        *unused = r;
    }
}

static void find_tails(struct tail *tails, struct reader **pool,
                       const struct dsflow_graph *g, uint32_t first,
                       uint32_t ntasks)
{
    size_t n = 0, cap = 0;
    uint32_t unused = 0; /* + 1: a list of readers that nobody waits for */

    for (uint32_t i = 0; i < ntasks; i++) {
        const struct dsflow_task_spec *t =
            dsflow_graph_task(g, (dsflow_task_id){ first + i });

        for (unsigned p = 0; p < t->ndata; p++) {
            struct tail *tail = &tails[t->data[p].i];
            uint32_t r;

            if (dsflow_task_access(t, p) & DSFLOW_W) {
                tail->writer = i + 1;
                drop(*pool, &unused, &tail->readers);
                continue;
            }
            r = unused;
            if (r != 0) {
                unused = (*pool)[r - 1].next;
            } else {
                dsf_grow(pool, &cap, n + 1, sizeof(**pool));
                r = (uint32_t)++n;
            }
            (*pool)[r - 1] = (struct reader){ i, tail->readers };
            tail->readers = r;
        }
    }
}

/* The last writer of a step precedes the next step's readers up to its first
 * writer, which the last readers precede. What no task writes makes no edge.
 * `round` is 1, then 2. */
static void across(struct edges *e, const struct dsflow_graph *g,
                   uint32_t first, uint32_t ntasks, struct tail *tails,
                   const struct reader *pool, uint8_t round)
{
    for (uint32_t i = 0; i < ntasks; i++) {
        const struct dsflow_task_spec *t =
            dsflow_graph_task(g, (dsflow_task_id){ first + i });

        for (unsigned p = 0; p < t->ndata; p++) {
            struct tail *tail = &tails[t->data[p].i];

            if (tail->written == round || tail->writer == 0)
                continue;
            if (dsflow_task_access(t, p) & DSFLOW_W) {
                tail->written = round;
                for (uint32_t r = tail->readers; r != 0; r = pool[r - 1].next)
                    add(e, pool[r - 1].task, i);
            }
            add(e, tail->writer - 1, i);
        }
    }
}

static void find_across(struct edges *e, const struct dsflow_graph *g,
                        uint32_t first, uint32_t ntasks)
{
    struct tail *tails =
        dsf_xcalloc((size_t)dsflow_graph_ndata(g) + 1, sizeof(*tails));
    struct reader *pool = NULL;

    find_tails(tails, &pool, g, first, ntasks);
    begin(e, ntasks);
    across(e, g, first, ntasks, tails, pool, 1);
    make_room(e, ntasks);
    across(e, g, first, ntasks, tails, pool, 2);
    free(tails);
    free(pool);
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
