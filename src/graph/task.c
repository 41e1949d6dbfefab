/* task.c - what the op of a task says of it. */
#include "graph/task.h"

#include "base/alloc.h"
#include "base/returned.h"
#include "graph/graph_private.h"

#include <stdlib.h>
#include <string.h>

/* A task as its op sees it. Its shapes are `few`, unless there are many. */
struct task_case {
    struct dsflow_case c;
    struct dsflow_shape few[16], *shapes;
};

unsigned dsf_task_nports(const struct dsflow_task_spec *t)
{
    return t->without == 0 ? t->ndata : t->op->nports;
}

void dsf_task_shapes(const struct dsflow_graph *g,
                     const struct dsflow_task_spec *t,
                     struct dsflow_shape *shapes)
{
    if (t->without != 0)
        memset(shapes, 0, t->op->nports * sizeof(*shapes));
    for (uint32_t i = 0; i < t->ndata; i++) {
        const struct dsflow_data_spec *d = dsflow_graph_data(g, t->data[i]);
        shapes[dsf_task_index(t, i)] = (struct dsflow_shape){
            d->bytes, d->elems, (enum dsflow_dtype)d->dtype
        };
    }
}

static void case_init(struct task_case *s, const struct dsflow_graph *g,
                      const struct dsflow_task_spec *t)
{
    unsigned n = dsf_task_nports(t);

    s->shapes = n <= sizeof(s->few) / sizeof(*s->few)
                    ? s->few
                    : dsf_xcalloc(n, sizeof(*s->shapes));
    dsf_task_shapes(g, t, s->shapes);
    s->c = (struct dsflow_case){ t->op, s->shapes, n, t->args };
}

static void case_fini(struct task_case *s)
{
    if (s->shapes != s->few)
        free(s->shapes);
}

int dsf_check_case(const struct dsflow_case *c, struct dsflow_err *err)
{
    dsf_no_message(err);
    return dsf_returned(c->op->check(c, err), DSFLOW_OK, "task", c->op->name,
                        "check", err);
}

int dsf_task_check(const struct dsflow_graph *g,
                   const struct dsflow_task_spec *t, struct dsflow_err *err)
{
    struct task_case s;
    int status;

    case_init(&s, g, t);
    status = dsf_check_case(&s.c, err);
    case_fini(&s);
    return status;
}

struct dsflow_cost dsf_task_cost(const struct dsflow_graph *g,
                                 const struct dsflow_task_spec *t)
{
    struct dsflow_cost cost = { 0 };
    struct task_case s;

    case_init(&s, g, t);
    if (t->op->cost != NULL)
        t->op->cost(&s.c, &cost);
    for (uint32_t i = 0; t->op->cost == NULL && i < t->ndata; i++)
        cost.bytes += (double)dsflow_graph_data(g, t->data[i])->bytes *
                      (dsflow_task_access(t, i) == DSFLOW_RW ? 2 : 1);
    case_fini(&s);
    return cost;
}

const struct dsflow_port *dsf_task_port(const struct dsflow_task_spec *t,
                                        unsigned i)
{
    return &t->op->ports[dsflow_task_port(t, i)];
}

unsigned dsf_task_index(const struct dsflow_task_spec *t, unsigned i)
{
    return t->without == 0 ? i : dsflow_task_port(t, i);
}

unsigned dsf_task_makes(const struct dsflow_task_spec *t)
{
    unsigned i = 0;

    while (i + 1 < t->ndata && !(dsflow_task_access(t, i) & DSFLOW_W))
        i++;
    return i;
}

int dsf_task_unit_port(const struct dsflow_graph *g,
                       const struct dsflow_task_spec *t)
{
    for (unsigned i = 0; i < t->ndata && t->op->slice != NULL; i++)
        if (dsf_task_port(t, i)->slice == DSFLOW_ELEMS &&
            dsflow_graph_data(g, t->data[i])->unit >= 0)
            return (int)i;
    return -1;
}

double dsf_task_moves(const struct dsflow_graph *g,
                      const struct dsflow_task_spec *t, unsigned i)
{
    const struct dsflow_data_spec *d = dsflow_graph_data(g, t->data[i]);

    if (!t->op->comm || t->rank == DSFLOW_ANYWHERE ||
        d->home == DSFLOW_ANYWHERE || d->home == t->rank)
        return 0;
    return t->op->reads == NULL
               ? (double)d->bytes
               : (double)dsflow_dtype_bytes(d->dtype,
                                        t->op->reads(t->op, t->args, i));
}

double dsf_task_dense(const struct dsflow_graph *g,
                      const struct dsflow_task_spec *t, unsigned i)
{
    double bytes = dsf_task_moves(g, t, i);

    if (t->op->numbers == NULL || !(bytes > 0))
        return bytes;
    return (double)dsflow_dtype_bytes(
        (enum dsflow_dtype)dsflow_graph_data(g, t->data[0])->dtype,
        t->op->numbers(t->op, t->args, i));
}

size_t dsf_task_scratch_by(const struct dsflow_graph *g,
                           const struct dsflow_task_spec *t,
                           size_t (*scratch)(const struct dsflow_case *c))
{
    struct task_case s;
    size_t bytes;

    if (scratch == NULL)
        return 0;
    case_init(&s, g, t);
    bytes = scratch(&s.c);
    case_fini(&s);
    return bytes;
}

size_t dsf_task_scratch(const struct dsflow_graph *g,
                        const struct dsflow_task_spec *t)
{
    return dsf_task_scratch_by(g, t, t->op->scratch);
}

bool dsf_task_uses(const struct dsflow_graph *g,
                   const struct dsflow_task_spec *t, enum dsflow_tier tier)
{
    for (unsigned p = 0; g->in_tier[tier] > 0 && p < t->ndata; p++)
        if (dsflow_graph_data(g, t->data[p])->tier == tier)
            return true;
    return false;
}

bool dsf_task_brings(const struct dsflow_graph *g,
                     const struct dsflow_task_spec *t)
{
    return dsflow_graph_data(g, t->data[0])->tier >
           dsflow_graph_data(g, t->data[1])->tier;
}

size_t dsf_task_swapped(const struct dsflow_graph *g,
                        const struct dsflow_task_spec *t)
{
    size_t from = dsflow_graph_data(g, t->data[0])->bytes;
    size_t to = dsflow_graph_data(g, t->data[1])->bytes;

    return from < to ? from : to;
}
