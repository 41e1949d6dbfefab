/* run.h - a run: a session that trains, from what can be known at once to the
 * last line of its metrics. The caller goes through the stages in this order. */
#ifndef DSF_TRAIN_RUN_H
#define DSF_TRAIN_RUN_H

#include "measure/machine_cache.h"
#include "sim/predict.h"
#include "train/event_file.h"
#include "train/feed.h"
#include "train/meter.h"
#include "train/metrics.h"
#include "train/resume.h"
#include "train/session.h"

enum dsf_run_stage { DSF_RUN_STEPS, DSF_RUN_SAVES, DSF_RUN_VALIDATES };

/* What a run asks of the program around it, and tells it; all may be NULL. They
 * are called by the thread that trains. */
struct dsf_run_calls {
    void *user;
    /* May step `step`, from 1, begin? Where not, the run ends with the steps
     * that have begun. Asked once for each. */
    bool (*may_begin)(void *user, int64_t step);
    /* Asked while it validates: true ends that. */
    bool (*is_stopped)(void *user);
    void (*on_stage)(void *user, enum dsf_run_stage stage);
    /* Of the steps that are done, and the last one that is saved (-1: none). */
    void (*on_progress)(void *user, int64_t done, int64_t saved);
    /* When they are in the metrics. */
    void (*on_step)(void *user, const struct dsf_step *step);
    void (*on_validation)(void *user, const struct dsf_validation *v);
};

struct dsf_run {
    struct dsf_session s;
    struct dsf_wire *wire; /* to the others of several processes; or NULL */
    struct dsf_hosts hosts; /* of them */
    enum dsflow_exec_kind executor;
    struct dsf_run_calls calls;
    struct dsf_resume start;
    int64_t restart; /* so many times it was begun again, */
    const char *why; /* the last time, as this had failed; borrowed */
    struct dsf_machine_model machine;
    bool has_machine;
    struct dsf_prediction prediction; /* of a step on it */

    struct dsf_feed feed;
    struct dsf_meter meter;
    struct dsf_metrics metrics;
    struct dsf_event_file events;
    bool begun; /* the metrics are of this run */

    int64_t first;           /* steps that were done before */
    int64_t done, submitted; /* steps */
    int64_t updates;         /* that parameters have behind them */
    int64_t saved;           /* the step of the last checkpoint; -1: none */
    double saved_at;         /* when it was saved, or the training began */
    int64_t paused;          /* the last step after which everything stopped */
    double last;             /* when the step before was reported */

    int64_t moved[DSF_NMOVES]; /* bytes of a step */
    double read, written;      /* of them, from and to NVMe */
    int64_t held[DSFLOW_NTIERS]; /* bytes that hold something, all ranks */
    double looked, looking;    /* when that was found out, and how long it took */
    double token_seconds; /* at the peak of the GPUs; 0: not known */
    double *seconds; /* of the steps that nothing interrupted */
    double taken, least; /* all of them, and what they take at least */
    double io, io_hidden; /* seconds of disks in all of them */
    double sent, sent_hidden; /* and of messages between processes, … */
    double unsent;            /* … and bytes that need not go */
    size_t nseconds, cap_seconds;
};

void dsf_run_init(struct dsf_run *r);

/* What can be known before anything is measured, built or read; and where the
 * run begins. After dsf_session_model, with `executor` and what `start` is
 * asked for. */
int dsf_run_check(struct dsf_run *r, struct dsflow_err *err);

/* The plan and the graph; the folder of the output, in which no other run is.
 */
int dsf_run_plan(struct dsf_run *r, struct dsflow_err *err);

/* Is there memory and room for it? The text, which can be long. */
int dsf_run_text(struct dsf_run *r, struct dsflow_err *err);

/* Is it known what a step will take here? What cores take says nothing of GPUs,
 * nor a part of a graph of all tasks. After dsf_run_predict. */
bool dsf_run_is_predicted(const struct dsf_run *r);

/* What a step will take here; NAN where that is not known. Before the executor
 * is open, whose workers would be in the way where the machine is measured. */
int dsf_run_predict(struct dsf_run *r, struct dsflow_err *err);

/* The executor and the weights; the files of the run. */
int dsf_run_open(struct dsf_run *r, struct dsflow_err *err);

/* loop.c: all steps that are left, or as many as may begin, with the checkpoints
 * and validations between them. */
int dsf_run_train(struct dsf_run *r, struct dsflow_err *err);

/* One step, and what is due after it; nothing is under way afterwards. With
 * dsf_run_finish after the last one. */
int dsf_run_step(struct dsf_run *r, struct dsflow_err *err);
void dsf_run_finish(struct dsf_run *r);

/* Where there is text for it: to the metrics too. */
int dsf_run_validate(struct dsf_run *r, struct dsf_validation *v,
                     struct dsflow_err *err);

/* The checkpoint of the steps that are done, where there is none yet. */
int dsf_run_save(struct dsf_run *r, struct dsflow_err *err);

/* Is there memory for dsf_session_units, and for text of them, beside what the
 * run has? DSFLOW_EFIT, with the bytes. */
int dsf_run_check_copies(const struct dsf_run *r, struct dsflow_err *err);

/* Of a run that has failed: adds to the message what there is to go on from;
 * where the executor has failed, that is the reason. */
int dsf_run_failed(const struct dsf_run *r, int status, struct dsflow_err *err);

/* The last line of the metrics; `why` (of a failure) may be NULL. Nothing where
 * they had not begun. */
void dsf_run_end(struct dsf_run *r, enum dsf_end end, const char *why);
void dsf_run_close(struct dsf_run *r);

/* run_files.c */

/* Can the folder of the output be made, or be written to? */
int dsf_run_check_output(const struct dsf_job *job, struct dsflow_err *err);

/* Make it where it is not there, and open its metrics: DSFLOW_EINVAL when
 * another run has them. */
int dsf_run_take_output(const struct dsf_job *job, struct dsf_metrics *m,
                        struct dsflow_err *err);

/* What there was of an output before it was taken. */
struct dsf_output_before {
    size_t folders; /* bytes of its path: up to the last one that was there */
    bool metrics, cache, checkpoints, tokenizer;
};
struct dsf_output_before dsf_run_look(const struct dsf_job *job);
/* Remove what there was not: folders that are empty and, where they are still
 * open, the metrics, the cache of tokens and the tokenizer. */
void dsf_run_clear_output(const struct dsf_job *job,
                          const struct dsf_output_before *before,
                          const struct dsf_metrics *m);

/* job.toml and plan.json of the output folder. */
int dsf_run_write_files(struct dsf_run *r, struct dsflow_err *err);

#endif
