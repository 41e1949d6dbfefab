/* collective.c - the tasks that policies emit for what ranks do together. */
#include "policies/collective.h"

#include "base/alloc.h"
#include "graph/asked.h"
#include "policies/policies.h"
#include "tasks/tasks.h"

#include <stdlib.h>

/* Of which members a member reads. */
enum reads { ALL, PIECES, OWNER };

static const struct kind {
    const struct dsflow_op *op;
    enum reads reads;
    bool own; /* each gets its piece, and one without a piece nothing */
} kinds[] = {
    { &dsf_op_all_gather, PIECES, false },
    { &dsf_op_reduce_scatter, ALL, true },
    { &dsf_op_all_reduce, ALL, false },
    { &dsf_op_all_to_all, ALL, true },
    { &dsf_op_broadcast, OWNER, false },
    { NULL, ALL, false }, /* any other */
};

static const struct kind *find_kind(const struct dsflow_op *op)
{
    size_t k = 0;

    while (kinds[k].op != NULL && kinds[k].op != op)
        k++;
    return &kinds[k];
}

bool dsf_collective_reads(const struct dsflow_op *op,
                          const struct dsf_pieces *p, int32_t member)
{
    switch (find_kind(op)->reads) {
    case PIECES:
        return dsf_pieces_elems(p, member) > 0;
    case OWNER:
        return member == p->owner;
    case ALL:
        break;
    }
    return true;
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

    if (find_kind(c->op)->own && dsf_pieces_elems(&c->pieces, member) == 0)
        return;
    ports = dsf_xcalloc((size_t)members + 1, sizeof(*ports));
    ports[0] = into;
    for (int32_t i = 0; i < members; i++)
        if (dsf_collective_reads(c->op, &c->pieces, i) &&
            c->from[i].i != into.i)
            ports[n++] = c->from[i];
    t.op = c->op;
    t.without = 0;
    t.collective = c->id;
    if (n > 1)
        dsf_add_like(out, &t, c->op, &args, rank, !in_place, (uint32_t)n,
                     ports);
    free(ports);
}

void dsf_collective_pass(struct dsflow_graph *out,
                         const struct dsflow_task_spec *like,
                         const struct dsf_collective *c,
                         const dsflow_data_id *into)
{
    const bool own = find_kind(c->op)->own;
    const int32_t members = c->pieces.members;
    int32_t read = 0, tasks = 0;

    for (int32_t i = 0; i < members; i++)
        read += dsf_collective_reads(c->op, &c->pieces, i);
    for (int32_t m = 0; m < members; m++) {
        const bool in_place = c->from[m].i == into[m].i;

        if ((own && dsf_pieces_elems(&c->pieces, m) == 0) ||
            read == (in_place && dsf_collective_reads(c->op, &c->pieces, m)))
            continue;
        dsf_asked_pass(out, like->microbatch, into[m],
                       !in_place || c->op->ports[0].access == DSFLOW_W);
        /* The first two read all that others do, too. */
        for (int32_t i = 0; i < members && tasks < 2; i++)
            if (dsf_collective_reads(c->op, &c->pieces, i) &&
                c->from[i].i != into[m].i)
                dsf_asked_pass(out, like->microbatch, c->from[i], false);
        tasks++;
    }
}

uint32_t dsf_collective_last(const struct dsflow_graph *g)
{
    const struct dsflow_task_spec *t;
    uint32_t last = 0;

    for (uint32_t i = 0; (t = dsf_nth_task(g, i)) != NULL; i++)
        last = t->collective > last ? t->collective : last;
    return last;
}
