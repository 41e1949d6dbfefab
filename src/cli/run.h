/* run.h - a run of `dsflow run`: what it is made of, what it writes beside its
 * checkpoints and metrics, and what it says at its start and end. */
#ifndef DSF_CLI_RUN_H
#define DSF_CLI_RUN_H

#include "cli/progress.h"
#include "measure/machine_cache.h"
#include "sim/predict.h"
#include "train/feed.h"
#include "train/meter.h"
#include "train/resume.h"
#include "train/session.h"

struct dsf_run {
    struct dsf_session s;
    enum dsflow_exec_kind executor;
    struct dsf_feed feed;
    struct dsf_progress progress;
    struct dsf_meter meter;
    int64_t moved[DSF_NMOVES]; /* bytes of a step */
    double read, written;      /* of them, from and to NVMe */
    int64_t held[DSFLOW_NTIERS]; /* bytes that hold something, all ranks */
    double looked, looking;    /* when that was found out, and how long it took */
    struct dsf_resume start;
    int64_t first;           /* steps that were done before */
    int64_t done, submitted; /* steps */
    int64_t saved;           /* the step of the last checkpoint; -1: none */
    double saved_at;         /* when it was saved, or the training began */
    int64_t paused;          /* the last step after which everything stopped */
    double last;             /* when the step before was reported */

    struct dsf_machine_model machine;
    struct dsf_prediction prediction; /* of a step on it */
    double *seconds; /* of the steps that nothing interrupted */
    double *bounds;  /* what each of them takes at least */
    double io, io_hidden; /* seconds of disks in all of them */
    size_t nseconds, cap_seconds, cap_bounds;
};

/* Can the folder of the output be made, or be written to? */
int dsf_run_check_output(const struct dsf_job *job, struct dsflow_err *err);
int dsf_run_make_output(const struct dsf_job *job, struct dsflow_err *err);

/* job.toml and plan.json of the output folder. */
int dsf_run_write_files(struct dsf_run *r, struct dsflow_err *err);

/* Warn of a long run whose only save is its last act. */
void dsf_run_warn_unsaved(const struct dsf_run *r);

void dsf_run_say_start(struct dsf_run *r);
void dsf_run_say_end(struct dsf_run *r); /* how well the machine was used */

#endif
