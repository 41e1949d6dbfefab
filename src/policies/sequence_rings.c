/* sequence_rings.c - buffers for what passes by on ranks that share sequences.
 */
#include "policies/sequence_private.h"

#include "base/alloc.h"
#include "plan/stretch.h"

#include <dsflow/rewrite.h>

#include <stdlib.h>

/* Forward and backward have rings of their own. */
enum { PASSES = 2 };

struct dsf_sequence_ring {
    int32_t rank, chunk, replica, pass;
    int64_t elems;
    uint8_t dtype;
    uint32_t turn;
    struct dsf_sequence_slot *slots; /* [key_slots] */
    uint32_t next; /* of the same chunk, replica and pass: +1 */
};

void dsf_sequence_rings_init(struct dsf_sequence_rings *rings,
                             const struct dsflow_plan *plan,
                             struct dsflow_graph *out, const char *name)
{
    *rings = (struct dsf_sequence_rings){ .plan = plan,
                                          .out = out,
                                          .name = name,
                                          .nslots = dsf_plan_key_slots(plan) };
    rings->first =
        dsf_xcalloc((size_t)(plan->nreplicas * plan->nchunks) * PASSES,
                    sizeof(*rings->first));
}

void dsf_sequence_rings_fini(struct dsf_sequence_rings *rings)
{
    for (size_t i = 0; i < rings->n; i++)
        free(rings->v[i].slots);
    free(rings->v);
    free(rings->first);
}

static struct dsf_sequence_ring *ring_of(struct dsf_sequence_rings *rings,
                                         const struct dsflow_task_spec *t,
                                         const struct dsflow_data_spec *spec)
{
    const struct dsf_sequence_ring key = {
        .rank = t->rank,
        .chunk = dsflow_plan_chunk_of(rings->plan, t->layer),
        .replica = dsflow_plan_replica_of(rings->plan, t->microbatch),
        .pass = t->pass == DSFLOW_BACKWARD,
        .elems = spec->elems,
        .dtype = spec->dtype,
    };

    uint32_t *first =
        &rings
             ->first[(key.replica * rings->plan->nchunks + key.chunk) * PASSES +
                     key.pass];

    for (uint32_t i = *first; i != 0; i = rings->v[i - 1].next) {
        struct dsf_sequence_ring *r = &rings->v[i - 1];

        if (r->rank == key.rank && r->elems == key.elems &&
            r->dtype == key.dtype)
            return r;
    }
    dsf_grow(&rings->v, &rings->cap, rings->n + 1, sizeof(*rings->v));
    rings->v[rings->n] = key;
    rings->v[rings->n].slots =
        dsf_xcalloc((size_t)rings->nslots, sizeof(*key.slots));
    rings->v[rings->n].next = *first;
    *first = (uint32_t)++rings->n;
    return &rings->v[rings->n - 1];
}

struct dsf_sequence_slot *dsf_sequence_has(struct dsf_sequence_rings *rings,
                                           const struct dsflow_task_spec *t,
                                           const struct dsflow_data_spec *spec,
                                           uint32_t occupant, uint32_t version)
{
    struct dsf_sequence_ring *ring = ring_of(rings, t, spec);

    for (int32_t i = 0; i < rings->nslots; i++)
        if (ring->slots[i].occupant == occupant &&
            ring->slots[i].version == version)
            return &ring->slots[i];
    return NULL;
}

struct dsf_sequence_slot *dsf_sequence_next(struct dsf_sequence_rings *rings,
                                            const struct dsflow_task_spec *t,
                                            const struct dsflow_data_spec *of,
                                            uint32_t occupant, uint32_t version)
{
    struct dsf_sequence_ring *ring = ring_of(rings, t, of);
    struct dsf_sequence_slot *slot = &ring->slots[ring->turn];
    struct dsflow_data_spec spec = *of;

    spec.role = DSFLOW_BUFFERS;
    spec.ring_class = 0;
    spec.ring = "mesh.key_slots";
    *slot = (struct dsf_sequence_slot){
        .id = dsflow_rewrite_named(
            rings->out, &spec, "%s.%s.z%lld.c%d.%s%u.p%d", rings->name,
            dsflow_dtype_str((enum dsflow_dtype)spec.dtype),
            (long long)spec.elems, (int)(ring->chunk / rings->plan->nstages),
            ring->pass != 0 ? "b" : "f", ring->turn, (int)t->rank),
        .occupant = occupant,
        .version = version,
    };
    ring->turn = (ring->turn + 1) % (uint32_t)rings->nslots;
    return slot;
}

bool dsf_sequence_is_placed(const struct dsflow_task_spec *t)
{
    return t->microbatch >= 0 && t->tile >= 0;
}

int16_t dsf_sequence_rank(const struct dsflow_plan *plan,
                          const struct dsflow_task_spec *t, int32_t at)
{
    return (int16_t)dsf_mesh_peer(&plan->mesh, t->rank < 0 ? 0 : t->rank,
                                  DSF_AXIS_SEQUENCE, at);
}
