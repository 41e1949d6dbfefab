/* staged.c - what a task on a core has to do with of data on a device: it goes
 * through a buffer in main memory. */
#include "sim/staged.h"

#include "graph/task.h"
#include "tasks/args.h"
#include "tasks/tasks.h"

/* Updates and casts work on a piece of what is whole. */
static int64_t elems_of(const struct dsflow_task_spec *t, int64_t all)
{
    int64_t elems = all;

    if (t->op->update)
        elems = ((const struct dsflow_update_args *)t->args)->elems;
    else if (t->op == &dsf_op_cast)
        elems = ((const struct dsf_cast_args *)t->args)->elems;
    return elems < all ? elems : all;
}

double dsf_staged_bytes(const struct dsflow_graph *g,
                        const struct dsflow_task_spec *t)
{
    double in = 0, out = 0;

    for (unsigned p = 0; p < t->ndata; p++) {
        const struct dsflow_data_spec *d = dsflow_graph_data(g, t->data[p]);
        const enum dsflow_dtype dtype = (enum dsflow_dtype)d->dtype;
        unsigned access = dsflow_task_access(t, p);
        double bytes;

        if (d->tier != DSFLOW_DEVICE)
            continue;
        bytes = (double)dsflow_dtype_bytes(dtype, elems_of(t, d->elems));
        if (access & DSFLOW_R)
            in += bytes;
        if (access & DSFLOW_W)
            out += bytes;
    }
    return in > out ? in : out;
}
