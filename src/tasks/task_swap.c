/* task_swap.c - what carries numbers from one memory of a rank to another. */
#include "tasks/tasks.h"

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

const struct dsflow_op dsf_op_swap_in = {
    .abi = DSFLOW_OP_ABI,
    .name = "swap_in",
    .direction = DSFLOW_DIR_SWAP,
    .summary = "from main memory or NVMe into a buffer of the device",
    .swaps = 1,
    DSFLOW_PORTS({ "home", DSFLOW_R }, { "slot", DSFLOW_W }),
    .check = swap_check,
    .cost = swap_cost,
};

const struct dsflow_op dsf_op_swap_out = {
    .abi = DSFLOW_OP_ABI,
    .name = "swap_out",
    .direction = DSFLOW_DIR_SWAP,
    .summary = "from a buffer of the device to main memory or NVMe",
    .swaps = 1,
    DSFLOW_PORTS({ "slot", DSFLOW_R }, { "home", DSFLOW_W }),
    .check = swap_check,
    .cost = swap_cost,
};
