/* edges.c - the edges of a program, found by walking over its tasks. */
#include "graph/edges.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

/* Readers since the last write of a piece of data, as linked lists in one pool.
 */
struct dsf_reader {
    uint32_t task, next; /* next: + 1, 0 is none */
};

/* What was done last to a piece of data. */
struct dsf_trail {
    uint32_t writer;  /* + 1 */
    uint32_t readers; /* + 1, into the pool: the last one first */
    uint32_t oldest;  /* of them, where there are any */
};

static struct dsf_trail *new_trails(const struct dsflow_graph *g)
{
    return dsf_xcalloc((size_t)dsflow_graph_ndata(g) + 1,
                       sizeof(struct dsf_trail));
}

static void drop_readers(struct dsf_walk *w, const struct dsf_trail *trail)
{
    if (trail->readers == 0)
        return;
    w->pool[trail->oldest - 1].next = w->unused;
    w->unused = trail->readers;
}

static void add_reader(struct dsf_walk *w, struct dsf_trail *trail,
                       uint32_t task)
{
    uint32_t r = w->unused;

    if (r != 0) {
        w->unused = w->pool[r - 1].next;
    } else {
        dsf_grow(&w->pool, &w->cap_pool, w->npool + 1, sizeof(*w->pool));
        r = (uint32_t)++w->npool;
    }
    w->pool[r - 1] = (struct dsf_reader){ task, trail->readers };
    if (trail->readers == 0)
        trail->oldest = r;
    trail->readers = r;
}

/* How a task uses its next piece of data, number `p`; `before` is how it used
 * the one before. Those that are behind its ports are used as the last port. */
static enum dsflow_access access_of(const struct dsflow_task_spec *t,
                                    uint32_t p, enum dsflow_access before)
{
    if (t->apart != 0 && dsflow_task_is_apart(t, p))
        return DSFLOW_R;
    if (p >= t->op->nports)
        return before;
    if (t->without == 0 && p < 32) /* as most tasks, and there are millions */
        return t->fresh >> p & 1 ? DSFLOW_W : t->op->ports[p].access;
    return dsflow_task_access(t, p);
}

/* Task `i` has used its data. */
static void use(struct dsf_walk *w, const struct dsflow_task_spec *t,
                uint32_t i)
{
    enum dsflow_access access = DSFLOW_R;

    for (uint32_t p = 0; p < t->ndata; p++) {
        struct dsf_trail *trail = &w->now[t->data[p].i];

        access = access_of(t, p, access);
        if (access & DSFLOW_W) {
            drop_readers(w, trail);
            *trail = (struct dsf_trail){ .writer = i + 1 };
        } else {
            add_reader(w, trail, i);
        }
    }
}

static const struct dsflow_task_spec *task(const struct dsf_walk *w, uint32_t i)
{
    return dsflow_graph_task(w->g, (dsflow_task_id){ w->first + i });
}

void dsf_walk_begin(struct dsf_walk *w, const struct dsflow_graph *g,
                    uint32_t first, uint32_t ntasks, unsigned which)
{
    *w = (struct dsf_walk){
        .g = g, .first = first, .ntasks = ntasks, .which = which
    };
    w->now = new_trails(g);
    if (!(which & DSF_EDGES_ACROSS))
        return;
    for (uint32_t i = 0; i < ntasks; i++)
        use(w, task(w, i), i);
    w->before = w->now;
    w->now = new_trails(g);
}

static void add(struct dsf_walk *w, struct dsf_edge edge)
{
    if (w->n == w->cap) /* they come by the hundred million */
        dsf_grow(&w->v, &w->cap, w->n + 1, sizeof(*w->v));
    w->v[w->n++] = edge;
}

/* Who writes waits for those who read since the last write, and they for that
 * one. */
static void wait_for(struct dsf_walk *w, const struct dsf_trail *trail,
                     dsflow_data_id data, enum dsflow_access access,
                     bool before)
{
    uint32_t r = access & DSFLOW_W ? trail->readers : 0;
    struct dsf_edge edge = {
        .task = trail->writer - 1,
        .data = data.i,
        .before = before,
        .slot = access == DSFLOW_W && /* what it reads too is no slot */
                !dsflow_graph_data(w->g, data)->persistent,
    };

    if (r == 0 && trail->writer != 0)
        add(w, edge);
    for (; r != 0; r = w->pool[r - 1].next) {
        edge.task = w->pool[r - 1].task;
        add(w, edge);
    }
}

uint32_t dsf_walk_next(struct dsf_walk *w, uint32_t i,
                       const struct dsf_edge **edges)
{
    const struct dsflow_task_spec *t = task(w, i);
    enum dsflow_access access = DSFLOW_R;
    bool within = w->which & DSF_EDGES_WITHIN;

    w->n = 0;
    for (uint32_t p = 0; p < t->ndata; p++) {
        struct dsf_trail *now = &w->now[t->data[p].i];
        const struct dsf_trail *before =
            w->before != NULL ? &w->before[t->data[p].i] : now;

        access = access_of(t, p, access);
        /* Up to the first write of a step, what the one before left is there;
         * what no task writes makes no edge. */
        if (now->writer == 0 && before->writer != 0)
            wait_for(w, before, t->data[p], access, true);
        if (within && (now->writer != 0 || now->readers != 0))
            wait_for(w, now, t->data[p], access, false);
        else if (!within && access & DSFLOW_W)
            now->writer = i + 1; /* nobody asks for its readers */
    }
    if (within)
        use(w, t, i);
    *edges = w->v;
    return (uint32_t)w->n;
}

void dsf_walk_again(struct dsf_walk *w)
{
    for (uint32_t d = 0; d < dsflow_graph_ndata(w->g); d++) {
        drop_readers(w, &w->now[d]);
        w->now[d] = (struct dsf_trail){ .writer = 0 };
    }
}

void dsf_walk_end(struct dsf_walk *w)
{
    free(w->now);
    free(w->before);
    free(w->pool);
    free(w->v);
    memset(w, 0, sizeof(*w));
}

void dsf_edges_init(struct dsf_edges *e, const struct dsflow_graph *g)
{
    uint32_t all = dsflow_graph_ntasks(g), first;
    uint32_t ntasks = dsflow_graph_program_tasks(g, DSFLOW_STEP, &first);
    const struct dsf_edge *edges;
    struct dsf_walk w;
    size_t n = 0, cap = 0;

    e->first = dsf_xcalloc((size_t)all + 2, sizeof(*e->first));
    e->v = NULL;
    dsf_walk_begin(&w, g, first, ntasks, DSF_EDGES_WITHIN | DSF_EDGES_ACROSS);
    for (uint32_t i = 0; i < all; i++) {
        bool has = i >= first && i - first < ntasks;
        uint32_t count = has ? dsf_walk_next(&w, i - first, &edges) : 0;

        dsf_grow(&e->v, &cap, n + count, sizeof(*e->v));
        for (uint32_t k = 0; k < count; k++) {
            e->v[n] = edges[k];
            e->v[n++].task += first;
        }
        e->first[i + 1] = (uint32_t)n;
    }
    dsf_walk_end(&w);
}

void dsf_edges_fini(struct dsf_edges *e)
{
    free(e->first);
    free(e->v);
    memset(e, 0, sizeof(*e));
}
