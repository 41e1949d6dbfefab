/* progress.h - how far a run is: a bar on a terminal, plain lines elsewhere,
 * and metrics.jsonl. */
#ifndef DSF_CLI_PROGRESS_H
#define DSF_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <dsflow/error.h>

/* One step, as it is reported. */
struct dsf_step {
    int64_t step; /* from 1 */
    double loss;  /* mean over the tokens of the step */
    double lr, grad_norm, seconds;
    int64_t tokens;
};

struct dsf_progress {
    FILE *metrics;
    char *metrics_path;
    int64_t steps, log_every;
    bool terminal, quiet, bar; /* bar: a bar is on the screen now */
    double rate;               /* tokens per second, smoothed */
    double step_seconds;       /* smoothed */
};

/* Opens `path` for lines to be added; lines of steps past `done` are cut off,
 * and so is a line that a crash left incomplete. */
int dsf_progress_open(struct dsf_progress *p, const char *path, int64_t done,
                      int64_t steps, int64_t log_every,
                      struct dsflow_err *err);
void dsf_progress_close(struct dsf_progress *p);

int dsf_progress_step(struct dsf_progress *p, const struct dsf_step *step,
                      struct dsflow_err *err);

/* A line for people, above the bar. */
void dsf_progress_say(struct dsf_progress *p, const char *fmt, ...)
    DSFLOW_PRINTF(2, 3);

/* A line of metrics.jsonl that is no step. */
int dsf_progress_validation(struct dsf_progress *p, int64_t step, double loss,
                            double per_byte, struct dsflow_err *err);

#endif
