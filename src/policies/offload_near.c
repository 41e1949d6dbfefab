/* offload_near.c - updates that multiply matrices: where ranks are GPUs they
 * are done there, as all products are. Cores leave other last bits, and a
 * result must not depend on where states are kept. So their states come into
 * buffers on the device, as parameters do. */
#include "policies/offload_private.h"

#include "tasks/tasks.h"

bool dsf_offload_is_near(const struct dsflow_plan *plan,
                         const struct dsflow_task_spec *t)
{
    const struct dsflow_update_args *a = t->args;
    bool matrix = false;
    unsigned whole;

    if (!t->op->update || !t->op->multiplies || !dsf_plan_has_gpus(plan))
        return false;
    whole = dsflow_optimizer_find(plan->job->optimizer.kind)->whole;
    for (int32_t i = 0; i < a->ntensors; i++)
        matrix |= a->tensors[i].kind == DSFLOW_MATRIX;
    return whole == DSFLOW_WHOLE_TENSORS ||
           (whole == DSFLOW_WHOLE_MATRICES && matrix);
}

/* Does it use a buffer on the device in which states are updated that are kept
 * elsewhere in fewer bytes? */
static bool casts_near(const struct offload *o,
                       const struct dsflow_task_spec *t)
{
    for (unsigned p = 0; t->op == &dsf_op_cast && p < t->ndata; p++) {
        const struct dsflow_data_spec *d =
            dsflow_graph_data(o->rw.in, t->data[p]);

        if (d->role == DSFLOW_STATES && d->unit < 0 && d->tier == DSFLOW_DEVICE)
            return true;
    }
    return false;
}

void dsf_offload_find_near(struct offload *o)
{
    const struct dsflow_task_spec *t;

    if (!dsf_plan_has_gpus(o->plan))
        return;
    for (uint32_t i = 0; (t = dsf_nth_task(o->rw.in, i)) != NULL; i++) {
        const bool near = dsf_offload_is_near(o->plan, t) || casts_near(o, t);

        for (unsigned p = 0; p < t->ndata && near; p++)
            o->items[t->data[p].i].near =
                dsflow_graph_data(o->rw.in, t->data[p])->role == DSFLOW_STATES;
    }
}
