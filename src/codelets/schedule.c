/* schedule.c - learning rate and bias corrections of the step. */
#include "codelets/codelets.h"

#include "tasks/tasks.h"

#include <math.h>

static void schedule_cpu(const struct dsflow_call *call)
{
    const struct dsf_schedule_args *a = call->args;
    const struct dsflow_lr_schedule *s = dsflow_lr_schedule_find(a->schedule);
    struct dsflow_control *c = call->bufs[0].ptr;

    c->step++;
    c->lr = s->lr(a->part, &a->keys, c->step - 1);
    c->correction1 = 1 - pow(a->beta1, (double)c->step);
    c->correction2 = 1 - pow(a->beta2, (double)c->step);
    c->norm = 0;
    c->scale = 1;
}

const struct dsflow_codelet dsf_codelet_schedule = {
    .abi = DSFLOW_CODELET_ABI,
    .op = &dsf_op_schedule,
    .cpu = schedule_cpu,
};
