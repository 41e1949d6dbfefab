/* train.h - train a job from a program.
 *
 * dsflow_train does it all. A caller with something to do between steps opens a
 * run and takes steps itself. Both write the files of `dsflow run` into the
 * output folder of the job, and the results are the same, bit for bit.
 *
 * One run may be open in a process at a time, and one thread uses it: that
 * thread gets all calls of `dsflow_train_options`. Runs one after the other are
 * fine. Nothing here prints but dsflow_log_sink_set's lines, ends the process,
 * or touches its signals, locale or environment.
 */
#ifndef DSFLOW_TRAIN_H
#define DSFLOW_TRAIN_H

#include <dsflow/batches.h>
#include <dsflow/job.h>
#include <dsflow/model.h>

DSFLOW_BEGIN_DECLS

/* A step that is done. A number that is not known is NAN. */
struct dsflow_step {
    int64_t step; /* from 1 */
    double loss;  /* mean over the tokens of the step, in nats */
    double lr;
    double grad_norm; /* before clipping */
    double seconds;
    double efficiency; /* lower bound of its time / its time */
    double mfu; /* model FLOPs utilization, on GPUs whose peak is known */
    int64_t tokens;
    int64_t peak_bytes; /* memory of the process so far */
    int skipped;        /* 1: not finite, nothing was updated */
    double loss_scale;  /* the loss was multiplied by this; 1 but in fp16 */
    int64_t overflows;  /* so far: the loss scale was too large; -1: losses are
                           not scaled */
};

struct dsflow_validation {
    int64_t step;      /* after this one */
    double loss;       /* mean over the tokens, in nats */
    double per_byte;   /* of text; NAN for batches of the caller's own */
    double perplexity; /* exp(loss) */
};

/* Where the output folder has checkpoints of an earlier run. */
enum dsflow_start {
    DSFLOW_START_NEW,         /* an error */
    DSFLOW_START_RESUME,      /* go on from the latest one, if there is any */
    DSFLOW_START_RESUME_GOOD, /* from an older one, where it is damaged */
    DSFLOW_START_RESUME_CHANGED, /* with another job, where that makes sense */
    DSFLOW_START_OVERWRITE       /* they are removed */
};

struct dsflow_train_options {
    uint32_t size; /* of this structure: DSFLOW_TRAIN_OPTIONS sets it */
    enum dsflow_start start;
    int serial; /* 1: the tasks one after the other on the calling thread */
    const struct dsflow_batches *batches; /* in place of [data]; or NULL */

    /* All may be NULL. */
    void *user;
    void (*on_step)(void *user, const struct dsflow_step *step);
    void (*on_validation)(void *user, const struct dsflow_validation *v);
    /* Asked before each step of dsflow_train, and while it validates. Not 0:
     * the run ends with the steps that have begun, and saves a checkpoint. Of
     * dsflow_run_step and _validate, it ends the validation: a step is what the
     * caller asks for. */
    int (*should_stop)(void *user);
};
#define DSFLOW_TRAIN_OPTIONS(...)                                              \
    DSFLOW_OF(dsflow_train_options,                                            \
              .size = sizeof(struct dsflow_train_options), __VA_ARGS__)

/* All steps of the job, with its validations and checkpoints. `options` NULL:
 * those that are 0. Errors: DSFLOW_EINVAL for the job; DSFLOW_EFIT where it
 * does not fit; DSFLOW_EIO of a disk; DSFLOW_EFAIL where a loss is not finite.
 * What was saved before is whole, and the program goes on. */
DSFLOW_API int dsflow_train(const struct dsflow_job *job,
                            const struct dsflow_train_options *options,
                            struct dsflow_err *err);

/* The loss on the validation text of the checkpoint of `step` in the output
 * folder of the job, or of the latest one (DSFLOW_LATEST_STEP); 0: as the job
 * starts. Of the options, `serial` and `batches` count. No run may be open. */
DSFLOW_API int dsflow_evaluate(const struct dsflow_job *job,
                               const struct dsflow_train_options *options,
                               int64_t step,
                               struct dsflow_validation *validation,
                               struct dsflow_err *err);

struct dsflow_run; /* opaque */

/* Up to the first step: planned, allocated, weights read. The job, and what the
 * options point to, are borrowed until close. */
DSFLOW_API int dsflow_run_open(const struct dsflow_job *job,
                               const struct dsflow_train_options *options,
                               struct dsflow_run **run, struct dsflow_err *err);
DSFLOW_API void dsflow_run_close(struct dsflow_run *run); /* NULL is fine */

/* Steps that are done, those of the run it goes on from included; of the job.
 */
DSFLOW_API int64_t dsflow_run_done(const struct dsflow_run *run);
DSFLOW_API int64_t dsflow_run_steps(const struct dsflow_run *run);

/* One step, and the checkpoint and validation that are due after it; *step
 * (NULL is fine) is borrowed until the next one. Nothing is under way
 * afterwards, so that steps do not overlap as in dsflow_train. DSFLOW_EINVAL
 * after the last. */
DSFLOW_API int dsflow_run_step(struct dsflow_run *run,
                               const struct dsflow_step **step,
                               struct dsflow_err *err);

/* The loss on the validation text; NAN where should_stop ended it.
 * DSFLOW_EINVAL where there is none. */
DSFLOW_API int dsflow_run_validate(struct dsflow_run *run,
                                   struct dsflow_validation *validation,
                                   struct dsflow_err *err);

/* A checkpoint of what is done, in the output folder. */
DSFLOW_API int dsflow_run_save(struct dsflow_run *run, struct dsflow_err *err);

/* Tensors of the parameters as they are now, as dsflow_model_tensor and
 * dsflow_model_get, and new values for one: on every rank that has it, wherever
 * it is kept. */
DSFLOW_API int dsflow_run_tensor(const struct dsflow_run *run, unsigned i,
                                 struct dsflow_tensor_info *tensor);
DSFLOW_API int dsflow_run_get(struct dsflow_run *run, const char *name,
                              float *to, int64_t elems, struct dsflow_err *err);
DSFLOW_API int dsflow_run_put(struct dsflow_run *run, const char *name,
                              const float *from, int64_t elems,
                              struct dsflow_err *err);

/* Text by the parameters as they are now, as dsflow_model_generate. Errors:
 * DSFLOW_EFIT, too, where there is no memory for all of them in one piece. */
DSFLOW_API int dsflow_run_generate(struct dsflow_run *run, const char *prompt,
                                   size_t bytes,
                                   const struct dsflow_sampling *sampling,
                                   dsflow_token_fn on_token, void *user,
                                   struct dsflow_err *err);

DSFLOW_END_DECLS

#endif
