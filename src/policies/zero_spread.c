/* zero_spread.c - data as the data ranks have it: whole, or each its shard. */
#include "policies/zero_private.h"

#include "base/alloc.h"
#include "policies/onebit.h"
#include "policies/ring_class.h"

#include <string.h>

/* Whole gradients pass by in a ring of as many layers. */
enum { PASSING = 2 };

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

static dsflow_data_id *new_spread(struct dsf_zero *z, dsflow_data_id id,
                                  bool whole)
{
    struct dsf_zero_parts *s = &z->spread[id.i];

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
    dsflow_data_id *ids = new_spread(z, id, whole);
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

bool dsf_zero_is_whole(const struct dsf_zero *z,
                       const struct dsflow_data_spec *spec)
{
    if (dsf_onebit_is_momentum(z->plan, spec->kept))
        return true;
    if (dsf_onebit_is_cut(z->plan, spec->kept))
        return false;
    return z->stage < (spec->role == DSFLOW_PARAMS ? 3 : 1);
}

const struct dsf_zero_parts *dsf_zero_spread(struct dsf_zero *z,
                                             dsflow_data_id id)
{
    const struct dsflow_data_spec *spec = dsf_zero_spec(z, id);

    if (z->spread[id.i].id == NULL)
        spread(z, id, spec, dsf_zero_is_whole(z, spec));
    return &z->spread[id.i];
}

const struct dsf_zero_parts *dsf_zero_cut(struct dsf_zero *z, dsflow_data_id id,
                                          const struct dsflow_data_spec *unit,
                                          bool whole)
{
    if (z->spread[id.i].id == NULL)
        spread(z, id, unit, whole);
    return &z->spread[id.i];
}

/* A whole gradient, on its rank. Those of the layers of blocks pass by in a
 * ring, where each is complete before the next but one. */
dsflow_data_id dsf_zero_gradient(struct dsf_zero *z, dsflow_data_id id)
{
    const struct dsflow_data_spec *spec = dsf_zero_spec(z, id);
    struct dsflow_data_spec own = *spec;

    if (z->stage < 2 || !z->passing || !dsf_zero_in_block(z, spec) ||
        spec->ring_class == 0 || spec->persistent)
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

void dsf_zero_spread_sums(struct dsf_zero *z, dsflow_data_id id,
                          const dsflow_data_id *own)
{
    if (z->stage < 2)
        memcpy(new_spread(z, id, true), own, (size_t)z->data * sizeof(*own));
    else
        dsf_zero_cut(z, id, dsf_zero_spec(z, id), false);
    z->spread[id.i].shards = z->stage == 1;
}
