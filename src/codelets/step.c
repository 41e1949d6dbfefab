/* step.c - from one step to the next: learning rate, bias corrections, and how
 * many updates there were. */
#include "codelets/codelets.h"

#include <math.h>

static void begin_cpu(const struct dsflow_call *call)
{
    const struct dsf_begin_args *a = call->args;
    const struct dsflow_lr_schedule *s = dsflow_lr_schedule_find(a->schedule);
    struct dsflow_control *c = call->bufs[0].ptr;

    c->step = c->updates + 1;
    c->lr = s->lr(a->part, &a->keys, c->updates);
    c->correction1 = 1 - pow(a->beta1, (double)c->step);
    c->correction2 = 1 - pow(a->beta2, (double)c->step);
    c->norm = 0;
    c->scale = 1;
    c->loss_scale = call->nbufs > 1
                        ? dsf_loss_scale_begin(&a->scale, call->bufs[1].ptr)
                        : 1;
}

DSF_CODELET(begin, .cpu = begin_cpu);

static void finish_cpu(const struct dsflow_call *call)
{
    struct dsflow_control *c = call->bufs[0].ptr;

    if (c->skip)
        c->skipped++;
    else
        c->updates++;
}

DSF_CODELET(finish, .cpu = finish_cpu);
