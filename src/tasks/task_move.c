/* task_move.c - what carries numbers from rank to rank, and from one memory to
 * another. */
#include "tasks/shapes.h"
#include "tasks/tasks.h"

static int send_check(const struct dsflow_case *c, struct dsflow_err *err)
{
    const struct dsflow_shape *in = &c->shapes[0], *out = &c->shapes[1];

    if (in->dtype == out->dtype && in->elems == out->elems)
        return DSFLOW_OK;
    return dsflow_fail(err, DSFLOW_EINVAL, "send: %lld %s into %lld %s",
                       (long long)in->elems, dsflow_dtype_str(in->dtype),
                       (long long)out->elems, dsflow_dtype_str(out->dtype));
}

DSF_OP(send, .summary = "copy of what another rank made",
       .direction = DSFLOW_DIR_MOVE, .comm = DSFLOW_COMM_SEND,
       DSFLOW_PORTS({ "in", DSFLOW_R }, { "out", DSFLOW_W }),
       .check = send_check);

/* From one memory of a rank to another. */
static int swap_check(const struct dsflow_case *c, struct dsflow_err *err)
{
    if (c->shapes[0].dtype == c->shapes[1].dtype)
        return DSFLOW_OK;
    return dsflow_fail(err, DSFLOW_EINVAL, "swap: %s into %s",
                       dsflow_dtype_str(c->shapes[0].dtype),
                       dsflow_dtype_str(c->shapes[1].dtype));
}

static void swap_cost(const struct dsflow_case *c, struct dsflow_cost *cost)
{
    size_t from = c->shapes[0].bytes, to = c->shapes[1].bytes;

    cost->bytes = 2.0 * (double)(from < to ? from : to);
}

DSF_OP(swap_in,
       .summary = "from main memory or NVMe into a buffer of the device",
       .direction = DSFLOW_DIR_SWAP, .swaps = 1,
       DSFLOW_PORTS({ "home", DSFLOW_R }, { "slot", DSFLOW_W }),
       .check = swap_check, .cost = swap_cost);
DSF_OP(swap_out,
       .summary = "from a buffer of the device to main memory or NVMe",
       .direction = DSFLOW_DIR_SWAP, .swaps = 1,
       DSFLOW_PORTS({ "slot", DSFLOW_R }, { "home", DSFLOW_W }),
       .check = swap_check, .cost = swap_cost);

static int wait_check(const struct dsflow_case *c, struct dsflow_err *err)
{
    return DSFLOW_OK;
}

/* It touches nothing. */
static void wait_cost(const struct dsflow_case *c, struct dsflow_cost *cost)
{
}

DSF_OP(wait, .summary = "what reads the first waits for the others too",
       .direction = DSFLOW_DIR_HOST, .repeats = 1,
       DSFLOW_PORTS({ "data", DSFLOW_RW },
                    { "after", DSFLOW_R, .optional = 1 }),
       .check = wait_check, .cost = wait_cost);

int dsf_move_check(const struct dsflow_case *c, unsigned port,
                   struct dsf_range move, struct dsflow_err *err)
{
    enum dsflow_dtype dtype = c->shapes[0].dtype;
    int status = dsf_range_check(c, 0, dtype, move.at, move.elems, err);

    return status < 0 ? status
                      : dsf_range_check(c, port, dtype, move.from, move.elems,
                                        err);
}

/* Copies and gathers read and write what they take of each `in`. */
static void copies_cost(const struct dsflow_case *c, struct dsflow_cost *cost)
{
    for (unsigned i = 1; i < c->n; i++)
        cost->bytes +=
            2.0 * (double)dsflow_dtype_bytes(
                      c->shapes[0].dtype, c->op->reads(c->op, c->args, i));
}

static int copy_check(const struct dsflow_case *c, struct dsflow_err *err)
{
    return dsf_move_check(c, 1, *(const struct dsf_range *)c->args, err);
}

static int64_t copy_reads(const struct dsflow_op *op, const void *args,
                          unsigned port)
{
    return port == 0 ? 0 : ((const struct dsf_range *)args)->elems;
}

DSF_OP(copy, .summary = "a range of a buffer, into another",
       .direction = DSFLOW_DIR_MOVE, .comm = DSFLOW_COMM_GATHER,
       .args_size = sizeof(struct dsf_range),
       DSFLOW_PORTS({ "out", DSFLOW_RW }, { "in", DSFLOW_R }),
       .check = copy_check, .cost = copies_cost, .reads = copy_reads);

struct dsf_range dsf_gather_move(const struct dsf_gather_args *a, unsigned port)
{
    const struct dsf_pieces *p = &a->pieces;
    int32_t i = (int32_t)port - 1, run = a->first + i;
    int64_t n, at;

    if (a->take >= 0) {
        n = dsf_pieces_elems(p, a->take);
        return (struct dsf_range){ n, i * n, dsf_pieces_at(p, a->take) };
    }
    run += a->skip >= 0 && run >= a->skip;
    at = dsf_pieces_run_at(p, a->runs, run);
    n = dsf_pieces_run_at(p, a->runs, run + 1) - at;
    at -= dsf_pieces_run_at(p, a->runs, a->first);
    return (struct dsf_range){ n, at, 0 };
}

static int gather_check(const struct dsflow_case *c, struct dsflow_err *err)
{
    const struct dsf_gather_args *a = c->args;
    const struct dsf_pieces *p = &a->pieces;
    int status = DSFLOW_OK;

    if (p->blocks < 0 || p->block < 0 || p->members < 1 || p->owner < 0 ||
        p->owner >= p->members || a->take >= p->members || a->first < 0 ||
        a->runs < 1 || a->runs > p->members ||
        c->n + (unsigned)a->first > (unsigned)a->runs + 1)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "gather: %u data: expected pieces of %d members",
                           c->n, (int)p->members);
    for (unsigned i = 1; i < c->n && status == DSFLOW_OK; i++)
        status = dsf_move_check(c, i, dsf_gather_move(a, i), err);
    return status;
}

static int64_t gather_reads(const struct dsflow_op *op, const void *args,
                            unsigned port)
{
    return port == 0 ? 0 : dsf_gather_move(args, port).elems;
}

DSF_OP(gather, .summary = "a buffer from pieces that several ranks have",
       .direction = DSFLOW_DIR_MOVE, .comm = DSFLOW_COMM_GATHER, .repeats = 1,
       .args_size = sizeof(struct dsf_gather_args),
       DSFLOW_PORTS({ "out", DSFLOW_RW }, { "in", DSFLOW_R }),
       .check = gather_check, .cost = copies_cost, .reads = gather_reads);

int64_t dsf_sum_from(const struct dsf_sum_args *a, int64_t elems)
{
    return elems == a->elems ? 0 : a->from;
}

static int sum_check(const struct dsflow_case *c, struct dsflow_err *err)
{
    const struct dsf_sum_args *a = c->args;
    int status = dsf_port_check(c, 0, dsf_float_type(c, 0), 0, err);

    for (unsigned i = 1; i < c->n && status == DSFLOW_OK; i++)
        status = dsf_move_check(
            c, i,
            (struct dsf_range){ a->elems, a->at,
                                dsf_sum_from(a, c->shapes[i].elems) },
            err);
    if (status == DSFLOW_OK && (a->self < 0 || a->self >= c->n))
        status = dsflow_fail(err, DSFLOW_EINVAL,
                             "%s: self: %lld: expected 0 to %u", c->op->name,
                             (long long)a->self, c->n - 1);
    return status;
}

static int64_t sum_reads(const struct dsflow_op *op, const void *args,
                         unsigned port)
{
    return port == 0 ? 0 : ((const struct dsf_sum_args *)args)->elems;
}

static void sum_cost(const struct dsflow_case *c, struct dsflow_cost *cost)
{
    int64_t elems = ((const struct dsf_sum_args *)c->args)->elems;

    cost->flops = (c->n - 1) * (double)elems;
    cost->bytes =
        (c->n + 1) * (double)dsflow_dtype_bytes(c->shapes[0].dtype, elems);
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

#define NARROW .floats = DSFLOW_NARROW

DSF_OP(add, .summary = "gradients of groups onto those of another",
       .direction = DSFLOW_DIR_UPDATE, .repeats = 1, .sums = 1,
       .args_size = sizeof(struct dsf_sum_args),
       DSFLOW_PORTS({ "into", DSFLOW_RW, .slice = DSFLOW_ELEMS, NARROW },
                    { "from", DSFLOW_R, .slice = DSFLOW_ELEMS, NARROW }),
       .check = sum_check, .cost = sum_cost, .slice = add_slice);

DSF_OP(reduce, .summary = "the sum of a piece over ranks, in a fixed tree",
       .direction = DSFLOW_DIR_MOVE, .comm = DSFLOW_COMM_REDUCE, .repeats = 1,
       .args_size = sizeof(struct dsf_sum_args),
       DSFLOW_PORTS({ "into", DSFLOW_RW, NARROW }, { "in", DSFLOW_R, NARROW }),
       .check = sum_check, .cost = sum_cost, .reads = sum_reads);

/* --- between processes ---------------------------------------------------- */

static int message_check(const struct dsflow_case *c,
                         const struct dsf_message_args *a,
                         struct dsflow_err *err)
{
    int64_t has = c->shapes[0].elems;

    if (a->row > 0 && (c->shapes[0].dtype != DSFLOW_BYTES || a->rank >= 0 ||
                       a->elems < (int64_t)sizeof(int64_t)))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: rows of %u bytes: expected how many there are, "
                           "and room for them, in main memory",
                           c->op->name, a->row);
    if (a->at >= 0 && a->elems > 0 && a->elems <= has &&
        a->at <= has - a->elems)
        return DSFLOW_OK;
    return dsflow_fail(err, DSFLOW_EINVAL,
                       "%s: %lld numbers from %lld on, of %lld", c->op->name,
                       (long long)a->elems, (long long)a->at, (long long)has);
}

static int transmit_check(const struct dsflow_case *c, struct dsflow_err *err)
{
    return message_check(c, c->args, err);
}

static void transmit_cost(const struct dsflow_case *c, struct dsflow_cost *cost)
{
    const struct dsf_message_args *a = c->args;

    cost->bytes = (double)dsflow_dtype_bytes(c->shapes[0].dtype, a->elems);
}

static int receive_check(const struct dsflow_case *c, struct dsflow_err *err)
{
    const struct dsf_receive_args *a = c->args;
    int status = DSFLOW_OK;

    if (a->n < 1 || a->n > DSF_RECEIVE_PARTS)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "receive: %u parts: expected 1 to %d", a->n,
                           DSF_RECEIVE_PARTS);
    for (uint32_t i = 0; i < a->n && status == DSFLOW_OK; i++)
        status = message_check(c, &a->part[i], err);
    return status;
}

static void receive_cost(const struct dsflow_case *c, struct dsflow_cost *cost)
{
    const struct dsf_receive_args *a = c->args;

    for (uint32_t i = 0; i < a->n; i++)
        cost->bytes +=
            (double)dsflow_dtype_bytes(c->shapes[0].dtype, a->part[i].elems);
}

DSF_OP(transmit, .summary = "numbers that go to another process",
       .direction = DSFLOW_DIR_MOVE,
       .args_size = sizeof(struct dsf_message_args),
       DSFLOW_PORTS({ "in", DSFLOW_R }), .check = transmit_check,
       .cost = transmit_cost);

DSF_OP(receive, .summary = "numbers that come from other processes",
       .direction = DSFLOW_DIR_MOVE,
       .args_size = sizeof(struct dsf_receive_args),
       DSFLOW_PORTS({ "out", DSFLOW_RW }), .check = receive_check,
       .cost = receive_cost);
