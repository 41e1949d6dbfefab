/* tensor_signs.c - what is sent of the parts of a unit in another format: each
 * part is coded as a unit of its own, and has scales of its own pieces of
 * tensors. Where momenta are sent in 1 bit, a part may have nothing that is
 * coded (vectors, padding): its momentum is sent as it is.
 */
#include "policies/tensor_private.h"

#include "base/alloc.h"
#include "policies/compress.h"
#include "policies/onebit.h"
#include "tasks/tasks.h"

#include <stddef.h>
#include <stdlib.h>

/* Tasks that are told how a unit is coded: where in their arguments, and which
 * ports (onebit_args.h, zeroone_args.h) they do not have where nothing is; or
 * that they do nothing then. */
static const struct {
    const struct dsflow_op *op;
    size_t at;
    uint32_t ports;
    bool idle;
} coders[] = {
    { &dsf_op_add_recoded, offsetof(struct dsf_add_recoded_args, coding), 0,
      false },
    { &dsf_op_feed_back, offsetof(struct dsf_feed_back_args, coding), 0,
      false },
    { &dsf_op_feed_momentum, offsetof(struct dsf_momentum_args, coding),
      1u << 3, false },
    { &dsf_op_chunk_squares, offsetof(struct dsf_chunk_args, coding), 0, true },
    { &dsf_op_serve, offsetof(struct dsf_chunk_args, coding), 1u << 2 | 1u << 3,
      false },
    { &dsf_op_serve_mean, offsetof(struct dsf_chunk_args, coding), 0, true },
    { &dsf_op_feed_local, offsetof(struct dsf_feed_local_args, coding), 1u << 4,
      false },
};
enum { NCODERS = sizeof(coders) / sizeof(*coders) };

static void code(const struct dsf_tensors *s, const struct dsf_part *part,
                 struct dsf_coding *coding)
{
    if (dsf_sends_signs(s->plan->job))
        dsf_onebit_code_part(s->plan->job, s->plan->model, part, coding);
    else
        dsf_compress_part(part, coding);
}

bool dsf_tensor_code(const struct dsf_tensors *s, const struct dsf_part *part,
                     const struct dsflow_op *op, void *args, uint32_t *without)
{
    struct dsf_coding *coding;
    unsigned i = 0;

    while (i < NCODERS && coders[i].op != op)
        i++;
    if (i == NCODERS)
        return true;
    coding = (struct dsf_coding *)((char *)args + coders[i].at);
    code(s, part, coding);
    if (!dsf_sends_signs(s->plan->job) || coding->ntensors > 0)
        return true;
    *without |= coders[i].ports;
    return !coders[i].idle;
}

/* Data of which each part of the unit has so many numbers as `elems` says of
 * its coding; parts of which nothing is coded have none. */
static void cut_by_coding(struct dsf_tensors *s, dsflow_data_id id,
                          dsflow_data_id unit, const struct dsf_coding *of,
                          int64_t (*elems)(const struct dsf_part *part,
                                           const struct dsf_coding *coding,
                                           int64_t groups),
                          int64_t groups)
{
    const struct dsflow_data_spec *whole = dsf_tensor_spec(s, id);
    struct dsf_cut_data *d = &s->data[id.i];

    if (d->cut != DSFLOW_CUT_UNKNOWN)
        return;
    d->cut = DSFLOW_CUT_BLOCKS;
    d->id = dsf_xcalloc((size_t)s->parts + 1, sizeof(*d->id));
    for (int32_t p = 0; p <= s->parts; p++) {
        const struct dsf_part *part = dsf_tensor_part(s, unit, p);
        struct dsf_coding coding = *of;
        struct dsflow_data_spec spec = *whole;

        d->unit = part->unit + 1;
        d->id[p] = dsf_no_data();
        if (part->elems > 0)
            code(s, part, &coding);
        if (part->elems == 0 || coding.ntensors == 0)
            continue;
        spec.elems = elems(part, &coding, groups);
        d->id[p] =
            dsf_add_named(s->out, &spec, p == s->parts ? "%s.shared" : "%s.p%d",
                          whole->name, p);
    }
}

static int64_t count_blocks(const struct dsf_part *part,
                            const struct dsf_coding *coding, int64_t groups)
{
    return part->elems / coding->block;
}

static int64_t count_scales(const struct dsf_part *part,
                            const struct dsf_coding *coding, int64_t groups)
{
    return coding->ntensors * groups;
}

void dsf_tensor_cut_squares(struct dsf_tensors *s,
                            const struct dsflow_task_spec *task,
                            dsflow_data_id unit)
{
    const struct dsf_chunk_args *a = task->args;

    cut_by_coding(s, task->data[task->ndata - 1], unit, &a->coding,
                  count_blocks, a->groups);
}

int dsf_tensor_scale(struct dsf_tensors *s, const struct dsflow_task_spec *task,
                     struct dsflow_err *err)
{
    enum { SCALES, SUMS };
    const struct dsf_chunk_scales_args *a = task->args;
    const dsflow_data_id scales = task->data[SCALES], sums = task->data[SUMS];

    cut_by_coding(s, scales, sums, &a->coding, count_scales, a->groups);
    for (int32_t p = 0; p <= s->parts; p++) {
        struct dsf_chunk_scales_args args = *a;

        if (!dsf_is_data(s->data[scales.i].id[p]))
            continue;
        code(s, dsf_tensor_part(s, sums, p), &args.coding);
        dsf_add_like(s->out, task, task->op, &args,
                     dsf_tensor_rank(s, p % s->parts), task->fresh, 2,
                     (dsflow_data_id[]){ s->data[scales.i].id[p],
                                         s->data[sums.i].id[p] });
    }
    return DSFLOW_OK;
}
