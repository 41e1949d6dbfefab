/* collectives.c - what one process makes of a collective: copies, and sums in
 * the tree of pairs that all sums of a job have (numbers at strides of 1, 2, 4
 * … are added), so that no result depends on who was first.
 *
 * A member reads the range that it needs where the others have it. Dependencies
 * are of whole data, though: where members write what others still read (in
 * place), each first has its piece in a buffer, so that they do not wait for
 * each other in a row. That is one more piece of data for each member.
 *
 * Many members share by levels (levels.h). A member has its run of pieces in a
 * buffer. Sums go up the levels, as each block is a subtree of the tree of
 * pairs; gathers come down. The same bytes move, and where members that follow
 * each other are of one node most of them stay in it.
 */
#include "policies/collective.h"
#include "policies/levels.h"
#include "policies/policies.h"

#include "base/alloc.h"
#include "tasks/tasks.h"
#include <dsflow/rewrite.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* So many buffers take turns: what the collective before has in one of them may
 * still be read. */
enum { TURNS = 2 };

/* Buffers for pieces of one size, or runs of them at one level, of one kind of
 * collective, on one rank. */
struct stage {
    const struct dsflow_op *op;
    int64_t elems;
    uint32_t level; /* 0: pieces */
    uint32_t turn;
    uint32_t next; /* of the same rank: +1 */
};

struct collectives {
    struct dsflow_rewrite rw;
    struct stage *stages;
    size_t nstages, cap_stages;
    uint32_t *first; /* by rank: +1, its stages */

    /* Of one collective: its tasks, room for the data of one that it becomes,
     * and its levels. */
    uint32_t begin, end;
    dsflow_data_id *ports;
    size_t cap_ports;
    struct dsf_levels levels;

    /* By member, what it has for the others; then runs of pieces, in the order
     * of blocks, and the same at the next level. */
    dsflow_data_id *runs, *next;
    size_t cap_runs, cap_next;
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

static struct stage *stage_of(struct collectives *c, int32_t rank,
                              struct stage like)
{
    uint32_t i = c->first[rank];

    while (i != 0 && (c->stages[i - 1].op != like.op ||
                      c->stages[i - 1].elems != like.elems ||
                      c->stages[i - 1].level != like.level))
        i = c->stages[i - 1].next;
    if (i == 0) {
        dsf_grow(&c->stages, &c->cap_stages, c->nstages + 1,
                 sizeof(*c->stages));
        like.next = c->first[rank];
        c->stages[c->nstages] = like;
        i = c->first[rank] = (uint32_t)++c->nstages;
    }
    return &c->stages[i - 1];
}

/* The next buffer on the rank of the `i`-th task. */
static dsflow_data_id take_buffer(struct collectives *c, uint32_t i,
                                  int64_t elems, unsigned level)
{
    const struct dsflow_task_spec *t = dsf_nth_task(c->rw.in, i);
    struct stage *stage =
        stage_of(c, t->rank, (struct stage){ t->op, elems, level, 0, 0 });
    enum dsflow_dtype dtype =
        (enum dsflow_dtype)dsflow_graph_data(c->rw.in, t->data[0])->dtype;
    struct dsflow_data_spec spec =
        DSFLOW_DATA(.elems = elems, .dtype = (uint8_t)dtype,
                    .role = DSFLOW_BUFFERS, .home = t->rank, .unit = -1);
    bool wide = dtype == DSFLOW_FP32;

    return dsflow_rewrite_named(c->rw.out, &spec, "%s%s%s.z%lld.%u.r%d",
                                t->op->name, wide ? "" : ".",
                                wide ? "" : dsflow_dtype_str(dtype),
                                (long long)elems,
                                level * TURNS + stage->turn++ % TURNS, t->rank);
}

static dsflow_data_id take_piece(struct collectives *c, uint32_t i)
{
    return take_buffer(c, i, own_elems(args_of(c, i)), 0);
}

static dsflow_data_id out_of(struct collectives *c, uint32_t i)
{
    return dsflow_rewrite_data(&c->rw, dsf_nth_task(c->rw.in, i)->data[0]);
}

/* A task in the place of the `i`-th, or beside it, with the first `n` of
 * c->ports. */
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

/* --- levels -------------------------------------------------------------- */

/* Where some members have no task, there is nobody to have runs for others. */
static void find_levels(struct collectives *c, int32_t members)
{
    c->levels = c->end - c->begin == (uint32_t)members
                    ? dsf_levels_find(members, 1)
                    : dsf_levels_one(members);
}

/* The pieces of all are cut in runs, as many as a block of the level has
 * members: where run `j` begins, and its elements. */
static int64_t run_at(const struct collectives *c, unsigned level, int32_t j)
{
    return dsf_pieces_run_at(&args_of(c, c->begin)->pieces,
                             c->levels.size[level], j);
}

static int64_t run_elems(const struct collectives *c, unsigned level, int32_t j)
{
    return run_at(c, level, j + 1) - run_at(c, level, j);
}

static void swap_runs(struct collectives *c)
{
    dsflow_data_id *runs = c->runs;

    c->runs = c->next;
    c->next = runs;
}

/* For the runs of `level`, one for each member, tasks of those who have them:
 * `make` adds one that makes run `j` of block `b`. */
static void make_runs(struct collectives *c, unsigned level,
                      void (*make)(struct collectives *c, uint32_t task,
                                   unsigned level, int32_t b, int32_t j,
                                   dsflow_data_id to))
{
    int32_t size = c->levels.size[level];

    for (int32_t m = 0; m < c->levels.size[c->levels.n]; m++) {
        int32_t b = m / size, j = m % size;
        uint32_t task =
            c->begin +
            (uint32_t)(b * size + dsf_levels_keeper(&c->levels, level, j));

        if (run_elems(c, level, j) == 0)
            continue;
        c->next[m] = take_buffer(c, task, run_elems(c, level, j), level);
        make(c, task, level, b, j, c->next[m]);
    }
    swap_runs(c);
}

/* to = run `j` of block `b`, summed over the blocks that this is made of. */
static void sum_run(struct collectives *c, uint32_t task, unsigned level,
                    int32_t b, int32_t j, dsflow_data_id to)
{
    int32_t n = dsf_levels_radix(&c->levels, level),
            below = c->levels.size[level - 1];
    struct dsf_sum_args args = {
        .elems = run_elems(c, level, j),
        .from = run_at(c, level, j) - run_at(c, level - 1, j / n),
    };

    c->ports[0] = to;
    for (int32_t i = 0; i < n; i++)
        c->ports[1 + i] = c->runs[(b * n + i) * below + j / n];
    emit(c, task, &dsf_op_reduce, &args, true, (uint32_t)n + 1);
}

/* to = run `j` of block `b` from the runs of the level above that this is made
 * of, without the `skip`-th of those; the block that b is part of has them. */
static void gather(struct collectives *c, uint32_t task, unsigned level,
                   int32_t b, int32_t j, int32_t skip, bool fresh,
                   dsflow_data_id to)
{
    int32_t n = dsf_levels_radix(&c->levels, level + 1),
            above = c->levels.size[level + 1];
    int32_t first = b / n * above;
    struct dsf_gather_args args = { args_of(c, task)->pieces, -1, skip, above,
                                    j * n };
    uint32_t ports = 1;

    c->ports[0] = to;
    while (run_elems(c, level + 1, args.first) == 0 &&
           args.first + 1 < (j + 1) * n)
        args.first++;
    for (int32_t i = args.first; i < (j + 1) * n; i++)
        if (i != skip && run_elems(c, level + 1, i) > 0)
            c->ports[ports++] = c->runs[first + i];
    emit(c, task, &dsf_op_gather, &args, fresh, ports);
}

static void gather_run(struct collectives *c, uint32_t task, unsigned level,
                       int32_t b, int32_t j, dsflow_data_id to)
{
    gather(c, task, level, b, j, -1, true, to);
}

static void sum_levels(struct collectives *c)
{
    for (unsigned level = 1; level < c->levels.n; level++)
        make_runs(c, level, sum_run);
}

/* to[0 ..] = the sum of the piece of the `i`-th task's member. */
static void sum_piece(struct collectives *c, uint32_t i, dsflow_data_id to)
{
    sum_run(c, i, c->levels.n, 0, args_of(c, i)->member, to);
}

/* The pieces of all, which stand in c->runs, to each member. Its own is there,
 * in place; of a run it is read again. */
static void gather_levels(struct collectives *c, bool in_place)
{
    for (unsigned level = c->levels.n - 1; level > 0; level--)
        make_runs(c, level, gather_run);
    for (uint32_t i = c->begin; i < c->end; i++) {
        const struct dsf_collective_args *a = args_of(c, i);
        bool skip = in_place && c->levels.n == 1 && own_elems(a) > 0;

        gather(c, i, 0, a->member, 0, skip ? a->member : -1, !in_place,
               out_of(c, i));
    }
}

/* --- kinds of collective -------------------------------------------------- */

static void lower_all_gather(struct collectives *c)
{
    bool in_place = args_of(c, c->begin)->in_place;

    for (uint32_t i = c->begin; i < c->end && in_place; i++) {
        const struct dsf_collective_args *a = args_of(c, i);

        if (own_elems(a) == 0)
            continue;
        c->runs[a->member] = take_piece(c, i);
        copy(c, i, c->runs[a->member], out_of(c, i),
             (struct dsf_range){ own_elems(a), 0, own_at(a) }, true);
    }
    gather_levels(c, in_place);
}

static void lower_reduce_scatter(struct collectives *c)
{
    sum_levels(c);
    for (uint32_t i = c->begin; i < c->end; i++)
        sum_piece(c, i,
                  c->next[i - c->begin] = args_of(c, i)->in_place
                                              ? take_piece(c, i)
                                              : out_of(c, i));
    for (uint32_t i = c->begin; i < c->end; i++) {
        const struct dsf_collective_args *a = args_of(c, i);

        if (a->in_place)
            copy(c, i, out_of(c, i), c->next[i - c->begin],
                 (struct dsf_range){ own_elems(a), own_at(a), 0 }, false);
    }
}

static void lower_all_reduce(struct collectives *c)
{
    sum_levels(c);
    for (uint32_t i = c->begin; i < c->end; i++) {
        const struct dsf_collective_args *a = args_of(c, i);

        if (own_elems(a) > 0)
            sum_piece(c, i, c->next[a->member] = take_piece(c, i));
    }
    swap_runs(c);
    gather_levels(c, false);
}

/* Each reads its piece of what the others have. */
static void lower_all_to_all(struct collectives *c)
{
    for (uint32_t i = c->begin; i < c->end; i++) {
        const struct dsf_collective_args *a = args_of(c, i);
        struct dsf_gather_args args = { a->pieces, a->member, -1,
                                        a->pieces.members, 0 };

        c->ports[0] = out_of(c, i);
        memcpy(c->ports + 1, c->runs,
               (size_t)a->pieces.members * sizeof(*c->ports));
        emit(c, i, &dsf_op_gather, &args, dsf_nth_task(c->rw.in, i)->fresh & 1,
             (uint32_t)a->pieces.members + 1);
    }
}

static void lower_broadcast(struct collectives *c)
{
    for (uint32_t i = c->begin; i < c->end; i++) {
        const struct dsf_pieces *p = &args_of(c, i)->pieces;

        copy(c, i, out_of(c, i), c->runs[p->owner],
             (struct dsf_range){ dsf_pieces_at(p, p->members), 0, 0 }, true);
    }
}

/* When the pieces of all stand in buffers, for the others. */
enum when { NEVER, IN_PLACE, ALWAYS };

static const struct kind {
    const struct dsflow_op *op;
    void (*lower)(struct collectives *c);
    bool apart; /* no member reads what it writes */
    enum when by_pieces;
} kinds[] = {
    { &dsf_op_all_gather, lower_all_gather, false, IN_PLACE },
    { &dsf_op_reduce_scatter, lower_reduce_scatter, false, NEVER },
    { &dsf_op_all_reduce, lower_all_reduce, false, ALWAYS },
    { &dsf_op_all_to_all, lower_all_to_all, true, NEVER },
    { &dsf_op_broadcast, lower_broadcast, false, NEVER },
};

static const struct kind *find_kind(const struct dsflow_op *op)
{
    for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds); k++)
        if (kinds[k].op == op)
            return &kinds[k];
    return NULL;
}

/* c->runs: what each member has that the tasks read. */
static void find_inputs(struct collectives *c)
{
    const struct dsflow_task_spec *t = dsf_nth_task(c->rw.in, c->begin);
    const struct dsf_collective_args *a = t->args;
    uint32_t n = 1;

    for (int32_t m = 0; m < a->pieces.members; m++)
        if (a->in_place && m == a->member)
            c->runs[m] = out_of(c, c->begin);
        else if (dsf_collective_reads(t->op, &a->pieces, m) && n < t->ndata)
            c->runs[m] = dsflow_rewrite_data(&c->rw, t->data[n++]);
}

/* Are there the tasks of all members whose pieces the others need? */
static int check_members(const struct collectives *c, const struct kind *kind,
                         struct dsflow_err *err)
{
    const struct dsf_collective_args *a = args_of(c, c->begin);
    bool need =
        kind->by_pieces == ALWAYS ||
        (kind->by_pieces == IN_PLACE && a->in_place && a->pieces.blocks > 1);
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
    status = check_members(c, kind, err);
    if (status < 0)
        return status;
    dsf_grow(&c->runs, &c->cap_runs, members, sizeof(*c->runs));
    dsf_grow(&c->next, &c->cap_next, members, sizeof(*c->next));
    dsf_grow(&c->ports, &c->cap_ports, members + 1, sizeof(*c->ports));
    find_levels(c, (int32_t)members);
    find_inputs(c);
    kind->lower(c);
    return DSFLOW_OK;
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
    free(c.ports);
    free(c.runs);
    free(c.next);
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
