/* portion.c - what updates in pieces, and what casts for them, have to do with:
 * a piece of a unit whose gradient and parameters are whole. The executor
 * carries by this, and predictions count by it. */
#include "tasks/portion.h"

#include "tasks/args.h"
#include "tasks/components.h"
#include "tasks/tasks.h"

struct numbers {
    int64_t at, elems;
    bool anew; /* all of them are written, and none is read */
};

/* optimizer.h: { control, grad, param, states … }, and states begin with the
 * first number of the task. LAMB has ratios in the place of a gradient, which
 * no port of pieces has. */
static bool find_of_update(const struct dsflow_task_spec *t, unsigned port,
                           struct numbers *n)
{
    enum { GRAD = 1, PARAM = 2 };
    const struct dsflow_update_args *a = t->args;

    n->elems = a->elems;
    n->anew = port > 0 && port == dsf_optimizer_copy_port(t->op);
    n->at = port == GRAD ? a->grad_at : a->param_at;
    if (n->anew)
        n->at = ((const struct dsf_update_args *)t->args)->copy_at;
    return t->op->ports[port].slice == DSFLOW_ELEMS &&
           (port == GRAD || port == PARAM || n->anew);
}

static bool find_of_cast(const struct dsflow_task_spec *t, unsigned port,
                         struct numbers *n)
{
    const struct dsf_cast_args *a = t->args;

    *n = (struct numbers){ port == 0 ? a->in_at : a->out_at, a->elems,
                           port == 1 };
    return port < 2;
}

static bool find_of_weights(const struct dsflow_task_spec *t, unsigned port,
                            struct numbers *n)
{
    enum { IN = 1, OUT };
    const struct dsf_fake_quantize_args *a = t->args;

    *n = (struct numbers){ port == IN ? a->in_at : a->out_at, a->elems,
                           port == OUT };
    return port == IN || port == OUT;
}

static bool find(const struct dsflow_task_spec *t, unsigned port,
                 struct numbers *n)
{
    return t->op->update                    ? find_of_update(t, port, n)
           : t->op == &dsf_op_cast          ? find_of_cast(t, port, n)
           : t->op == &dsf_op_fake_quantize ? find_of_weights(t, port, n)
                                            : false;
}

struct dsf_portion dsf_portion_of(const struct dsflow_graph *g,
                                  const struct dsflow_task_spec *t, unsigned i)
{
    const struct dsflow_data_spec *d = dsflow_graph_data(g, t->data[i]);
    const enum dsflow_dtype dtype = (enum dsflow_dtype)d->dtype;
    const unsigned access = dsflow_task_access(t, i);
    struct dsf_portion part = { 0, d->bytes, (access & DSFLOW_R) != 0,
                                (access & DSFLOW_W) != 0 };
    const unsigned port = dsflow_task_port(t, i);
    struct numbers n;

    /* Scales stand in front of all int8 numbers. */
    if (dtype == DSFLOW_INT8_BLOCK || !find(t, port, &n))
        return part;
    part.at = dsflow_dtype_bytes(dtype, n.at);
    part.bytes = dsflow_dtype_bytes(dtype, n.elems);
    part.brought = part.brought && !n.anew;
    return part;
}
