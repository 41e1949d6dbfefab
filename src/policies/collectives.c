/* collectives.c - what one process makes of a collective: copies, and sums in
 * the tree of pairs that all sums of a job have (numbers at strides of 1, 2, 4
 * … are added), so that no result depends on who was first.
 *
 * A member reads the range that it needs where the others have it. Dependencies
 * are of whole data, though: where members write what others still read (in
 * place), each first has its piece in a buffer, so that they do not wait for
 * each other in a row. That is one more piece of data for each member. (Here
 * are the tasks that policies emit for collectives, too.)
 */
#include "policies/collective.h"
#include "policies/policies.h"

#include "base/alloc.h"
#include "tasks/tasks.h"
#include <dsflow/rewrite.h>

#include <stdbool.h>
#include <stdlib.h>

/* So many buffers take turns: what the collective before has in one of them may
 * still be read. */
enum { TURNS = 2 };

/* Buffers for pieces of one size, of one kind of collective, on one rank. */
struct stage {
    const struct dsflow_op *op;
    int64_t elems;
    uint32_t turn;
    uint32_t next; /* of the same rank: +1 */
};

struct collectives {
    struct dsflow_rewrite rw;
    struct stage *stages;
    size_t nstages, cap_stages;
    uint32_t *first; /* by rank: +1, its stages */

    /* Of one collective: its tasks, and by member the buffer of its piece. */
    uint32_t begin, end;
    dsflow_data_id *piece, *ports;
    size_t cap_piece, cap_ports;
};

static const struct dsf_collective_args *args_of(const struct collectives *c,
                                                 uint32_t i)
{
    return dsf_nth_task(c->rw.in, i)->args;
}

static int64_t own_elems(const struct dsf_collective_args *a)
{
    return dsf_pieces_elems(&a->pieces, a->member);
}

static int64_t own_at(const struct dsf_collective_args *a)
{
    return dsf_pieces_at(&a->pieces, a->member);
}

static struct stage *stage_of(struct collectives *c,
                              const struct dsflow_task_spec *t, int64_t elems)
{
    uint32_t i = c->first[t->rank];

    while (i != 0 &&
           (c->stages[i - 1].op != t->op || c->stages[i - 1].elems != elems))
        i = c->stages[i - 1].next;
    if (i == 0) {
        dsf_grow(&c->stages, &c->cap_stages, c->nstages + 1,
                 sizeof(*c->stages));
        c->stages[c->nstages] =
            (struct stage){ t->op, elems, 0, c->first[t->rank] };
        i = c->first[t->rank] = (uint32_t)++c->nstages;
    }
    return &c->stages[i - 1];
}

/* The next buffer for the piece of the member whose task is the `i`-th. */
static dsflow_data_id take_buffer(struct collectives *c, uint32_t i)
{
    const struct dsflow_task_spec *t = dsf_nth_task(c->rw.in, i);
    const struct dsf_collective_args *a = t->args;
    struct stage *stage = stage_of(c, t, own_elems(a));
    struct dsflow_data_spec spec = DSFLOW_DATA(
            .elems = stage->elems,
            .dtype = dsflow_graph_data(c->rw.in, t->data[0])->dtype,
            .role = DSFLOW_BUFFERS, .home = t->rank, .unit = -1);

    return c->piece[a->member] = dsflow_rewrite_named(
               c->rw.out, &spec, "%s.z%lld.%u.r%d", t->op->name,
               (long long)stage->elems, stage->turn++ % TURNS, t->rank);
}

static dsflow_data_id out_of(struct collectives *c, uint32_t i)
{
    return dsflow_rewrite_data(&c->rw, dsf_nth_task(c->rw.in, i)->data[0]);
}

/* A task in the place of the `i`-th, with the first `n` of c->ports. */
static void emit(struct collectives *c, uint32_t i, const struct dsflow_op *op,
                 const void *args, bool fresh, uint32_t n)
{
    const struct dsflow_task_spec *t = dsf_nth_task(c->rw.in, i);

    dsf_add_like(c->rw.out, t, op, args, t->rank, fresh, n, c->ports);
}

static void copy(struct collectives *c, uint32_t i, dsflow_data_id to,
                 dsflow_data_id from, struct dsf_range move, bool fresh)
{
    c->ports[0] = to;
    c->ports[1] = from;
    emit(c, i, &dsf_op_copy, &move, fresh, 2);
}

/* out = the pieces of all in their buffers. */
static void gather_pieces(struct collectives *c, uint32_t i, bool fresh,
                          int32_t skip)
{
    const struct dsf_collective_args *a = args_of(c, i);
    struct dsf_gather_args args = { a->pieces, -1, skip };
    int32_t count = dsf_pieces_count(&a->pieces);
    uint32_t n = 1;

    c->ports[0] = out_of(c, i);
    for (int32_t k = 0; k < count; k++) {
        int32_t m = dsf_pieces_member(&a->pieces, k);

        if (m != skip)
            c->ports[n++] = c->piece[m];
    }
    emit(c, i, &dsf_op_gather, &args, fresh, n);
}

/* What each member reads is what the others have: out = some of each `in`. */
static void gather_inputs(struct collectives *c, uint32_t i, int32_t take)
{
    const struct dsflow_task_spec *t = dsf_nth_task(c->rw.in, i);
    struct dsf_gather_args args = { args_of(c, i)->pieces, take, -1 };

    for (uint32_t p = 0; p < t->ndata; p++)
        c->ports[p] = dsflow_rewrite_data(&c->rw, t->data[p]);
    emit(c, i, &dsf_op_gather, &args, t->fresh & 1, t->ndata);
}

/* to[at ..] = the sum of the member's piece of all. */
static void sum_piece(struct collectives *c, uint32_t i, dsflow_data_id to)
{
    const struct dsflow_task_spec *t = dsf_nth_task(c->rw.in, i);
    const struct dsf_collective_args *a = t->args;
    struct dsf_sum_args args = { .elems = own_elems(a), .from = own_at(a) };
    uint32_t terms = t->ndata - 1 + (uint32_t)a->in_place;

    c->ports[0] = to;
    for (uint32_t k = 0, p = 1; k < terms; k++) {
        bool own = a->in_place && (int32_t)k == a->member;

        c->ports[k + 1] =
            own ? out_of(c, i) : dsflow_rewrite_data(&c->rw, t->data[p]);
        p += !own;
    }
    emit(c, i, &dsf_op_reduce, &args, true, terms + 1);
}

static void lower_all_gather(struct collectives *c)
{
    for (uint32_t i = c->begin; i < c->end; i++) {
        const struct dsf_collective_args *a = args_of(c, i);

        if (!a->in_place)
            gather_inputs(c, i, -1);
        else if (own_elems(a) > 0)
            copy(c, i, take_buffer(c, i), out_of(c, i),
                 (struct dsf_range){ own_elems(a), 0, own_at(a) }, true);
    }
    for (uint32_t i = c->begin; i < c->end; i++) {
        const struct dsf_collective_args *a = args_of(c, i);
        const struct dsflow_task_spec *t = dsf_nth_task(c->rw.in, i);

        if (!a->in_place)
            continue;
        /* The owner of all writes nothing: it is read where it is. */
        if (a->pieces.blocks == 1)
            c->piece[a->pieces.owner] =
                dsflow_rewrite_data(&c->rw, t->data[1]);
        gather_pieces(c, i, false, a->member);
    }
}

static void lower_reduce_scatter(struct collectives *c)
{
    for (uint32_t i = c->begin; i < c->end; i++)
        sum_piece(c, i,
                  args_of(c, i)->in_place ? take_buffer(c, i) : out_of(c, i));
    for (uint32_t i = c->begin; i < c->end; i++) {
        const struct dsf_collective_args *a = args_of(c, i);

        if (a->in_place)
            copy(c, i, out_of(c, i), c->piece[a->member],
                 (struct dsf_range){ own_elems(a), own_at(a), 0 }, false);
    }
}

static void lower_all_reduce(struct collectives *c)
{
    for (uint32_t i = c->begin; i < c->end; i++)
        if (own_elems(args_of(c, i)) > 0)
            sum_piece(c, i, take_buffer(c, i));
    for (uint32_t i = c->begin; i < c->end; i++)
        gather_pieces(c, i, true, -1);
}

static void lower_all_to_all(struct collectives *c)
{
    for (uint32_t i = c->begin; i < c->end; i++)
        gather_inputs(c, i, args_of(c, i)->member);
}

static void lower_broadcast(struct collectives *c)
{
    for (uint32_t i = c->begin; i < c->end; i++) {
        const struct dsf_pieces *p = &args_of(c, i)->pieces;

        copy(c, i, out_of(c, i),
             dsflow_rewrite_data(&c->rw, dsf_nth_task(c->rw.in, i)->data[1]),
             (struct dsf_range){ dsf_pieces_at(p, p->members), 0, 0 }, true);
    }
}

/* Of which members a member reads. */
enum reads { ALL, PIECES, OWNER };

/* When the pieces of all stand in buffers, for the others. */
enum when { NEVER, IN_PLACE, ALWAYS };

static const struct kind {
    const struct dsflow_op *op;
    void (*lower)(struct collectives *c);
    enum reads reads;
    bool own;   /* a member without a piece gets nothing */
    bool apart; /* no member reads what it writes */
    enum when by_pieces;
} kinds[] = {
    { &dsf_op_all_gather, lower_all_gather, PIECES, false, false, IN_PLACE },
    { &dsf_op_reduce_scatter, lower_reduce_scatter, ALL, true, false, NEVER },
    { &dsf_op_all_reduce, lower_all_reduce, ALL, false, false, ALWAYS },
    { &dsf_op_all_to_all, lower_all_to_all, ALL, true, true, NEVER },
    { &dsf_op_broadcast, lower_broadcast, OWNER, false, false, NEVER },
};

static const struct kind *find_kind(const struct dsflow_op *op)
{
    for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds); k++)
        if (kinds[k].op == op)
            return &kinds[k];
    return NULL;
}

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
    const struct kind *kind = find_kind(c->op);
    struct dsflow_task_spec t = *like;
    dsflow_data_id *ports;

    if (kind->own && dsf_pieces_elems(&c->pieces, member) == 0)
        return;
    ports = dsf_xcalloc((size_t)members + 1, sizeof(*ports));
    ports[0] = into;
    for (int32_t i = 0; i < members; i++)
        if (is_read(kind->reads, &c->pieces, i) && c->from[i].i != into.i)
            ports[n++] = c->from[i];
    t.op = c->op;
    t.without = 0;
    t.collective = c->id;
    if (n > 1)
        dsf_add_like(out, &t, c->op, &args, rank, !in_place, (uint32_t)n,
                     ports);
    free(ports);
}

uint32_t dsf_collective_last(const struct dsflow_graph *g)
{
    const struct dsflow_task_spec *t;
    uint32_t last = 0;

    for (uint32_t i = 0; (t = dsf_nth_task(g, i)) != NULL; i++)
        last = t->collective > last ? t->collective : last;
    return last;
}

/* Are there the tasks of all members whose pieces the others need? */
static int check_members(const struct collectives *c, const struct kind *kind,
                         struct dsflow_err *err)
{
    const struct dsf_collective_args *a = args_of(c, c->begin);
    bool need = kind->by_pieces == ALWAYS ||
                (kind->by_pieces == IN_PLACE && a->in_place &&
                 a->pieces.blocks > 1);
    int32_t have = 0;

    for (uint32_t i = c->begin; i < c->end; i++) {
        const struct dsf_collective_args *own = args_of(c, i);

        have += own_elems(own) > 0;
        if (own->in_place && kind->apart)
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "%s: member %d: reads what it writes: expected "
                               "other data",
                               kind->op->name, (int)own->member);
    }
    if (!need || have == dsf_pieces_count(&a->pieces))
        return DSFLOW_OK;
    return dsflow_fail(err, DSFLOW_EINVAL,
                       "collectives: %s %u: %u tasks follow each other: "
                       "expected one for each of %d members",
                       kind->op->name,
                       dsf_nth_task(c->rw.in, c->begin)->collective,
                       c->end - c->begin, (int)a->pieces.members);
}

static int lower(struct collectives *c, struct dsflow_err *err)
{
    const struct dsflow_task_spec *t = dsf_nth_task(c->rw.in, c->begin);
    const struct kind *kind = find_kind(t->op);
    size_t members;
    int status;

    if (kind == NULL)
        return dsflow_fail(err, DSFLOW_ENOSYS,
                           "collectives: %s %u: it is not known what one "
                           "process makes of it",
                           t->op->name, t->collective);
    members = (size_t)args_of(c, c->begin)->pieces.members;
    dsf_grow(&c->piece, &c->cap_piece, members, sizeof(*c->piece));
    dsf_grow(&c->ports, &c->cap_ports, members + 1, sizeof(*c->ports));
    status = check_members(c, kind, err);
    if (status == DSFLOW_OK)
        kind->lower(c);
    return status;
}

static int collectives_rewrite(const void *part, const struct dsflow_plan *plan,
                               struct dsflow_graph *in,
                               struct dsflow_graph *out, struct dsflow_err *err)
{
    struct collectives c = { .rw = { 0 } };
    uint32_t n = dsflow_graph_ntasks(in);
    int status = DSFLOW_OK;

    if (dsf_collective_last(in) == 0)
        return DSFLOW_UNCHANGED;
    c.rw = dsflow_rewrite_begin(in, out);
    c.first = dsf_xcalloc((size_t)plan->nranks, sizeof(*c.first));
    for (uint32_t i = 0; i < n && status == DSFLOW_OK; i = c.end) {
        const struct dsflow_task_spec *t = dsf_nth_task(in, i);
        uint32_t id = t->collective;

        c.begin = i;
        c.end = i + 1;
        while (id != 0 && c.end < n &&
               dsf_nth_task(in, c.end)->collective == id)
            c.end++;
        if (id == 0)
            dsflow_rewrite_task(&c.rw, t);
        else
            status = lower(&c, err);
    }
    free(c.first);
    free(c.stages);
    free(c.piece);
    free(c.ports);
    dsflow_rewrite_end(&c.rw);
    return status;
}

const struct dsflow_policy dsf_policy_collectives = {
    .abi = DSFLOW_POLICY_ABI,
    .name = "collectives",
    .summary = "copies and sums for what ranks do together",
    .after = "zero",
    .rewrite = collectives_rewrite,
};
