/* task_move.c - what carries numbers from rank to rank. */
#include "tasks/shapes.h"
#include "tasks/tasks.h"

static int send_check(const struct dsflow_shape *shapes, unsigned n,
                      const void *args, struct dsflow_err *err)
{
    if (shapes[0].dtype == shapes[1].dtype &&
        shapes[0].elems == shapes[1].elems)
        return DSFLOW_OK;
    return dsflow_fail(
        err, DSFLOW_EINVAL, "send: %lld %s into %lld %s",
        (long long)shapes[0].elems, dsflow_dtype_str(shapes[0].dtype),
        (long long)shapes[1].elems, dsflow_dtype_str(shapes[1].dtype));
}

static void send_cost(const struct dsflow_shape *shapes, unsigned n,
                      const void *args, struct dsflow_cost *cost)
{
    cost->bytes = 2.0 * (double)shapes[0].bytes;
}

const struct dsflow_op dsf_op_send = {
    .abi = DSFLOW_OP_ABI,
    .name = "send",
    .direction = DSFLOW_DIR_MOVE,
    .summary = "copy of what another rank made",
    .comm = DSFLOW_COMM_SEND,
    DSFLOW_PORTS({ "in", DSFLOW_R }, { "out", DSFLOW_W }),
    .check = send_check,
    .cost = send_cost,
};

static int wait_check(const struct dsflow_shape *shapes, unsigned n,
                      const void *args, struct dsflow_err *err)
{
    return DSFLOW_OK;
}

static void wait_cost(const struct dsflow_shape *shapes, unsigned n,
                      const void *args, struct dsflow_cost *cost)
{
    cost->flops = 0;
}

const struct dsflow_op dsf_op_wait = {
    .abi = DSFLOW_OP_ABI,
    .name = "wait",
    .direction = DSFLOW_DIR_HOST,
    .summary = "what reads the first waits for the others too",
    .repeats = 1,
    DSFLOW_PORTS({ "data", DSFLOW_RW }, { "after", DSFLOW_R }),
    .check = wait_check,
    .cost = wait_cost,
};

int dsf_move_check(const struct dsflow_op *op, const struct dsflow_shape *shapes,
                   unsigned port, struct dsf_range move, struct dsflow_err *err)
{
    enum dsflow_dtype dtype = shapes[0].dtype;
    int status =
        dsf_range_check(op, 0, &shapes[0], dtype, move.at, move.elems, err);

    return status < 0 ? status
                      : dsf_range_check(op, port, &shapes[port], dtype,
                                        move.from, move.elems, err);
}

static int copy_check(const struct dsflow_shape *shapes, unsigned n,
                      const void *args, struct dsflow_err *err)
{
    return dsf_move_check(&dsf_op_copy, shapes, 1, *(const struct dsf_range *)args,
                      err);
}

static int64_t copy_reads(const void *args, unsigned port)
{
    return port == 0 ? 0 : ((const struct dsf_range *)args)->elems;
}

static void copy_cost(const struct dsflow_shape *shapes, unsigned n, const void *args,
                      struct dsflow_cost *cost)
{
    cost->bytes = 2.0 * (double)dsflow_dtype_bytes(shapes[0].dtype,
                                                   copy_reads(args, 1));
}

const struct dsflow_op dsf_op_copy = {
    .abi = DSFLOW_OP_ABI,
    .name = "copy",
    .summary = "a range of a buffer, into another",
    .direction = DSFLOW_DIR_MOVE,
    .args_size = sizeof(struct dsf_range),
    .comm = DSFLOW_COMM_GATHER,
    DSFLOW_PORTS({ "out", DSFLOW_RW }, { "in", DSFLOW_R }),
    .check = copy_check,
    .cost = copy_cost,
    .reads = copy_reads,
};

struct dsf_range dsf_gather_move(const struct dsf_gather_args *a, unsigned port)
{
    const struct dsf_pieces *p = &a->pieces;
    int32_t i = (int32_t)port - 1, m = dsf_pieces_member(p, i);
    int64_t elems = a->take < 0 ? 0 : dsf_pieces_elems(p, a->take);

    if (a->take >= 0)
        return (struct dsf_range){ elems, i * elems, dsf_pieces_at(p, a->take) };
    m += a->skip >= 0 && p->blocks > 1 && m >= a->skip;
    return (struct dsf_range){ dsf_pieces_elems(p, m), dsf_pieces_at(p, m), 0 };
}

static int gather_check(const struct dsflow_shape *shapes, unsigned n,
                        const void *args, struct dsflow_err *err)
{
    const struct dsf_gather_args *a = args;
    const struct dsf_pieces *p = &a->pieces;
    int status = DSFLOW_OK;

    if (p->blocks < 0 || p->block < 0 || p->members < 1 || p->owner < 0 ||
        p->owner >= p->members || a->take >= p->members ||
        n > (unsigned)p->members + 1)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "gather: %u data: expected pieces of %d members", n,
                           (int)p->members);
    for (unsigned i = 1; i < n && status == DSFLOW_OK; i++)
        status = dsf_move_check(&dsf_op_gather, shapes, i,
                                dsf_gather_move(a, i), err);
    return status;
}

static int64_t gather_reads(const void *args, unsigned port)
{
    return port == 0 ? 0 : dsf_gather_move(args, port).elems;
}

static void gather_cost(const struct dsflow_shape *shapes, unsigned n, const void *args,
                        struct dsflow_cost *cost)
{
    for (unsigned i = 1; i < n; i++)
        cost->bytes += 2.0 * (double)dsflow_dtype_bytes(shapes[0].dtype,
                                                        gather_reads(args, i));
}

const struct dsflow_op dsf_op_gather = {
    .abi = DSFLOW_OP_ABI,
    .name = "gather",
    .summary = "a buffer from pieces that several ranks have",
    .direction = DSFLOW_DIR_MOVE,
    .args_size = sizeof(struct dsf_gather_args),
    .repeats = 1,
    .comm = DSFLOW_COMM_GATHER,
    DSFLOW_PORTS({ "out", DSFLOW_RW }, { "in", DSFLOW_R }),
    .check = gather_check,
    .cost = gather_cost,
    .reads = gather_reads,
};

static int check_sum(const struct dsflow_op *op, const struct dsflow_shape *shapes,
                     unsigned n, const struct dsf_sum_args *a,
                     struct dsflow_err *err)
{
    struct dsf_range move = { a->elems, a->at, a->from };
    int status = DSFLOW_OK;

    for (unsigned i = 1; i < n && status == DSFLOW_OK; i++)
        status = dsf_move_check(op, shapes, i, move, err);
    if (status == DSFLOW_OK && (a->self < 0 || a->self >= n))
        status = dsflow_fail(err, DSFLOW_EINVAL,
                             "%s: self: %lld: expected 0 to %u", op->name,
                             (long long)a->self, n - 1);
    return status;
}

static int64_t sum_reads(const void *args, unsigned port)
{
    return port == 0 ? 0 : ((const struct dsf_sum_args *)args)->elems;
}

static void sum_cost(const struct dsflow_shape *shapes, unsigned n, const void *args,
                     struct dsflow_cost *cost)
{
    int64_t elems = ((const struct dsf_sum_args *)args)->elems;

    cost->flops = (n - 1) * (double)elems;
    cost->bytes = (n + 1) * (double)dsflow_dtype_bytes(shapes[0].dtype, elems);
}

static int add_check(const struct dsflow_shape *shapes, unsigned n,
                     const void *args, struct dsflow_err *err)
{
    return check_sum(&dsf_op_add, shapes, n, args, err);
}

static void add_slice(void *args, int64_t from, int64_t elems,
                      const int64_t *gone)
{
    struct dsf_sum_args *a = args;

    a->elems = elems;
    if (from >= 0) {
        a->at += from - gone[0];
        a->from += from - gone[1];
    }
}

const struct dsflow_op dsf_op_add = {
    .abi = DSFLOW_OP_ABI,
    .name = "add",
    .summary = "gradients of groups onto those of another",
    .direction = DSFLOW_DIR_UPDATE,
    .args_size = sizeof(struct dsf_sum_args),
    .repeats = 1,
    .sums = 1,
    DSFLOW_PORTS({ "into", DSFLOW_RW, DSFLOW_FP32, DSFLOW_ELEMS },
                 { "from", DSFLOW_R, DSFLOW_FP32, DSFLOW_ELEMS }),
    .check = add_check,
    .cost = sum_cost,
    .slice = add_slice,
};

static int reduce_check(const struct dsflow_shape *shapes, unsigned n,
                        const void *args, struct dsflow_err *err)
{
    return check_sum(&dsf_op_reduce, shapes, n, args, err);
}

const struct dsflow_op dsf_op_reduce = {
    .abi = DSFLOW_OP_ABI,
    .name = "reduce",
    .summary = "the sum of a piece over ranks, in a fixed tree",
    .direction = DSFLOW_DIR_MOVE,
    .args_size = sizeof(struct dsf_sum_args),
    .repeats = 1,
    .comm = DSFLOW_COMM_REDUCE,
    DSFLOW_PORTS({ "into", DSFLOW_RW, DSFLOW_FP32 },
                 { "in", DSFLOW_R, DSFLOW_FP32 }),
    .check = reduce_check,
    .cost = sum_cost,
    .reads = sum_reads,
};
