/* tensor_units.c - what follows the gradients, for each part of a unit. */
#include "policies/tensor_private.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

/* Before the shared part of a gradient is used: the sum of what the ranks have
 * for it. It is a task of the micro-batch that was last to add, so that it
 * stands where the gradient does. */
static void sum_shared(struct dsf_tensors *s, dsflow_data_id id)
{
    struct dsf_cut_data *d = &s->data[id.i];
    const struct dsf_part *part;

    if (!d->adds)
        return;
    d->adds = false;
    part = dsf_tensor_part(s, id, s->parts);
    dsf_tensor_sum(s, &d->adder, part->part % s->parts, part->elems,
                   d->id[s->parts], d->add, 1);
}

/* The arguments of a task of a unit, for one part of it. */
static void fill_unit(const struct dsflow_task_spec *task,
                      const struct dsf_part *part, void *args)
{
    memcpy(args, task->args, task->op->args_size);
    if (task->op == &dsf_op_add) {
        ((struct dsf_add_args *)args)->elems = part->elems;
    } else if (task->op == &dsf_op_square) {
        ((struct dsf_square_args *)args)->elems = part->elems;
        ((struct dsf_square_args *)args)->block = part->block;
    } else {
        struct dsflow_update_args *update = args;

        update->elems = part->elems;
        update->decay = part->decay;
        update->ntensors = 0;
    }
}

/* The port that says of which unit the task is. */
static unsigned unit_port(const struct dsflow_task_spec *task)
{
    return task->op == &dsf_op_add || task->op == &dsf_op_square ? 0 : 2;
}

bool dsf_tensor_is_update(const struct dsf_tensors *s,
                          const struct dsflow_task_spec *task)
{
    return (task->op == &dsf_op_add || task->op == &dsf_op_square ||
            task->op->update) &&
           dsf_tensor_spec(s, task->data[unit_port(task)])->unit >= 0;
}

bool dsf_tensor_follows(const struct dsf_tensors *s, uint32_t first, uint32_t i)
{
    const struct dsflow_task_spec *a =
        dsflow_graph_task(s->in, (dsflow_task_id){ first });
    const struct dsflow_task_spec *b =
        dsflow_graph_task(s->in, (dsflow_task_id){ i });

    return dsf_tensor_is_update(s, b) &&
           dsf_tensor_spec(s, a->data[unit_port(a)])->unit ==
               dsf_tensor_spec(s, b->data[unit_port(b)])->unit;
}

static int cut_ports(struct dsf_tensors *s, const struct dsflow_task_spec *task,
                     struct dsflow_err *err)
{
    int status = DSFLOW_OK;

    for (unsigned i = 0; i < task->ndata && status == DSFLOW_OK; i++) {
        bool of_unit = dsf_tensor_spec(s, task->data[i])->unit >= 0;
        enum dsf_cut how = of_unit ? DSF_CUT_UNIT : DSF_CUT_ONE;

        if (task->op == &dsf_op_square && i == 1)
            how = DSF_CUT_BLOCKS;
        status = dsf_tensor_cut(s, task->data[i], how,
                                task->data[unit_port(task)], err);
        if (status == DSFLOW_OK)
            sum_shared(s, task->data[i]);
    }
    return status;
}

static void update_part(struct dsf_tensors *s,
                        const struct dsflow_task_spec *task,
                        const struct dsf_part *part)
{
    dsflow_data_id *data = dsf_xcalloc(task->ndata, sizeof(*data));
    void *args = dsf_xcalloc(1, task->op->args_size);

    for (unsigned i = 0; i < task->ndata; i++) {
        const struct dsf_cut_data *d = &s->data[task->data[i].i];

        data[i] = d->id[d->cut == DSF_CUT_ONE ? 0 : part->part];
    }
    fill_unit(task, part, args);
    dsf_tensor_emit(s, task, task->op, args, part->part % s->parts, task->fresh,
                    task->ndata, data);
    free(data);
    free(args);
}

/* A part has all its sums of gradients before the next: who shares them out
 * need not know that there are parts. */
int dsf_tensor_update(struct dsf_tensors *s, uint32_t first, uint32_t n,
                      struct dsflow_err *err)
{
    const struct dsflow_task_spec *task =
        dsflow_graph_task(s->in, (dsflow_task_id){ first });
    dsflow_data_id unit = task->data[unit_port(task)];

    for (uint32_t i = first; i < first + n; i++) {
        int status =
            cut_ports(s, dsflow_graph_task(s->in, (dsflow_task_id){ i }), err);

        if (status < 0)
            return status;
    }
    for (int32_t p = 0; p <= s->parts; p++) {
        const struct dsf_part *part = dsf_tensor_part(s, unit, p);

        for (uint32_t i = first; i < first + n && part->elems > 0; i++)
            update_part(s, dsflow_graph_task(s->in, (dsflow_task_id){ i }),
                        part);
    }
    return DSFLOW_OK;
}

int dsf_tensor_keep(struct dsf_tensors *s, const struct dsflow_task_spec *task,
                    struct dsflow_err *err)
{
    dsflow_data_id ports[DSF_MAX_PIECES + 1];
    unsigned n = 0, fresh = task->fresh;

    for (unsigned i = 0; i < task->ndata; i++) {
        struct dsf_cut_data *d = &s->data[task->data[i].i];
        bool blocks = d->cut == DSF_CUT_BLOCKS && task->op == &dsf_op_sum;
        int status = DSFLOW_OK;

        if (!blocks && d->cut != DSF_CUT_EVERY)
            status = dsf_tensor_cut(s, task->data[i], DSF_CUT_ONE,
                                    task->data[i], err);
        if (status < 0)
            return status;
        for (int32_t p = 0; p <= (blocks ? s->parts : 0); p++) {
            if (!dsf_is_data(d->id[p]))
                continue;
            if (n == DSF_MAX_PIECES + 1) {
                dsf_tensor_emit(s, task, task->op, task->args, task->rank,
                                fresh, n, ports);
                fresh = 0;
                n = 1;
            }
            ports[n++] = d->id[p];
        }
    }
    dsf_tensor_emit(s, task, task->op, task->args, task->rank, fresh, n, ports);
    return DSFLOW_OK;
}
