/* offload_pieces.c - which states tasks have pieces of, and how many. */
#include "policies/offload_pieces.h"

#include "base/alloc.h"

#include <stdlib.h>

bool dsf_cut_is_master(const struct dsflow_data_spec *d)
{
    return d->role == DSFLOW_STATES && d->kept == 1 + DSF_KEPT_PARAM;
}

bool dsf_cut_is_packed(const struct dsf_cut *c,
                       const struct dsflow_data_spec *d)
{
    return d->role == DSFLOW_STATES &&
           (dsf_cut_is_master(d) ? !c->masters : c->dtype != DSFLOW_FP32);
}

int64_t dsf_cut_before(const struct dsflow_data_spec *d, int64_t i, int64_t n)
{
    int64_t blocks = d->elems / d->block;

    return i == n ? d->elems : blocks * i / n * d->block;
}

int64_t dsf_cut_elems(const struct dsflow_data_spec *d, int64_t i, int64_t n)
{
    return dsf_cut_before(d, i + 1, n) - dsf_cut_before(d, i, n);
}

int64_t dsf_cut_count(const struct dsf_cut *c, const struct dsflow_data_spec *d)
{
    /* On the device a piece stays in the caches until it is cast back. */
    const int64_t in_cache = 4 << 20;
    int64_t blocks = d->elems / d->block, most = c->keys->piece;
    int64_t n;

    if (c->at.tier == DSFLOW_DEVICE && most > in_cache)
        most = in_cache;
    n = ((int64_t)d->bytes + most - 1) / most;
    return n > blocks ? blocks : n;
}

/* Are tasks of states done in pieces? */
static bool is_cut(const struct dsf_cut *c)
{
    return c->at.tier != DSFLOW_DEVICE || c->dtype != DSFLOW_FP32 ||
           !c->masters;
}

static bool is_state(const struct dsflow_data_spec *d)
{
    return d->role == DSFLOW_STATES && d->unit >= 0;
}

const struct dsflow_data_spec *dsf_cut_state(const struct dsf_cut *c,
                                             const struct dsflow_task_spec *t)
{
    for (unsigned p = 0; p < t->ndata; p++) {
        const struct dsflow_data_spec *d = dsflow_graph_data(c->in, t->data[p]);

        if (is_state(d) && !c->uncut[t->data[p].i])
            return is_cut(c) ? d : NULL;
    }
    return NULL;
}

/* The elements of the smallest state of the task that it can be cut by. */
static int64_t smallest_state(const struct dsf_cut *c,
                              const struct dsflow_task_spec *t)
{
    int64_t least = INT64_MAX;

    for (unsigned p = 0; p < t->ndata; p++) {
        const struct dsflow_data_spec *d = dsflow_graph_data(c->in, t->data[p]);

        if (is_state(d) && dsf_task_port(t, p)->slice && d->elems < least)
            least = d->elems;
    }
    return least;
}

/* What a task that can be cut needs all of, however it is cut; and what it has
 * all of where it works on a shard: of that, pieces would be other ones. What
 * is one block is never cut, and another state may be of a part of the unit. */
static void find_uncut(struct dsf_cut *c)
{
    const struct dsflow_task_spec *t;

    for (uint32_t i = 0; (t = dsf_nth_task(c->in, i)) != NULL; i++) {
        const int64_t least = t->op->slice != NULL ? smallest_state(c, t) : 0;

        for (unsigned p = 0; p < t->ndata && t->op->slice != NULL; p++) {
            const struct dsflow_data_spec *d =
                dsflow_graph_data(c->in, t->data[p]);

            if (is_state(d) && (!dsf_task_port(t, p)->slice ||
                                (d->elems > least && d->elems > d->block)))
                c->uncut[t->data[p].i] = 1;
        }
    }
}

int dsf_cut_check(const struct dsf_cut *c, const struct dsflow_task_spec *t,
                  const struct dsflow_data_spec *state, struct dsflow_err *err)
{
    bool cuts = t->op->slice != NULL, packed = false;

    for (unsigned p = 0; p < t->ndata; p++) {
        cuts = cuts && (dsf_task_port(t, p)->slice != DSFLOW_BLOCKS ||
                        dsflow_task_access(t, p) == DSFLOW_W);
        packed = packed ||
                 (dsflow_task_access(t, p) & DSFLOW_W &&
                  dsf_cut_is_packed(c, dsflow_graph_data(c->in, t->data[p])));
    }
    if (!cuts && dsf_cut_count(c, state) > 1)
        return dsflow_fail(err, DSFLOW_ENOSYS,
                           "offload: task %s: it is not known how it works on "
                           "a piece of %s",
                           t->op->name, state->name);
    if (!t->op->update && packed)
        return dsflow_fail(err, DSFLOW_ENOSYS,
                           "offload: task %s: writes %s: expected only "
                           "updates of an optimizer to write what is packed",
                           t->op->name, state->name);
    return DSFLOW_OK;
}

struct dsf_cut_place *dsf_cut_place(struct dsf_cut *c,
                                    const struct dsflow_task_spec *t)
{
    return c->at.tier != DSFLOW_DEVICE && dsf_offload_is_near(c->plan, t)
               ? &c->near
               : &c->at;
}

int64_t *dsf_cut_most(const struct dsf_cut *c, const struct dsf_cut_place *at,
                      const struct dsflow_data_spec *state, int32_t rank)
{
    return &at->most[(size_t)rank * c->plan->kept.n + state->kept - 1];
}

static void find_most(struct dsf_cut *c)
{
    const struct dsflow_task_spec *t;

    for (uint32_t i = 0; (t = dsf_nth_task(c->in, i)) != NULL; i++) {
        const struct dsflow_data_spec *state = dsf_cut_state(c, t);
        const int64_t n = state != NULL ? dsf_cut_count(c, state) : 0;

        for (unsigned p = 0; p < t->ndata && n > 0; p++) {
            const struct dsflow_data_spec *d =
                dsflow_graph_data(c->in, t->data[p]);
            int64_t *most;

            if (!dsf_cut_is_packed(c, d) || c->uncut[t->data[p].i])
                continue;
            most = dsf_cut_most(c, dsf_cut_place(c, t), d, t->rank);
            for (int64_t j = 0; j < n; j++)
                if (dsf_cut_elems(d, j, n) > *most)
                    *most = dsf_cut_elems(d, j, n);
        }
    }
}

uint32_t dsf_cut_together(const struct dsf_cut *c, uint32_t i)
{
    const struct dsflow_task_spec *t = dsf_nth_task(c->in, i), *next;
    const struct dsflow_data_spec *a = dsf_cut_state(c, t), *b;
    uint32_t n = 1;

    while (a != NULL && (next = dsf_nth_task(c->in, i + n)) != NULL &&
           (b = dsf_cut_state(c, next)) != NULL && b->unit == a->unit &&
           b->part == a->part && b->home == a->home && b->at == a->at &&
           b->elems == a->elems && next->program == t->program)
        n++;
    return n;
}

static struct dsf_cut_place new_place(const struct dsflow_plan *plan,
                                      enum dsflow_tier tier)
{
    return (struct dsf_cut_place){
        .tier = tier,
        .most =
            dsf_xcalloc((size_t)plan->nranks * plan->kept.n, sizeof(int64_t)),
        .turns = dsf_xcalloc((size_t)plan->nranks, sizeof(uint32_t)),
    };
}

struct dsf_cut dsf_cut_new(const struct dsflow_plan *plan,
                           const struct dsflow_graph *in)
{
    const struct dsf_offload_keys *keys = dsf_offload_keys(plan->job);
    struct dsf_cut c = {
        .plan = plan,
        .in = in,
        .keys = keys,
        .dtype = dsf_job_states(plan->job),
        .at = new_place(plan, keys->home[DSFLOW_STATES] == DSFLOW_DEVICE
                                  ? DSFLOW_DEVICE
                                  : DSFLOW_HOST),
        .near = new_place(plan, DSFLOW_DEVICE),
        .masters = dsf_keeps_masters(plan->job),
        .uncut = dsf_xcalloc((size_t)dsflow_graph_ndata(in) + 1, 1),
    };

    find_uncut(&c);
    find_most(&c);
    return c;
}

static void free_place(struct dsf_cut_place *at)
{
    free(at->most);
    free(at->turns);
}

void dsf_cut_free(struct dsf_cut *c)
{
    free_place(&c->at);
    free_place(&c->near);
    free(c->uncut);
}
