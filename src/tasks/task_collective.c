/* task_collective.c - what each member of a group does to share data with the
 * others. The policy `collectives` makes of these what an executor runs. */
#include "tasks/tasks.h"

int64_t dsf_pieces_elems(const struct dsf_pieces *p, int32_t i)
{
    return dsf_pieces_at(p, i + 1) - dsf_pieces_at(p, i);
}

int32_t dsf_pieces_count(const struct dsf_pieces *p)
{
    return p->blocks < p->members ? (int32_t)p->blocks : p->members;
}

/* The member whose data is the `i`-th `in`, where all have some. */
static int32_t other(const struct dsf_collective_args *a, int32_t i)
{
    return i + (a->in_place && i >= a->member);
}

static struct dsf_range take_other(const struct dsf_collective_args *a,
                                   int32_t i)
{
    const struct dsf_pieces *p = &a->pieces;
    int32_t m = p->blocks == 1 ? p->owner : other(a, i);
    int64_t at = dsf_pieces_at(p, m);

    return (struct dsf_range){ dsf_pieces_elems(p, m), at,
                               a->in_place ? at : 0 };
}

static struct dsf_range take_own(const struct dsf_collective_args *a, int32_t i)
{
    int64_t at = dsf_pieces_at(&a->pieces, a->member);

    return (struct dsf_range){ dsf_pieces_elems(&a->pieces, a->member),
                               a->in_place ? at : 0, at };
}

static struct dsf_range take_own_of_each(const struct dsf_collective_args *a,
                                         int32_t i)
{
    struct dsf_range own = take_own(a, i);

    own.at = own.elems * i;
    return own;
}

static struct dsf_range take_all(const struct dsf_collective_args *a, int32_t i)
{
    return (struct dsf_range){ dsf_pieces_at(&a->pieces, a->pieces.members), 0,
                               0 };
}

static int32_t count_all(const struct dsf_collective_args *a)
{
    return a->pieces.members - a->in_place;
}

static int32_t count_pieces(const struct dsf_collective_args *a)
{
    int own = dsf_pieces_elems(&a->pieces, a->member) > 0;

    return dsf_pieces_count(&a->pieces) - (a->in_place && own);
}

static int32_t count_owner(const struct dsf_collective_args *a)
{
    return 1;
}

/* What the task takes of its `i`-th `in`, and how many there must be. */
static const struct kind {
    const struct dsflow_op *op;
    struct dsf_range (*take)(const struct dsf_collective_args *a, int32_t i);
    int32_t (*count)(const struct dsf_collective_args *a);
} kinds[] = {
    { &dsf_op_all_gather, take_other, count_pieces },
    { &dsf_op_reduce_scatter, take_own, count_all },
    { &dsf_op_all_reduce, take_all, count_all },
    { &dsf_op_all_to_all, take_own_of_each, count_all },
    { &dsf_op_broadcast, take_all, count_owner },
};

static const struct kind *kind_of(const struct dsflow_op *op)
{
    const struct kind *kind = kinds;

    while (kind->op != op)
        kind++;
    return kind;
}

/* Are the arguments those of a member? `take` and `count` need that. */
static int check_args(const struct dsflow_case *c, struct dsflow_err *err)
{
    const struct dsf_collective_args *a = c->args;
    const struct dsf_pieces *p = &a->pieces;

    if (p->blocks >= 0 && p->block >= 0 && p->members > 0 && p->owner >= 0 &&
        p->owner < p->members && a->member >= 0 && a->member < p->members &&
        (a->in_place == 0 || a->in_place == 1))
        return DSFLOW_OK;
    return dsflow_fail(err, DSFLOW_EINVAL,
                       "%s: member %d of %d: expected 0 to %d", c->op->name,
                       (int)a->member, (int)p->members, (int)p->members - 1);
}

static int check(const struct dsflow_case *c, struct dsflow_err *err)
{
    const struct dsf_collective_args *a = c->args;
    const struct kind *kind = kind_of(c->op);
    int status = check_args(c, err);

    if (status == DSFLOW_OK && c->n != (unsigned)kind->count(a) + 1)
        status = dsflow_fail(err, DSFLOW_EINVAL,
                             "%s: %u data: expected %d for member %d of %d",
                             c->op->name, c->n, (int)kind->count(a) + 1,
                             (int)a->member, (int)a->pieces.members);
    for (unsigned i = 1; i < c->n && status == DSFLOW_OK; i++)
        status = dsf_move_check(c, i, kind->take(a, (int32_t)i - 1), err);
    return status;
}

static int64_t reads(const struct dsflow_op *op, const void *args,
                     unsigned port)
{
    return port == 0 ? 0 : kind_of(op)->take(args, (int32_t)port - 1).elems;
}

/* Copies read and write what they move; sums read it, add it up, and write the
 * result once. */
static void cost(const struct dsflow_case *c, struct dsflow_cost *cost)
{
    const int sums = c->op->comm == DSFLOW_COMM_REDUCE;

    for (unsigned i = 1; i < c->n; i++) {
        int64_t elems = reads(c->op, c->args, i);
        double bytes = (double)dsflow_dtype_bytes(c->shapes[0].dtype, elems);

        cost->flops += sums && i > 1 ? (double)elems : 0;
        cost->bytes += sums && i > 1 ? bytes : 2 * bytes;
    }
}

#define COLLECTIVE(name, what, kind)                                           \
    DSF_OP(name, .summary = what, .direction = DSFLOW_DIR_MOVE, .comm = kind,  \
           .repeats = 1, .args_size = sizeof(struct dsf_collective_args),      \
           DSFLOW_PORTS({ "out", DSFLOW_RW }, { "in", DSFLOW_R }),             \
           .check = check, .cost = cost, .reads = reads)

COLLECTIVE(all_gather, "the pieces of all members, on each",
           DSFLOW_COMM_GATHER);
COLLECTIVE(reduce_scatter,
           "a piece, on each member, of the sum of what all have",
           DSFLOW_COMM_REDUCE);
COLLECTIVE(all_reduce, "the sum of what all members have, on each",
           DSFLOW_COMM_REDUCE);
COLLECTIVE(all_to_all, "a piece of what each member has, on each",
           DSFLOW_COMM_GATHER);
COLLECTIVE(broadcast, "what one member has, on each", DSFLOW_COMM_GATHER);
