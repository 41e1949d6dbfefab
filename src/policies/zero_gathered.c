/* zero_gathered.c - with stage 3, the whole units that a rank computes with:
 * gathered before their first use in each pass, in the buffers of a ring. */
#include "policies/zero_private.h"

#include "base/alloc.h"
#include "plan/programs.h"
#include "tasks/tasks.h"

#include <stdlib.h>
#include <string.h>

/* Forward and backward have rings of their own. */
enum { PASSES = 2 };

static size_t count_rings(const struct dsf_zero *z)
{
    return (size_t)(z->plan->nranks * z->chunks) * PASSES *
           (size_t)z->plan->model->nkinds;
}

/* A buffer of its own, that is filled once. */
static dsflow_data_id own_buffer(struct dsf_zero *z,
                                 const struct dsflow_data_spec *spec,
                                 int16_t rank)
{
    struct dsflow_data_spec own =
        DSFLOW_DATA(.elems = spec->elems, .dtype = spec->dtype,
                    .role = DSFLOW_PARAMS, .home = rank, .unit = -1);

    return dsflow_rewrite_named(z->rw.out, &own, "whole.%s.r%d", spec->name,
                                rank);
}

/* The next buffer of the ring. */
static dsflow_data_id next_buffer(struct dsf_zero *z,
                                  const struct dsflow_data_spec *spec,
                                  const struct dsflow_task_spec *t)
{
    const struct dsflow_plan *plan = z->plan;
    bool back = t->pass == DSFLOW_BACKWARD;
    int32_t chunk = dsflow_plan_chunk_of(plan, t->layer) / plan->nstages;
    uint32_t *next = &z->next[((t->rank * z->chunks + chunk) * PASSES + back) *
                                  plan->model->nkinds +
                              plan->model->units[spec->unit].kind];
    struct dsflow_data_spec own =
        DSFLOW_DATA(.elems = spec->elems, .dtype = spec->dtype,
                    .role = DSFLOW_PARAMS, .home = t->rank, .unit = -1,
                    .ring = "zero.prefetch");

    return dsflow_rewrite_named(z->rw.out, &own, "whole.%s.z%lld.c%d.%s%u.r%d",
                                dsf_zero_segment(z, spec),
                                (long long)spec->elems, chunk, back ? "b" : "f",
                                (*next)++ % (uint32_t)(z->keys->prefetch + 1),
                                t->rank);
}

static bool holds(const struct dsf_zero *z, dsflow_data_id buffer,
                  dsflow_data_id id)
{
    return buffer.i < z->cap_contents && z->contents[buffer.i] == id.i + 1;
}

struct dsflow_task_spec dsf_zero_like(const struct dsf_zero *z,
                                      const struct dsflow_task_spec *t,
                                      int32_t d)
{
    const struct dsf_mesh *mesh = &z->plan->mesh;
    struct dsflow_task_spec like = *t;

    like.rank = (int16_t)dsf_zero_beside(z, t->rank, d);
    if (like.microbatch >= 0)
        like.microbatch =
            (int16_t)(t->microbatch +
                      z->plan->micro_steps *
                          (dsf_mesh_at(mesh, like.rank, DSF_AXIS_DATA) -
                           dsf_mesh_at(mesh, t->rank, DSF_AXIS_DATA)));
    return like;
}

/* Into which buffer data rank `d` gathers it; no data: it has it there. */
static dsflow_data_id find_buffer(struct dsf_zero *z, dsflow_data_id id,
                                  const struct dsflow_task_spec *t, int32_t d)
{
    const struct dsflow_task_spec own = dsf_zero_like(z, t, d);
    const struct dsflow_data_spec *spec = dsf_zero_spec(z, id);
    dsflow_data_id *last =
        &z->gathers[id.i].last[d * PASSES + (t->pass == DSFLOW_BACKWARD)];
    dsflow_data_id whole = *last;

    if (!dsf_zero_in_block(z, spec) || (int64_t)spec->bytes <= z->keys->keep)
        whole = own_buffer(z, spec, own.rank);
    else if (!holds(z, whole, id))
        whole = next_buffer(z, spec, &own);
    *last = whole;
    if (holds(z, whole, id))
        return dsf_no_data();
    dsf_grow(&z->contents, &z->cap_contents, whole.i + 1, sizeof(*z->contents));
    z->contents[whole.i] = id.i + 1;
    return whole;
}

/* The numbers, from second copies or from the shards of all. */
static void gather_numbers(struct dsf_zero *z, dsflow_data_id id,
                           const struct dsflow_task_spec *t,
                           const dsflow_data_id *whole)
{
    const struct dsf_collective c = { &dsf_op_all_gather,
                                      dsf_zero_pieces(z, dsf_zero_spec(z, id)),
                                      dsf_zero_spread(z, id)->id,
                                      z->collectives + 1 };
    bool *kept = dsf_xcalloc((size_t)z->data, sizeof(*kept));

    for (int32_t d = 0; d < z->data; d++) {
        const struct dsflow_task_spec own = dsf_zero_like(z, t, d);

        kept[d] = !dsf_is_data(whole[d]) ||
                  dsf_zero_gather_second(z, id, &own, whole[d]);
        if (kept[d])
            continue;
        z->collectives = c.id;
        dsf_collective_emit(z->rw.out, &own, &c, d, own.rank, whole[d]);
    }
    for (int32_t d = 0; d < z->data; d++) {
        const struct dsflow_task_spec own = dsf_zero_like(z, t, d);

        if (!kept[d])
            dsf_zero_keep_numbers(z, id, &own, whole[d]);
    }
    free(kept);
}

/* In a step all data ranks do the same: what one needs now the others need
 * next, and all of them gather it together. */
static void gather_all(struct dsf_zero *z, dsflow_data_id id,
                       const struct dsflow_task_spec *t, int32_t first,
                       dsflow_data_id into)
{
    dsflow_data_id *whole = dsf_xcalloc((size_t)z->data, sizeof(*whole));
    const bool together = dsf_plan_runs_in_steps(
        z->plan, dsflow_graph_program(z->rw.in, t->program));

    for (int32_t d = 0; d < z->data; d++)
        if (d == first)
            whole[d] = into;
        else
            whole[d] = together ? find_buffer(z, id, t, d) : dsf_no_data();
    if (!dsf_zero_gather_coded(z, id, t, whole))
        gather_numbers(z, id, t, whole);
    free(whole);
}

dsflow_data_id dsf_zero_gathered(struct dsf_zero *z, dsflow_data_id id,
                                 const struct dsflow_task_spec *t)
{
    const int32_t own = dsf_zero_replica(z, t->rank);
    struct dsf_gathers *g = &z->gathers[id.i];
    dsflow_data_id into;

    if (g->last == NULL) {
        g->last = dsf_xcalloc((size_t)z->data * PASSES, sizeof(*g->last));
        for (int32_t i = 0; i < z->data * PASSES; i++)
            g->last[i] = dsf_no_data();
    }
    into = find_buffer(z, id, t, own);
    if (dsf_is_data(into))
        gather_all(z, id, t, own, into);
    return g->last[own * PASSES + (t->pass == DSFLOW_BACKWARD)];
}

void dsf_zero_forget(struct dsf_zero *z)
{
    dsf_zero_forget_second(z);
    if (z->contents != NULL)
        memset(z->contents, 0, z->cap_contents * sizeof(*z->contents));
}

void dsf_zero_begin_gathered(struct dsf_zero *z)
{
    z->chunks = z->plan->nchunks / z->plan->nstages;
    z->next = dsf_xcalloc(count_rings(z), sizeof(*z->next));
    z->gathers =
        dsf_xcalloc(dsflow_graph_ndata(z->rw.in) + 1, sizeof(*z->gathers));
    dsf_zero_begin_second(z);
}

void dsf_zero_end_gathered(struct dsf_zero *z)
{
    dsf_zero_end_second(z);
    for (uint32_t i = 0; i < dsflow_graph_ndata(z->rw.in); i++)
        free(z->gathers[i].last);
    free(z->gathers);
    free(z->contents);
    free(z->next);
}
