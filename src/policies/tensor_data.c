/* tensor_data.c - data in parts, and the buffers of what moves between tensor
 * ranks. */
#include "policies/tensor_private.h"

#include "base/alloc.h"
#include "graph/asked.h"
#include "tasks/stream.h"

#include <stdlib.h>
#include <string.h>

const struct dsf_part *dsf_tensor_part(struct dsf_tensors *s, dsflow_data_id id,
                                       int32_t p)
{
    const int32_t own = dsf_tensor_spec(s, id)->unit;
    const uint32_t unit = own >= 0 ? (uint32_t)own : s->data[id.i].unit - 1;

    if (s->part[unit] == NULL) {
        s->part[unit] = dsf_xcalloc((size_t)s->parts + 1, sizeof(**s->part));
        for (int32_t i = 0; i <= s->parts; i++)
            dsf_part_init(&s->part[unit][i], s->plan->model, s->parts, unit, i);
    }
    return &s->part[unit][p];
}

/* Data of a unit, or so many numbers for each block of it: T parts and a shared
 * one, each of them maybe empty. */
static void add_unit_data(struct dsf_tensors *s, dsflow_data_id id,
                          dsflow_data_id unit)
{
    const struct dsflow_data_spec *whole = dsf_tensor_spec(s, id);
    const struct dsflow_data_spec *of = dsf_tensor_spec(s, unit);
    const int64_t each = whole->elems / (of->elems / of->block);
    struct dsf_cut_data *d = &s->data[id.i];

    d->unit = (uint32_t)of->unit + 1;
    for (int32_t p = 0; p <= s->parts; p++) {
        const struct dsf_part *part = dsf_tensor_part(s, unit, p);
        struct dsflow_data_spec spec = *whole;

        d->id[p] = dsf_no_data();
        if (part->elems == 0)
            continue;
        spec.elems = d->cut == DSFLOW_CUT_UNIT
                         ? part->elems
                         : part->elems / part->block * each;
        spec.block = d->cut == DSFLOW_CUT_UNIT ? part->block : 0;
        spec.part = d->cut == DSFLOW_CUT_UNIT ? part->part : 0;
        if (whole->stream != 0)
            spec.stream = dsf_state_stream(
                s->plan->job->main.seed, s->plan->kept.v[whole->kept - 1].name,
                whole->unit, part->part);
        d->id[p] =
            dsf_add_named(s->out, &spec, p == s->parts ? "%s.shared" : "%s.p%d",
                          whole->name, p);
    }
}

/* What rank `t` has of other data. */
static int64_t part_elems(const struct dsf_tensors *s,
                          const struct dsf_cut_data *d, int64_t elems,
                          int32_t t)
{
    const struct dsf_dims *dims = &s->plan->model->dims;
    int32_t rows = (int32_t)(elems / dims->width), first;

    switch (d->cut) {
    case DSFLOW_CUT_ROWS:
        return (int64_t)dims->width * dsf_share(rows, s->parts, t, &first);
    case DSFLOW_CUT_COLUMNS:
        return elems / s->parts;
    case DSFLOW_CUT_KV:
        return elems / (s->dims->kv_heads < s->parts ? s->dims->kv_heads
                                                     : s->parts);
    case DSFLOW_CUT_VOCAB:
        return elems / dims->vocab_rows *
               dsf_share_vocabulary(dims, s->parts, t, &first);
    default:
        return elems;
    }
}

/* Its dimensions, once it has other elements: dimension `i` was cut. */
static void cut_dims(struct dsflow_data_spec *spec, unsigned i)
{
    int64_t others = 1;

    if (spec->ndims == 0)
        return;
    for (unsigned k = 0; k < spec->ndims; k++)
        others *= k != i ? spec->dims[k] : 1;
    spec->dims[i] = spec->elems / others;
    if (spec->dims[i] * others != spec->elems)
        spec->ndims = 0;
}

/* Data is cut when the first task that uses it is met. */
int dsf_tensor_cut(struct dsf_tensors *s, dsflow_data_id id,
                   enum dsflow_cut how, dsflow_data_id unit,
                   struct dsflow_err *err)
{
    const struct dsflow_data_spec *spec = dsf_tensor_spec(s, id);
    struct dsf_cut_data *d = &s->data[id.i];

    if (d->cut == how)
        return DSFLOW_OK;
    if (d->cut != DSFLOW_CUT_UNKNOWN)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "tensor_parallel: %s is used in parts and whole",
                           spec->name);
    d->cut = how;
    d->id = dsf_xcalloc((size_t)s->parts + 1, sizeof(*d->id));
    if (how == DSFLOW_CUT_ONE)
        d->id[0] = dsflow_graph_add_data(s->out, spec);
    else if (how == DSFLOW_CUT_UNIT || how == DSFLOW_CUT_BLOCKS)
        add_unit_data(s, id, unit);
    else
        for (int32_t t = 0; t < s->parts; t++) {
            struct dsflow_data_spec own = *spec;

            own.elems = part_elems(s, d, spec->elems, t);
            cut_dims(&own, d->cut == DSFLOW_CUT_ROWS ? 0 : own.ndims - 1u);
            d->id[t] = dsf_add_named(s->out, &own, "%s.p%d", spec->name, t);
        }
    return DSFLOW_OK;
}

/* The shape of a buffer of rank `t`, of the largest tile. */
static struct dsflow_need temp_shape(const struct dsf_tensors *s, int kind,
                                     int32_t t)
{
    const struct dsflow_plan *plan = s->plan;
    struct dsflow_tile tile;
    size_t rows = 0;
    const size_t width = (size_t)plan->model->dims.width;
    int32_t first;

    for (int32_t i = 0; i < plan->ntiles; i++)
        if ((size_t)plan->tiles[i].rows > rows)
            rows = (size_t)plan->tiles[i].rows;
    switch (kind) {
    case DSFLOW_REF_XN:
    case DSFLOW_REF_R:
        rows = (size_t)dsf_share((int32_t)rows, s->parts, t, &first);
        return dsf_matrix(rows, width);
    case DSFLOW_REF_STATS:
        return (struct dsflow_need){ (int64_t)rows, DSF_HEAD_STATS,
                                     DSFLOW_FP64 };
    case DSFLOW_REF_ALL:
        return (struct dsflow_need){ (int64_t)rows * s->parts, DSF_HEAD_STATS,
                                     DSFLOW_FP64 };
    case DSFLOW_REF_TOPS:
        tile.vocab = dsf_share_vocabulary(&plan->model->dims, s->parts, t,
                                          &first);
        return dsf_matrix(rows, dsf_head_blocks(&tile));
    default:
        return dsf_matrix(rows, width);
    }
}

struct dsf_temp *dsf_tensor_take(struct dsf_tensors *s, struct dsf_place *at,
                                 int kind)
{
    static const char *const names[] = { "xn",  "xall",  "partial",   "dall",
                                         "sum", "stats", "stats_all", "tops" };
    const struct dsflow_plan *plan = s->plan;
    int32_t chunk = dsflow_plan_chunk_of(plan, at->task->layer), slot;
    int32_t of_stage = chunk / plan->nstages;
    int32_t d = dsflow_plan_replica_of(plan, at->task->microbatch);
    int32_t index = at->pass * DSFLOW_NTEMPS + kind - DSFLOW_REF_XN;
    struct dsf_temp **temp = &at->temp[kind - DSFLOW_REF_XN];

    if (*temp != NULL)
        return *temp;
    slot = (int32_t)(s->turn[(chunk * plan->nreplicas + d) * DSF_NPASSES *
                                 DSFLOW_NTEMPS +
                             index]++ %
                     (uint32_t)s->length);
    *temp =
        &s->temps[(of_stage * DSF_NPASSES * DSFLOW_NTEMPS + index) * s->length +
                  slot];
    if ((*temp)->id != NULL)
        return *temp;
    (*temp)->id = dsf_xcalloc((size_t)s->parts, sizeof(*(*temp)->id));
    for (int32_t t = 0; t < s->parts; t++) {
        const struct dsflow_need shape = temp_shape(s, kind, t);
        const struct dsflow_data_spec spec = DSFLOW_DATA(
            .elems = shape.rows * shape.cols, .dtype = (uint8_t)shape.dtype,
            .ndims = 2, .dims = { shape.rows, shape.cols },
            .role = DSFLOW_BUFFERS, .home = DSFLOW_ANYWHERE, .unit = -1,
            .ring = "machine.workers");

        (*temp)->id[t] = dsf_add_named(s->out, &spec, "%s.c%d.%c%d.p%d",
                                       names[kind - DSFLOW_REF_XN], of_stage,
                                       "fbw"[at->pass], slot, t);
    }
    return *temp;
}

dsflow_data_id dsf_tensor_adds(struct dsf_tensors *s, dsflow_data_id id,
                               int32_t t)
{
    const struct dsflow_data_spec *whole = dsf_tensor_spec(s, id);
    struct dsf_cut_data *d = &s->data[id.i];

    if (d->add == NULL) {
        struct dsflow_data_spec spec = *whole;

        spec.elems = dsflow_graph_data(s->out, d->id[s->parts])->elems;
        spec.ndims = 0;
        spec.unit = -1;
        spec.part = 0;
        spec.block = 0;
        d->add = dsf_xcalloc((size_t)s->parts, sizeof(*d->add));
        for (int32_t p = 0; p < s->parts; p++)
            d->add[p] =
                dsf_add_named(s->out, &spec, "%s.adds.p%d", whole->name, p);
    }
    return d->add[t];
}

void dsf_tensor_share(struct dsf_tensors *s,
                      const struct dsflow_task_spec *like,
                      const struct dsflow_op *op, struct dsf_pieces pieces,
                      const dsflow_data_id *into, const dsflow_data_id *from)
{
    struct dsf_collective c = { op, pieces, from, ++s->collectives };

    if (dsf_asked_leaves_out(s->out)) {
        dsf_collective_pass(s->out, like, &c, into);
        return;
    }
    for (int32_t t = 0; t < s->parts; t++)
        dsf_collective_emit(s->out, like, &c, t, dsf_tensor_rank(s, t),
                            into[t]);
}
