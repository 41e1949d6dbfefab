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
      1u << 3 | 1u << 4, false },
    { &dsf_op_chunk_squares, offsetof(struct dsf_chunk_args, coding), 0, true },
    { &dsf_op_serve, offsetof(struct dsf_chunk_args, coding), 1u << 2 | 1u << 3,
      false },
    { &dsf_op_send_signs, offsetof(struct dsf_send_args, coding), 0, true },
    { &dsf_op_serve_lamb, offsetof(struct dsf_united_args, at.coding),
      1u << 2 | 1u << 3 | 1u << 4, false },
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
        dsf_compress_part(&s->plan->model->units[part->unit], part, coding);
}

void dsf_tensor_unite(struct dsf_tensors *s)
{
    const struct dsflow_plan *plan = s->plan;
    const unsigned n = plan->model->nunits;
    int64_t *before;

    if (dsf_onebit_lamb_keys(plan->job) == NULL)
        return;
    s->before = before =
        dsf_xcalloc((size_t)n * ((size_t)s->parts + 1), sizeof(*before));
    for (unsigned u = 0; u < n; u++)
        for (int32_t p = 0; p <= s->parts; p++) {
            struct dsf_coding coding = dsf_onebit_coding(
                plan->job, plan->model, &plan->model->units[u]);
            struct dsf_part part;

            *before++ = s->ncoded;
            dsf_part_init(&part, plan->model, s->parts, u, p);
            if (part.elems > 0)
                code(s, &part, &coding);
            for (int64_t i = 0; i < coding.ntensors && part.elems > 0; i++)
                s->ncoded += coding.tensors[i].elems;
        }
}

/* Where the part has its coded numbers among those of all, in the arguments of
 * a task of 1-bit LAMB. */
static void unite(const struct dsf_tensors *s, const struct dsf_part *part,
                  const struct dsflow_op *op, void *args)
{
    if (op == &dsf_op_send_signs)
        ((struct dsf_send_args *)args)->all = s->ncoded;
    if (op != &dsf_op_chunk_sums && op != &dsf_op_serve_lamb)
        return;
    ((struct dsf_united_args *)args)->all = s->ncoded;
    ((struct dsf_united_args *)args)->before =
        s->before[part->unit * ((size_t)s->parts + 1) + (size_t)part->part];
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
    unite(s, part, op, args);
    if (!dsf_sends_signs(s->plan->job) || coding->ntensors > 0)
        return true;
    *without |= coders[i].ports;
    return !coders[i].idle;
}

/* Data of which each part of the unit has so many numbers as `elems` says of
 * its coding, or as many as it has; parts of which nothing is coded have none.
 */
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
        if (elems != NULL)
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
    enum { OUT, SUMS };
    const struct dsf_chunk_scales_args *a = task->args;
    const dsflow_data_id out = task->data[OUT], sums = task->data[SUMS];
    const bool scales = task->op == &dsf_op_chunk_scales;
    /* Arguments of both ops begin with it. */
    struct dsf_coding *coding = dsf_xcopy(a, 1, task->op->args_size);

    cut_by_coding(s, out, sums, &a->coding, scales ? count_scales : NULL,
                  scales ? a->groups : 0);
    for (int32_t p = 0; p <= s->parts; p++) {
        const struct dsf_part *part = dsf_tensor_part(s, sums, p);

        if (!dsf_is_data(s->data[out.i].id[p]))
            continue;
        *coding = a->coding;
        code(s, part, coding);
        unite(s, part, task->op, coding);
        dsf_add_like(
            s->out, task, task->op, coding, dsf_tensor_rank(s, p % s->parts),
            task->fresh, 2,
            (dsflow_data_id[]){ s->data[out.i].id[p], s->data[sums.i].id[p] });
    }
    free(coding);
    return DSFLOW_OK;
}
