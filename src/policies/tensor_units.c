/* tensor_units.c - what follows the gradients, for each part of a unit. */
#include "policies/tensor_private.h"

#include "base/alloc.h"
#include "graph/asked.h"
#include "tasks/tasks.h"

#include <stdlib.h>

/* Before the shared part of a gradient is used: the sum of what the ranks have
 * for it, on the one that has that part. It is a task of the micro-batch that
 * was last to add, so that it stands where the gradient does. */
static void sum_shared(struct dsf_tensors *s, dsflow_data_id id)
{
    struct dsf_cut_data *d = &s->data[id.i];
    struct dsf_pieces all = { .blocks = 1, .members = s->parts };
    dsflow_data_id *into;

    if (!d->adds)
        return;
    d->adds = false;
    all.block = dsf_tensor_part(s, id, s->parts)->elems;
    into = dsf_xcalloc((size_t)s->parts, sizeof(*into));
    into[all.owner] = d->id[s->parts];
    dsf_tensor_share(s, &d->adder, &dsf_op_reduce_scatter, all, into, d->add);
    free(into);
}

/* The data that says of which unit the task is; NULL: it is of none. */
static const dsflow_data_id *unit_data(const struct dsf_tensors *s,
                                       const struct dsflow_task_spec *task)
{
    int port = task != NULL ? dsf_task_unit_port(s->in, task) : -1;

    return port < 0 ? NULL : &task->data[port];
}

/* A task of a part has that part of its unit where it needs all of it, and what
 * a task before it has left of the part. */
static enum dsflow_cut cut_of_port(const struct dsf_tensors *s,
                                   const struct dsflow_task_spec *task,
                                   unsigned i)
{
    const struct dsflow_data_spec *unit =
        dsf_tensor_spec(s, *unit_data(s, task));
    const struct dsflow_data_spec *d = dsf_tensor_spec(s, task->data[i]);

    switch (dsf_task_port(task, i)->slice) {
    case DSFLOW_ELEMS:
        return DSFLOW_CUT_UNIT;
    case DSFLOW_BLOCKS:
        return DSFLOW_CUT_BLOCKS;
    default:
        if (s->data[task->data[i].i].cut == DSFLOW_CUT_BLOCKS)
            return DSFLOW_CUT_BLOCKS;
        return d->unit == unit->unit && d->elems == unit->elems
                   ? DSFLOW_CUT_UNIT
                   : DSFLOW_CUT_ONE;
    }
}

static int cut_ports(struct dsf_tensors *s, const struct dsflow_task_spec *task,
                     struct dsflow_err *err)
{
    int status = DSFLOW_OK;

    if (task->op == &dsf_op_chunk_squares)
        dsf_tensor_cut_squares(s, task, *unit_data(s, task));
    for (unsigned i = 0; i < task->ndata && status == DSFLOW_OK; i++) {
        status = dsf_tensor_cut(s, task->data[i], cut_of_port(s, task, i),
                                *unit_data(s, task), err);
        if (status == DSFLOW_OK)
            sum_shared(s, task->data[i]);
    }
    return status;
}

/* What the part has of tensors, each block of it of one. */
static void describe_part(struct dsf_tensors *s, const struct dsf_part *part,
                          struct dsflow_update_args *args)
{
    const struct dsf_unit *unit = &s->plan->model->units[part->unit];

    args->decay = part->decay;
    args->block = part->block;
    args->ntensors = (int32_t)part->nblocks;
    for (unsigned i = 0; i < part->nblocks; i++) {
        const struct dsf_block *b = &part->blocks[i];
        unsigned t = dsf_unit_tensor_at(unit, b->at_whole);

        args->tensors[i] = (struct dsflow_tensor){
            .at = b->at_part,
            .rows = b->rows,
            .cols = b->cols,
            .kind = unit->tensors[t].vector ? DSFLOW_VECTOR : unit->matrices,
            .decays = b->at_part < part->decay,
            .number = (int16_t)t,
        };
    }
}

/* How many numbers of the part decay, of tasks that are told but are no
 * `update`. */
static void set_decay(const struct dsf_part *part, const struct dsflow_op *op,
                      void *args)
{
    if (op == &dsf_op_held_update)
        ((struct dsf_held_args *)args)->decay = part->decay;
    if (op == &dsf_op_local_update || op == &dsf_op_local_weights)
        ((struct dsf_local_args *)args)->decay = part->decay;
}

/* The data of the part on the ports that are not in *without, which gets those
 * that the task has not had before; how many. */
static unsigned part_data(const struct dsf_tensors *s,
                          const struct dsflow_task_spec *task, int32_t part,
                          uint32_t *without, dsflow_data_id *data)
{
    unsigned n = 0;

    for (unsigned i = 0; i < task->ndata; i++) {
        const struct dsf_cut_data *d = &s->data[task->data[i].i];

        if (!(*without >> dsflow_task_port(task, i) & 1))
            data[n++] = d->id[d->cut == DSFLOW_CUT_ONE ? 0 : part];
    }
    *without |= task->without;
    return n;
}

/* The ports that the task has. */
static uint32_t ports_of(const struct dsflow_task_spec *task)
{
    uint32_t ports = 0;

    for (unsigned i = 0; i < task->ndata && i < 32; i++)
        ports |= 1u << dsflow_task_port(task, i);
    return ports;
}

/* The task on one part of its unit: elements of several places. */
static void update_part(struct dsf_tensors *s,
                        const struct dsflow_task_spec *task,
                        const struct dsf_part *part)
{
    dsflow_data_id *data = dsf_xcalloc(task->ndata, sizeof(*data));
    int64_t *none = dsf_xcalloc(dsf_task_nports(task), sizeof(*none));
    void *args = dsf_xcopy(task->args, 1, task->op->args_size);
    struct dsflow_task_spec like = *task;
    bool does;
    unsigned n;

    task->op->slice(args, DSFLOW_SCATTERED, part->elems, none);
    if (task->op->update)
        describe_part(s, part, args);
    set_decay(part, task->op, args);
    like.without = 0;
    does = dsf_tensor_code(s, part, task->op, args, &like.without);
    like.without &= ports_of(task);
    n = part_data(s, task, part->part, &like.without, data);
    if (does)
        dsf_add_like(s->out, &like, task->op, args,
                     dsf_tensor_rank(s, part->part % s->parts), task->fresh, n,
                     data);
    free(data);
    free(none);
    free(args);
}

/* A part has all its sums of gradients before the next: who shares them out
 * need not know that there are parts. Of tasks on one unit, some may be of other
 * groups than a process asks for. */
int dsf_tensor_update(struct dsf_tensors *s, uint32_t first, uint32_t *n,
                      struct dsflow_err *err)
{
    const dsflow_data_id *unit = unit_data(s, dsf_nth_task(s->in, first)), *id;
    int status = DSFLOW_OK;

    for (*n = 0; status == DSFLOW_OK; ++*n) {
        id = unit_data(s, dsf_nth_task(s->in, first + *n));
        if (id == NULL ||
            dsf_tensor_spec(s, *id)->unit != dsf_tensor_spec(s, *unit)->unit)
            break;
        dsf_asked_follow(s->out, first + *n);
        status = cut_ports(s, dsf_nth_task(s->in, first + *n), err);
    }
    for (int32_t p = 0; p <= s->parts && *n > 0 && status == DSFLOW_OK; p++) {
        const struct dsf_part *part = dsf_tensor_part(s, *unit, p);

        for (uint32_t i = first; i < first + *n && part->elems > 0; i++) {
            dsf_asked_follow(s->out, i);
            update_part(s, dsf_nth_task(s->in, i), part);
        }
    }
    return status;
}

int dsf_tensor_sum(struct dsf_tensors *s, const struct dsflow_task_spec *task,
                   struct dsflow_err *err)
{
    const enum dsflow_cut cut = s->data[task->data[1].i].cut;
    dsflow_data_id *ports = dsf_xcalloc(task->ndata, sizeof(*ports));
    struct dsf_sum_args args = *(const struct dsf_sum_args *)task->args;
    int status = DSFLOW_OK;

    s->dims = &dsf_model_layer(s->plan->model, task->layer)->dims;
    for (unsigned i = 0; i < task->ndata && status == DSFLOW_OK; i++)
        status = dsf_tensor_cut(s, task->data[i], cut, task->data[i], err);
    for (int32_t t = 0; t < s->parts && status == DSFLOW_OK; t++) {
        for (unsigned i = 0; i < task->ndata; i++)
            ports[i] = s->data[task->data[i].i].id[t];
        args.elems = dsflow_graph_data(s->out, ports[0])->elems;
        dsf_add_like(s->out, task, task->op, &args, dsf_tensor_rank(s, t),
                     task->fresh, task->ndata, ports);
    }
    if (status == DSFLOW_OK)
        s->data[task->data[0].i].version++;
    free(ports);
    return status;
}

int dsf_tensor_keep(struct dsf_tensors *s, const struct dsflow_task_spec *task,
                    struct dsflow_err *err)
{
    dsflow_data_id *ports = dsf_xcalloc(
        (size_t)task->ndata * (size_t)(s->parts + 1), sizeof(*ports));
    int status = DSFLOW_OK;
    unsigned n = 0;

    for (unsigned i = 0; i < task->ndata && status == DSFLOW_OK; i++) {
        struct dsf_cut_data *d = &s->data[task->data[i].i];
        bool joins = d->cut == DSFLOW_CUT_BLOCKS && task->op->joins;

        if (!joins && d->cut != DSFLOW_CUT_EVERY)
            status = dsf_tensor_cut(s, task->data[i], DSFLOW_CUT_ONE,
                                    task->data[i], err);
        for (int32_t p = 0; p <= (joins ? s->parts : 0) && status == 0; p++)
            if (dsf_is_data(d->id[p]))
                ports[n++] = d->id[p];
    }
    if (status == DSFLOW_OK)
        dsf_add_like(s->out, task, task->op, task->args, task->rank,
                     task->fresh, n, ports);
    free(ports);
    return status;
}
