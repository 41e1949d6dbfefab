/* offload_parts.c - pieces of an update that write parts of parameters beside
 * each other, between two tasks `wait`. Where these parameters have a home
 * elsewhere, those that all use it there stay beside each other. If one of them
 * has a buffer on the device, which is read from that home and written back
 * whole, they follow each other, and nothing waits around them.
 */
#include "policies/offload_private.h"

#include "graph/task.h"
#include "tasks/tasks.h"

/* Is data[p] whole for all pieces of the task, each of which writes its own
 * elements? `uncut`, by data: states that stay whole. */
static bool has_own_part(const struct dsflow_graph *in, const uint8_t *uncut,
                         const struct dsflow_task_spec *t, unsigned p)
{
    return dsf_task_port(t, p)->slice == DSFLOW_ELEMS &&
           dsflow_task_port(t, p) < 32 && dsflow_task_access(t, p) & DSFLOW_W &&
           (dsflow_graph_data(in, t->data[p])->role != DSFLOW_STATES ||
            uncut[t->data[p].i]);
}

static bool uses(const struct dsflow_task_spec *t, uint32_t data)
{
    for (unsigned p = 0; p < t->ndata; p++)
        if (t->data[p].i == data)
            return true;
    return false;
}

uint32_t dsf_offload_parts_of(const struct dsflow_graph *in,
                              const uint8_t *uncut,
                              const struct dsflow_task_spec *t, uint32_t first,
                              uint32_t n)
{
    uint32_t parts = 0;

    for (unsigned p = 0; p < t->ndata; p++) {
        uint32_t users = 0;

        for (uint32_t i = 0; i < n; i++)
            users += uses(dsf_nth_task(in, first + i), t->data[p].i);
        if (users == 1 && has_own_part(in, uncut, t, p))
            parts |= 1u << dsflow_task_port(t, p);
    }
    return parts;
}

void dsf_offload_wait_around(struct dsflow_rewrite *rw,
                             const struct dsflow_task_spec *t, uint32_t parts,
                             bool front)
{
    for (unsigned p = 0; p < t->ndata; p++) {
        const struct dsflow_data_spec *d =
            dsflow_graph_data(rw->in, t->data[p]);
        const bool fresh =
            front && !d->persistent && dsflow_task_access(t, p) == DSFLOW_W;
        const unsigned port = dsflow_task_port(t, p);
        dsflow_data_id id;

        if (port >= 32 || !(parts >> port & 1))
            continue;
        id = dsflow_rewrite_data(rw, t->data[p]);
        dsf_add_like(rw->out, t, &dsf_op_wait, NULL, t->rank, fresh, 1, &id);
    }
}

bool dsf_offload_is_around(const struct offload *o,
                           const struct dsflow_task_spec *t)
{
    return t->op == &dsf_op_wait && t->ndata == 1 &&
           o->items[t->data[0].i].ring >= 0;
}

/* Task `i` waits in front of them. */
static bool are_at_home(const struct offload *o, uint32_t i, uint32_t data)
{
    const struct dsflow_task_spec *t;

    while ((t = dsf_nth_task(o->rw.in, ++i)) != NULL &&
           !(dsf_offload_is_around(o, t) && t->data[0].i == data))
        if (uses(t, data) && !dsf_offload_on_cpu(o, t))
            return false;
    return o->items[data].home == DSFLOW_HOST;
}

bool dsf_offload_drops(struct offload *o, const struct dsflow_task_spec *t)
{
    struct item *item;
    bool drops;

    if (!dsf_offload_is_around(o, t))
        return false;
    item = &o->items[t->data[0].i];
    if (item->parts == DSF_NO_PARTS) {
        item->parts = are_at_home(o, o->task, t->data[0].i)
                          ? DSF_PARTS_BESIDE
                          : DSF_PARTS_IN_ORDER;
        return item->parts == DSF_PARTS_IN_ORDER;
    }
    drops = item->parts == DSF_PARTS_IN_ORDER;
    item->parts = DSF_NO_PARTS;
    return drops;
}

uint32_t dsf_offload_apart(const struct offload *o,
                           const struct dsflow_task_spec *t)
{
    uint32_t apart = t->apart;

    for (unsigned p = 0; p < t->ndata && apart != 0; p++)
        if (o->items[t->data[p].i].parts == DSF_PARTS_IN_ORDER)
            apart &= ~(1u << dsflow_task_port(t, p));
    return apart;
}
