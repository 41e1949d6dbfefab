/* lr_schedule.h - the learning rate, step by step. */
#ifndef DSFLOW_LR_SCHEDULE_H
#define DSFLOW_LR_SCHEDULE_H

#include <dsflow/error.h>
#include <dsflow/option.h>

DSFLOW_BEGIN_DECLS

#define DSFLOW_LR_SCHEDULE_ABI  3
#define DSFLOW_LR_SCHEDULE_PART 128

/* The keys of [schedule], which are there for all, and the base rate. */
struct dsflow_lr_keys {
    double lr;             /* optimizer.lr */
    int64_t warmup, total; /* steps; total is never "auto" here */
    int32_t log_warmup;    /* 1: warmup_shape = "log" */
    int32_t staircase;
    double warmup_ratio, min_ratio;
    int64_t half_cycle, second_half_cycle, decay_steps;
    double cycle_min_ratio, decay_rate;
    int64_t range_steps;
    double range_rate;
};

struct dsflow_lr_schedule {
    unsigned abi;        /* DSFLOW_LR_SCHEDULE_ABI */
    const char *name;    /* "constant": the value of schedule.kind */
    const char *summary; /* one line, for `dsflow list schedules` */

    unsigned warms_up; /* 1: it reads keys->warmup; a job that sets it otherwise
                          is warned */
    unsigned ends;     /* 1: it is made for keys->total steps; a job whose
                          warm-up is longer is warned */

    /* Keys of its own: the table of job.toml that has its name. NULL: none.
     * They fill `part`, of part_size bytes, at most DSFLOW_LR_SCHEDULE_PART.
     * It is copied with the task: numbers only, no strings or lists. */
    const struct dsflow_option *options;
    size_t part_size;

    /* The rate of step `step`, from 0. It depends on nothing else. */
    double (*lr)(const void *part, const struct dsflow_lr_keys *keys,
                 int64_t step);
};

/* Make it known by its name. It is borrowed for good: make it static. */
DSFLOW_API int dsflow_lr_schedule_register(const struct dsflow_lr_schedule *s,
                                           struct dsflow_err *err);
DSFLOW_API const struct dsflow_lr_schedule *
dsflow_lr_schedule_find(const char *name);

/* The i-th known, in order of registration; NULL past the last. */
DSFLOW_API const struct dsflow_lr_schedule *dsflow_lr_schedule_at(unsigned i);

DSFLOW_END_DECLS

#endif
