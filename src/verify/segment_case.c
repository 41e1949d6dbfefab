/* segment_case.c - random cases of a segment, from its description alone. */
#include "verify/try_segment.h"

#include "codelets/trials.h"
#include "segments/segment.h"
#include "verify/child.h"

#include <string.h>

/* A layer of these sizes, of one of the families. */
static struct dsflow_layout any_layout(const struct dsflow_tile *tile,
                                       uint64_t seed)
{
    return (struct dsflow_layout){
        .sizes = *tile, .layers = 2, .llama = seed & 1, .tied = 1
    };
}

static struct dsflow_site any_site(const struct dsflow_tile *tile,
                                   const struct dsf_unit *unit)
{
    return (struct dsflow_site){ .tile = *tile,
                                 .at = { unit->at },
                                 .parts = 1,
                                 .tokens = 1000,
                                 .keys = tile->rows,
                                 .diagonal = true,
                                 .first_keys = true,
                                 .last_queries = true };
}

/* Gradients that have no contents yet, in half of the cases. */
static unsigned any_fresh(const struct dsflow_segment *s,
                          const struct dsflow_op *op, const void *args,
                          uint64_t seed)
{
    unsigned fresh = s->fresh != NULL ? s->fresh(op, args) : 0;

    for (unsigned p = 0; p < op->nports && seed % 4 < 2; p++)
        if (op->ports[p].name != NULL &&
            s->ports[p].from == DSFLOW_FROM_GRADIENTS)
            fresh |= 1u << p;
    return fresh;
}

static int make(const struct dsflow_op *op, uint64_t seed,
                struct dsflow_shape *shapes, unsigned *n, void *args,
                unsigned *fresh)
{
    const struct dsflow_segment *s = dsf_segment_of_op(op);
    struct dsflow_need need[DSFLOW_SEGMENT_PORTS] = { { 0 } };
    struct dsf_unit unit = { .segment = s };
    uint64_t state = seed;
    const struct dsflow_tile tile = dsf_any_tile(&state);
    const struct dsflow_layout layout = any_layout(&tile, seed);
    const struct dsflow_site site = any_site(&tile, &unit);
    int status;

    for (unsigned i = 0; i < DSFLOW_SEGMENT_TENSORS; i++)
        unit.at[i] = -1;
    if (s->tensors != NULL)
        dsf_unit_list(&unit, &layout);
    s->fill(&site, args);
    if (memcmp(args, &tile, sizeof(tile)) != 0)
        dsf_child_fault("its fill: expected arguments that begin with the "
                        "tile");
    status = s->needs(op, args, need, NULL);
    for (unsigned p = 0; p < op->nports; p++)
        if (op->ports[p].name != NULL &&
            s->ports[p].from != DSFLOW_FROM_CONTROL)
            shapes[p] =
                dsflow_shape_of(need[p].dtype, need[p].rows * need[p].cols);
    *n = op->nports;
    *fresh = any_fresh(s, op, args, seed);
    return status;
}

const struct dsflow_trials dsf_trials_described = { .make = make };
