/* edges.c - what each task waits for in a step among steps, and why. */
#include "explain/edges.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

/* A task of this step or of the one before; 0 is none. */
struct use {
    uint32_t task; /* + 1 */
    bool before;
};

struct reader {
    struct use use;
    uint32_t next; /* + 1 */
};

struct trail {
    struct use writer;
    uint32_t readers; /* + 1, into the pool */
};

struct walk {
    const struct dsflow_graph *g;
    struct trail *trails; /* by data */
    struct reader *pool;
    size_t npool, cap_pool;
    struct dsf_edge *v;
    size_t n, cap;
};

static void add(struct walk *w, const struct use *use, uint32_t data, bool slot)
{
    dsf_grow(&w->v, &w->cap, w->n + 1, sizeof(*w->v));
    w->v[w->n++] = (struct dsf_edge){
        .task = use->task - 1, .data = data, .before = use->before, .slot = slot
    };
}

static void wait_for(struct walk *w, const struct dsflow_task_spec *t)
{
    for (unsigned p = 0; p < t->ndata; p++) {
        const struct trail *trail = &w->trails[t->data[p].i];
        enum dsflow_access access = dsflow_task_access(t, p);
        /* What a task reads as well is no slot that it takes. */
        bool slot = access == DSFLOW_W &&
                    !dsflow_graph_data(w->g, t->data[p])->persistent;

        if (access & DSFLOW_W)
            for (uint32_t r = trail->readers; r != 0; r = w->pool[r - 1].next)
                add(w, &w->pool[r - 1].use, t->data[p].i, slot);
        if (trail->writer.task != 0 &&
            (!(access & DSFLOW_W) || trail->readers == 0 || access & DSFLOW_R))
            add(w, &trail->writer, t->data[p].i, slot);
    }
}

static void use(struct walk *w, const struct dsflow_task_spec *t, uint32_t i,
                bool before)
{
    for (unsigned p = 0; p < t->ndata; p++) {
        struct trail *trail = &w->trails[t->data[p].i];
        struct use now = { i + 1, before };

        if (dsflow_task_access(t, p) & DSFLOW_W) {
            *trail = (struct trail){ now, 0 };
            continue;
        }
        dsf_grow(&w->pool, &w->cap_pool, w->npool + 1, sizeof(*w->pool));
        w->pool[w->npool] = (struct reader){ now, trail->readers };
        trail->readers = (uint32_t)++w->npool;
    }
}

/* The step twice over: the second time finds what the first one left. */
void dsf_edges_init(struct dsf_edges *e, const struct dsflow_graph *g)
{
    uint32_t n = dsflow_graph_ntasks(g);
    struct walk w = { .g = g };

    w.trails =
        dsf_xcalloc((size_t)dsflow_graph_ndata(g) + 1, sizeof(*w.trails));
    e->first = dsf_xcalloc((size_t)n + 2, sizeof(*e->first));
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < n; i++) {
            const struct dsflow_task_spec *t =
                dsflow_graph_task(g, (dsflow_task_id){ i });

            if (t->program == DSFLOW_STEP && pass == 1)
                wait_for(&w, t);
            if (t->program == DSFLOW_STEP)
                use(&w, t, i, pass == 0);
            e->first[i + 1] = (uint32_t)w.n;
        }
    e->v = w.v;
    free(w.trails);
    free(w.pool);
}

void dsf_edges_fini(struct dsf_edges *e)
{
    free(e->first);
    free(e->v);
    memset(e, 0, sizeof(*e));
}
