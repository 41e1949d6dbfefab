/* asked.c - a graph of which only some tasks are made. */
#include "graph/asked.h"

#include "base/alloc.h"
#include "graph/graph_private.h"

#include <stdlib.h>

void dsf_asked_set(struct dsflow_graph *g, struct dsf_asked *asked)
{
    g->asked = asked;
}

void dsf_asked_follow(struct dsflow_graph *g, uint32_t i)
{
    if (g->asked != NULL)
        g->asked->leaves_out = !g->asked->tasks[i];
}

static void miss(struct dsf_asked *a, uint32_t task, uint32_t port)
{
    dsf_grow(&a->missing, &a->cap_missing, a->nmissing + 1,
             sizeof(*a->missing));
    a->missing[a->nmissing++] = (struct dsf_asked_port){ task, port, task };
}

/* By tasks that were left out, and by some that are there. */
enum { UNUSED, USED_ELSEWHERE, USED };

static inline void use(struct dsf_asked *a, dsflow_data_id id)
{
    if (a->used[id.i] == UNUSED) {
        dsf_grow(&a->order, &a->cap_order, a->norder + 1, sizeof(*a->order));
        a->order[a->norder++] = id;
        a->used[id.i] = USED_ELSEWHERE;
    }
    if (!a->leaves_out)
        a->used[id.i] = USED;
}

const dsflow_data_id *dsf_asked_used(const struct dsflow_graph *g, uint32_t *at)
{
    const struct dsf_asked *a = g->asked;

    while (a != NULL && *at < a->norder) {
        const dsflow_data_id *id = &a->order[(*at)++];

        if (a->used[id->i] == USED)
            return id;
    }
    return NULL;
}

static int32_t lane_of(const struct dsf_asked *a, int32_t microbatch)
{
    return microbatch < 0 ? a->nlanes - 1 : a->lanes[microbatch];
}

/* What says of each piece of data how it was used. */
static inline void reach(struct dsflow_graph *g)
{
    struct dsf_asked *a = g->asked;

    if (a->reach == g->ndata)
        return;
    a->reach = g->ndata;
    dsf_grow(&a->gone, &a->cap_gone, (size_t)g->ndata * (size_t)a->nlanes,
             sizeof(*a->gone));
    dsf_grow(&a->used, &a->cap_used, g->ndata, sizeof(*a->used));
}

/* By lane, whether who wrote it is left out. */
static uint8_t *gone_of(struct dsf_asked *a, dsflow_data_id id)
{
    return &a->gone[(size_t)id.i * (size_t)a->nlanes];
}

bool dsf_asked_add(struct dsflow_graph *g, const struct dsflow_task_spec *t)
{
    struct dsf_asked *a = g->asked;
    const int32_t all = a->nlanes - 1, lane = lane_of(a, t->microbatch);

    reach(g);
    for (unsigned i = 0; i < t->ndata; i++) {
        uint8_t *gone = gone_of(a, t->data[i]);

        if (dsflow_task_access(t, i) == DSFLOW_W)
            gone[lane] = gone[all] = a->leaves_out;
        else if (gone[lane] && !a->leaves_out)
            miss(a, g->ntasks, i);
        use(a, t->data[i]);
    }
    return a->leaves_out;
}

bool dsf_asked_leaves_out(const struct dsflow_graph *g)
{
    return g->asked != NULL && g->asked->leaves_out;
}

void dsf_asked_pass(struct dsflow_graph *g, int32_t microbatch,
                    dsflow_data_id id, bool anew)
{
    struct dsf_asked *a = g->asked;

    reach(g);
    if (anew) {
        uint8_t *gone = gone_of(a, id);

        gone[lane_of(a, microbatch)] = gone[a->nlanes - 1] = true;
    }
    use(a, id);
}

bool dsf_asked_misses(struct dsflow_graph *g, uint32_t task, unsigned i)
{
    struct dsf_asked *a = g->asked;

    while (a != NULL && a->at < a->nmissing &&
           (a->missing[a->at].task < task ||
            (a->missing[a->at].task == task && a->missing[a->at].port < i)))
        a->at++;
    return a != NULL && a->at < a->nmissing && a->missing[a->at].task == task &&
           a->missing[a->at].port == i;
}

void dsf_asked_moved(const struct dsflow_graph *in,
                     const struct dsflow_graph *out, uint32_t i)
{
    struct dsf_asked *a = in->asked;

    for (; a != NULL && a->nmoved < a->nmissing &&
           a->missing[a->nmoved].task == i;
         a->nmoved++)
        a->missing[a->nmoved].moved = out->ntasks - 1;
}

void dsf_asked_go_on(struct dsflow_graph *in, struct dsflow_graph *out)
{
    struct dsf_asked *a = out->asked = in->asked;

    for (size_t i = 0; a != NULL && i < a->nmissing; i++)
        a->missing[i].task = a->missing[i].moved;
    if (a != NULL)
        a->at = a->nmoved = 0;
}

void dsf_asked_fini(struct dsf_asked *asked)
{
    free(asked->tasks);
    free(asked->lanes);
    free(asked->gone);
    free(asked->missing);
    free(asked->used);
    free(asked->order);
    *asked = (struct dsf_asked){ .tasks = NULL };
}
