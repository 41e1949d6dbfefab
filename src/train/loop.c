/* loop.c - the steps of a run, and what is due between them. */
#include "train/run.h"

#include "base/alloc.h"
#include "base/notice.h"
#include "base/units.h"
#include "machine/memory.h"
#include "model/model_inputs.h"
#include "plan/programs.h"
#include "policies/onebit.h"
#include "train/tensor_norms.h"

#include <dsflow/plan.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Steps that are submitted before the first of them is done. */
enum { AHEAD = 2 };

static void set_stage(const struct dsf_run *r, enum dsf_run_stage stage)
{
    if (r->calls.on_stage != NULL)
        r->calls.on_stage(r->calls.user, stage);
}

static bool may_begin(const struct dsf_run *r, int64_t step)
{
    return r->calls.may_begin == NULL ||
           r->calls.may_begin(r->calls.user, step);
}

static void tell_progress(const struct dsf_run *r)
{
    if (r->calls.on_progress != NULL)
        r->calls.on_progress(r->calls.user, r->done, r->saved);
}

static bool divides(int64_t every, int64_t step)
{
    return every > 0 && step % every == 0;
}

/* Is it known only when `step` is done whether the next one rounds its inputs?
 */
static bool may_begin_to_round(const struct dsf_run *r, int64_t step)
{
    return r->s.exact_inputs.waits &&
           !dsf_inputs_wait(r->s.job, r->updates + step - r->done);
}

/* Steps after which everything stops for a moment. */
static bool is_boundary(const struct dsf_run *r, int64_t step)
{
    return may_begin_to_round(r, step) ||
           divides(r->s.job->validation.every, step) ||
           divides(r->s.job->checkpoint.every.steps, step) ||
           step == r->s.job->main.steps;
}

/* Is the time over after which the next checkpoint is saved? */
static bool save_is_due(const struct dsf_run *r)
{
    double after = r->s.job->checkpoint.every.seconds;

    return after > 0 && dsf_now() - r->saved_at >= after;
}

/* Steps up to `until`. */
static int submit_ahead(struct dsf_run *r, int64_t until,
                        struct dsflow_err *err)
{
    int status = dsf_session_prepare(&r->s, err);

    while (status == DSFLOW_OK && r->submitted < until &&
           r->submitted < r->done + AHEAD &&
           (r->submitted == r->done ||
            (!is_boundary(r, r->submitted) && !save_is_due(r))) &&
           may_begin(r, r->submitted + 1)) {
        status = dsflow_exec_submit(
            r->s.exec,
            dsf_plan_program(r->s.plan, r->s.graph, r->submitted + 1), err);
        r->submitted++;
    }
    return status;
}

int dsf_run_save(struct dsf_run *r, struct dsflow_err *err)
{
    int status;

    if (r->saved == r->done)
        return DSFLOW_OK;
    set_stage(r, DSF_RUN_SAVES);
    dsf_notice("saving the checkpoint of step %lld", (long long)r->done);
    status = dsf_session_save(&r->s, r->done, err);
    dsf_notice_end();
    if (status == DSFLOW_OK) {
        r->saved = r->done;
        r->saved_at = dsf_now();
    }
    tell_progress(r);
    return status;
}

int dsf_run_validate(struct dsf_run *r, struct dsf_validation *v,
                     struct dsflow_err *err)
{
    double loss;
    int status =
        dsf_validate(&r->feed, r->s.job->validation.sequences, &loss, err);

    *v = (struct dsf_validation){ r->done, NAN, NAN, NAN };
    /* What there is of one that was ended means nothing. */
    if (status < 0 || dsf_feed_is_stopped(&r->feed))
        return status;
    v->loss = loss;
    v->per_byte = dsf_per_byte(&r->s, v->loss);
    v->perplexity = exp(v->loss);
    status = dsf_metrics_validation(&r->metrics, v, err);
    if (status == DSFLOW_OK)
        status = dsf_event_file_validation(&r->events, v, err);
    if (r->calls.on_validation != NULL)
        r->calls.on_validation(r->calls.user, v);
    return status;
}

/* Is there a validation after step r->done? */
static bool validation_is_due(const struct dsf_run *r)
{
    return r->s.text.validation_sequences > 0 &&
           (divides(r->s.job->validation.every, r->done) ||
            r->done == r->s.job->main.steps);
}

/* What is due after step r->done, with everything at rest. */
static int pause_at_boundary(struct dsf_run *r, struct dsflow_err *err)
{
    const struct dsf_job *job = r->s.job;
    bool end = r->done == job->main.steps;
    struct dsf_validation v;
    int status = dsflow_exec_wait(r->s.exec, err);

    r->paused = r->done;
    if (end) /* a validation behind the last step is of none */
        dsf_meter_end(&r->meter);
    if (status == DSFLOW_OK &&
        (divides(job->checkpoint.every.steps, r->done) || save_is_due(r) ||
         (end && job->checkpoint.at_end)))
        status = dsf_run_save(r, err);
    if (status == DSFLOW_OK)
        status = dsf_session_round(&r->s, r->updates, err);
    if (status == DSFLOW_OK && validation_is_due(r)) {
        set_stage(r, DSF_RUN_VALIDATES);
        status = dsf_run_validate(r, &v, err);
    }
    set_stage(r, DSF_RUN_STEPS);
    r->last = dsf_now();
    return status;
}

/* The validation of the step that a run goes on from, where the run before was
 * ended between that checkpoint and its validation. */
static int make_up_validation(struct dsf_run *r, struct dsflow_err *err)
{
    struct dsf_validation v;

    return r->done == 0 || r->done > r->first ||
                   r->metrics.validated == r->done || !validation_is_due(r)
               ? DSFLOW_OK
               : dsf_run_validate(r, &v, err);
}

/* Memory that was touched stays, and a step touches all; looking takes time
 * from the workers: not more than one part in a thousand. The first step may
 * not be over when it is told of. */
static void find_held(struct dsf_run *r)
{
    enum { SHARE = 1000 };
    double now = dsf_now();

    if (r->done > r->first + 2 && now - r->looked < SHARE * r->looking)
        return;
    for (int t = 0; t < DSFLOW_NTIERS; t++) {
        r->held[t] = 0;
        for (int32_t rank = 0; rank < r->s.plan->nranks; rank++)
            r->held[t] += (int64_t)dsflow_exec_resident(
                r->s.exec, (unsigned)rank, (enum dsflow_tier)t);
    }
    r->looked = dsf_now();
    r->looking = r->looked - now;
}

static bool is_finite(const struct dsf_step *step)
{
    return isfinite(step->loss) && isfinite(step->grad_norm);
}

/* What was not finite, and what was tried. */
static void describe_nonfinite(const struct dsf_step *step, char *text,
                               size_t size)
{
    if (step->overflows < 0)
        snprintf(text, size, "the loss is %g and the gradient's norm %g",
                 step->loss, step->grad_norm);
    else
        snprintf(text, size,
                 "the loss is %g, and the gradients overflow with a loss "
                 "scale of %.10g, which may not get smaller",
                 step->loss, step->loss_scale);
}

/* With the parameters that gave such a loss, where they can be read. */
static int fail_nonfinite(struct dsf_run *r, const struct dsf_step *step,
                          struct dsflow_err *err)
{
    struct dsf_tensor_norms norms = { 0 };
    char text[sizeof(struct dsf_norms_text) + 2] = "", what[160];
    int status = dsflow_exec_wait(r->s.exec, NULL);

    if (status == DSFLOW_OK)
        status = dsf_tensor_norms(&r->s.contents, &norms, NULL);
    if (status == DSFLOW_OK)
        snprintf(text, sizeof(text), "%s; ", dsf_norms_text(&norms).s);
    describe_nonfinite(step, what, sizeof(what));
    return dsflow_fail(err, DSFLOW_EFAIL,
                       "step %lld: %s: %sa lower optimizer.lr or a longer "
                       "schedule.warmup may help",
                       (long long)step->step, what, text);
}

/* Second moments that freeze before the first update stay zeroes, and numbers
 * of which they are zeroes are not updated any more. */
static int check_frozen(struct dsf_run *r, const struct dsf_step *step,
                        struct dsflow_err *err)
{
    const struct dsf_job *job = r->s.job;
    const struct dsf_onebit_keys *keys = dsf_onebit_keys(job);

    if (keys == NULL)
        return DSFLOW_OK;
    if (r->updates > 0 || step->step < keys->freeze_step)
        return DSFLOW_OK;
    return dsf_job_fail(
        job, err, DSFLOW_EFAIL, job->optimizer.kind, "freeze_step",
        "%lld: all steps so far were skipped, so that second moments would "
        "freeze as zeroes and nothing would be updated: expected a later one%s",
        (long long)keys->freeze_step,
        step->overflows > 0 ? ", or a smaller precision.initial_scale" : "");
}

/* Adds to a message what there is to go on from. */
static int fail_with_checkpoint(const struct dsf_run *r, int status,
                                struct dsflow_err *err)
{
    struct dsflow_err why = *err;

    if (r->saved < 0)
        return dsflow_fail(err, status, "%s; there is no checkpoint yet",
                           why.msg);
    return dsflow_fail(err, status,
                       "%s; the last checkpoint is of step %lld, in %s",
                       why.msg, (long long)r->saved, r->s.job->main.output);
}

int dsf_run_failed(const struct dsf_run *r, int status, struct dsflow_err *err)
{
    if (r->s.exec != NULL && dsflow_exec_failed(r->s.exec, err) < 0)
        status = err->status;
    else if (!r->begun)
        return status;
    return fail_with_checkpoint(r, status, err);
}

/* To the metrics, and to the program around. */
static int tell_step(struct dsf_run *r, const struct dsf_step *step,
                     struct dsflow_err *err)
{
    int status = dsf_metrics_step(&r->metrics, step, err);

    if (status == DSFLOW_OK)
        status = dsf_event_file_step(&r->events, step, err);
    if (r->calls.on_step != NULL)
        r->calls.on_step(r->calls.user, step);
    return status;
}

static int take_step(struct dsf_run *r, const struct dsf_report *report,
                     struct dsflow_err *err)
{
    int64_t tokens = r->s.job->batch.sequences * r->s.plan->sequence;
    bool stops = r->s.job->train.on_nonfinite == DSF_STOP_RUN;
    struct dsf_step step = {
        .step = ++r->done,
        .loss = report->of.loss / (double)tokens,
        .lr = report->of.lr,
        .grad_norm = report->of.norm,
        .seconds = report->at - r->last,
        .mfu = r->token_seconds > 0
                   ? (double)tokens * r->token_seconds / (report->at - r->last)
                   : NAN,
        .loss_scale = report->of.loss_scale,
        .skipped = report->of.skipped && !report->of.stops,
        .overflows = report->of.overflows,
        .tokens = tokens,
        .peak_bytes = dsf_memory_most(),
    };
    const char *program = dsflow_plan_program_of(r->s.plan, step.step);
    bool plain = strcmp(program, "step") == 0;
    double unsent = 0;
    int status;

    if (!plain)
        snprintf(step.program, sizeof(step.program), "%s", program);
    r->updates += !step.skipped;
    tell_progress(r);
    memcpy(step.moved, r->moved, sizeof(step.moved));
    step.weights = plain ? dsf_session_weights(&r->s) : NULL;
    find_held(r);
    step.device_bytes = r->held[DSFLOW_DEVICE];
    step.nvme_bytes = r->held[DSFLOW_NVME];
    dsf_meter_step(&r->meter, step.step - 1 - r->first, r->last, report->at,
                   &step);
    for (int i = 0; i < DSF_NWIRES; i++) {
        step.moved[DSF_MOVE_REDUCE] -= (int64_t)step.unsent[i];
        unsent += step.unsent[i];
    }
    status = tell_step(r, &step, err);

    /* The first step touches memory for the first time; one after a pause
     * starts with nothing under way; what is predicted is the program `step`.
     */
    if (plain && r->done > r->first + 1 && r->paused != r->done - 1) {
        dsf_grow(&r->seconds, &r->cap_seconds, r->nseconds + 1,
                 sizeof(*r->seconds));
        r->taken += step.seconds;
        r->least += step.efficiency * step.seconds;
        r->seconds[r->nseconds++] = step.seconds;
        if (step.io_seconds > 0) {
            r->io += step.io_seconds;
            r->io_hidden += step.io_hidden * step.io_seconds;
        }
        if (step.sent_seconds > 0) {
            r->sent += step.sent_seconds;
            r->unsent += unsent;
            r->sent_hidden += step.sent_hidden * step.sent_seconds;
        }
    }
    r->last = report->at;
    if (status == DSFLOW_OK && stops && !step.skipped && !is_finite(&step))
        return fail_nonfinite(r, &step, err);
    return status == DSFLOW_OK ? check_frozen(r, &step, err) : status;
}

static int take_report(struct dsf_run *r, struct dsflow_err *err)
{
    struct dsf_report report = dsf_feed_next(&r->feed);
    int status = dsflow_exec_failed(r->s.exec, err);

    if (status == DSFLOW_OK)
        status = dsf_corpus_failed(r->s.corpus, err);
    return status < 0 ? status : take_step(r, &report, err);
}

/* One step more, of those up to `until`; none where it may not begin. */
static int advance(struct dsf_run *r, int64_t until, struct dsflow_err *err)
{
    int status = submit_ahead(r, until, err);

    if (status < 0 || r->submitted == r->done)
        return status;
    status = take_report(r, err);
    if (status == DSFLOW_OK && r->done == r->submitted &&
        (is_boundary(r, r->done) || save_is_due(r)))
        status = pause_at_boundary(r, err);
    return status;
}

int dsf_run_train(struct dsf_run *r, struct dsflow_err *err)
{
    int64_t steps = r->s.job->main.steps, before = -1;
    int status = make_up_validation(r, err);

    r->last = r->saved_at = dsf_now();
    while (status == DSFLOW_OK && r->done < steps && r->done != before) {
        before = r->done;
        status = advance(r, steps, err);
    }
    if (status == DSFLOW_OK)
        status = dsflow_exec_wait(r->s.exec, err);
    if (status == DSFLOW_OK)
        dsf_run_finish(r);
    return status;
}

int dsf_run_step(struct dsf_run *r, struct dsflow_err *err)
{
    int status = make_up_validation(r, err);

    r->last = dsf_now();
    r->paused = r->done;
    if (status == DSFLOW_OK)
        status = advance(r, r->done + 1, err);
    return status == DSFLOW_OK ? dsflow_exec_wait(r->s.exec, err) : status;
}

void dsf_run_finish(struct dsf_run *r)
{
    dsf_meter_end(&r->meter);
}
