/* lr_schedules.c - learning rates, in the arithmetic of DeepSpeed's schedulers
 * (runtime/lr_schedules.py): a job that moves here keeps its curve. But step i,
 * from 0, has the rate of last_batch_iteration = i, as with torch's schedulers;
 * DeepSpeed's makes that behind its step i, for the next one. */
#include "tasks/tasks.h"

#include "config/job_keys.h"
#include "tasks/components.h"

#include <math.h>
#include <string.h>

/* Share of the way through the warm-up, at step i of w. */
static double warm(const struct dsflow_lr_keys *k, int64_t i, int64_t w)
{
    return k->log_warmup ? log((double)i + 1) / log((double)w)
                         : (double)i / (double)w;
}

static double constant(const void *part, const struct dsflow_lr_keys *k,
                       int64_t i)
{
    return k->lr;
}

static int64_t warmup_steps(const struct dsflow_lr_keys *k)
{
    return k->warmup < 2 ? 2 : k->warmup;
}

static double warmup(const void *part, const struct dsflow_lr_keys *k,
                     int64_t i)
{
    int64_t w = warmup_steps(k);
    double lowest = k->warmup_ratio * k->lr;

    if (k->warmup == 0 || i >= w)
        return k->lr;
    return lowest + (k->lr - lowest) * warm(k, i, w);
}

static double warmup_linear(const void *part, const struct dsflow_lr_keys *k,
                            int64_t i)
{
    int64_t w = k->warmup == 0 ? 0 : warmup_steps(k);
    double span = (double)(k->total - w), left = (double)(k->total - i);
    double share;

    if (i < w)
        return warmup(part, k, i);
    share = left / (span > 1 ? span : 1);
    share = share > 0 ? share : 0;
    return k->lr * (k->min_ratio + (1 - k->min_ratio) * share);
}

static double warmup_cosine(const void *part, const struct dsflow_lr_keys *k,
                            int64_t i)
{
    int64_t w = k->warmup == 0 ? 0 : warmup_steps(k);
    double span = (double)(k->total - w), share;

    if (i < w)
        return k->lr *
               (k->warmup_ratio + (1 - k->warmup_ratio) * warm(k, i, w));
    share = (double)(i - w + 1) / (span > 1 ? span : 1);
    share = (1 + cos(M_PI * (share < 1 ? share : 1))) / 2;
    return k->lr * (k->min_ratio + (1 - k->min_ratio) * share);
}

/* Up for half_cycle steps, down for second_half_cycle, then 1/(1 + rate x). */
static double one_cycle(const void *part, const struct dsflow_lr_keys *k,
                        int64_t i)
{
    double lowest = k->cycle_min_ratio * k->lr;
    double up = (double)k->half_cycle, down = (double)k->second_half_cycle;
    double at = (double)i + 1;

    if (at <= up)
        return lowest + (k->lr - lowest) * at / up;
    if (at <= up + down)
        return lowest + (k->lr - lowest) * (up + down - at) / down;
    if (k->decay_steps == 0)
        return lowest;
    return lowest /
           (1 + k->decay_rate * (at - up - down) / (double)k->decay_steps);
}

static double range_test(const void *part, const struct dsflow_lr_keys *k,
                         int64_t i)
{
    double x = ((double)i + 1) / (double)k->range_steps;

    return k->lr * (1 + k->range_rate * (k->staircase ? floor(x) : x));
}

static const struct dsflow_lr_schedule schedules[] = {
    { .abi = DSFLOW_LR_SCHEDULE_ABI, .name = "constant",
      .summary = "the base rate throughout", .lr = constant },
    { .abi = DSFLOW_LR_SCHEDULE_ABI, .name = "warmup_cosine",
      .summary = "up, then down along half a cosine", .warms_up = 1, .ends = 1,
      .lr = warmup_cosine },
    { .abi = DSFLOW_LR_SCHEDULE_ABI, .name = "warmup_linear",
      .summary = "up, then down along a line", .warms_up = 1, .ends = 1,
      .lr = warmup_linear },
    { .abi = DSFLOW_LR_SCHEDULE_ABI, .name = "warmup",
      .summary = "up, then the base rate", .warms_up = 1, .lr = warmup },
    { .abi = DSFLOW_LR_SCHEDULE_ABI, .name = "one_cycle",
      .summary = "up and down once, then a slow decay", .lr = one_cycle },
    { .abi = DSFLOW_LR_SCHEDULE_ABI, .name = "range_test",
      .summary = "up without end: to find where training diverges",
      .lr = range_test },
};

static const void *const builtin[] = { &schedules[0], &schedules[1],
                                       &schedules[2], &schedules[3],
                                       &schedules[4], &schedules[5], NULL };

/* Name and part are copied with each task: what they point to would not be. */
static int check_part(const struct dsflow_lr_schedule *s,
                      struct dsflow_err *err)
{
    if (strlen(s->name) >= DSF_SCHEDULE_NAME)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "schedule %.60s: name: expected at most %d letters",
                           s->name, DSF_SCHEDULE_NAME - 1);
    if (s->part_size > DSFLOW_LR_SCHEDULE_PART)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "schedule %.60s: part_size: %zu: expected at most "
                           "%d",
                           s->name, s->part_size, DSFLOW_LR_SCHEDULE_PART);
    for (const struct dsflow_option *o = s->options;
         o != NULL && o->key != NULL; o++)
        if (o->type == DSFLOW_STRING || o->type == DSFLOW_STRINGS ||
            o->type == DSFLOW_INTS)
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "schedule %.60s: option %.60s: expected a "
                               "number or a choice, no string and no list",
                               s->name, o->key);
    return DSFLOW_OK;
}

static int add(const void *thing, const char *origin, struct dsflow_err *err)
{
    const struct dsflow_lr_schedule *s = thing;
    int status =
        dsf_registry_check(&dsf_lr_schedules, s->abi, s->name, s->summary, err);

    if (status == DSFLOW_OK && s->lr == NULL)
        status = dsflow_fail(err, DSFLOW_EINVAL,
                             "schedule %.60s: has no function lr", s->name);
    if (status == DSFLOW_OK)
        status = check_part(s, err);
    if (status == DSFLOW_OK)
        status = dsf_registry_add(&dsf_lr_schedules, s->name, s, origin, err);
    if (status == DSFLOW_OK)
        status = dsf_component_options(&dsf_lr_schedules, s->name, s->summary,
                                       s->options, s->part_size, err);
    return status;
}

struct dsf_registry dsf_lr_schedules = {
    .sort = "schedule",
    .abi = DSFLOW_LR_SCHEDULE_ABI,
    .add = add,
    .builtin = builtin,
};

int dsflow_lr_schedule_register(const struct dsflow_lr_schedule *s,
                                struct dsflow_err *err)
{
    return dsf_lr_schedules.add(s, DSF_PROGRAM, err);
}

const char *dsf_job_schedule_name(const struct dsflow_option *option,
                                  unsigned i)
{
    const struct dsf_registered *r = dsf_registry_at(&dsf_lr_schedules, i);

    return r != NULL ? r->name : NULL;
}

const struct dsflow_lr_schedule *dsflow_lr_schedule_find(const char *name)
{
    return dsf_registry_thing(&dsf_lr_schedules, name);
}

const struct dsflow_lr_schedule *dsflow_lr_schedule_at(unsigned i)
{
    return dsf_registry_thing_at(&dsf_lr_schedules, i);
}

struct dsflow_lr_keys dsf_lr_keys(const struct dsf_job *job)
{
    const struct dsf_job_schedule *in = &job->schedule;

    return (struct dsflow_lr_keys){
        .lr = job->optimizer.lr,
        .warmup = in->warmup,
        .total = in->total < 0 ? job->main.steps : in->total,
        .log_warmup = in->warmup_shape == DSF_WARMUP_LOG,
        .staircase = in->staircase,
        .warmup_ratio = in->warmup_ratio,
        .min_ratio = in->min_ratio,
        .half_cycle = in->half_cycle,
        .second_half_cycle =
            in->second_half_cycle < 0 ? in->half_cycle : in->second_half_cycle,
        .decay_steps = in->decay_steps,
        .cycle_min_ratio = in->cycle_min_ratio,
        .decay_rate = in->decay_rate,
        .range_steps = in->range_steps,
        .range_rate = in->range_rate,
    };
}

const struct dsflow_lr_schedule *dsf_job_lr_schedule(const struct dsf_job *job,
                                                     struct dsflow_err *err)
{
    const struct dsf_job_schedule *in = &job->schedule;
    const struct dsflow_lr_schedule *s = dsflow_lr_schedule_find(in->kind);

    return dsf_job_check_part(job, s->options, err) < 0 ? NULL : s;
}
