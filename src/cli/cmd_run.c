/* cmd_run.c - train. */
#include "base/alloc.h"
#include "base/log.h"
#include "base/notice.h"
#include "base/units.h"
#include "cli/job_flags.h"
#include "cli/run.h"
#include "cli/stop.h"
#include "plan/programs.h"
#include "sim/weights.h"
#include "tasks/components.h"
#include "tasks/tasks.h"
#include "train/early.h"
#include "train/generate.h"
#include "train/params.h"
#include "train/traced.h"
#include "tune/fit.h"

#include <dsflow/plan.h>

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* Steps that are submitted before the first of them is done. */
enum { AHEAD = 2 };

/* What a step will take here. Before the executor is open, whose workers would
 * be in the way where the machine is measured. */
static int predict(struct dsf_run *r, struct dsflow_err *err)
{
    int status = dsf_machine_of_job(&r->s.machine, &r->s.job, &r->machine, err);

    dsf_notice("simulating steps");
    if (status == DSFLOW_OK)
        status = dsf_predict(r->s.plan, r->s.graph, &r->machine, &r->prediction,
                             err);
    if (status == DSFLOW_OK)
        status = dsf_predict_programs(r->s.plan, r->s.graph, &r->machine,
                                      &r->prediction, err);
    dsf_notice_end();
    return status;
}

/* A checkpoint to go on from, as far as can be known by now. */
static int find_start(struct dsf_run *r, const struct dsf_cli_args *args,
                      struct dsflow_err *err)
{
    int status = dsf_flag_resume(args, &r->start, err);

    if (status == DSFLOW_OK)
        status = dsf_resume_find(&r->start, &r->s, err);

    r->saved = -1;
    if (status < 0 || r->start.folder == NULL)
        return status;
    r->done = r->saved = r->start.meta.step;
    return dsf_resume_check(&r->start, &r->s, err);
}

static bool divides(int64_t every, int64_t step)
{
    return every > 0 && step % every == 0;
}

/* Steps after which everything stops for a moment. */
static bool is_boundary(const struct dsf_run *r, int64_t step)
{
    return divides(r->s.job.validation.every, step) ||
           divides(r->s.job.checkpoint.every.steps, step) ||
           step == r->s.job.main.steps;
}

/* Is the time over after which the next checkpoint is saved? */
static bool save_is_due(const struct dsf_run *r)
{
    double after = r->s.job.checkpoint.every.seconds;

    return after > 0 && dsf_now() - r->saved_at >= after;
}

static int submit_ahead(struct dsf_run *r, struct dsflow_err *err)
{
    int status = DSFLOW_OK;

    while (status == DSFLOW_OK && r->submitted < r->s.job.main.steps &&
           r->submitted < r->done + AHEAD &&
           (r->submitted == r->done ||
            (!is_boundary(r, r->submitted) && !save_is_due(r))) &&
           dsf_stop_claim(r->submitted + 1)) {
        status = dsflow_exec_submit(
            r->s.exec,
            dsf_plan_program(r->s.plan, r->s.graph, r->submitted + 1), err);
        r->submitted++;
    }
    return status;
}

static int save(struct dsf_run *r, struct dsflow_err *err)
{
    int status;

    if (r->saved == r->done)
        return DSFLOW_OK;
    dsf_stop_stage(DSF_STOP_SAVING);
    dsf_notice("saving the checkpoint of step %lld", (long long)r->done);
    status = dsf_session_save(&r->s, r->done, err);
    dsf_notice_end();
    if (status == DSFLOW_OK) {
        r->saved = r->done;
        r->saved_at = dsf_now();
    }
    dsf_stop_progress(r->done, r->saved);
    return status;
}

static int validate(struct dsf_run *r, struct dsflow_err *err)
{
    double loss, per_byte;
    int status;

    if (r->s.text.validation_sequences == 0)
        return DSFLOW_OK;
    dsf_stop_stage(DSF_STOP_VALIDATING);
    status = dsf_validate(&r->feed, r->s.job.validation.sequences, &loss, err);
    /* What there is of one that was ended means nothing. */
    if (status < 0 || dsf_stop_signal() != 0)
        return status;
    per_byte = dsf_per_byte(&r->s, loss);
    status =
        dsf_progress_validation(&r->progress, r->done, loss, per_byte, err);
    printf("step %lld: validation loss %.6f, %.4f nats per byte, perplexity "
           "%.2f\n",
           (long long)r->done, loss, per_byte, exp(loss));
    fflush(stdout);
    return status;
}

/* What is due after step r->done, with everything at rest. */
static int pause_at_boundary(struct dsf_run *r, struct dsflow_err *err)
{
    const struct dsf_job *job = &r->s.job;
    bool end = r->done == job->main.steps;
    int status = dsflow_exec_wait(r->s.exec, err);

    r->paused = r->done;
    if (status == DSFLOW_OK &&
        (divides(job->checkpoint.every.steps, r->done) || save_is_due(r) ||
         (end && job->checkpoint.at_end)))
        status = save(r, err);
    if (status == DSFLOW_OK && (divides(job->validation.every, r->done) || end))
        status = validate(r, err);
    dsf_stop_stage(DSF_STOP_STEPPING);
    r->last = dsf_now();
    return status;
}

/* Memory that was touched stays; looking takes time from the workers: not more
 * than one part in a thousand. */
static void find_held(struct dsf_run *r)
{
    enum { SHARE = 1000 };
    double now = dsf_now();

    if (r->looked > 0 && now - r->looked < SHARE * r->looking)
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

/* Adds to a message what there is to go on from. */
static int fail_with_checkpoint(const struct dsf_run *r, int status,
                                struct dsflow_err *err)
{
    struct dsflow_err why = *err;

    if (r->saved < 0)
        return dsflow_fail(err, status, "%s; there is no checkpoint yet",
                           why.msg);
    return dsflow_fail(err, status, "%s; the last checkpoint is of step %lld",
                       why.msg, (long long)r->saved);
}

static int take_step(struct dsf_run *r, const struct dsf_report *report,
                     struct dsflow_err *err)
{
    int64_t tokens = r->s.job.batch.sequences * r->s.plan->sequence;
    struct dsf_step step = {
        .step = ++r->done,
        .loss = report->values[1] / (double)tokens,
        .lr = report->values[2],
        .grad_norm = report->values[3],
        .seconds = report->at - r->last,
        .loss_scale = 1, /* fp32 */
        .tokens = tokens,
    };
    const char *program = dsflow_plan_program_of(r->s.plan, step.step);
    bool plain = strcmp(program, "step") == 0;
    int status;

    if (!plain)
        snprintf(step.program, sizeof(step.program), "%s", program);
    dsf_stop_progress(r->done, r->saved);
    memcpy(step.moved, r->moved, sizeof(step.moved));
    find_held(r);
    step.device_bytes = r->held[DSFLOW_DEVICE];
    step.nvme_bytes = r->held[DSFLOW_NVME];
    dsf_meter_step(&r->meter, step.step - 1 - r->first, r->last, report->at,
                   &step);
    status = dsf_progress_step(&r->progress, &step, err);

    /* The first step touches memory for the first time; one after a pause
     * starts with nothing under way; what is predicted is the program `step`.
     */
    if (plain && r->done > r->first + 1 && r->paused != r->done - 1) {
        dsf_grow(&r->seconds, &r->cap_seconds, r->nseconds + 1,
                 sizeof(*r->seconds));
        dsf_grow(&r->bounds, &r->cap_bounds, r->nseconds + 1,
                 sizeof(*r->bounds));
        r->bounds[r->nseconds] = step.efficiency * step.seconds;
        r->seconds[r->nseconds++] = step.seconds;
        if (step.io_seconds > 0) {
            r->io += step.io_seconds;
            r->io_hidden += step.io_hidden * step.io_seconds;
        }
    }
    r->last = report->at;
    if (status < 0 || (isfinite(step.loss) && isfinite(step.grad_norm)))
        return status;
    dsflow_fail(err, DSFLOW_EFAIL,
                "step %lld: the loss is %g and the gradient's norm %g: a lower "
                "optimizer.lr or a longer schedule.warmup may help",
                (long long)step.step, step.loss, step.grad_norm);
    return fail_with_checkpoint(r, DSFLOW_EFAIL, err);
}

static int take_report(struct dsf_run *r, struct dsflow_err *err)
{
    struct dsf_report report = dsf_feed_next(&r->feed);
    int status = dsflow_exec_failed(r->s.exec, err);

    return status < 0 ? status : take_step(r, &report, err);
}

static int train(struct dsf_run *r, struct dsflow_err *err)
{
    int status = DSFLOW_OK;

    r->submitted = r->first = r->done;
    r->last = r->saved_at = dsf_now();
    while (r->done < r->s.job.main.steps && status == DSFLOW_OK) {
        status = submit_ahead(r, err);
        if (r->submitted == r->done) /* stopped, and all is done */
            break;
        if (status == DSFLOW_OK)
            status = take_report(r, err);
        if (status == DSFLOW_OK && r->done == r->submitted &&
            (is_boundary(r, r->done) || save_is_due(r)))
            status = pause_at_boundary(r, err);
    }
    if (status == DSFLOW_OK)
        status = dsflow_exec_wait(r->s.exec, err);
    if (status == DSFLOW_OK)
        dsf_meter_end(&r->meter);
    return status;
}

/* Is there memory for the whole model beside the tensors of the run? */
static bool has_room(struct dsf_run *r)
{
    double needed =
        dsf_session_copies(&r->s) + dsf_generator_bytes(&r->s.model);
    double room = dsf_fit_room(r->s.plan, r->s.graph);

    if (dsf_session_copies(&r->s) == 0 || needed <= room)
        return true;
    dsf_progress_say(&r->progress,
                     "no sample: the parameters in one piece take %s and %s of "
                     "memory are left; dsflow generate %s prints one",
                     dsf_size_text(needed).s, dsf_size_text(room).s,
                     r->s.job.main.output);
    return false;
}

static int print_sample(struct dsf_run *r, struct dsflow_err *err)
{
    const struct dsf_job_sample *sample = &r->s.job.sample;
    struct dsf_sampling sampling = {
        .temperature = sample->temperature,
        .top_p = sample->top_p,
        .top_k = sample->top_k,
        .seed = (uint64_t)sample->seed,
        .quiet = true, /* it was said at the start */
        .stopped = dsf_stop_signal,
    };
    float **params;
    int status;

    if (sample->tokens == 0 || !has_room(r))
        return DSFLOW_OK;
    status = dsf_session_units(&r->s, &params, err);
    if (status == DSFLOW_OK) {
        printf("\n");
        status = dsf_generate_print(&r->s.model, &r->s.job, params, r->s.tok,
                                    sample->prompt, strlen(sample->prompt),
                                    sample->tokens, &sampling, stdout, err);
    }
    dsf_session_units_free(&r->s, params);
    return status;
}

/* Bytes that a step moves between ranks, and between tiers of memory. */
static void find_moved(struct dsf_run *r)
{
    static const enum dsf_move moves[] = {
        [DSFLOW_COMM_NONE] = DSF_MOVE_SEND, /* which moves nothing */
        [DSFLOW_COMM_SEND] = DSF_MOVE_SEND,
        [DSFLOW_COMM_GATHER] = DSF_MOVE_GATHER,
        [DSFLOW_COMM_REDUCE] = DSF_MOVE_REDUCE,
    };
    struct dsf_weights w;

    dsf_weights_init(&w, r->s.graph, (unsigned)r->s.plan->nranks,
                     r->s.plan->rank_workers);
    for (unsigned k = 0; k < w.nkinds; k++) {
        r->moved[moves[w.kinds[k].op->comm]] += (int64_t)w.kinds[k].moved;
    }
    for (unsigned i = 0; i < w.nranks; i++) {
        const struct dsf_rank_weight *rank = &w.ranks[i];

        for (int t = 0; t < DSFLOW_NTIERS; t++) {
            r->moved[DSF_MOVE_SWAP_IN] += (int64_t)rank->in[t];
            r->moved[DSF_MOVE_SWAP_OUT] += (int64_t)rank->out[t];
        }
        r->read += rank->in[DSFLOW_NVME];
        r->written += rank->out[DSFLOW_NVME];
    }
    dsf_weights_fini(&w);
}

/* Are the weights that a new run starts from there? Their tensors are looked
 * at, not their numbers. */
static int check_weights(const struct dsf_run *r, struct dsflow_err *err)
{
    struct dsf_params *params = NULL;
    int64_t from;
    int status = dsf_params_open(&r->s, DSF_START, &params, &from, err);

    dsf_params_close(params);
    return status;
}

/* What can be known before anything is measured, built or read. */
static int check(struct dsf_run *r, const struct dsf_cli_args *args,
                 struct dsflow_err *err)
{
    int status = dsf_open_job(&r->s, args->words[0], args, err);

    if (status == DSFLOW_OK)
        status = dsf_flag_executor(args, &r->executor, err);
    if (status == DSFLOW_OK)
        status = dsf_early_check(&r->s, r->executor, err);
    if (status == DSFLOW_OK)
        status = dsf_run_check_output(&r->s.job, err);
    if (status == DSFLOW_OK)
        status = find_start(r, args, err);
    if (status == DSFLOW_OK && r->start.folder == NULL)
        status = check_weights(r, err);
    if (status == DSFLOW_OK)
        status = dsf_sample_check(&r->s.job, &r->s.model, r->s.tok, err);
    if (status == DSFLOW_OK)
        status =
            dsf_session_check_room(&r->s, r->done, r->start.overwrite, err);
    return status == DSFLOW_OK ? dsf_traced_check(&r->s.job, err) : status;
}

/* The training loop waits for one report of each step. */
static int check_reports(const struct dsf_session *s, struct dsflow_err *err)
{
    for (unsigned p = 0; p < dsflow_graph_nprograms(s->graph); p++) {
        const char *name = dsflow_graph_program(s->graph, (dsflow_program)p);
        uint32_t first, reports = 0;
        uint32_t n =
            dsflow_graph_program_tasks(s->graph, (dsflow_program)p, &first);

        if (!dsf_plan_runs_in_steps(s->plan, name))
            continue;
        for (uint32_t i = 0; i < n; i++)
            reports +=
                dsflow_graph_task(s->graph, (dsflow_task_id){ first + i })
                    ->op == &dsf_op_report;
        if (reports != 1)
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "program %s runs in steps and has %u tasks "
                               "report: expected 1",
                               name, reports);
    }
    return DSFLOW_OK;
}

/* The graph, the text and the prediction of a step. */
static int plan(struct dsf_run *r, const struct dsf_cli_args *args,
                struct dsflow_err *err)
{
    int status = dsf_session_plan(&r->s, NULL, err);

    if (status == DSFLOW_OK)
        dsf_job_warn(&r->s.job);
    if (status == DSFLOW_OK)
        status = check_reports(&r->s, err);
    if (status == DSFLOW_OK)
        status = dsf_run_make_output(&r->s.job, err);
    if (status == DSFLOW_OK)
        status = dsf_progress_open(&r->progress, r->s.job.main.output, err);
    if (status == DSFLOW_OK && dsf_metrics_is_empty(&r->progress.metrics))
        dsf_stop_metrics(r->progress.metrics.fd);
    if (status == DSFLOW_OK)
        status = dsf_session_check_memory(&r->s, err);
    if (status == DSFLOW_OK)
        status = dsf_session_text(&r->s, err);
    if (status == DSFLOW_OK)
        status = dsf_resume_check(&r->start, &r->s, err);
    if (status == DSFLOW_OK) /* now with what is offloaded to the same disk */
        status =
            dsf_session_check_room(&r->s, r->done, r->start.overwrite, err);
    if (status == DSFLOW_OK)
        status = dsf_flag_trace(args, &r->s.job, r->done, err);
    if (status == DSFLOW_OK)
        status = predict(r, err);
    if (status == DSFLOW_OK)
        dsf_run_warn_unsaved(r);
    return status;
}

static int prepare(struct dsf_run *r, const struct dsf_cli_args *args,
                   struct dsflow_err *err)
{
    int status = check(r, args, err);
    int64_t from;

    if (status == DSFLOW_OK)
        status = plan(r, args, err);
    dsf_feed_init(&r->feed, &r->s);
    r->feed.stopped = dsf_stop_signal;
    dsf_standstill_init(
        &r->feed.standstill,
        dsf_standstill_patience(r->prediction.sim.step_seconds));
    if (status == DSFLOW_OK)
        status = dsf_session_open(&r->s, r->executor, &r->feed.host, err);
    if (status == DSFLOW_OK)
        status = r->start.folder != NULL
                     ? dsf_resume_load(&r->start, &r->s, err)
                     : dsf_session_start(&r->s, DSF_START, &from, err);
    if (status == DSFLOW_OK) {
        dsf_resume_remove(&r->start, &r->s);
        find_moved(r);
        dsf_meter_init(&r->meter, r->s.exec, r->s.plan, r->s.graph, r->done,
                       r->machine.disk.duplex);
        status = dsf_traced_open(&r->meter, &r->s, &r->machine, &r->prediction,
                                 r->executor == DSFLOW_SERIAL ? "serial"
                                                              : "starpu",
                                 r->done, err);
    }
    if (status == DSFLOW_OK)
        status = dsf_run_write_files(r, err);
    if (status == DSFLOW_OK)
        status = dsf_progress_begin(&r->progress, r->done, r->s.job.main.steps,
                                    r->s.job.main.log_every,
                                    r->s.job.trace.tensorboard, err);
    if (status == DSFLOW_OK) {
        dsf_stop_metrics(r->progress.metrics.fd);
        dsf_stop_progress(r->done, r->saved);
        dsf_run_say_start(r);
    }
    return status;
}

/* Save what a signal has stopped. */
static int save_stopped(struct dsf_run *r, int sig, struct dsflow_err *err)
{
    int status = save(r, err);

    if (status < 0)
        return status;
    dsf_progress_say(&r->progress, "stopped after step %lld, which is saved%s",
                     (long long)r->done,
                     r->done < r->s.job.main.steps ? ": go on with --resume"
                                                   : ", and is the last");
    return 128 + sig;
}

/* What comes after the steps; a signal ends it, and nothing is lost. */
static int finish(struct dsf_run *r, int *sig, struct dsflow_err *err)
{
    int status;

    dsf_run_say_end(r);
    status = print_sample(r, err);
    *sig = dsf_stop_stage(DSF_STOP_ENDING);
    return status;
}

static void catch_signals(const struct dsf_cli_args *args)
{
    dsf_stop_prepare(dsf_flag_value(args, "resume") != NULL,
                     dsf_log_level() < DSFLOW_INFO);
    /* A write that meets a limit, or that nobody reads any more, is an error of
     * that write: Ctrl-C ends tee(1) too, behind which a run may be. */
    signal(SIGXFSZ, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
}

static int run(const struct dsf_cli_args *args, struct dsflow_err *err)
{
    struct dsf_run r = { 0 };
    int status, sig = 0, late = 0;

    catch_signals(args);
    status = prepare(&r, args, err);
    if (status == DSFLOW_OK)
        status = train(&r, err);
    if (status == DSFLOW_OK)
        sig = dsf_stop_stage(DSF_STOP_SAMPLING);
    if (status == DSFLOW_OK)
        status = sig != 0 ? save_stopped(&r, sig, err) : finish(&r, &late, err);
    dsf_stop_stage(DSF_STOP_ENDING);
    if (status < 0 && r.s.exec != NULL && dsflow_exec_failed(r.s.exec, err) < 0)
        status = fail_with_checkpoint(&r, err->status, err);
    dsf_progress_end(&r.progress, r.done, status, err);
    dsf_progress_close(&r.progress);
    dsf_meter_fini(&r.meter);
    free(r.seconds);
    free(r.bounds);
    dsf_prediction_fini(&r.prediction);
    dsf_machine_model_fini(&r.machine);
    dsf_resume_fini(&r.start);
    dsf_session_close(&r.s);
    dsf_feed_fini(&r.feed);
    return status == DSFLOW_OK && late != 0 ? 128 + late : status;
}

static const struct dsf_flag run_flags[] = {
    DSF_FLAG_SET,
    { "steps", "N", "so many steps: the same as --set job.steps=N" },
    DSF_FLAG_EXECUTOR,
    { "resume", "[=latest-good|changed]",
      "go on from the latest checkpoint; if that is damaged, only "
      "latest-good takes an older one; if the job has changed, only changed "
      "goes on, where that makes sense" },
    { "overwrite", NULL, "remove the checkpoints of an earlier run first" },
    { "trace", "[=FIRST:LAST]",
      "keep when and where every task of these steps ran, for dsflow trace; "
      "all: of all steps; without: of five" },
    { 0 },
};

const struct dsf_cmd dsf_cmd_run = {
    .name = "run",
    .args = "job.toml [--set TABLE.KEY=VALUE]… [--steps N] [--resume] "
            "[--overwrite] [--trace]",
    .summary = "train a model",
    .help =
        "Trains the model of job.toml. Progress goes to standard error, as a\n"
        "bar on a terminal; validation losses and the sample at the end go to\n"
        "standard output. The output folder of the job receives\n"
        "metrics.jsonl, plan.json, job.toml, the checkpoints, and event files\n"
        "for TensorBoard. dsflow watch FOLDER follows a run.\n\n"
        "Ctrl-C, SIGTERM and SIGHUP finish the steps in progress, save a\n"
        "checkpoint and exit with 130, 143 or 129; a second signal, more than\n"
        "a second later, exits at once without saving. Before the first step\n"
        "there is nothing to save, and the first signal ends the run.\n"
        "--resume goes on bit for bit.",
    .flags = run_flags,
    .least = 1,
    .most = 1,
    .run = run,
};
