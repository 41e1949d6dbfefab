/* task_compress.c - numbers of a unit that ranks send each other in fewer
 * bytes.
 */
#include "tasks/each_number.h"
#include "tasks/shapes.h"
#include "tasks/tasks.h"

#include "kernels/narrow.h"

static int float_check(const struct dsflow_case *c, unsigned port, int64_t at,
                       int64_t elems, struct dsflow_err *err)
{
    enum dsflow_dtype is = c->shapes[port].dtype;

    return dsf_range_check(c, port, dsf_is_narrow(is) ? is : DSFLOW_FP32, at,
                           elems, err);
}

/* Is port `port` packed data of so many bytes? */
static int packed_check(const struct dsflow_case *c, unsigned port,
                        int64_t bytes, struct dsflow_err *err)
{
    int status = dsf_port_check(c, port, DSFLOW_BYTES, bytes, err);

    if (status < 0 || c->shapes[port].elems == bytes)
        return status;
    return dsflow_fail(err, DSFLOW_EINVAL, "%s: %lld bytes: expected %lld",
                       c->op->name, (long long)c->shapes[port].elems,
                       (long long)bytes);
}

/* --- recode --------------------------------------------------------------- */

static int recode_check(const struct dsflow_case *c, struct dsflow_err *err)
{
    const struct dsf_recode_args *a = c->args;
    int status =
        dsf_coding_check(&a->coding, c->op->name, a->at, a->elems, err);

    if (status == DSFLOW_OK)
        status = dsf_range_check(c, 0, DSFLOW_FP32, a->in_at, a->elems, err);
    if (status == DSFLOW_OK)
        status = float_check(c, 1, a->out_at, a->elems, err);
    return status;
}

static size_t recode_scratch(const struct dsflow_case *c)
{
    return 2 * dsf_block_scratch(c);
}

#define RECODE(place) offsetof(struct dsf_recode_args, place)
DSF_EACH_NUMBER(recode, .elems = RECODE(elems), .first = RECODE(at),
                .ports = { { 0, RECODE(in_at), 1 }, { 1, RECODE(out_at), 1 } })

DSF_OP(recode, .summary = "parameters as they are when they have been sent",
       .direction = DSFLOW_DIR_UPDATE,
       .args_size = sizeof(struct dsf_recode_args),
       DSFLOW_PORTS({ "in", DSFLOW_R, .slice = DSFLOW_ELEMS },
                    { "out", DSFLOW_RW, .slice = DSFLOW_ELEMS }),
       .check = recode_check, .cost = recode_cost, .scratch = recode_scratch,
       .slice = recode_slice);

/* --- add_recoded ---------------------------------------------------------- */

static int add_recoded_check(const struct dsflow_case *c,
                             struct dsflow_err *err)
{
    const struct dsf_add_recoded_args *a = c->args;
    int status =
        dsf_coding_check(&a->coding, c->op->name, a->at, a->elems, err);

    if (status == DSFLOW_OK)
        status = dsf_coding_check_whole(&a->coding, c->op->name, a->at,
                                        a->elems, err);
    for (unsigned i = 0; i < c->n && status == DSFLOW_OK; i++)
        status = dsf_range_check(
            c, i, DSFLOW_FP32, i == 0 ? a->into_at : a->from_at, a->elems, err);
    if (status == DSFLOW_OK && (a->self < 0 || a->self >= c->n))
        status =
            dsflow_fail(err, DSFLOW_EINVAL, "%s: self: %lld: expected 0 to %u",
                        c->op->name, (long long)a->self, c->n - 1);
    if (status == DSFLOW_OK && (a->node < 0 || (a->node > 0 && c->n % a->node)))
        status = dsflow_fail(
            err, DSFLOW_EINVAL,
            "%s: node: %lld: expected a divisor of the %u that are added",
            c->op->name, (long long)a->node, c->n);
    return status;
}

static void add_recoded_cost(const struct dsflow_case *c,
                             struct dsflow_cost *cost)
{
    int64_t elems = ((const struct dsf_add_recoded_args *)c->args)->elems;

    cost->flops = (c->n - 1) * (double)elems;
    cost->bytes = (c->n + 1) * dsf_port_bytes(c, 0, elems);
}

unsigned dsf_tree_levels(unsigned terms)
{
    unsigned levels = 0;

    for (unsigned n = 1; n < terms; n *= 2)
        levels++;
    return levels;
}

/* A block coded, the sum, and a block for each level of the tree of what is
 * added. */
static size_t tree_scratch(const struct dsflow_case *c, unsigned levels)
{
    return (2 + levels) * dsf_block_scratch(c);
}

static size_t add_recoded_scratch(const struct dsflow_case *c)
{
    const struct dsf_add_recoded_args *a = c->args;
    const unsigned node = a->node > 0 ? (unsigned)a->node : 1;

    return tree_scratch(c,
                        dsf_tree_levels(c->n / node) + dsf_tree_levels(node)) +
           c->n * sizeof(struct dsf_scales);
}

static void add_recoded_slice(void *args, int64_t from, int64_t elems,
                              const int64_t *gone)
{
    struct dsf_add_recoded_args *a = args;

    a->elems = elems;
    if (from < 0)
        return;
    a->at += from;
    a->into_at += from - gone[0];
    a->from_at += from - gone[1];
}

DSF_OP(add_recoded,
       .summary = "gradients of groups onto those of another, each as it is "
                  "when it has been sent",
       .direction = DSFLOW_DIR_UPDATE, .repeats = 1, .sums = 1,
       .args_size = sizeof(struct dsf_add_recoded_args),
       DSFLOW_PORTS({ "into", DSFLOW_RW, .slice = DSFLOW_ELEMS },
                    { "from", DSFLOW_R, .slice = DSFLOW_ELEMS, .optional = 1 }),
       .check = add_recoded_check, .cost = add_recoded_cost,
       .scratch = add_recoded_scratch, .slice = add_recoded_slice);

/* --- compress ------------------------------------------------------------- */

static int compress_check(const struct dsflow_case *c, struct dsflow_err *err)
{
    const struct dsf_compress_args *a = c->args;
    int status =
        dsf_coding_check(&a->coding, c->op->name, a->at, a->elems, err);

    if (status == DSFLOW_OK && !a->by_block)
        status = dsf_coding_check_whole(&a->coding, c->op->name, a->at,
                                        a->elems, err);
    if (status == DSFLOW_OK)
        status = dsf_range_check(c, 0, DSFLOW_FP32, a->from, a->elems, err);
    if (status == DSFLOW_OK)
        status = dsf_coding_check(&a->coding, c->op->name, a->out_at,
                                  a->at - a->out_at, err);
    if (status == DSFLOW_OK)
        status = dsf_range_check(
            c, 1, DSFLOW_BYTES,
            dsf_coding_bytes(&a->coding, a->out_at, a->at - a->out_at),
            dsf_coding_bytes(&a->coding, a->at, a->elems), err);
    return status;
}

static void compress_cost(const struct dsflow_case *c, struct dsflow_cost *cost)
{
    const struct dsf_compress_args *a = c->args;

    cost->bytes = dsf_port_bytes(c, 0, a->elems) +
                  (double)dsf_coding_bytes(&a->coding, a->at, a->elems);
}

/* In pieces of what is read; `out` stays whole. */
static void compress_slice(void *args, int64_t from, int64_t elems,
                           const int64_t *gone)
{
    struct dsf_compress_args *a = args;

    a->elems = elems;
    if (from < 0)
        return;
    a->at += from;
    a->from += from - gone[0];
}

DSF_OP(compress, .summary = "numbers in a format for the wire",
       .direction = DSFLOW_DIR_MOVE,
       .args_size = sizeof(struct dsf_compress_args),
       DSFLOW_PORTS({ "in", DSFLOW_R, .slice = DSFLOW_ELEMS },
                    { "out", DSFLOW_RW, .slice = DSFLOW_ELEMS }),
       .check = compress_check, .cost = compress_cost, .slice = compress_slice);

/* --- add_compressed ------------------------------------------------------- */

struct dsf_range dsf_compressed_move(const struct dsf_compressed_args *a,
                                     int64_t bytes)
{
    int64_t n = dsf_coding_bytes(&a->coding, a->at, a->elems);

    return (struct dsf_range){
        .elems = n,
        .from = bytes == n
                    ? 0
                    : dsf_coding_bytes(&a->coding, a->in_at, a->at - a->in_at),
    };
}

static int add_compressed_check(const struct dsflow_case *c,
                                struct dsflow_err *err)
{
    const struct dsf_compressed_args *a = c->args;
    int status =
        dsf_coding_check(&a->coding, c->op->name, a->at, a->elems, err);

    if (status == DSFLOW_OK)
        status = dsf_coding_check(&a->coding, c->op->name, a->in_at,
                                  a->at - a->in_at, err);
    if (status == DSFLOW_OK)
        status = dsf_range_check(c, 0, DSFLOW_FP32, a->into_at, a->elems, err);
    for (unsigned i = 1; i < c->n && status == DSFLOW_OK; i++) {
        struct dsf_range move = dsf_compressed_move(a, c->shapes[i].elems);

        status =
            dsf_range_check(c, i, DSFLOW_BYTES, move.from, move.elems, err);
    }
    return status;
}

static void add_compressed_cost(const struct dsflow_case *c,
                                struct dsflow_cost *cost)
{
    const struct dsf_compressed_args *a = c->args;
    double bytes = (double)dsf_coding_bytes(&a->coding, a->at, a->elems);

    cost->flops = (c->n - 1) * (double)a->elems;
    cost->bytes = (c->n - 1) * bytes + dsf_port_bytes(c, 0, a->elems);
}

static size_t add_compressed_scratch(const struct dsflow_case *c)
{
    return tree_scratch(c, dsf_tree_levels(c->n - 1));
}

static int64_t add_compressed_reads(const struct dsflow_op *op,
                                    const void *args, unsigned port)
{
    return port == 0 ? 0 : dsf_compressed_move(args, -1).elems;
}

static int64_t add_compressed_numbers(const struct dsflow_op *op,
                                      const void *args, unsigned port)
{
    const struct dsf_compressed_args *a = args;

    return port == 0 ? 0 : a->elems;
}

DSF_OP(add_compressed,
       .summary = "the sum of a piece over ranks, which each have it coded",
       .direction = DSFLOW_DIR_MOVE, .comm = DSFLOW_COMM_REDUCE, .repeats = 1,
       .args_size = sizeof(struct dsf_compressed_args),
       DSFLOW_PORTS({ "into", DSFLOW_RW }, { "in", DSFLOW_R }),
       .check = add_compressed_check, .cost = add_compressed_cost,
       .scratch = add_compressed_scratch, .reads = add_compressed_reads,
       .numbers = add_compressed_numbers);

/* --- decompress ----------------------------------------------------------- */

struct dsf_range dsf_decompress_move(const struct dsf_decompress_args *a,
                                     unsigned port)
{
    const struct dsf_pieces *p = &a->pieces;
    int32_t run = a->first + (int32_t)port - 1 - a->guarded;
    int64_t at;

    if (port <= (unsigned)a->guarded) /* the control */
        return (struct dsf_range){ 0 };
    at = dsf_pieces_run_at(p, a->runs, run);
    return (struct dsf_range){ dsf_pieces_run_at(p, a->runs, run + 1) - at, at,
                               0 };
}

struct dsf_range dsf_gather_coded_move(const struct dsf_decompress_args *a,
                                       unsigned port)
{
    struct dsf_range numbers = dsf_decompress_move(a, port);
    int64_t from = dsf_decompress_move(a, 1).at;

    return (struct dsf_range){
        .elems = dsf_coding_bytes(&a->coding, numbers.at, numbers.elems),
        .at = dsf_coding_bytes(&a->coding, from, numbers.at - from),
    };
}

static int runs_check(const struct dsflow_case *c, struct dsflow_err *err)
{
    const struct dsf_decompress_args *a = c->args;
    const struct dsf_pieces *p = &a->pieces;
    const unsigned before = 1 + (unsigned)a->guarded; /* in front of runs */
    int status = DSFLOW_OK;

    if (p->blocks < 1 || p->block < 1 || p->members < 1 || p->owner < 0 ||
        p->owner >= p->members || a->runs < 1 || a->runs > p->members ||
        a->first < 0 || before < 1 || before > 2 || c->n <= before ||
        c->n - before + (unsigned)a->first > (unsigned)a->runs)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: %u data: expected runs of pieces of %d members",
                           c->op->name, c->n, (int)p->members);
    if (a->guarded)
        status = dsf_control_check(c, 1, err);
    for (unsigned i = before; i < c->n && status == DSFLOW_OK; i++) {
        struct dsf_range move = dsf_decompress_move(a, i);

        status =
            dsf_coding_check(&a->coding, c->op->name, move.at, move.elems, err);
        if (status == DSFLOW_OK)
            status = packed_check(
                c, i, dsf_coding_bytes(&a->coding, move.at, move.elems), err);
    }
    return status;
}

static int decompress_check(const struct dsflow_case *c, struct dsflow_err *err)
{
    const struct dsf_decompress_args *a = c->args;
    int status = runs_check(c, err);
    int64_t elems;

    if (status < 0)
        return status;
    elems = dsf_pieces_at(&a->pieces, a->pieces.members);
    for (unsigned i = 1; i < c->n; i++)
        elems -= dsf_decompress_move(a, i).elems;
    if (elems != 0)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: %lld numbers are missing: expected the runs of "
                           "all %d members",
                           c->op->name, (long long)elems,
                           (int)a->pieces.members);
    return float_check(c, 0, 0, dsf_pieces_at(&a->pieces, a->pieces.members),
                       err);
}

static void decompress_cost(const struct dsflow_case *c,
                            struct dsflow_cost *cost)
{
    const struct dsf_decompress_args *a = c->args;

    cost->bytes =
        dsf_port_bytes(c, 0, dsf_pieces_at(&a->pieces, a->pieces.members));
    for (unsigned i = 1; i < c->n; i++)
        cost->bytes += (double)c->shapes[i].bytes;
}

static int64_t decompress_reads(const struct dsflow_op *op, const void *args,
                                unsigned port)
{
    const struct dsf_decompress_args *a = args;
    struct dsf_range move;

    if (port <= (unsigned)a->guarded)
        return 0;
    move = dsf_decompress_move(a, port);
    return dsf_coding_bytes(&a->coding, move.at, move.elems);
}

static int64_t decompress_numbers(const struct dsflow_op *op, const void *args,
                                  unsigned port)
{
    return port == 0 ? 0 : dsf_decompress_move(args, port).elems;
}

DSF_OP(decompress,
       .summary = "numbers from pieces that several ranks have coded",
       .direction = DSFLOW_DIR_MOVE, .comm = DSFLOW_COMM_GATHER, .repeats = 1,
       .args_size = sizeof(struct dsf_decompress_args),
       DSFLOW_PORTS({ "out", DSFLOW_RW }, { "in", DSFLOW_R }),
       .check = decompress_check, .cost = decompress_cost,
       .scratch = dsf_block_scratch, .reads = decompress_reads,
       .numbers = decompress_numbers);

/* --- gather_coded --------------------------------------------------------- */

static int gather_coded_check(const struct dsflow_case *c,
                              struct dsflow_err *err)
{
    struct dsf_range last;
    int status = runs_check(c, err);

    if (status < 0)
        return status;
    last = dsf_gather_coded_move(c->args, c->n - 1);
    return packed_check(c, 0, last.at + last.elems, err);
}

static void gather_coded_cost(const struct dsflow_case *c,
                              struct dsflow_cost *cost)
{
    cost->bytes = 2 * (double)c->shapes[0].bytes;
}

/* `out` is bytes: as many as the numbers would be. */
static int64_t gather_coded_numbers(const struct dsflow_op *op,
                                    const void *args, unsigned port)
{
    const struct dsf_decompress_args *a = args;

    return port == 0 ? 0
                     : (int64_t)dsflow_dtype_bytes(
                           (enum dsflow_dtype)a->type,
                           dsf_decompress_move(a, port).elems);
}

DSF_OP(gather_coded,
       .summary = "coded pieces of several ranks, one behind the other",
       .direction = DSFLOW_DIR_MOVE, .comm = DSFLOW_COMM_GATHER, .repeats = 1,
       .args_size = sizeof(struct dsf_decompress_args),
       DSFLOW_PORTS({ "out", DSFLOW_RW }, { "in", DSFLOW_R }),
       .check = gather_coded_check, .cost = gather_coded_cost,
       .reads = decompress_reads, .numbers = gather_coded_numbers);
