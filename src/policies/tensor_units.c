/* tensor_units.c - what follows the gradients, for each part of a unit. */
#include "policies/tensor_private.h"

#include "base/alloc.h"
#include "graph/task.h"

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
                   d->id[s->parts], d->add);
}

/* The arguments of a task of a unit, for one part of it: elements of several
 * places. */
static void fill_unit(const struct dsflow_task_spec *task,
                      const struct dsf_part *part, void *args)
{
    int64_t *none = dsf_xcalloc(task->ndata, sizeof(*none));

    memcpy(args, task->args, task->op->args_size);
    task->op->slice(args, DSFLOW_SCATTERED, part->elems, none);
    if (task->op->update)
        ((struct dsflow_update_args *)args)->decay = part->decay;
    free(none);
}

/* The data that says of which unit the task is. */
static dsflow_data_id unit_data(const struct dsf_tensors *s,
                                const struct dsflow_task_spec *task)
{
    return task->data[dsf_task_unit_port(s->in, task)];
}

bool dsf_tensor_is_update(const struct dsf_tensors *s,
                          const struct dsflow_task_spec *task)
{
    return dsf_task_unit_port(s->in, task) >= 0;
}

bool dsf_tensor_follows(const struct dsf_tensors *s, uint32_t first, uint32_t i)
{
    const struct dsflow_task_spec *a =
        dsflow_graph_task(s->in, (dsflow_task_id){ first });
    const struct dsflow_task_spec *b =
        dsflow_graph_task(s->in, (dsflow_task_id){ i });

    return dsf_tensor_is_update(s, b) &&
           dsf_tensor_spec(s, unit_data(s, a))->unit ==
               dsf_tensor_spec(s, unit_data(s, b))->unit;
}

static int cut_ports(struct dsf_tensors *s, const struct dsflow_task_spec *task,
                     struct dsflow_err *err)
{
    static const enum dsflow_cut cuts[] = { [DSFLOW_WHOLE] = DSFLOW_CUT_ONE,
                                         [DSFLOW_ELEMS] = DSFLOW_CUT_UNIT,
                                         [DSFLOW_BLOCKS] = DSFLOW_CUT_BLOCKS };
    int status = DSFLOW_OK;

    for (unsigned i = 0; i < task->ndata && status == DSFLOW_OK; i++) {
        status = dsf_tensor_cut(s, task->data[i],
                                cuts[dsf_task_port(task, i)->slice],
                                unit_data(s, task), err);
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

        data[i] = d->id[d->cut == DSFLOW_CUT_ONE ? 0 : part->part];
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
    dsflow_data_id unit = unit_data(s, task);

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
        dsf_tensor_emit(s, task, task->op, task->args, task->rank, task->fresh,
                        n, ports);
    free(ports);
    return status;
}
