/* task_report.c - what a step says of itself to the program around it. */
#include "tasks/shapes.h"
#include "tasks/tasks.h"

static int report_check(const struct dsflow_case *c, struct dsflow_err *err)
{
    int status = dsf_control_check(c, 0, err);

    if (status == DSFLOW_OK)
        status = dsf_port_check(c, 1, DSFLOW_FP64, 1, err);
    if (status == DSFLOW_OK)
        status = dsf_port_check(c, 2, DSFLOW_INT64, 1, err);
    if (status == DSFLOW_OK && dsf_has_scaler(c, 3))
        status = dsf_port_check(c, 3, DSFLOW_BYTES, sizeof(struct dsf_scaler),
                                err);
    return status;
}

static void report_cost(const struct dsflow_case *c, struct dsflow_cost *cost)
{
    cost->bytes = (double)c->shapes[0].bytes;
}

DSF_OP(report,
       .summary = "loss, norm and learning rate of the step, for the log",
       .direction = DSFLOW_DIR_HOST,
       DSFLOW_PORTS({ "control", DSFLOW_R }, { "loss", DSFLOW_R, DSFLOW_FP64 },
                    { "cursor", DSFLOW_R, DSFLOW_INT64 },
                    { "scaler", DSFLOW_R, .optional = 1 }),
       .check = report_check, .cost = report_cost);

DSF_OP(report_loss,
       .summary = "loss of a micro-batch of the validation text",
       .direction = DSFLOW_DIR_HOST,
       DSFLOW_PORTS({ "loss", DSFLOW_R, DSFLOW_FP64 }),
       .check = dsf_ports_check, .cost = report_cost);
