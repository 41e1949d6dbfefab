/* task_schedule.c - learning rates, in the arithmetic of DeepSpeed's
 * schedulers (runtime/lr_schedules.py): a job that moves here keeps its curve. */
#include "tasks/tasks.h"

#include "config/job.h"

#include <math.h>

/* Share of the way through the warm-up, at step i of w. */
static double warm(const struct dsf_schedule_args *a, int64_t i, int64_t w)
{
    return a->shape == 1 ? log((double)i + 1) / log((double)w)
                         : (double)i / (double)w;
}

static double constant(const struct dsf_schedule_args *a, int64_t i)
{
    return a->lr;
}

static int64_t warmup_steps(const struct dsf_schedule_args *a)
{
    return a->warmup < 2 ? 2 : a->warmup;
}

static double warmup(const struct dsf_schedule_args *a, int64_t i)
{
    int64_t w = warmup_steps(a);
    double lowest = a->warmup_ratio * a->lr;

    if (a->warmup == 0 || i >= w)
        return a->lr;
    return lowest + (a->lr - lowest) * warm(a, i, w);
}

static double warmup_linear(const struct dsf_schedule_args *a, int64_t i)
{
    int64_t w = a->warmup == 0 ? 0 : warmup_steps(a);
    double span = (double)(a->total - w), left = (double)(a->total - i);
    double share;

    if (i < w)
        return warmup(a, i);
    share = left / (span > 1 ? span : 1);
    return a->lr * (share > 0 ? share : 0);
}

static double warmup_cosine(const struct dsf_schedule_args *a, int64_t i)
{
    int64_t w = a->warmup == 0 ? 0 : warmup_steps(a);
    double span = (double)(a->total - w), share;

    if (i < w)
        return a->lr *
               (a->warmup_ratio + (1 - a->warmup_ratio) * warm(a, i, w));
    share = (double)(i - w + 1) / (span > 1 ? span : 1);
    share = (1 + cos(M_PI * (share < 1 ? share : 1))) / 2;
    return a->lr * (a->min_ratio + (1 - a->min_ratio) * share);
}

/* Up for half_cycle steps, down for second_half_cycle, then 1/(1 + rate x). */
static double one_cycle(const struct dsf_schedule_args *a, int64_t i)
{
    double lowest = a->cycle_min_ratio * a->lr;
    double up = (double)a->half_cycle, down = (double)a->second_half_cycle;
    double at = (double)i + 1;

    if (at <= up)
        return lowest + (a->lr - lowest) * at / up;
    if (at <= up + down)
        return lowest + (a->lr - lowest) * (up + down - at) / down;
    if (a->decay_steps == 0)
        return lowest;
    return lowest /
           (1 + a->decay_rate * (at - up - down) / (double)a->decay_steps);
}

static double range_test(const struct dsf_schedule_args *a, int64_t i)
{
    double x = ((double)i + 1) / (double)a->range_steps;

    return a->lr * (1 + a->range_rate * (a->staircase ? floor(x) : x));
}

/* By enum dsf_schedule. */
static double (*const schedules[])(const struct dsf_schedule_args *,
                                   int64_t) = {
    [DSF_CONSTANT] = constant,           [DSF_WARMUP_COSINE] = warmup_cosine,
    [DSF_WARMUP_LINEAR] = warmup_linear, [DSF_WARMUP] = warmup,
    [DSF_ONE_CYCLE] = one_cycle,         [DSF_RANGE_TEST] = range_test,
};

double dsf_schedule_lr(const struct dsf_schedule_args *a, int64_t i)
{
    return schedules[a->kind](a, i);
}

static int schedule_check(const size_t *bytes, unsigned n, const void *args,
                          struct dsflow_err *err)
{
    const struct dsf_schedule_args *a = args;
    int32_t kinds = sizeof(schedules) / sizeof(*schedules);

    if (bytes[0] < sizeof(struct dsf_control))
        return dsflow_fail(err, DSFLOW_EINVAL, "schedule: control: %zu bytes",
                           bytes[0]);
    if (a->kind < 0 || a->kind >= kinds)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "schedule: kind: %d: expected 0 to %d",
                           (int)a->kind, (int)kinds - 1);
    if (!(a->beta1 >= 0 && a->beta1 < 1 && a->beta2 >= 0 && a->beta2 < 1))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "schedule: betas: %g, %g: expected 0 to 1, 1 not "
                           "included",
                           a->beta1, a->beta2);
    if ((a->kind == DSF_ONE_CYCLE &&
         (a->half_cycle < 1 || a->second_half_cycle < 1)) ||
        (a->kind == DSF_RANGE_TEST && a->range_steps < 1))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "schedule: expected a cycle of 1 step or more");
    return DSFLOW_OK;
}

static void schedule_cost(const size_t *bytes, unsigned n, const void *args,
                          struct dsflow_cost *cost)
{
    cost->bytes = 2 * sizeof(struct dsf_control);
}

const struct dsflow_op dsf_op_schedule = {
    .abi = DSFLOW_OP_ABI,
    .name = "schedule",
    .summary = "learning rate and bias corrections of the step",
    .args_size = sizeof(struct dsf_schedule_args),
    .nports = 1,
    .ports = { { "control", DSFLOW_RW } },
    .check = schedule_check,
    .cost = schedule_cost,
};
