/* task_heads.c - heads of attention, from the ranks that have tokens to those
 * that have heads, and back. */
#include "tasks/shapes.h"
#include "tasks/tasks.h"

/* Heads that what `port` has is of. */
static int32_t heads_of(const struct dsf_heads_args *a, unsigned port)
{
    int32_t member = a->take >= 0 ? a->take : (int32_t)port - 1;

    return dsf_heads_first(a->heads, a->members, member + 1) -
           dsf_heads_first(a->heads, a->members, member);
}

int64_t dsf_heads_elems(const struct dsf_heads_args *a, unsigned port)
{
    return (int64_t)a->rows * a->runs * heads_of(a, port) * a->size;
}

struct dsf_heads_move dsf_heads_run(const struct dsf_heads_args *a,
                                    unsigned port, int32_t run)
{
    const int32_t member = a->take >= 0 ? a->take : (int32_t)port - 1;
    const int64_t n = (int64_t)heads_of(a, port) * a->size;
    const int64_t all = (int64_t)a->heads * a->size;
    const int64_t in_all =
        run * all +
        (int64_t)dsf_heads_first(a->heads, a->members, member) * a->size;
    struct dsf_heads_move m = { .rows = a->rows, .n = n };

    if (a->take >= 0) {
        m.to = run * n;
        m.to_apart = a->runs * n;
        m.from = in_all;
        m.from_apart = a->runs * all;
    } else {
        m.to = in_all;
        m.to_apart = a->runs * all;
        m.from = run * n;
        m.from_apart = a->runs * n;
    }
    return m;
}

static int check_args(const struct dsflow_case *c, struct dsflow_err *err)
{
    const struct dsf_heads_args *a = c->args;
    const int32_t inputs = a->take < 0 ? a->members : 1;

    if (a->rows < 1 || a->runs < 1 || a->size < 1 || a->heads < 1)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: %d rows of %d runs of %d heads of %d numbers: "
                           "expected 1 or more of each",
                           c->op->name, (int)a->rows, (int)a->runs,
                           (int)a->heads, (int)a->size);
    if (a->members < 1 || a->members > a->heads)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: %d members: expected 1 to %d, as there are "
                           "heads",
                           c->op->name, (int)a->members, (int)a->heads);
    if (a->take >= a->members)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: take: %d: expected at most %d", c->op->name,
                           (int)a->take, (int)a->members - 1);
    if (c->n != (unsigned)inputs + 1)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: %u data: expected %d for %d members",
                           c->op->name, c->n, (int)inputs + 1, (int)a->members);
    return DSFLOW_OK;
}

static int check(const struct dsflow_case *c, struct dsflow_err *err)
{
    const struct dsf_heads_args *a = c->args;
    const enum dsflow_dtype dtype = c->shapes[0].dtype;
    int status = check_args(c, err);
    int64_t all;

    if (status < 0)
        return status;
    all = (int64_t)a->rows * a->runs * a->heads * a->size;
    status = dsf_range_check(c, 0, dtype, 0,
                             a->take < 0 ? all : dsf_heads_elems(a, 1), err);
    for (unsigned i = 1; i < c->n && status == DSFLOW_OK; i++)
        status = dsf_range_check(
            c, i, dtype, 0, a->take < 0 ? dsf_heads_elems(a, i) : all, err);
    return status;
}

static int64_t reads(const struct dsflow_op *op, const void *args,
                     unsigned port)
{
    return port == 0 ? 0 : dsf_heads_elems(args, port);
}

/* Read and written. */
static void cost(const struct dsflow_case *c, struct dsflow_cost *cost)
{
    for (unsigned i = 1; i < c->n; i++)
        cost->bytes += 2.0 * (double)dsflow_dtype_bytes(
                                 c->shapes[0].dtype, reads(c->op, c->args, i));
}

DSF_OP(all_to_all_heads,
       .summary = "heads of attention from ranks that have tokens, or back",
       .direction = DSFLOW_DIR_MOVE, .comm = DSFLOW_COMM_GATHER, .repeats = 1,
       .args_size = sizeof(struct dsf_heads_args),
       DSFLOW_PORTS({ "out", DSFLOW_RW }, { "in", DSFLOW_R }), .check = check,
       .cost = cost, .reads = reads);
