/* zero_data.c - parameters, gradients and states as data ranks have them. */
#include "policies/zero_private.h"

#include "base/alloc.h"
#include "policies/ring_class.h"

#include <stdio.h>
#include <stdlib.h>

/* Whole gradients pass by in a ring of as many layers. */
enum { PASSING = 2 };

int32_t dsf_zero_replica(const struct dsf_zero *z, int32_t rank)
{
    return dsf_mesh_at(&z->plan->mesh, rank, DSF_AXIS_DATA);
}

int32_t dsf_zero_beside(const struct dsf_zero *z, int32_t rank, int32_t d)
{
    return dsf_mesh_peer(&z->plan->mesh, rank, DSF_AXIS_DATA, d);
}

/* Units that are not cut go round the ranks, each round one rank later: those
 * of a layer are then not always the same rank's. */
struct dsf_pieces dsf_zero_pieces(const struct dsf_zero *z,
                                  const struct dsflow_data_spec *spec)
{
    return (struct dsf_pieces){
        .blocks = spec->elems / spec->block,
        .block = spec->block,
        .members = z->data,
        .owner = (spec->unit + spec->unit / z->data) % z->data,
    };
}

static const struct dsf_unit *unit_of(const struct dsf_zero *z,
                                      const struct dsflow_data_spec *spec)
{
    return &z->plan->model->units[spec->unit];
}

bool dsf_zero_in_block(const struct dsf_zero *z,
                       const struct dsflow_data_spec *spec)
{
    return unit_of(z, spec)->kind >= 0 && spec->part < z->plan->nparts;
}

const char *dsf_zero_segment(const struct dsf_zero *z,
                             const struct dsflow_data_spec *spec)
{
    return unit_of(z, spec)->segment->name;
}

dsflow_data_id *dsf_zero_new_spread(struct dsf_zero *z, dsflow_data_id id,
                                    bool whole)
{
    struct dsf_spread *s = &z->spread[id.i];

    if (s->id == NULL)
        s->id = dsf_xcalloc((size_t)z->data, sizeof(*s->id));
    for (int32_t d = 0; d < z->data; d++)
        s->id[d] = dsf_no_data();
    s->whole = whole;
    s->shards = false;
    return s->id;
}

/* Each rank gets all of `id`, or its shard. Numbers for each block of a unit
 * are cut where the unit is, which may be at multiples of several blocks. */
static void spread(struct dsf_zero *z, dsflow_data_id id,
                   const struct dsflow_data_spec *unit, bool whole)
{
    const struct dsflow_data_spec *spec = dsf_zero_spec(z, id);
    struct dsf_pieces pieces = dsf_zero_pieces(z, unit);
    dsflow_data_id *ids = dsf_zero_new_spread(z, id, whole);
    int64_t each = spec->unit < 0 ? unit->elems / spec->elems : 1;

    for (int32_t d = 0; d < z->data; d++) {
        struct dsflow_data_spec own = *spec;

        own.home = (int16_t)dsf_zero_beside(z, unit->home, d);
        if (!whole) {
            own.at = spec->at + dsf_pieces_at(&pieces, d) / each;
            own.elems = dsf_pieces_elems(&pieces, d) / each;
        }
        if (own.elems > 0)
            ids[d] = dsflow_rewrite_named(
                z->rw.out, &own, whole ? d == 0 ? "%s" : "%s.d%d" : "%s.s%d",
                spec->name, d);
    }
}

const struct dsf_spread *dsf_zero_spread(struct dsf_zero *z, dsflow_data_id id)
{
    const struct dsflow_data_spec *spec = dsf_zero_spec(z, id);

    if (z->spread[id.i].id == NULL)
        spread(z, id, spec, z->stage < (spec->role == DSFLOW_PARAMS ? 3 : 1));
    return &z->spread[id.i];
}

const struct dsf_spread *dsf_zero_cut(struct dsf_zero *z, dsflow_data_id id,
                                      const struct dsflow_data_spec *unit)
{
    if (z->spread[id.i].id == NULL)
        spread(z, id, unit, false);
    return &z->spread[id.i];
}

/* Those of the layers of blocks pass by in a ring, where each is complete
 * before the next but one. */
dsflow_data_id dsf_zero_gradient(struct dsf_zero *z, dsflow_data_id id)
{
    const struct dsflow_data_spec *spec = dsf_zero_spec(z, id);
    struct dsflow_data_spec own = *spec;

    if (z->stage < 2 || !z->passing || !dsf_zero_in_block(z, spec) ||
        spec->ring_class == 0)
        return dsflow_rewrite_data(&z->rw, id);
    if (!z->rw.copied[id.i]) {
        own.unit = -1;
        z->rw.copy[id.i] = dsflow_rewrite_named(
            z->rw.out, &own, "%s.%s.z%lld.k%d.r%d",
            dsf_ring_name(spec->ring_class).s, dsf_zero_segment(z, spec),
            (long long)spec->elems, unit_of(z, spec)->layer % PASSING,
            spec->home);
        z->rw.copied[id.i] = 1;
    }
    return z->rw.copy[id.i];
}
