/* task_batch.c - the tokens of a tile, and the step they are taken from. */
#include "tasks/shapes.h"
#include "tasks/tasks.h"

static int load_check(const struct dsflow_case *c, struct dsflow_err *err)
{
    const struct dsf_load_args *a = c->args;
    int status;

    if (a->rows < 1 || a->nseq < 1 || a->rows % a->nseq != 0 || a->pos < 0 ||
        a->seq < 0)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "load_batch: %d rows of %d sequences from token %d",
                           (int)a->rows, (int)a->nseq, (int)a->pos);
    status = dsf_port_check(c, 0, DSFLOW_INT64, 1, err);
    if (status == DSFLOW_OK)
        status =
            dsf_port_check(c, 1, DSFLOW_INT32, 2 * (int64_t)a->rows, err);
    return status;
}

static void load_cost(const struct dsflow_case *c, struct dsflow_cost *cost)
{
    cost->bytes = 2.0 * (double)c->shapes[1].bytes;
}

DSF_OP(load_batch, .summary = "tokens and targets of a tile, from the text",
       .direction = DSFLOW_DIR_HOST, .args_size = sizeof(struct dsf_load_args),
       DSFLOW_PORTS({ "cursor", DSFLOW_R, DSFLOW_INT64 },
                    { "batch", DSFLOW_W, DSFLOW_INT32 }),
       .check = load_check, .cost = load_cost);

static void advance_cost(const struct dsflow_case *c, struct dsflow_cost *cost)
{
    cost->bytes = 2 * sizeof(int64_t);
}

DSF_OP(advance, .summary = "the next step loads the next batch",
       .direction = DSFLOW_DIR_HOST,
       DSFLOW_PORTS({ "cursor", DSFLOW_RW, DSFLOW_INT64 }),
       .check = dsf_ports_check, .cost = advance_cost);
