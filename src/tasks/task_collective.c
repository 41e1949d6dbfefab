/* task_collective.c - what each member of a group does to share data with the
 * others. The policy `collectives` makes of these what an executor runs. */
#include "tasks/tasks.h"

#include <stdbool.h>


int64_t dsf_pieces_at(const struct dsf_pieces *p, int32_t i)
{
    int64_t more = p->blocks % p->members;

    if (p->blocks == 1)
        return i > p->owner ? p->block : 0;
    return (p->blocks / p->members * i + (i < more ? i : more)) * p->block;
}

int64_t dsf_pieces_elems(const struct dsf_pieces *p, int32_t i)
{
    return dsf_pieces_at(p, i + 1) - dsf_pieces_at(p, i);
}

int32_t dsf_pieces_count(const struct dsf_pieces *p)
{
    return p->blocks < p->members ? (int32_t)p->blocks : p->members;
}

int32_t dsf_pieces_member(const struct dsf_pieces *p, int32_t i)
{
    return p->blocks == 1 ? p->owner : i;
}

/* What the task takes of its `i`-th `in`. */
typedef struct dsf_range (*take_fn)(const struct dsf_collective_args *a,
                                   int32_t i);

/* The member whose data is the `i`-th `in`, where all have some. */
static int32_t other(const struct dsf_collective_args *a, int32_t i)
{
    return i + (a->in_place && i >= a->member);
}

static int64_t all_elems(const struct dsf_pieces *p)
{
    return dsf_pieces_at(p, p->members);
}

static struct dsf_range take_all_gather(const struct dsf_collective_args *a,
                                       int32_t i)
{
    const struct dsf_pieces *p = &a->pieces;
    int32_t m = p->blocks == 1 ? p->owner : other(a, i);
    int64_t at = dsf_pieces_at(p, m);

    return (struct dsf_range){ dsf_pieces_elems(p, m), at,
                              a->in_place ? at : 0 };
}

static struct dsf_range take_reduce_scatter(const struct dsf_collective_args *a,
                                           int32_t i)
{
    int64_t at = dsf_pieces_at(&a->pieces, a->member);

    return (struct dsf_range){ dsf_pieces_elems(&a->pieces, a->member),
                              a->in_place ? at : 0, at };
}

static struct dsf_range take_all_reduce(const struct dsf_collective_args *a,
                                       int32_t i)
{
    return (struct dsf_range){ all_elems(&a->pieces), 0, 0 };
}

static struct dsf_range take_all_to_all(const struct dsf_collective_args *a,
                                       int32_t i)
{
    int64_t elems = dsf_pieces_elems(&a->pieces, a->member);

    return (struct dsf_range){ elems, elems * i,
                              dsf_pieces_at(&a->pieces, a->member) };
}

static struct dsf_range take_broadcast(const struct dsf_collective_args *a,
                                      int32_t i)
{
    return (struct dsf_range){ all_elems(&a->pieces), 0, 0 };
}

/* How many `in` there must be. */
static int32_t count_all(const struct dsf_collective_args *a)
{
    return a->pieces.members - a->in_place;
}

static int32_t count_pieces(const struct dsf_collective_args *a)
{
    bool own = dsf_pieces_elems(&a->pieces, a->member) > 0;

    return dsf_pieces_count(&a->pieces) - (a->in_place && own);
}

static int32_t count_owner(const struct dsf_collective_args *a)
{
    return 1;
}

static int check(const struct dsflow_op *op, take_fn take, int32_t wanted,
                 const struct dsflow_shape *shapes, unsigned n,
                 const struct dsf_collective_args *a, struct dsflow_err *err)
{
    int status = DSFLOW_OK;

    if (n != (unsigned)wanted + 1)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: %u data: expected %d for member %d of %d",
                           op->name, n, (int)wanted + 1, (int)a->member,
                           (int)a->pieces.members);
    for (unsigned i = 1; i < n && status == DSFLOW_OK; i++)
        status = dsf_move_check(op, shapes, i, take(a, (int32_t)i - 1), err);
    return status;
}

/* Are the arguments those of a member? Else `take` and `count` have no sense. */
static int check_args(const struct dsflow_op *op,
                      const struct dsf_collective_args *a,
                      struct dsflow_err *err)
{
    const struct dsf_pieces *p = &a->pieces;

    if (p->blocks >= 0 && p->block >= 0 && p->members > 0 && p->owner >= 0 &&
        p->owner < p->members && a->member >= 0 && a->member < p->members &&
        (a->in_place == 0 || a->in_place == 1))
        return DSFLOW_OK;
    return dsflow_fail(err, DSFLOW_EINVAL,
                       "%s: member %d of %d: expected 0 to %d", op->name,
                       (int)a->member, (int)p->members, (int)p->members - 1);
}

/* Copies read and write what they move; sums read it, add it up, and write the
 * result once. */
static void add_cost(take_fn take, bool sums, const struct dsflow_shape *shapes,
                     unsigned n, const struct dsf_collective_args *a,
                     struct dsflow_cost *cost)
{
    for (unsigned i = 1; i < n; i++) {
        int64_t elems = take(a, (int32_t)i - 1).elems;
        double bytes = (double)dsflow_dtype_bytes(shapes[0].dtype, elems);

        cost->flops += sums && i > 1 ? (double)elems : 0;
        cost->bytes += sums && i > 1 ? bytes : 2 * bytes;
    }
}

static const struct dsflow_port ports[] = { { "out", DSFLOW_RW },
                                            { "in", DSFLOW_R } };

#define COLLECTIVE(name_, take, count, kind, what)                             \
    static int name_##_check(const struct dsflow_shape *shapes, unsigned n,    \
                             const void *args, struct dsflow_err *err)         \
    {                                                                          \
        int status = check_args(&dsf_op_##name_, args, err);                   \
                                                                               \
        return status < 0 ? status                                             \
                          : check(&dsf_op_##name_, take, count(args), shapes,  \
                                  n, args, err);                               \
    }                                                                          \
                                                                               \
    static void name_##_cost(const struct dsflow_shape *shapes, unsigned n,    \
                             const void *args, struct dsflow_cost *cost)       \
    {                                                                          \
        add_cost(take, kind == DSFLOW_COMM_REDUCE, shapes, n, args, cost);     \
    }                                                                          \
                                                                               \
    static int64_t name_##_reads(const void *args, unsigned port)              \
    {                                                                          \
        return port == 0 ? 0 : take(args, (int32_t)port - 1).elems;            \
    }                                                                          \
                                                                               \
    const struct dsflow_op dsf_op_##name_ = {                                  \
        .abi = DSFLOW_OP_ABI,                                                  \
        .name = #name_,                                                        \
        .summary = what,                                                       \
        .direction = DSFLOW_DIR_MOVE,                                          \
        .args_size = sizeof(struct dsf_collective_args),                       \
        .nports = 2,                                                           \
        .repeats = 1,                                                          \
        .comm = kind,                                                          \
        .ports = ports,                                                        \
        .check = name_##_check,                                                \
        .cost = name_##_cost,                                                  \
        .reads = name_##_reads,                                                \
    }

COLLECTIVE(all_gather, take_all_gather, count_pieces, DSFLOW_COMM_GATHER,
           "the pieces of all members, on each");
COLLECTIVE(reduce_scatter, take_reduce_scatter, count_all, DSFLOW_COMM_REDUCE,
           "a piece, on each member, of the sum of what all have");
COLLECTIVE(all_reduce, take_all_reduce, count_all, DSFLOW_COMM_REDUCE,
           "the sum of what all members have, on each");
COLLECTIVE(all_to_all, take_all_to_all, count_all, DSFLOW_COMM_GATHER,
           "a piece of what each member has, on each");
COLLECTIVE(broadcast, take_broadcast, count_owner, DSFLOW_COMM_GATHER,
           "what one member has, on each");
