/* search.c - every choice among the values of some rows of the table. */
#include "tune/search.h"

#include <string.h>

/* The values of a row that this search is about; NULL: it is not. */
static dsf_list_fn list_of(const struct dsf_search *h,
                           const struct dsf_tunable *row)
{
    if (h->kind == DSF_SEARCH_LESS)
        return row->less;
    return dsf_tunable_is_open(row, h->e.job) ? row->values : NULL;
}

static void list_levels(struct dsf_search *h)
{
    for (unsigned i = 0; i < h->table.n && h->now.n < DSF_MAX_CHANGES; i++) {
        dsf_list_fn list = list_of(h, &h->table.v[i]);

        if (list == NULL)
            continue;
        h->level[h->now.n] = (struct dsf_changes){ .row = &h->table.v[i],
                                                   .job = h->e.job,
                                                   .plan = h->e.plan,
                                                   .machine = h->e.m,
                                                   .cost = h->table.v[i].cost };
        list(&h->level[h->now.n++]);
    }
}

/* What costs most varies least; of two that cost the same, the last. */
static void nest_levels(struct dsf_search *h)
{
    for (unsigned i = 0; i < h->now.n; i++) {
        unsigned at = i;

        for (; at > 0 && h->level[h->nest[at - 1]].cost <= h->level[i].cost;
             at--)
            h->nest[at] = h->nest[at - 1];
        h->nest[at] = i;
    }
}

/* The largest of `level` that the devices have room for. What is kept there
 * stays in whole pieces, and their updates need room too. */
static bool visit_most(struct dsf_search *h, unsigned i)
{
    const struct dsf_changes *level = &h->level[i];
    struct dsf_outcome o;
    unsigned at;

    h->now.v[i] = level->v[0];
    dsf_evaluate(&h->e, &h->now, false, &o);
    at = o.status < 0 ? 0 : (unsigned)(o.share * (level->n - 1));
    for (; at > 0; at--) {
        h->now.v[i] = level->v[at];
        dsf_evaluate(&h->e, &h->now, false, &o);
        if (o.status < 0 || o.fits || o.shortfall.tier != DSFLOW_DEVICE)
            break;
    }
    h->now.v[i] = level->v[at];
    return h->visit(h);
}

/* Levels from nest[depth] on. */
static bool vary(struct dsf_search *h, unsigned depth)
{
    bool less = h->kind == DSF_SEARCH_LESS;
    bool coarse = less && depth > 0 && h->now.v[h->nest[0]] != NULL;
    unsigned i, n;

    if (depth == h->now.n)
        return h->visit(h);
    i = h->nest[depth];
    n = h->level[i].n;
    if (h->level[i].row->most && !less)
        return visit_most(h, i);
    for (unsigned k = less ? 0 : 1; k <= n; k = coarse && k < n ? n : k + 1) {
        h->now.v[i] = k > 0 ? h->level[i].v[k - 1] : NULL;
        if (vary(h, depth + 1))
            return true;
    }
    return false;
}

bool dsf_search_run(struct dsf_search *h)
{
    dsf_tunables_init(&h->table);
    list_levels(h);
    nest_levels(h);
    return vary(h, 0);
}

void dsf_search_end(struct dsf_search *h)
{
    dsf_evaluator_forget(&h->e);
    for (unsigned i = 0; i < h->now.n; i++)
        dsf_changes_fini(&h->level[i]);
    dsf_tunables_fini(&h->table);
}
