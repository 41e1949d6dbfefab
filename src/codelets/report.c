/* report.c - what a step says of itself to the program around it. */
#include "codelets/codelets.h"

static void report_cpu(const struct dsflow_call *call)
{
    const struct dsflow_control *c = call->bufs[0].ptr;
    const double *loss = call->bufs[1].ptr;
    const int64_t *cursor = call->bufs[2].ptr;
    const struct dsf_scaler *scaler =
        call->nbufs > 3 ? call->bufs[3].ptr : NULL;

    call->host->report(call->host->user,
                       &(struct dsflow_step_report){
                           .size = sizeof(struct dsflow_step_report),
                           .program = call->program,
                           .loss = *loss,
                           .step = cursor[0],
                           .updates = c->updates + !c->skip,
                           .lr = c->lr,
                           .norm = c->norm,
                           .scale = c->scale,
                           .loss_scale = c->loss_scale,
                           .skipped = c->skip != 0,
                           .stops = c->skip == DSFLOW_SKIP_REST,
                           .overflows = scaler != NULL ? scaler->overflows : -1,
                       });
}

DSF_CODELET(report, .cpu = report_cpu, .host_only = 1);

static void report_loss_cpu(const struct dsflow_call *call)
{
    const double *loss = call->bufs[0].ptr;

    call->host->report(call->host->user,
                       &(struct dsflow_step_report){
                           .size = sizeof(struct dsflow_step_report),
                           .program = call->program,
                           .loss = *loss,
                       });
}

DSF_CODELET(report_loss, .cpu = report_loss_cpu, .host_only = 1);
