/* collective.c - tasks of collectives, as policies emit them. */
#include "policies/collective.h"

#include "base/alloc.h"
#include "tasks/tasks.h"

#include <stdbool.h>
#include <stdlib.h>

/* Of which members a member reads. */
enum reads { ALL, PIECES, OWNER };

static const struct {
    const struct dsflow_op *op;
    enum reads reads;
    bool own; /* a member without a piece gets nothing */
} kinds[] = {
    { &dsf_op_all_gather, PIECES, false },
    { &dsf_op_reduce_scatter, ALL, true },
    { &dsf_op_all_reduce, ALL, false },
    { &dsf_op_all_to_all, ALL, true },
    { &dsf_op_broadcast, OWNER, false },
};

static bool is_read(enum reads reads, const struct dsf_pieces *p, int32_t i)
{
    return reads == ALL || (reads == OWNER && i == p->owner) ||
           (reads == PIECES && dsf_pieces_elems(p, i) > 0);
}

void dsf_collective_emit(struct dsflow_graph *out,
                         const struct dsflow_task_spec *like,
                         const struct dsf_collective *c, int32_t member,
                         int32_t rank, dsflow_data_id into)
{
    int32_t members = c->pieces.members, n = 1;
    bool in_place = c->from[member].i == into.i;
    struct dsf_collective_args args = { c->pieces, member, in_place };
    struct dsflow_task_spec t = *like;
    dsflow_data_id *ports;
    size_t k = 0;

    while (kinds[k].op != c->op)
        k++;
    if (kinds[k].own && dsf_pieces_elems(&c->pieces, member) == 0)
        return;
    ports = dsf_xcalloc((size_t)members + 1, sizeof(*ports));
    ports[0] = into;
    for (int32_t i = 0; i < members; i++)
        if (is_read(kinds[k].reads, &c->pieces, i) && c->from[i].i != into.i)
            ports[n++] = c->from[i];
    t.op = c->op;
    t.args = &args;
    t.rank = (int16_t)rank;
    t.fresh = !in_place;
    t.without = 0;
    t.collective = c->id;
    t.ndata = (uint32_t)n;
    t.data = ports;
    if (n > 1)
        dsflow_graph_add_task(out, &t);
    free(ports);
}

uint32_t dsf_collective_last(const struct dsflow_graph *g)
{
    uint32_t last = 0;

    for (uint32_t i = 0; i < dsflow_graph_ntasks(g); i++) {
        uint32_t id = dsflow_graph_task(g, (dsflow_task_id){ i })->collective;

        last = id > last ? id : last;
    }
    return last;
}
