/* report.c - what a step says of itself to the program around it. */
#include "codelets/codelets.h"

#include "tasks/tasks.h"

static void report_cpu(const struct dsflow_call *call)
{
    const struct dsflow_control *c = call->bufs[0].ptr;
    const double *loss = call->bufs[1].ptr;
    double values[] = { (double)c->step, *loss, c->lr, c->norm, c->scale };

    call->host->report(call->host->user, values,
                       sizeof(values) / sizeof(*values));
}

const struct dsflow_codelet dsf_codelet_report = {
    .abi = DSFLOW_CODELET_ABI,
    .op = &dsf_op_report,
    .cpu = report_cpu,
    .host_only = 1,
};

static void report_loss_cpu(const struct dsflow_call *call)
{
    call->host->report(call->host->user, call->bufs[0].ptr, 1);
}

const struct dsflow_codelet dsf_codelet_report_loss = {
    .abi = DSFLOW_CODELET_ABI,
    .op = &dsf_op_report_loss,
    .cpu = report_loss_cpu,
    .host_only = 1,
};
