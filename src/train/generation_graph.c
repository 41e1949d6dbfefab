/* generation_graph.c - data and tasks of generation: what is common to those of
 * whole segments and those of the columns that each worker does. */
#include "train/generation_build.h"

#include "base/alloc.h"
#include "graph/task.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

dsflow_data_id dsf_build_data(struct dsf_generation *g, int32_t part,
                              struct dsflow_data_spec spec,
                              struct dsflow_need need, const char *fmt, ...)
{
    char name[160];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(name, sizeof(name), fmt, ap);
    va_end(ap);
    spec.size = sizeof(spec);
    spec.name = name;
    spec.home = (int16_t)part;
    spec.elems = need.rows * need.cols;
    spec.ndims = 2;
    spec.dims[0] = need.rows;
    spec.dims[1] = need.cols;
    spec.dtype = (uint8_t)need.dtype;
    if (spec.role != DSFLOW_PARAMS)
        spec.unit = -1;
    return dsflow_graph_add_data(g->graph, &spec);
}

static struct dsflow_data_spec constant(void)
{
    return DSFLOW_DATA(.role = DSFLOW_BUFFERS, .persistent = 1, .constant = 1);
}

static void add_params(struct dsf_generation *g)
{
    const struct dsf_model *m = g->model;

    g->params = dsf_xcalloc(m->nunits, sizeof(*g->params));
    g->again = dsf_xcalloc(m->nunits, sizeof(*g->again));
    for (unsigned u = 0; u < m->nunits; u++) {
        const struct dsflow_need need = dsf_build_numbers(
            dsf_generation_unit_type(m, g->types, u), 1, m->units[u].elems);
        struct dsflow_data_spec spec = constant();

        spec.role = DSFLOW_PARAMS;
        spec.unit = (int32_t)u;
        g->params[u] = dsf_build_data(g, 0, spec, need, "%s", m->units[u].name);
        g->again[u] = dsf_no_data();
        if (!g->whole && m->units[u].segment == &dsf_segment_qkv)
            g->again[u] =
                dsf_build_data(g, 0, spec, need, "%s.again", m->units[u].name);
    }
}

static void add_common(struct dsf_generation *g)
{
    const struct dsf_dims *d = &g->model->dims;

    add_params(g);
    g->rope = dsf_no_data();
    if (d->rope)
        g->rope =
            dsf_build_data(g, 0, constant(),
                           dsf_build_floats(d->context, d->head_dim), "rope");
    g->layouts.id =
        dsf_xcalloc((size_t)g->layouts.n + 1, sizeof(*g->layouts.id));
    for (int32_t i = 0; i < g->layouts.n; i++) {
        const struct dsf_attention_layout *l = &g->layouts.v[i];

        g->layouts.id[i] =
            dsf_build_data(g, 0, constant(),
                           dsf_layout_need(l->heads, l->blocks), "layout%d",
                           (int)i);
    }
    g->batch = dsf_build_data(g, 0, dsf_build_lasting(),
                              (struct dsflow_need){ 2, g->rows, DSFLOW_INT32 },
                              "batch");
}

/* --- tasks --------------------------------------------------------------- */

struct dsf_generation_task *dsf_build_task(struct dsf_generation *g,
                                           struct dsf_task_of of)
{
    struct dsf_generation_task *t;

    dsf_grow(&g->tasks, &g->cap_tasks, g->ntasks + 1u, sizeof(*g->tasks));
    t = &g->tasks[g->ntasks++];
    memset(t, 0, sizeof(*t));
    t->segment = of.segment;
    t->slice = of.slice;
    t->of = of.op;
    t->op = of.slice != NULL ? of.op : dsf_job_op(g->job, of.op);
    t->layer = of.layer;
    t->part = of.part;
    return t;
}

void dsf_build_bind(struct dsf_generation_task *t, unsigned port,
                    dsflow_data_id id, bool keys)
{
    if (!dsf_is_data(id))
        return;
    t->port[t->n] = (uint8_t)port;
    t->keys[t->n] = keys;
    t->data[t->n++] = id;
}

void dsf_build_cast(struct dsf_generation *g, struct dsf_task_of of,
                    unsigned port, dsflow_data_id into, dsflow_data_id from)
{
    struct dsf_generation_task *t;

    of.op = &dsf_op_columns;
    t = dsf_build_task(g, of);
    t->casts = true;
    t->cast = (uint8_t)port;
    dsf_build_bind(t, 0, into, false);
    dsf_build_bind(t, 1, from, false);
}

static struct dsf_generation_task *once_more(struct dsf_generation *g)
{
    struct dsf_generation_task *t;

    dsf_grow(&g->tasks, &g->cap_tasks, g->ntasks + 1u, sizeof(*g->tasks));
    t = &g->tasks[g->ntasks++];
    *t = t[-1];
    return t;
}

/* It works on the ring, and not on what stands aside. */
static void use_ring(struct dsf_generation_task *t,
                     enum dsf_generation_ring run, dsflow_data_id kept,
                     dsflow_data_id aside)
{
    t->earlier = true;
    t->ring = (uint8_t)run;
    for (unsigned i = 0; i < t->n; i++)
        if (t->data[i].i == aside.i) {
            t->data[i] = kept;
            t->keys[i] = true;
        }
}

/* New keys into their places. */
static void put_aside(struct dsf_generation *g,
                      const struct dsf_generation_task *of,
                      enum dsf_generation_ring ring, dsflow_data_id kept,
                      dsflow_data_id aside)
{
    struct dsf_generation_task *t = dsf_build_task(
        g, (struct dsf_task_of){ of->segment, of->slice, &dsf_op_columns,
                                 of->layer, of->part });

    t->op = &dsf_op_columns;
    t->ring = (uint8_t)ring;
    dsf_build_bind(t, 0, kept, true);
    dsf_build_bind(t, 1, aside, true);
}

static void build_ring(struct dsf_generation *g, dsflow_data_id kept,
                       dsflow_data_id aside)
{
    const struct dsf_generation_task last = g->tasks[g->ntasks - 1];

    if (dsf_generation_keys(g->model, last.layer) > 1) {
        use_ring(once_more(g) - 1, DSF_RING_OLDER, kept, aside);
        use_ring(once_more(g) - 1, DSF_RING_NEWER, kept, aside);
    }
    g->tasks[g->ntasks - 1].ring = DSF_RING_ASIDE;
    put_aside(g, &last, DSF_RING_PUT, kept, aside);
    put_aside(g, &last, DSF_RING_REST, kept, aside);
}

void dsf_build_pair(struct dsf_generation *g, dsflow_data_id kept,
                    dsflow_data_id aside)
{
    if (g->model->dims.context < 2)
        return;
    if (dsf_is_data(aside))
        build_ring(g, kept, aside);
    else
        once_more(g)[-1].earlier = true;
}

dsflow_data_id dsf_build_aside(struct dsf_generation *g, int32_t part,
                               struct dsflow_need need)
{
    need.rows = g->rows;
    if (g->aside[part] == 0)
        g->aside[part] = 1 + dsf_build_data(g, part, dsf_build_passing(), need,
                                            "kv.aside.p%d", (int)part)
                                 .i;
    return (dsflow_data_id){ g->aside[part] - 1 };
}

void dsf_generation_build(struct dsf_generation *g)
{
    add_common(g);
    if (g->whole)
        dsf_generation_whole(g);
    else
        dsf_generation_shared(g);
}
