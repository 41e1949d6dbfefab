/* task_batch.c - the tokens of a tile, and the step they are taken from. */
#include "tasks/tasks.h"

static int load_check(const size_t *bytes, unsigned n, const void *args,
                      struct dsflow_err *err)
{
    const struct dsf_load_args *a = args;

    if (a->rows < 1 || a->nseq < 1 || a->rows % a->nseq != 0 || a->pos < 0 ||
        a->seq < 0)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "load_batch: %d rows of %d sequences from token %d",
                           (int)a->rows, (int)a->nseq, (int)a->pos);
    if (bytes[0] < sizeof(int64_t) ||
        bytes[1] < 2 * sizeof(int32_t) * (size_t)a->rows)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "load_batch: batch: %zu bytes for %d rows",
                           bytes[1], (int)a->rows);
    return DSFLOW_OK;
}

static void load_cost(const size_t *bytes, unsigned n, const void *args,
                      struct dsflow_cost *cost)
{
    cost->bytes = 2.0 * (double)bytes[1];
}

const struct dsflow_op dsf_op_load_batch = {
    .abi = DSFLOW_OP_ABI,
    .name = "load_batch",
    .direction = DSFLOW_DIR_HOST,
    .summary = "tokens and targets of a tile, from the text",
    .args_size = sizeof(struct dsf_load_args),
    DSFLOW_PORTS({ "cursor", DSFLOW_R }, { "batch", DSFLOW_W }),
    .check = load_check,
    .cost = load_cost,
};

static int advance_check(const size_t *bytes, unsigned n, const void *args,
                         struct dsflow_err *err)
{
    if (bytes[0] < sizeof(int64_t))
        return dsflow_fail(err, DSFLOW_EINVAL, "advance: cursor: %zu bytes",
                           bytes[0]);
    return DSFLOW_OK;
}

static void advance_cost(const size_t *bytes, unsigned n, const void *args,
                         struct dsflow_cost *cost)
{
    cost->bytes = 2 * sizeof(int64_t);
}

const struct dsflow_op dsf_op_advance = {
    .abi = DSFLOW_OP_ABI,
    .name = "advance",
    .direction = DSFLOW_DIR_HOST,
    .summary = "the next step loads the next batch",
    DSFLOW_PORTS({ "cursor", DSFLOW_RW }),
    .check = advance_check,
    .cost = advance_cost,
};
