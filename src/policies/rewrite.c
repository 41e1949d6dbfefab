/* rewrite.c - data and tasks of the old graph in the new one. */
#include <dsflow/rewrite.h>

#include "base/alloc.h"
#include "policies/policies.h"

#include <stdarg.h>
#include <stdlib.h>

void dsf_rewrite_programs(const struct dsflow_graph *in,
                          struct dsflow_graph *out)
{
    for (unsigned p = 0; p < dsflow_graph_nprograms(in); p++)
        dsflow_graph_add_program(out,
                                 dsflow_graph_program(in, (dsflow_program)p));
}

struct dsflow_rewrite dsflow_rewrite_begin(struct dsflow_graph *in,
                                           struct dsflow_graph *out)
{
    uint32_t n = dsflow_graph_ndata(in);

    dsf_rewrite_programs(in, out);
    return (struct dsflow_rewrite){
        .in = in,
        .out = out,
        .copy = dsf_xcalloc(n + 1, sizeof(dsflow_data_id)),
        .copied = dsf_xcalloc(n + 1, 1),
    };
}

void dsflow_rewrite_end(struct dsflow_rewrite *rw)
{
    free(rw->copy);
    free(rw->copied);
    free(rw->list);
}

dsflow_data_id dsflow_rewrite_data(struct dsflow_rewrite *rw, dsflow_data_id id)
{
    if (id.i >= dsflow_graph_ndata(rw->in))
        return (dsflow_data_id){ UINT32_MAX }; /* a task of it is a fault */
    if (!rw->copied[id.i]) {
        rw->copy[id.i] =
            dsflow_graph_add_data(rw->out, dsflow_graph_data(rw->in, id));
        rw->copied[id.i] = 1;
    }
    return rw->copy[id.i];
}

void dsflow_rewrite_task(struct dsflow_rewrite *rw,
                         const struct dsflow_task_spec *task)
{
    struct dsflow_task_spec t = *task;

    dsf_grow(&rw->list, &rw->cap_list, t.ndata, sizeof(*rw->list));
    for (uint32_t p = 0; p < t.ndata && t.data != NULL; p++)
        rw->list[p] = dsflow_rewrite_data(rw, t.data[p]);
    t.data = t.data != NULL ? rw->list : NULL;
    dsflow_graph_add_task(rw->out, &t);
}

void dsf_add_like(struct dsflow_graph *g, const struct dsflow_task_spec *like,
                  const struct dsflow_op *op, const void *args, int32_t rank,
                  uint32_t fresh, uint32_t n, const dsflow_data_id *data)
{
    struct dsflow_task_spec t = *like;

    t.op = op;
    t.args = args;
    t.rank = (int16_t)rank;
    t.fresh = fresh;
    if (op != like->op)
        t.without = t.collective = t.apart = 0;
    t.ndata = n;
    t.data = data;
    dsflow_graph_add_task(g, &t);
}

void dsf_add_mapped(struct dsflow_graph *g, const struct dsflow_task_spec *task,
                    dsf_port_fn port, void *user)
{
    struct dsflow_task_spec t = *task;
    dsflow_data_id few[16], *data = few;

    if (t.ndata > sizeof(few) / sizeof(*few))
        data = dsf_xcalloc(t.ndata, sizeof(*data));
    for (unsigned i = 0; i < t.ndata; i++)
        data[i] = port(user, task, i);
    t.data = data;
    dsflow_graph_add_task(g, &t);
    if (data != few)
        free(data);
}

dsflow_data_id dsf_add_named(struct dsflow_graph *g,
                             const struct dsflow_data_spec *spec,
                             const char *fmt, ...)
{
    struct dsflow_data_spec named = *spec;
    char name[256];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(name, sizeof(name), fmt, ap);
    va_end(ap);
    named.name = name;
    return dsflow_graph_add_data(g, &named);
}

dsflow_data_id dsflow_rewrite_named(struct dsflow_graph *out,
                                    const struct dsflow_data_spec *spec,
                                    const char *fmt, ...)
{
    struct dsflow_data_spec named = *spec;
    dsflow_data_id id;
    char name[128];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(name, sizeof(name), fmt, ap);
    va_end(ap);
    if (dsflow_graph_find(out, name, &id))
        return id;
    named.name = name;
    return dsflow_graph_add_data(out, &named);
}

void dsflow_rewrite_all(struct dsflow_graph *in, struct dsflow_graph *out,
                        void (*change)(void *user, struct dsflow_task_spec *t),
                        void *user)
{
    dsf_rewrite_programs(in, out);
    for (uint32_t i = 0; i < dsflow_graph_ndata(in); i++)
        dsflow_graph_add_data(out, dsf_nth_data(in, i));
    for (uint32_t i = 0; i < dsflow_graph_ntasks(in); i++) {
        struct dsflow_task_spec t = *dsf_nth_task(in, i);

        if (change != NULL)
            change(user, &t);
        dsflow_graph_add_task(out, &t);
    }
}
