/* task_swap.c - what carries numbers from one memory of a rank to another. */
#include "tasks/tasks.h"

static int swap_check(const size_t *bytes, unsigned n, const void *args,
                      struct dsflow_err *err)
{
    return DSFLOW_OK;
}

static double least(const size_t *bytes)
{
    return (double)(bytes[0] < bytes[1] ? bytes[0] : bytes[1]);
}

static void swap_cost(const size_t *bytes, unsigned n, const void *args,
                      struct dsflow_cost *cost)
{
    cost->bytes = 2 * least(bytes);
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
