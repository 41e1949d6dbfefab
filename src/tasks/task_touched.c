/* task_touched.c - gradients of an embedding that ranks send each other as the
 * rows that tokens have touched.
 */
#include "tasks/shapes.h"
#include "tasks/tasks.h"

int64_t dsf_row_bytes(const struct dsf_rows_args *a)
{
    return (int64_t)sizeof(int64_t) +
           (int64_t)dsflow_dtype_bytes(DSFLOW_FP32, a->width);
}

int64_t dsf_rows_bytes(const struct dsf_rows_args *a)
{
    return (int64_t)sizeof(int64_t) + a->most * dsf_row_bytes(a);
}

/* Whole rows, and room for those that there may be. */
static int rows_check(const struct dsflow_case *c,
                      const struct dsf_rows_args *a, struct dsflow_err *err)
{
    if (a->width < 1 || a->most < 1 || a->elems < 0 || a->at < 0)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: %lld rows of %lld, %lld numbers from %lld on: "
                           "expected some rows",
                           c->op->name, (long long)a->most, (long long)a->width,
                           (long long)a->elems, (long long)a->at);
    return DSFLOW_OK;
}

static int packed_check(const struct dsflow_case *c, unsigned port,
                        const struct dsf_rows_args *a, struct dsflow_err *err)
{
    const int64_t bytes = dsf_rows_bytes(a);

    return dsf_range_check(c, port, DSFLOW_BYTES, 0, bytes, err);
}

static double packed_bytes(const struct dsflow_case *c)
{
    return (double)dsf_rows_bytes(c->args);
}

/* --- pack_rows ------------------------------------------------------------ */

static int pack_rows_check(const struct dsflow_case *c, struct dsflow_err *err)
{
    const struct dsf_rows_args *a = c->args;
    int status = rows_check(c, a, err);

    if (status == DSFLOW_OK)
        status = dsf_range_check(c, 0, DSFLOW_FP32, a->at, a->elems, err);
    if (status == DSFLOW_OK)
        status = packed_check(c, 1, a, err);
    return status;
}

static void pack_rows_cost(const struct dsflow_case *c,
                           struct dsflow_cost *cost)
{
    const struct dsf_rows_args *a = c->args;

    cost->bytes =
        (double)dsflow_dtype_bytes(DSFLOW_FP32, a->elems) + 2 * packed_bytes(c);
}

DSF_OP(pack_rows, .summary = "the rows of a gradient that are not all zeroes",
       .direction = DSFLOW_DIR_MOVE, .args_size = sizeof(struct dsf_rows_args),
       DSFLOW_PORTS({ "in", DSFLOW_R }, { "out", DSFLOW_RW }),
       .check = pack_rows_check, .cost = pack_rows_cost);

/* --- add_rows ------------------------------------------------------------- */

static int add_rows_check(const struct dsflow_case *c, struct dsflow_err *err)
{
    const struct dsf_rows_args *a = c->args;
    int status = rows_check(c, a, err);

    if (status == DSFLOW_OK)
        status = dsf_range_check(c, 0, DSFLOW_FP32, a->into_at, a->elems, err);
    for (unsigned i = 1; i < c->n && status == DSFLOW_OK; i++)
        status = packed_check(c, i, a, err);
    return status;
}

static void add_rows_cost(const struct dsflow_case *c, struct dsflow_cost *cost)
{
    const struct dsf_rows_args *a = c->args;
    const double terms = c->n - 1;

    cost->flops = terms * (double)(a->most * a->width);
    cost->bytes = terms * packed_bytes(c) +
                  (double)dsflow_dtype_bytes(DSFLOW_FP32, a->elems);
}

/* Where the row of each term is, and a row for each level of the tree. */
static size_t add_rows_scratch(const struct dsflow_case *c)
{
    const struct dsf_rows_args *a = c->args;

    return (1 + dsf_tree_levels(c->n - 1)) *
               dsflow_dtype_bytes(DSFLOW_FP32, a->width) +
           c->n * sizeof(void *);
}

static int64_t add_rows_reads(const struct dsflow_op *op, const void *args,
                              unsigned port)
{
    return port == 0 ? 0 : dsf_rows_bytes(args);
}

static int64_t add_rows_numbers(const struct dsflow_op *op, const void *args,
                                unsigned port)
{
    return port == 0 ? 0 : ((const struct dsf_rows_args *)args)->dense;
}

DSF_OP(add_rows, .summary = "the sum of a piece over ranks that have its rows",
       .direction = DSFLOW_DIR_MOVE, .comm = DSFLOW_COMM_REDUCE, .repeats = 1,
       .args_size = sizeof(struct dsf_rows_args),
       DSFLOW_PORTS({ "into", DSFLOW_RW }, { "in", DSFLOW_R }),
       .check = add_rows_check, .cost = add_rows_cost,
       .scratch = add_rows_scratch, .reads = add_rows_reads,
       .numbers = add_rows_numbers);
