/* task_report.c - what a step says of itself to the program around it. */
#include "tasks/shapes.h"
#include "tasks/tasks.h"

static int report_check(const struct dsflow_shape *shapes, unsigned n,
                        const void *args, struct dsflow_err *err)
{
    const struct dsflow_op *op = &dsf_op_report;
    int status = dsf_control_check(op, 0, &shapes[0], err);

    if (status == DSFLOW_OK)
        status = dsf_port_check(op, 1, &shapes[1], DSFLOW_FP64, 1, err);
    if (status == DSFLOW_OK)
        status = dsf_port_check(op, 2, &shapes[2], DSFLOW_INT64, 1, err);
    return status;
}

static void report_cost(const struct dsflow_shape *shapes, unsigned n,
                        const void *args, struct dsflow_cost *cost)
{
    cost->bytes = (double)shapes[0].bytes;
}

const struct dsflow_op dsf_op_report = {
    .abi = DSFLOW_OP_ABI,
    .name = "report",
    .direction = DSFLOW_DIR_HOST,
    .summary = "loss, norm and learning rate of the step, for the log",
    DSFLOW_PORTS({ "control", DSFLOW_R }, { "loss", DSFLOW_R, DSFLOW_FP64 },
                 { "cursor", DSFLOW_R, DSFLOW_INT64 }),
    .check = report_check,
    .cost = report_cost,
};

static int report_loss_check(const struct dsflow_shape *shapes, unsigned n,
                             const void *args, struct dsflow_err *err)
{
    return dsf_port_check(&dsf_op_report_loss, 0, &shapes[0], DSFLOW_FP64, 1,
                          err);
}

const struct dsflow_op dsf_op_report_loss = {
    .abi = DSFLOW_OP_ABI,
    .name = "report_loss",
    .direction = DSFLOW_DIR_HOST,
    .summary = "loss of a micro-batch of the validation text",
    DSFLOW_PORTS({ "loss", DSFLOW_R, DSFLOW_FP64 }),
    .check = report_loss_check,
    .cost = report_cost,
};
