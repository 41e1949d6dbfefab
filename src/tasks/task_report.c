/* task_report.c - what a step says of itself to the program around it. */
#include "tasks/tasks.h"

static int report_check(const size_t *bytes, unsigned n, const void *args,
                        struct dsflow_err *err)
{
    if (bytes[0] < sizeof(struct dsflow_control) || bytes[1] < sizeof(double) ||
        bytes[2] < sizeof(int64_t))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "report: %zu, %zu and %zu bytes", bytes[0],
                           bytes[1], bytes[2]);
    return DSFLOW_OK;
}

static void report_cost(const size_t *bytes, unsigned n, const void *args,
                        struct dsflow_cost *cost)
{
    cost->bytes = (double)bytes[0];
}

const struct dsflow_op dsf_op_report = {
    .abi = DSFLOW_OP_ABI,
    .name = "report",
    .direction = DSFLOW_DIR_HOST,
    .summary = "loss, norm and learning rate of the step, for the log",
    DSFLOW_PORTS({ "control", DSFLOW_R }, { "loss", DSFLOW_R },
                 { "cursor", DSFLOW_R }),
    .check = report_check,
    .cost = report_cost,
};

static int report_loss_check(const size_t *bytes, unsigned n, const void *args,
                             struct dsflow_err *err)
{
    if (bytes[0] < sizeof(double))
        return dsflow_fail(err, DSFLOW_EINVAL, "report_loss: %zu bytes",
                           bytes[0]);
    return DSFLOW_OK;
}

const struct dsflow_op dsf_op_report_loss = {
    .abi = DSFLOW_OP_ABI,
    .name = "report_loss",
    .direction = DSFLOW_DIR_HOST,
    .summary = "loss of a micro-batch of the validation text",
    DSFLOW_PORTS({ "loss", DSFLOW_R }),
    .check = report_loss_check,
    .cost = report_cost,
};
