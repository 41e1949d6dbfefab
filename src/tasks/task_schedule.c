/* task_schedule.c - what changes from one step to the next: the learning rate
 * and the bias corrections. */
#include "tasks/shapes.h"
#include "tasks/tasks.h"

#include <string.h>

static int schedule_check(const struct dsflow_case *c, struct dsflow_err *err)
{
    const struct dsf_schedule_args *a = c->args;

    if (memchr(a->schedule, '\0', sizeof(a->schedule)) == NULL ||
        dsflow_lr_schedule_find(a->schedule) == NULL)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "schedule: %.*s: expected the name of a schedule "
                           "that is registered",
                           DSF_SCHEDULE_NAME, a->schedule);
    if (!(a->beta1 >= 0 && a->beta1 < 1 && a->beta2 >= 0 && a->beta2 < 1))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "schedule: betas: %g, %g: expected 0 to 1, 1 not "
                           "included",
                           a->beta1, a->beta2);
    return dsf_control_check(c, 0, err);
}

static void schedule_cost(const struct dsflow_case *c,
                          struct dsflow_cost *cost)
{
    cost->bytes = 2 * sizeof(struct dsflow_control);
}

const struct dsflow_op dsf_op_schedule = {
    .abi = DSFLOW_OP_ABI,
    .name = "schedule",
    .direction = DSFLOW_DIR_UPDATE,
    .summary = "learning rate and bias corrections of the step",
    .args_size = sizeof(struct dsf_schedule_args),
    DSFLOW_PORTS({ "control", DSFLOW_RW }),
    .check = schedule_check,
    .cost = schedule_cost,
};
