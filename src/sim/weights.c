/* weights.c - what a graph weighs: bytes, tasks and traffic, by rank. */
#include "sim/weights.h"

#include "base/alloc.h"
#include "graph/task.h"
#include "plan/division.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static unsigned owner(const struct dsf_weights *w, int rank)
{
    return rank >= 0 && (unsigned)rank < w->nranks ? (unsigned)rank : 0;
}

/* The position of a kind. Neighbours are often alike. */
static unsigned find_kind(struct dsf_weights *w, size_t *cap,
                          const struct dsflow_op *op)
{
    for (unsigned k = 0; k < w->nkinds; k++)
        if (w->kinds[k].op == op)
            return k;
    dsf_grow(&w->kinds, cap, w->nkinds + 1, sizeof(*w->kinds));
    w->kinds[w->nkinds].op = op;
    return w->nkinds++;
}

/* Whose tasks and data count. */
struct some {
    unsigned first, end;
};

static bool is_of(const struct dsf_weights *w, const struct some *some,
                  int rank)
{
    const unsigned r = owner(w, rank);

    return r >= some->first && r < some->end;
}

static void count_kinds(struct dsf_weights *w, const struct dsflow_graph *g,
                        const struct some *some)
{
    size_t cap = 0;

    for (uint32_t i = 0; i < dsflow_graph_ntasks(g); i++) {
        const struct dsflow_task_spec *t =
            dsflow_graph_task(g, (dsflow_task_id){ i });

        if (t->program == DSFLOW_STEP && is_of(w, some, t->rank))
            find_kind(w, &cap, t->op);
    }
}

/* What a swap moves, to and from the larger of its two memories. */
static void count_swap(struct dsf_rank_weight *rank,
                       const struct dsflow_graph *g,
                       const struct dsflow_task_spec *t)
{
    double bytes = (double)dsf_task_swapped(g, t);

    if (dsf_task_brings(g, t))
        rank->in[dsflow_graph_data(g, t->data[0])->tier] += bytes;
    else
        rank->out[dsflow_graph_data(g, t->data[1])->tier] += bytes;
}

static void count_tasks(struct dsf_weights *w, struct dsflow_graph *g,
                        const int32_t *node_of, const struct some *some)
{
    for (uint32_t i = 0; i < dsflow_graph_ntasks(g); i++) {
        const struct dsflow_task_spec *t =
            dsflow_graph_task(g, (dsflow_task_id){ i });
        struct dsf_rank_weight *rank = &w->ranks[owner(w, t->rank)];
        double flops, moved;
        size_t scratch;
        struct dsf_traffic traffic;
        const dsflow_task_id *preds;
        unsigned k;

        if (!is_of(w, some, t->rank))
            continue;
        scratch = dsf_task_scratch(g, t);
        if ((double)scratch > rank->scratch)
            rank->scratch = (double)scratch;
        if (t->program != DSFLOW_STEP)
            continue;
        k = find_kind(w, NULL, t->op);
        flops = dsf_task_cost(g, t).flops;
        traffic = dsf_traffic_of(g, t, node_of);
        moved = dsf_traffic_bytes(&traffic);
        if (t->op->swaps)
            count_swap(rank, g, t);
        rank->tasks[k]++;
        rank->moved[k] += moved;
        w->kinds[k].tasks++;
        w->kinds[k].flops += flops;
        w->kinds[k].moved += moved;
        dsf_traffic_add(&rank->traffic, &traffic);
        dsf_traffic_add(&w->kinds[k].traffic, &traffic);
        dsf_traffic_add(&w->traffic, &traffic);
        w->flops += flops;
        w->moved += moved;
        w->ntasks++;
        w->nedges += dsflow_graph_preds(g, (dsflow_task_id){ i }, &preds);
    }
}

/* Room for all kinds there are; `had`: for so many there was. */
static void make_room(struct dsf_weights *w, unsigned had)
{
    for (unsigned r = 0; r < w->nranks; r++) {
        struct dsf_rank_weight *rank = &w->ranks[r], was = *rank;
        const size_t n = (size_t)w->nkinds + 1;

        rank->tasks = dsf_xcalloc(n, sizeof(*rank->tasks));
        rank->moved = dsf_xcalloc(n, sizeof(*rank->moved));
        if (had > 0) {
            memcpy(rank->tasks, was.tasks, had * sizeof(*rank->tasks));
            memcpy(rank->moved, was.moved, had * sizeof(*rank->moved));
        }
        free(was.tasks);
        free(was.moved);
    }
}

void dsf_weights_init(struct dsf_weights *w, struct dsflow_graph *g,
                      unsigned nranks, const int32_t *node_of)
{
    dsf_weights_init_some(w, g, nranks, node_of, 0, nranks);
}

void dsf_weights_init_some(struct dsf_weights *w, struct dsflow_graph *g,
                           unsigned nranks, const int32_t *node_of,
                           unsigned first, unsigned end)
{
    const struct some some = { first, end };

    memset(w, 0, sizeof(*w));
    w->nranks = nranks;
    w->ranks = dsf_xcalloc(nranks, sizeof(*w->ranks));
    count_kinds(w, g, &some);
    make_room(w, 0);
    for (uint32_t i = 0; i < dsflow_graph_ndata(g); i++) {
        const struct dsflow_data_spec *d =
            dsflow_graph_data(g, (dsflow_data_id){ i });
        struct dsf_rank_weight *rank = &w->ranks[owner(w, d->home)];

        if (!is_of(w, &some, d->home))
            continue;
        w->ndata++;
        rank->tier_bytes[d->tier] += (double)d->bytes;
        rank->in_tier[d->tier][d->role] += (double)d->bytes;
        if (d->tier == DSFLOW_DEVICE)
            rank->role_bytes[d->role] += (double)d->bytes;
    }
    count_tasks(w, g, node_of, &some);
    for (unsigned r = 0; r < nranks; r++) {
        w->ranks[r].peak = w->ranks[r].scratch;
        for (int role = 0; role < DSFLOW_NROLES; role++)
            w->ranks[r].peak += w->ranks[r].role_bytes[role];
    }
}

static void set_scratch(struct dsf_rank_weight *rank, double bytes)
{
    rank->peak += bytes - rank->scratch;
    rank->scratch = bytes;
}

/* Every `workers`-th rank from `first` on has the same one, of which it is
 * given whole bytes. */
static void share_worker(struct dsf_weights *w, unsigned first, unsigned end,
                         unsigned workers)
{
    const unsigned sharing = (end - first + workers - 1) / workers;
    double most = 0;

    for (unsigned r = first; r < end; r += workers)
        if (w->ranks[r].scratch > most)
            most = w->ranks[r].scratch;
    for (unsigned r = first; r < end; r += workers)
        set_scratch(&w->ranks[r], ceil(most / sharing));
}

void dsf_weights_share_workers(struct dsf_weights *w, unsigned first,
                               unsigned end, unsigned workers)
{
    const unsigned n = end - first;

    for (unsigned i = 0; i < n && n <= workers; i++)
        set_scratch(&w->ranks[first + i],
                    w->ranks[first + i].scratch *
                        dsf_share_of_workers(workers, n, i));
    for (unsigned i = 0; i < workers && n > workers; i++)
        share_worker(w, first + i, end, workers);
}

void dsf_weights_place(struct dsf_weights *w, unsigned rank, double device,
                       double near, double beside)
{
    struct dsf_rank_weight *r = &w->ranks[rank];

    r->role_bytes[DSFLOW_BUFFERS] -= near;
    r->in_tier[DSFLOW_DEVICE][DSFLOW_BUFFERS] -= near;
    r->tier_bytes[DSFLOW_DEVICE] -= near;
    r->peak = device;
    r->scratch = device - r->tier_bytes[DSFLOW_DEVICE];
    r->beside = beside;
}

void dsf_weights_take(struct dsf_weights *w, unsigned rank,
                      const struct dsf_rank_weight *of)
{
    struct dsf_rank_weight *r = &w->ranks[rank], was = *r;

    *r = *of;
    memcpy(r->in, was.in, sizeof(r->in));
    memcpy(r->out, was.out, sizeof(r->out));
    r->tasks = was.tasks;
    r->moved = was.moved;
    r->traffic = was.traffic;
}

/* Where the kinds of `of` are in `w`, which gets those that it lacks. */
static unsigned *join_kinds(struct dsf_weights *w, const struct dsf_weights *of)
{
    unsigned *at = dsf_xcalloc((size_t)of->nkinds + 1, sizeof(*at));
    const unsigned had = w->nkinds;

    w->kinds =
        dsf_xrealloc(w->kinds, (size_t)had + of->nkinds + 1, sizeof(*w->kinds));
    for (unsigned k = 0; k < of->nkinds; k++) {
        while (at[k] < w->nkinds && w->kinds[at[k]].op != of->kinds[k].op)
            at[k]++;
        if (at[k] == w->nkinds)
            w->kinds[w->nkinds++] =
                (struct dsf_kind_weight){ .op = of->kinds[k].op };
    }
    if (w->nkinds > had)
        make_room(w, had);
    return at;
}

void dsf_weights_add_some(struct dsf_weights *w, const struct dsf_weights *of,
                          unsigned first, unsigned end)
{
    unsigned *at = join_kinds(w, of);

    for (unsigned k = 0; k < of->nkinds; k++) {
        struct dsf_kind_weight *kind = &w->kinds[at[k]];

        kind->tasks += of->kinds[k].tasks;
        kind->flops += of->kinds[k].flops;
        kind->moved += of->kinds[k].moved;
        dsf_traffic_add(&kind->traffic, &of->kinds[k].traffic);
        for (unsigned r = first; r < end; r++) {
            w->ranks[r].tasks[at[k]] = of->ranks[r].tasks[k];
            w->ranks[r].moved[at[k]] = of->ranks[r].moved[k];
        }
    }
    for (unsigned r = first; r < end; r++) {
        struct dsf_rank_weight was = w->ranks[r];

        w->ranks[r] = of->ranks[r];
        w->ranks[r].tasks = was.tasks;
        w->ranks[r].moved = was.moved;
    }
    dsf_traffic_add(&w->traffic, &of->traffic);
    w->moved += of->moved;
    w->flops += of->flops;
    w->ntasks += of->ntasks;
    w->nedges += of->nedges;
    w->ndata += of->ndata;
    free(at);
}

unsigned dsf_weights_neediest(const struct dsf_weights *w)
{
    unsigned most = 0;

    for (unsigned r = 1; r < w->nranks; r++)
        if (w->ranks[r].peak > w->ranks[most].peak)
            most = r;
    return most;
}

double dsf_weights_in(const struct dsf_rank_weight *r, int tier)
{
    return tier == DSFLOW_DEVICE ? r->peak
           : tier == DSFLOW_HOST ? r->tier_bytes[tier] + r->beside + r->window
                                 : r->tier_bytes[tier];
}

void dsf_weights_fini(struct dsf_weights *w)
{
    for (unsigned r = 0; r < w->nranks; r++) {
        free(w->ranks[r].tasks);
        free(w->ranks[r].moved);
    }
    free(w->ranks);
    free(w->kinds);
    memset(w, 0, sizeof(*w));
}
