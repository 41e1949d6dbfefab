/* progress.h - how far a run is: a bar on a terminal, plain lines elsewhere. */
#ifndef DSF_CLI_PROGRESS_H
#define DSF_CLI_PROGRESS_H

#include "cli/screen.h"
#include "train/metrics.h"

#include <dsflow/log.h>

struct dsf_progress {
    int64_t steps, log_every;
    bool quiet;
    int64_t skipped;        /* steps that updated nothing */
    int64_t skipped_in_row; /* the last of them, if the last step is one */
    bool bar;     /* one is on the screen now */
    bool legend;  /* was said */
    double drawn; /* when the bar was */
    struct dsf_screen screen;
    struct dsf_pace pace;
};

/* Of a run of so many steps. Lines of the log come above the bar from now on. */
void dsf_progress_begin(struct dsf_progress *p, int64_t steps,
                        int64_t log_every);
void dsf_progress_close(struct dsf_progress *p);

void dsf_progress_step(struct dsf_progress *p, const struct dsf_step *step);

/* A line for people, above the bar. */
void dsf_progress_say(struct dsf_progress *p, const char *fmt, ...)
    DSFLOW_PRINTF(2, 3);

/* A line of the log on standard error, above the bar of `progress`, which may
 * be NULL: a dsflow_log_fn. */
void dsf_print_log(void *progress, enum dsflow_log_level level,
                   const char *line);

/* The bar goes: something else is printed. */
void dsf_progress_clear(struct dsf_progress *p);

#endif
