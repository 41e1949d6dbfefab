/* joined.c - messages between processes as tasks of the graph of all. */
#include "sim/joined.h"

#include "base/alloc.h"
#include "graph/task.h"
#include "plan/process_buffers.h"
#include "tasks/tasks.h"

#include <stdlib.h>
#include <string.h>

struct joining {
    const struct dsf_processes *all;
    const struct dsflow_graph *in;
    struct dsf_joined *j;
    size_t cap_of;
    struct dsf_process_buffers buffers;
    dsflow_data_id *ports;
    size_t cap_ports;
};

static void add(struct joining *x, const struct dsflow_task_spec *t,
                uint32_t of)
{
    uint32_t n = dsflow_graph_ntasks(x->j->graph);

    dsf_grow(&x->j->of, &x->cap_of, (size_t)n + 1, sizeof(*x->j->of));
    x->j->of[n] = of;
    dsflow_graph_add_task(x->j->graph, t);
}

/* What the task takes of its data[i]. */
static struct dsf_range range_of(const struct joining *x,
                                 const struct dsflow_task_spec *t, unsigned i)
{
    const struct dsf_sum_args *sum = t->args;

    if (t->op == &dsf_op_reduce)
        return (struct dsf_range){ sum->elems, 0, sum->from };
    if (t->op == &dsf_op_add_compressed)
        return dsf_compressed_move(t->args,
                                   dsflow_graph_data(x->in, t->data[i])->elems);
    return (struct dsf_range){ dsflow_graph_data(x->in, t->data[i])->elems, 0,
                               0 };
}

static dsflow_data_id receive(struct joining *x,
                              const struct dsflow_task_spec *t, uint32_t of,
                              unsigned i, unsigned k)
{
    struct dsf_range move = range_of(x, t, i);
    dsflow_data_id ports[2] = {
        dsf_process_buffer(&x->buffers, x->j->graph, DSF_RECEIVED, t->rank,
                           dsflow_graph_data(x->in, t->data[i])->dtype,
                           move.elems, k),
        t->data[i]
    };
    struct dsflow_task_spec copy = *t;

    copy.op = &dsf_op_copy;
    copy.args = &move;
    copy.data = ports;
    copy.ndata = 2;
    copy.fresh = 1;
    copy.without = 0;
    add(x, &copy, of);
    return ports[0];
}

/* The same task, of what has come. */
static void add_up(struct joining *x, const struct dsflow_task_spec *t,
                   uint32_t of)
{
    const int32_t here = dsf_process_of(x->all, t->rank);
    struct dsflow_task_spec own = *t;
    unsigned k = 0;

    dsf_grow(&x->ports, &x->cap_ports, t->ndata, sizeof(*x->ports));
    for (unsigned i = 0; i < t->ndata; i++) {
        int32_t home = dsflow_graph_data(x->in, t->data[i])->home;

        x->ports[i] = home < 0 || dsf_process_of(x->all, home) == here
                          ? t->data[i]
                          : receive(x, t, of, i, k++);
    }
    dsf_process_buffers_turn(&x->buffers, t->rank);
    own.data = x->ports;
    add(x, &own, of);
}

static bool is_carried(const struct dsflow_task_spec *t)
{
    return t->op == &dsf_op_send || t->op == &dsf_op_copy ||
           t->op == &dsf_op_gather || t->op == &dsf_op_gather_coded ||
           (t->op == &dsf_op_all_to_all_heads &&
            ((const struct dsf_heads_args *)t->args)->take >= 0);
}

bool dsf_joined_is_message(const struct dsf_processes *all,
                           const struct dsflow_graph *g,
                           const struct dsflow_task_spec *t)
{
    return is_carried(t) && dsf_process_crosses(all, g, t);
}

void dsf_joined_init(struct dsf_joined *j, const struct dsf_processes *all,
                     const struct dsflow_graph *g)
{
    struct joining x = { .all = all, .in = g, .j = j };
    const struct dsflow_data_spec *d;
    const struct dsflow_task_spec *t;

    *j = (struct dsf_joined){ .graph = dsflow_graph_new() };
    for (unsigned p = DSFLOW_STEP + 1; p < dsflow_graph_nprograms(g); p++)
        dsflow_graph_add_program(j->graph,
                                 dsflow_graph_program(g, (dsflow_program)p));
    for (uint32_t i = 0; (d = dsf_nth_data(g, i)) != NULL; i++)
        dsflow_graph_add_data(j->graph, d);
    for (uint32_t i = 0; (t = dsf_nth_task(g, i)) != NULL; i++)
        if (!is_carried(t) && dsf_process_crosses(all, g, t))
            add_up(&x, t, i);
        else
            add(&x, t, i);
    dsf_process_buffers_fini(&x.buffers);
    free(x.ports);
}

void dsf_joined_fini(struct dsf_joined *j)
{
    dsflow_graph_free(j->graph);
    free(j->of);
    memset(j, 0, sizeof(*j));
}
