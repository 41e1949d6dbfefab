/* follow.h - a run as its folder shows it, from outside and while it runs. */
#ifndef DSF_TRAIN_FOLLOW_H
#define DSF_TRAIN_FOLLOW_H

#include "train/pace.h"

#include <sys/stat.h>

enum dsf_run_state {
    DSF_RUN_NONE,     /* nothing has begun in the folder */
    DSF_RUN_STARTING, /* something will be added to what there is */
    DSF_RUN_GOING,
    DSF_RUN_FINISHED,
    DSF_RUN_STOPPED,
    DSF_RUN_FAILED,
    DSF_RUN_GONE, /* ended without a word: killed, or crashed */
};

struct dsf_point {
    int64_t step;
    double loss; /* finite */
};

struct dsf_follow {
    char *folder;
    char *name;               /* of the job; or of the folder */
    int64_t steps, log_every; /* of the job; 0: not known */
    struct timespec job_read; /* the job.toml of this time was */

    enum dsf_run_state state;
    char why[512]; /* it failed; or "" */
    bool has_step; /* and the last one is */
    int64_t nskipped, skipped; /* steps that were, and the last of them */
    struct dsf_step last;
    struct dsf_pace pace;
    struct timespec changed; /* the time of the last line */
    struct dsf_point *losses, *validations;
    size_t nlosses, cap_losses, nvalidations, cap_validations;

    /* Called for each line that is new since the file was opened, or NULL. */
    void (*on_line)(void *user, const struct dsf_line *line);
    void *user;

    int fd; /* of metrics.jsonl; -1: there is none yet */
    struct stat st;
    off_t at;    /* up to here it was read: the end of a line */
    off_t news;  /* what is before was there already, or was kept */
    bool waited; /* for the file */
    char *text;  /* the beginning of a line, while the rest is being read */
    size_t ntext, cap_text;
    bool ended; /* the last line says how */
    struct dsf_line end;
};

/* DSFLOW_EINVAL when `folder` is none. */
int dsf_follow_open(struct dsf_follow *f, const char *folder,
                    struct dsflow_err *err);
void dsf_follow_close(struct dsf_follow *f);

/* Read what is new; false: nothing is. */
bool dsf_follow_poll(struct dsf_follow *f);

bool dsf_follow_is_over(const struct dsf_follow *f);

/* Seconds since the last line; and are they so many, while it runs, that
 * something may be wrong: ten, and five steps? */
double dsf_follow_age(const struct dsf_follow *f);
bool dsf_follow_is_late(const struct dsf_follow *f);

/* The step of the newest checkpoint; -1: there is none. */
int64_t dsf_follow_saved(const struct dsf_follow *f);

#endif
