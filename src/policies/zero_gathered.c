/* zero_gathered.c - with stage 3, the whole units that a rank computes with:
 * gathered before their first use in each pass, in the buffers of a ring. */
#include "policies/zero_private.h"

#include "base/alloc.h"
#include "tasks/tasks.h"

#include <stdlib.h>
#include <string.h>

/* Forward and backward have rings of their own. */
enum { PASSES = 2 };

/* Buffers of gathered units of one kind, on one rank, in one pass. */
struct dsf_zero_ring {
    uint32_t *unit; /* [length]: data of `in` that stands there, +1 */
    uint32_t next;
};

static size_t count_rings(const struct dsf_zero *z)
{
    return (size_t)(z->plan->nranks * z->chunks) * PASSES *
           (size_t)z->plan->model->nkinds;
}

static size_t count_kept(const struct dsf_zero *z)
{
    const struct dsflow_plan *plan = z->plan;

    return plan->model->nunits * (size_t)(plan->nparts + 1) *
           (size_t)plan->nranks;
}

/* The number of this gather, for all members that make it. */
static uint32_t number_of(struct dsf_zero *z, dsflow_data_id id, int32_t d)
{
    struct dsf_gathers *g = &z->gathers[id.i];
    uint32_t k;

    if (g->count == NULL)
        g->count = dsf_xcalloc((size_t)z->data, sizeof(*g->count));
    k = g->count[d]++;
    if (k == g->n) {
        dsf_grow(&g->ids, &g->cap, g->n + 1, sizeof(*g->ids));
        g->ids[g->n++] = ++z->collectives;
    }
    return g->ids[k];
}

/* A buffer of its own, that is filled once. */
static dsflow_data_id kept(struct dsf_zero *z,
                           const struct dsflow_data_spec *spec, int32_t rank,
                           bool *stands)
{
    const struct dsflow_plan *plan = z->plan;
    size_t at = ((size_t)spec->unit * (size_t)(plan->nparts + 1) +
                 (size_t)spec->part) *
                    (size_t)plan->nranks +
                (size_t)rank;
    struct dsflow_data_spec own =
        DSFLOW_DATA(.elems = spec->elems, .dtype = spec->dtype,
                    .role = DSFLOW_PARAMS, .home = (int16_t)rank, .unit = -1);

    *stands = z->kept[at];
    z->kept[at] = 1;
    return dsflow_rewrite_named(z->rw.out, &own, "whole.%s.r%d", spec->name,
                                rank);
}

/* A buffer of the ring: the one that has the unit, or the next. */
static dsflow_data_id in_ring(struct dsf_zero *z, dsflow_data_id id,
                              const struct dsflow_task_spec *t, bool *stands)
{
    const struct dsflow_data_spec *spec = dsf_zero_spec(z, id);
    const struct dsflow_plan *plan = z->plan;
    bool back = t->pass == DSFLOW_BACKWARD;
    int32_t chunk = dsf_plan_chunk(plan, t->layer) / plan->nstages;
    struct dsf_zero_ring *ring =
        &z->rings[((t->rank * z->chunks + chunk) * PASSES + back) *
                      plan->model->nkinds +
                  plan->model->units[spec->unit].kind];
    struct dsflow_data_spec own = DSFLOW_DATA(
            .elems = spec->elems, .dtype = spec->dtype, .role = DSFLOW_PARAMS,
            .home = t->rank, .unit = -1, .ring = "zero.prefetch");
    uint32_t at = 0;

    while (at < (uint32_t)z->length && ring->unit[at] != id.i + 1)
        at++;
    *stands = at < (uint32_t)z->length;
    if (!*stands)
        at = ring->next++ % (uint32_t)z->length;
    ring->unit[at] = id.i + 1;
    return dsflow_rewrite_named(z->rw.out, &own, "whole.%s.z%lld.c%d.%s%u.r%d",
                                dsf_zero_segment(z, spec),
                                (long long)spec->elems, chunk, back ? "b" : "f",
                                at, t->rank);
}

dsflow_data_id dsf_zero_gathered(struct dsf_zero *z, dsflow_data_id id,
                                 const struct dsflow_task_spec *t)
{
    const struct dsflow_data_spec *spec = dsf_zero_spec(z, id);
    const struct dsf_spread *s = dsf_zero_spread(z, id);
    struct dsf_collective c = { .op = &dsf_op_all_gather, .from = s->id };
    int32_t d = dsf_zero_replica(z, t->rank);
    dsflow_data_id whole;
    bool stands;

    if (!dsf_zero_in_block(z, spec) ||
        (int64_t)spec->bytes <= z->keys->keep)
        whole = kept(z, spec, t->rank, &stands);
    else
        whole = in_ring(z, id, t, &stands);
    if (!stands) {
        c.pieces = dsf_zero_pieces(z, spec);
        c.id = number_of(z, id, d);
        dsf_collective_emit(z->rw.out, t, &c, d, t->rank, whole);
    }
    return whole;
}

void dsf_zero_forget(struct dsf_zero *z)
{
    for (size_t i = 0; i < count_rings(z); i++)
        memset(z->rings[i].unit, 0, (size_t)z->length * sizeof(uint32_t));
    memset(z->kept, 0, count_kept(z));
}

void dsf_zero_begin_gathered(struct dsf_zero *z)
{
    z->length = (int32_t)z->keys->prefetch + 1;
    z->chunks = z->plan->nchunks / z->plan->nstages;
    z->rings = dsf_xcalloc(count_rings(z), sizeof(*z->rings));
    for (size_t i = 0; i < count_rings(z); i++)
        z->rings[i].unit =
            dsf_xcalloc((size_t)z->length, sizeof(*z->rings[i].unit));
    z->kept = dsf_xcalloc(count_kept(z), 1);
    z->gathers =
        dsf_xcalloc(dsflow_graph_ndata(z->rw.in) + 1, sizeof(*z->gathers));
}

void dsf_zero_end_gathered(struct dsf_zero *z)
{
    for (size_t i = 0; i < count_rings(z); i++)
        free(z->rings[i].unit);
    for (uint32_t i = 0; i < dsflow_graph_ndata(z->rw.in); i++) {
        free(z->gathers[i].count);
        free(z->gathers[i].ids);
    }
    free(z->rings);
    free(z->kept);
    free(z->gathers);
}
