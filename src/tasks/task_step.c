/* task_step.c - what changes from one step to the next: the learning rate, the
 * bias corrections, the loss scale, and how many updates there were. */
#include "tasks/shapes.h"
#include "tasks/tasks.h"

#include <string.h>

static int begin_check(const struct dsflow_case *c, struct dsflow_err *err)
{
    const struct dsf_begin_args *a = c->args;
    int status;

    if (memchr(a->schedule, '\0', sizeof(a->schedule)) == NULL ||
        dsflow_lr_schedule_find(a->schedule) == NULL)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "begin: %.*s: expected the name of a schedule "
                           "that is registered",
                           DSF_SCHEDULE_NAME, a->schedule);
    if (!(a->beta1 >= 0 && a->beta1 < 1 && a->beta2 >= 0 && a->beta2 < 1))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "begin: betas: %g, %g: expected 0 to 1, 1 not "
                           "included",
                           a->beta1, a->beta2);
    status = dsf_loss_scale_check(&a->scale, c, 1, err);
    return status < 0 ? status : dsf_control_check(c, 0, err);
}

static void step_cost(const struct dsflow_case *c, struct dsflow_cost *cost)
{
    cost->bytes = 2 * sizeof(struct dsflow_control);
}

DSF_OP(begin, .summary = "learning rate and bias corrections of the step",
       .direction = DSFLOW_DIR_UPDATE,
       .args_size = sizeof(struct dsf_begin_args),
       DSFLOW_PORTS({ "control", DSFLOW_RW },
                    { "scaler", DSFLOW_RW, .optional = 1 }),
       .check = begin_check, .cost = step_cost);

static int finish_check(const struct dsflow_case *c, struct dsflow_err *err)
{
    return dsf_control_check(c, 0, err);
}

DSF_OP(finish, .summary = "the step is counted, as an update or as skipped",
       .direction = DSFLOW_DIR_UPDATE, DSFLOW_PORTS({ "control", DSFLOW_RW }),
       .check = finish_check, .cost = step_cost);
