/* cmd_run.c - train. */
#include "base/log.h"
#include "cli/job_flags.h"
#include "cli/launch.h"
#include "cli/launched.h"
#include "cli/print_text.h"
#include "cli/run_words.h"
#include "cli/stop.h"
#include "exec/cuda_module.h"
#include "net/net.h"
#include "net/watch.h"
#include "train/together.h"

#include <signal.h>
#include <string.h>

/* A run, and what is seen of it. */
struct running {
    struct dsf_run run;
    struct dsf_progress progress;
};

static bool may_begin(void *user, int64_t step)
{
    return dsf_stop_claim(step);
}

static bool is_stopped(void *user)
{
    return dsf_stop_signal() != 0;
}

static void on_stage(void *user, enum dsf_run_stage stage)
{
    static const enum dsf_stop_stage stages[] = {
        [DSF_RUN_STEPS] = DSF_STOP_STEPPING,
        [DSF_RUN_SAVES] = DSF_STOP_SAVING,
        [DSF_RUN_VALIDATES] = DSF_STOP_VALIDATING,
    };

    dsf_stop_stage(stages[stage]);
}

static void on_progress(void *user, int64_t done, int64_t saved)
{
    dsf_stop_progress(done, saved);
    dsf_watch_step(done + 1);
}

static void on_step(void *user, const struct dsf_step *step)
{
    struct running *x = user;

    dsf_progress_step(&x->progress, step);
}

static void on_validation(void *user, const struct dsf_validation *v)
{
    struct running *x = user;

    dsf_progress_clear(&x->progress);
    dsf_validation_print(stdout, v);
    fflush(stdout);
}

/* What can be known before anything is measured, built or read. */
static int check(struct dsf_run *r, const struct dsf_cli_args *args,
                 struct dsflow_err *err)
{
    int status = dsf_open_job(&r->s, args->words[0], args, err);

    r->executor = dsf_flag_executor(args);
    if (status == DSFLOW_OK)
        status = dsf_flag_resume(args, &r->start, err);
    return status == DSFLOW_OK ? dsf_run_check(r, err) : status;
}

/* The graph, the text and the prediction of a step. */
static int plan(struct dsf_run *r, const struct dsf_cli_args *args,
                struct dsflow_err *err)
{
    int status = dsf_flag_trace(args, &r->s, r->done, err);

    if (status == DSFLOW_OK)
        status = dsf_run_plan(r, err);
    if (status == DSFLOW_OK && dsf_metrics_is_empty(&r->metrics))
        dsf_stop_metrics(r->metrics.fd);
    if (status == DSFLOW_OK)
        status = dsf_run_text(r, err);
    return status == DSFLOW_OK ? dsf_run_predict(r, err) : status;
}

static int prepare(struct running *x, const struct dsf_cli_args *args,
                   struct dsflow_err *err)
{
    struct dsf_run *r = &x->run;
    int status;

    r->calls = (struct dsf_run_calls){ .user = x,
                                       .may_begin = may_begin,
                                       .is_stopped = is_stopped,
                                       .on_stage = on_stage,
                                       .on_progress = on_progress,
                                       .on_step = on_step,
                                       .on_validation = on_validation };
    r->restart = dsf_launched_again(&r->why);
    status = check(r, args, err);
    if (status == DSFLOW_OK)
        status = plan(r, args, err);
    if (status == DSFLOW_OK)
        status = dsf_run_open(r, err);
    if (status < 0)
        return status;
    dsf_progress_begin(&x->progress, r->s.job->main.steps,
                       r->s.job->main.log_every);
    dsf_stop_metrics(r->metrics.fd);
    dsf_stop_progress(r->done, r->saved);
    dsf_watch_step(r->done + 1);
    dsf_run_say_start(r, &x->progress);
    return DSFLOW_OK;
}

static int print_sample(struct running *x, struct dsflow_err *err)
{
    struct dsf_run *r = &x->run;
    const struct dsf_job_sample *sample = &r->s.job->sample;
    const struct dsf_sampling sampling = { .temperature = sample->temperature,
                                           .top_p = sample->top_p,
                                           .top_k = sample->top_k,
                                           .seed = (uint64_t)sample->seed,
                                           .is_stopped = is_stopped };
    struct dsf_sampled sampled; /* a full context was said at the start */
    struct dsf_text_weights weights = { .n = 0 };
    struct dsflow_err room;
    float **params;
    int status;

    if (sample->tokens == 0)
        return DSFLOW_OK;
    if (dsf_run_check_copies(r, &room) < 0) {
        dsf_progress_say(&x->progress,
                         "no sample: %s; dsflow generate %s prints one",
                         room.msg, r->s.job->main.output);
        return DSFLOW_OK;
    }
    status = dsf_session_units(&r->s, &params, err);
    if (status == DSFLOW_OK)
        status = dsf_text_weights_lend(&weights, &r->s.model, r->s.job,
                                       dsf_session_updates(&r->s), params, err);
    if (status == DSFLOW_OK) {
        printf("\n");
        status = dsf_print_text(&r->s, &weights, sample->prompt, sample->tokens,
                                &sampling, &sampled, err);
    }
    dsf_text_weights_fini(&weights);
    dsf_session_units_free(&r->s, params);
    return status;
}

/* Save what a signal has stopped. */
static int save_stopped(struct running *x, int sig, struct dsflow_err *err)
{
    struct dsf_run *r = &x->run;
    int status = dsf_run_save(r, err);

    if (status < 0)
        return status;
    dsf_progress_say(&x->progress, "stopped after step %lld, which is saved%s",
                     (long long)r->done,
                     r->done < r->s.job->main.steps ? ": go on with --resume"
                                                    : ", and is the last");
    return 128 + sig;
}

/* What comes after the steps; a signal ends it, and nothing is lost. */
static int finish(struct running *x, int *sig, struct dsflow_err *err)
{
    int status;

    dsf_run_say_end(&x->run, &x->progress);
    status = print_sample(x, err);
    *sig = dsf_stop_stage(DSF_STOP_ENDING);
    return status;
}

static void catch_signals(const struct dsf_cli_args *args)
{
    dsf_stop_prepare(dsf_flag_value(args, "resume") != NULL,
                     dsf_log_level() < DSFLOW_INFO);
    /* A write that nobody reads any more is an error of that write: Ctrl-C ends
     * tee(1) too, behind which a run may be. */
    signal(SIGPIPE, SIG_IGN);
}

/* The launcher says it, where there is one. */
static void on_death(const char *why, bool cut_off)
{
    const char found[] = {
        DSF_TO_LAUNCHER, 'f', 'o', 'u', 'n', 'd', ' ', '\0'
    };

    dsf_stop_died(dsf_is_launched() ? found : "dsflow: ", why);
    if (cut_off)
        dsf_launched_cut_off();
}

/* Where mpirun or srun started several of these. */
static int join(struct dsf_run *r, struct dsflow_err *err)
{
    struct dsf_wire **wire = &r->wire;
    struct dsflow_err why;
    int status;

    if (!dsf_net_is_one_of_several())
        return DSFLOW_OK;
    dsf_cuda_expect_messages();
    dsf_watch_meet(DSF_WATCH_MEET, on_death);
    status = dsf_net_open(wire, err);
    if (status == DSFLOW_OK && dsf_watch_open(*wire, on_death, &why) < 0 &&
        (*wire)->process == 0)
        dsf_warn("%s: a process that dies or falls silent is not named",
                 why.msg);
    dsf_watch_met();
    return status == DSFLOW_OK ? dsf_hosts_gather(&r->hosts, *wire, err)
                               : status;
}

/* All but the first serve it, and leave signals to it. */
static int serve(struct dsf_wire *wire, struct dsflow_err *err)
{
    int status;

    dsflow_log_level_set(DSFLOW_WARN);
    dsf_log_without_job();
    status = dsf_together_serve(wire, err);
    dsf_share_signals_end(wire);
    if (status == DSFLOW_OK)
        status = dsf_net_close(err);
    if (status == DSFLOW_OK)
        dsf_watch_close();
    else
        dsf_watch_failed(err->msg);
    return status;
}

/* This process, alone or as one of several. */
static int run_here(const struct dsf_cli_args *args, struct dsflow_err *err)
{
    struct running x = { 0 };
    int status, sig = 0, late = 0;

    catch_signals(args);
    dsf_launched_begin();
    dsf_run_init(&x.run);
    status = join(&x.run, err);
    dsf_share_signals(x.run.wire);
    if (status == DSFLOW_OK &&
        (x.run.wire == NULL || x.run.wire->process == 0))
        dsf_launched_joined();
    if (status != DSFLOW_OK || (x.run.wire != NULL && x.run.wire->process > 0))
        return status < 0 ? status : serve(x.run.wire, err);
    status = prepare(&x, args, err);
    if (status == DSFLOW_OK)
        status = dsf_run_train(&x.run, err);
    if (status == DSFLOW_OK)
        sig = dsf_stop_stage(DSF_STOP_SAMPLING);
    if (status == DSFLOW_OK)
        status = sig != 0 ? save_stopped(&x, sig, err) : finish(&x, &late, err);
    dsf_stop_stage(DSF_STOP_ENDING);
    if (status < 0)
        status = dsf_run_failed(&x.run, status, err);
    dsf_run_end(&x.run,
                status == DSFLOW_OK ? DSF_FINISHED
                : status > 0        ? DSF_STOPPED
                                    : DSF_FAILED,
                status < 0 ? err->msg : NULL);
    dsf_progress_close(&x.progress);
    dsf_run_close(&x.run);
    if (x.run.wire != NULL)
        dsf_net_close(NULL);
    dsf_watch_close();
    return status == DSFLOW_OK && late != 0 ? 128 + late : status;
}

/* What else is wrong with the job, or with a file that only other hosts have,
 * process 0 says. */
static int check_ranks(const struct dsf_cli_args *args, int64_t n,
                       struct dsflow_err *err)
{
    int64_t ranks = dsf_flag_ranks(args);

    return ranks == 0 ? DSFLOW_OK
                      : dsf_together_check(args->words[0], ranks, n, err);
}

static int run(const struct dsf_cli_args *args, struct dsflow_err *err)
{
    int status;

    if (dsf_launch_is_asked(args))
        return dsf_launch("run", args, check_ranks, err);
    status = run_here(args, err);
    return dsf_launched_end(status, err);
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
    { "trace", "[=FIRST:LAST|all]",
      "keep when and where every task of these steps ran, for dsflow trace; "
      "all: of all steps; without: of five" },
    DSF_FLAGS_LAUNCH,
    { "restarts", "N",
      "begin again from the newest whole checkpoint where a process died or "
      "failed, N times at most" },
    { 0 },
};

const struct dsf_cmd dsf_cmd_run = {
    .name = "run",
    .args = "job.toml",
    .summary = "train a model",
    .help =
        "Trains the model of job.toml. Progress goes to standard error, as a\n"
        "bar on a terminal; validation losses and the sample at the end go to\n"
        "standard output. The output folder of the job receives\n"
        "metrics.jsonl, plan.json, job.toml, the tokenizer, the checkpoints,\n"
        "and event files for TensorBoard. dsflow watch FOLDER follows\n"
        "a run.\n\n"
        "Ctrl-C, SIGTERM and SIGHUP finish the steps in progress, save a\n"
        "checkpoint and exit with 130, 143 or 129; a second signal, more than\n"
        "a second later, exits at once without saving. Before the first step\n"
        "there is nothing to save, and the first signal ends the run.\n"
        "--resume goes on bit for bit.\n\n"
        "-n 4 runs it in four processes, which mpirun starts here or on\n"
        "--hosts; what is said above is so of all of them together.",
    .flags = run_flags,
    .least = 1,
    .most = 1,
    .run = run,
};
