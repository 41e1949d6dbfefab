/* progress.h - how far a run is: a bar on a terminal, plain lines elsewhere,
 * metrics.jsonl and TensorBoard's event files. */
#ifndef DSF_CLI_PROGRESS_H
#define DSF_CLI_PROGRESS_H

#include "cli/screen.h"
#include "train/event_file.h"
#include "train/metrics.h"

struct dsf_progress {
    struct dsf_metrics metrics;
    struct dsf_event_file events;
    int64_t steps, log_every;
    bool quiet, begun;
    bool bar;     /* one is on the screen now */
    bool legend;  /* was said */
    double drawn; /* when the bar was */
    struct dsf_screen screen;
    struct dsf_pace pace;
};

/* Takes the folder: no other run can while it is open. */
int dsf_progress_open(struct dsf_progress *p, const char *output,
                      struct dsflow_err *err);

/* After `done` steps. Lines of later steps are cut off. */
int dsf_progress_begin(struct dsf_progress *p, int64_t done, int64_t steps,
                       int64_t log_every, bool tensorboard,
                       struct dsflow_err *err);

/* How it ended, as the run's own functions say it: DSFLOW_OK, a failure, or an
 * exit status above 0 when it was stopped. Nothing before it began. */
void dsf_progress_end(struct dsf_progress *p, int64_t done, int status,
                      const struct dsflow_err *err);
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
