/* tensor_data.c - data in parts, and the buffers of what moves between tensor
 * ranks. */
#include "policies/tensor_private.h"

#include "policies/policies.h"

#include "base/alloc.h"
#include "tasks/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct dsf_part *dsf_tensor_part(struct dsf_tensors *s, dsflow_data_id id,
                                       int32_t p)
{
    uint32_t unit = (uint32_t)dsf_tensor_spec(s, id)->unit;

    if (s->part[unit] == NULL) {
        s->part[unit] = dsf_xcalloc((size_t)s->parts + 1, sizeof(**s->part));
        for (int32_t i = 0; i <= s->parts; i++)
            dsf_part_init(&s->part[unit][i], s->plan->model, s->parts, unit, i);
    }
    return &s->part[unit][p];
}

static dsflow_data_id add_data(struct dsf_tensors *s,
                               struct dsflow_data_spec spec, const char *name,
                               const char *suffix, int32_t t)
{
    char *text = t < 0 ? dsf_xasprintf("%s%s", name, suffix)
                       : dsf_xasprintf("%s%s%d", name, suffix, t);
    dsflow_data_id id;

    spec.name = text;
    id = dsflow_graph_add_data(s->out, &spec);
    free(text);
    return id;
}

/* Data of a unit, or the squares of it: T parts and a shared one, each of them
 * maybe empty. */
static void add_unit_data(struct dsf_tensors *s, dsflow_data_id id,
                          dsflow_data_id unit)
{
    const struct dsflow_data_spec *whole = dsf_tensor_spec(s, id);
    struct dsf_cut_data *d = &s->data[id.i];

    for (int32_t p = 0; p <= s->parts; p++) {
        const struct dsf_part *part = dsf_tensor_part(s, unit, p);
        struct dsflow_data_spec spec = *whole;
        int shared = p == s->parts;

        d->id[p] = dsf_no_data();
        if (part->elems == 0)
            continue;
        spec.elems =
            d->cut == DSFLOW_CUT_UNIT ? part->elems : part->elems / part->block;
        spec.block = d->cut == DSFLOW_CUT_UNIT ? part->block : 0;
        spec.part = d->cut == DSFLOW_CUT_UNIT ? part->part : 0;
        if (whole->stream != 0)
            spec.stream = dsf_state_stream(s->plan->job->main.seed,
                                           s->plan->kept.v[whole->kept - 1].name,
                                           whole->unit, part->part);
        d->id[p] = add_data(s, spec, whole->name, shared ? ".shared" : ".p",
                            shared ? -1 : p);
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
        return elems / dims->vocab *
               dsf_share(dims->vocab, s->parts, t, &first);
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
int dsf_tensor_cut(struct dsf_tensors *s, dsflow_data_id id, enum dsflow_cut how,
                   dsflow_data_id unit, struct dsflow_err *err)
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
            d->id[t] = add_data(s, own, spec->name, ".p", t);
        }
    return DSFLOW_OK;
}

static int64_t temp_elems(const struct dsf_tensors *s, int kind, int32_t t)
{
    const struct dsflow_plan *plan = s->plan;
    struct dsflow_tile tile = { .vocab = plan->model->dims.vocab };
    int64_t rows = 0, width = plan->model->dims.width;
    int32_t first;

    for (int32_t i = 0; i < plan->ntiles; i++)
        if (plan->tiles[i].rows > rows)
            rows = plan->tiles[i].rows;
    switch (kind) {
    case DSFLOW_REF_XN:
    case DSFLOW_REF_R:
        return width * dsf_share((int32_t)rows, s->parts, t, &first);
    case DSFLOW_REF_STATS:
        return rows * DSF_HEAD_STATS;
    case DSFLOW_REF_ALL:
        return rows * DSF_HEAD_STATS * s->parts;
    case DSFLOW_REF_TOPS:
        tile.vocab = dsf_share(tile.vocab, s->parts, t, &first);
        return rows * (int64_t)dsf_head_blocks(&tile);
    default:
        return rows * width;
    }
}

static dsflow_data_id add_temp(struct dsf_tensors *s, const char *name,
                               int32_t chunk, int lane, int32_t slot,
                               enum dsflow_dtype dtype, int64_t elems,
                               int32_t t)
{
    static const char lanes[] = "fbw";
    struct dsflow_data_spec spec =
        DSFLOW_DATA(.elems = elems, .dtype = dtype, .role = DSFLOW_BUFFERS,
                    .home = DSFLOW_ANYWHERE, .unit = -1,
                    .ring = "machine.workers");
    char *text = dsf_xasprintf("%s.c%d.%c%d.p", name, chunk, lanes[lane], slot);
    dsflow_data_id id = add_data(s, spec, text, "", t);

    free(text);
    return id;
}

struct dsf_temp *dsf_tensor_take(struct dsf_tensors *s, struct dsf_place *at,
                                 int kind)
{
    static const char *const names[] = { "xn",  "xall",  "partial",   "dall",
                                         "sum", "stats", "stats_all", "tops" };
    const struct dsflow_plan *plan = s->plan;
    const struct dsflow_task_spec *task = at->task;
    int32_t chunk = dsf_plan_chunk(plan, task->layer), k = kind - DSFLOW_REF_XN;
    int32_t of_stage = chunk / plan->nstages;
    int32_t d = dsf_plan_replica_of(plan, task->microbatch), slot;
    size_t index = (size_t)(at->lane * DSFLOW_NTEMPS + k);
    struct dsf_temp *temp = at->temp[k];
    enum dsflow_dtype dtype =
        kind == DSFLOW_REF_STATS || kind == DSFLOW_REF_ALL ? DSFLOW_FP64 : DSFLOW_FP32;

    if (temp != NULL)
        return temp;
    slot = (int32_t)(s->turn[(size_t)(chunk * plan->nreplicas + d) *
                                 DSF_NLANES * DSFLOW_NTEMPS +
                             index]++ %
                     (uint32_t)s->length);
    temp = &s->temps[((size_t)of_stage * DSF_NLANES * DSFLOW_NTEMPS + index) *
                         (size_t)s->length +
                     (size_t)slot];
    at->temp[k] = temp;
    if (temp->id != NULL)
        return temp;
    temp->id = dsf_xcalloc((size_t)s->parts, sizeof(*temp->id));
    for (int32_t t = 0; t < s->parts; t++)
        temp->id[t] = add_temp(s, names[k], of_stage, at->lane, slot, dtype,
                               temp_elems(s, kind, t), t);
    return temp;
}

void dsf_tensor_emit(struct dsf_tensors *s, const struct dsflow_task_spec *like,
                     const struct dsflow_op *op, const void *args, int32_t t,
                     unsigned fresh, unsigned n, const dsflow_data_id *data)
{
    struct dsflow_task_spec task = *like;

    task.op = op;
    task.args = args;
    if (t >= 0)
        task.rank =
            (int16_t)dsf_mesh_peer(&s->plan->mesh, 0, DSF_AXIS_TENSOR, t);
    task.fresh = fresh;
    task.without = op == like->op ? like->without : 0;
    task.ndata = n;
    task.data = data;
    dsflow_graph_add_task(s->out, &task);
}

void dsf_tensor_emit_bound(struct dsf_tensors *s,
                           const struct dsflow_task_spec *like,
                           const struct dsflow_op *op, const void *args,
                           int32_t t, const struct dsf_binding *b)
{
    struct dsflow_task_spec task = *like;

    task.op = op;
    task.without = b->without;
    dsf_tensor_emit(s, &task, op, args, t, b->fresh, b->n, b->data);
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
            d->add[p] = add_data(s, spec, whole->name, ".adds.p", p);
    }
    return d->add[t];
}

void dsf_tensor_share(struct dsf_tensors *s,
                      const struct dsflow_task_spec *like,
                      const struct dsflow_op *op, struct dsf_pieces pieces,
                      const dsflow_data_id *into, const dsflow_data_id *from)
{
    struct dsf_collective c = { op, pieces, from, ++s->collectives };

    for (int32_t t = 0; t < s->parts; t++)
        dsf_collective_emit(s->out, like, &c, t,
                            dsf_mesh_peer(&s->plan->mesh, 0, DSF_AXIS_TENSOR,
                                          t),
                            into[t]);
}

void dsf_tensor_sum(struct dsf_tensors *s, const struct dsflow_task_spec *like,
                    int32_t t, int64_t elems, dsflow_data_id into,
                    const dsflow_data_id *from)
{
    struct dsf_pieces all = { 1, elems, s->parts, t };
    dsflow_data_id *out = dsf_xcalloc((size_t)s->parts, sizeof(*out));

    out[t] = into;
    dsf_tensor_share(s, like, &dsf_op_reduce_scatter, all, out, from);
    free(out);
}
