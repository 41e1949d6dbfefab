/* task_swap.c - what carries numbers from one memory of a rank to another. */
#include "tasks/tasks.h"

static int swap_check(const struct dsflow_shape *shapes, unsigned n,
                      const void *args, struct dsflow_err *err)
{
    if (shapes[0].dtype == shapes[1].dtype)
        return DSFLOW_OK;
    return dsflow_fail(err, DSFLOW_EINVAL, "swap: %s into %s",
                       dsflow_dtype_str(shapes[0].dtype),
                       dsflow_dtype_str(shapes[1].dtype));
}

static double least(const struct dsflow_shape *shapes)
{
    return (double)(shapes[0].bytes < shapes[1].bytes ? shapes[0].bytes
                                                      : shapes[1].bytes);
}

static void swap_cost(const struct dsflow_shape *shapes, unsigned n,
                      const void *args, struct dsflow_cost *cost)
{
    cost->bytes = 2 * least(shapes);
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
