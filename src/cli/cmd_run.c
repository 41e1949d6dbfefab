/* cmd_run.c - train. */
#include "base/alloc.h"
#include "base/aside.h"
#include "base/log.h"
#include "base/units.h"
#include "cli/early.h"
#include "cli/feed.h"
#include "cli/fit.h"
#include "cli/generate.h"
#include "cli/machine_cache.h"
#include "cli/meter.h"
#include "cli/notice.h"
#include "cli/params.h"
#include "cli/progress.h"
#include "cli/resume.h"
#include "cli/stop.h"
#include "cli/traced.h"
#include "sim/plan_report.h"
#include "sim/weights.h"
#include "tasks/components.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* Steps that are submitted before the first of them is done. */
enum { AHEAD = 2 };

/* Seconds of work that should not be lost without a word. */
enum { LONG = 30 * 60 };

struct run {
    struct dsf_session s;
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

/* Can it be made, or be written to? */
static int check_output(const struct dsf_job *job, struct dsflow_err *err)
{
    char *path = dsf_xstrdup(job->main.output), *end = path + strlen(path);
    struct stat st;
    int why = 0;

    /* The last folder of the path that is there. */
    while (end > path && stat(path, &st) < 0 && errno == ENOENT) {
        while (end > path && end[-1] != '/')
            end--;
        while (end > path + 1 && end[-1] == '/')
            end--;
        *end = '\0';
    }
    if (stat(end > path ? path : ".", &st) < 0)
        why = errno;
    else if (!S_ISDIR(st.st_mode))
        why = ENOTDIR;
    else if (access(end > path ? path : ".", W_OK | X_OK) < 0)
        why = errno;
    free(path);
    return why == 0 ? DSFLOW_OK
                    : dsf_job_fail(job, err, DSFLOW_EINVAL, "job", "output",
                                   "%s: %s", job->main.output, strerror(why));
}

static int make_output(struct run *r, struct dsflow_err *err)
{
    const char *output = r->s.job.main.output;
    char *path = dsf_xstrdup(output);
    int status = DSFLOW_OK;

    for (char *c = path + 1; status == DSFLOW_OK; c++) {
        bool last = *c == '\0';

        if (*c != '/' && !last)
            continue;
        *c = '\0';
        if (mkdir(path, 0777) < 0 && errno != EEXIST)
            status = dsf_job_fail(&r->s.job, err, DSFLOW_EINVAL, "job",
                                  "output", "%s: %s", path, strerror(errno));
        if (last)
            break;
        *c = '/';
    }
    if (status == DSFLOW_OK && access(output, W_OK | X_OK) < 0)
        status = dsf_job_fail(&r->s.job, err, DSFLOW_EINVAL, "job", "output",
                              "%s: %s", output, strerror(errno));
    free(path);
    return status;
}

/* Write `<output>/name` with `write`, which gets the run. */
static int write_file(struct run *r, const char *name,
                      int (*write)(struct run *r, FILE *out,
                                   struct dsflow_err *err),
                      struct dsflow_err *err)
{
    char *path = dsf_xasprintf("%s/%s", r->s.job.main.output, name);
    struct dsf_aside file;
    int status;

    if (dsf_aside_open(&file, path) < 0) {
        status = dsflow_fail(err, DSFLOW_EIO, "%s: %m", path);
    } else {
        status = write(r, file.out, err);
        if (dsf_aside_close(&file, status == DSFLOW_OK) < 0)
            status = dsflow_fail(err, DSFLOW_EIO, "%s: %m", path);
    }
    free(path);
    return status;
}

static int write_job(struct run *r, FILE *out, struct dsflow_err *err)
{
    fprintf(out, "# The job of this run, with what --set changed.\n");
    return dsf_job_write(&r->s.job, out);
}

static int write_plan(struct run *r, FILE *out, struct dsflow_err *err)
{
    struct dsf_plan_facts facts = { &r->machine, &r->prediction, { 0 } };

    dsf_fit_budgets(&r->s, &r->machine, facts.budget);
    return dsf_plan_report_json(r->s.plan, r->s.graph, &facts, out, err);
}

/* What a step will take here. Before the executor is open, whose workers would
 * be in the way where the machine is measured. */
static int predict(struct run *r, struct dsflow_err *err)
{
    int status = dsf_machine_of_job(&r->s.machine, &r->s.job, &r->machine, err);

    dsf_notice("simulating steps");
    if (status == DSFLOW_OK)
        status = dsf_predict(r->s.plan, r->s.graph, &r->machine, &r->prediction,
                             err);
    dsf_notice_end();
    return status;
}

/* A long run whose only save is its last act may lose all of it. */
static void warn_unsaved(const struct run *r)
{
    const struct dsf_job *job = &r->s.job;
    const struct dsflow_every *every = &job->checkpoint.every;
    int64_t left = job->main.steps - r->done;
    bool before = every->steps > 0 && every->steps < left;
    double seconds =
        r->prediction.sim.step_seconds * (double)(before ? every->steps : left);

    if (every->seconds > 0 || seconds < LONG)
        return;
    dsf_warn("%s: checkpoint: every: %s takes about %s (predicted)%s: a time "
             "such as \"30min\" saves more often",
             job->path, before ? "the first checkpoint" : "the run",
             dsf_time_text(seconds).s,
             before                   ? ""
             : job->checkpoint.at_end ? " and nothing is saved before its end"
                                      : " and nothing is saved");
}

/* A checkpoint to go on from, as far as can be known by now. */
static int find_start(struct run *r, const struct dsf_words *words,
                      struct dsflow_err *err)
{
    int status = dsf_resume_find(&r->start, &r->s, words, err);

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
static bool is_boundary(const struct run *r, int64_t step)
{
    return divides(r->s.job.validation.every, step) ||
           divides(r->s.job.checkpoint.every.steps, step) ||
           step == r->s.job.main.steps;
}

/* Is the time over after which the next checkpoint is saved? */
static bool save_is_due(const struct run *r)
{
    double after = r->s.job.checkpoint.every.seconds;

    return after > 0 && dsf_now() - r->saved_at >= after;
}

static int submit_ahead(struct run *r, struct dsflow_err *err)
{
    int status = DSFLOW_OK;

    while (status == DSFLOW_OK && r->submitted < r->s.job.main.steps &&
           r->submitted < r->done + AHEAD &&
           (r->submitted == r->done ||
            (!is_boundary(r, r->submitted) && !save_is_due(r))) &&
           dsf_stop_claim(r->submitted + 1)) {
        status = dsflow_exec_submit(r->s.exec, DSFLOW_STEP, err);
        r->submitted++;
    }
    return status;
}

static int save(struct run *r, struct dsflow_err *err)
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

static int validate(struct run *r, struct dsflow_err *err)
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
static int pause_at_boundary(struct run *r, struct dsflow_err *err)
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
static void find_held(struct run *r)
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
static int fail_with_checkpoint(const struct run *r, int status,
                                struct dsflow_err *err)
{
    struct dsflow_err why = *err;

    if (r->saved < 0)
        return dsflow_fail(err, status, "%s; there is no checkpoint yet",
                           why.msg);
    return dsflow_fail(err, status, "%s; the last checkpoint is of step %lld",
                       why.msg, (long long)r->saved);
}

static int take_step(struct run *r, const struct dsf_report *report,
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
    int status;

    dsf_stop_progress(r->done, r->saved);
    memcpy(step.moved, r->moved, sizeof(step.moved));
    find_held(r);
    step.device_bytes = r->held[DSFLOW_DEVICE];
    step.nvme_bytes = r->held[DSFLOW_NVME];
    dsf_meter_step(&r->meter, step.step - 1 - r->first, r->last, report->at,
                   &step);
    status = dsf_progress_step(&r->progress, &step, err);

    /* The first step touches memory for the first time; one after a pause
     * starts with nothing under way. */
    if (r->done > r->first + 1 && r->paused != r->done - 1) {
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

static int take_report(struct run *r, struct dsflow_err *err)
{
    struct dsf_report report = dsf_feed_next(&r->feed);
    int status = dsflow_exec_failed(r->s.exec, err);

    return status < 0 ? status : take_step(r, &report, err);
}

static int train(struct run *r, struct dsflow_err *err)
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

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static double median_of(double *v, size_t n)
{
    qsort(v, n, sizeof(*v), ascending);
    return v[n / 2];
}

/* A step as it was, as it was predicted, and as it could be at best. */
static void say_time(struct run *r, unsigned workers)
{
    double predicted = r->prediction.sim.step_seconds, median, bound;
    char text[96] = "";

    if (r->nseconds == 0)
        return;
    median = median_of(r->seconds, r->nseconds);
    bound = median_of(r->bounds, r->nseconds);
    if (workers == r->s.plan->workers) /* not the serial executor's one */
        snprintf(text, sizeof(text), ", predicted %s: %s",
                 dsf_seconds_text(predicted).s,
                 dsf_against_text(median, predicted).s);
    dsf_progress_say(&r->progress, "step %s (median)%s",
                     dsf_seconds_text(median).s, text);
    dsf_progress_say(&r->progress,
                     "efficiency %.1f %%: with tasks like these no order takes "
                     "less than %s",
                     100 * bound / median, dsf_seconds_text(bound).s);
}

/* What the ranks have in a larger memory. */
static void say_tier(struct run *r, const struct dsf_weights *w,
                     enum dsflow_tier tier)
{
    double planned = 0, measured = 0;

    for (unsigned i = 0; i < w->nranks; i++) {
        planned += w->ranks[i].tier_bytes[tier];
        measured += (double)dsflow_exec_resident(r->s.exec, i, tier);
    }
    if (planned > 0)
        dsf_progress_say(&r->progress, "offloaded to %s: %s, planned %s",
                         dsflow_tier_str(tier), dsf_size_text(measured).s,
                         dsf_size_text(planned).s);
}

/* Of all ranks, and of the one that has most. */
static void say_memory(struct run *r)
{
    double planned = 0, tensors = 0, peak;
    struct dsf_weights w;
    struct rusage usage;
    unsigned most;

    dsf_weights_init(&w, r->s.graph, (unsigned)r->s.plan->nranks,
                     r->s.plan->rank_workers);
    most = dsf_weights_neediest(&w);
    for (unsigned i = 0; i < w.nranks; i++) {
        planned += w.ranks[i].peak + w.ranks[i].tier_bytes[DSFLOW_HOST];
        for (int t = DSFLOW_DEVICE; t < DSFLOW_NVME; t++)
            tensors +=
                (double)dsflow_exec_resident(r->s.exec, i, (enum dsflow_tier)t);
    }
    getrusage(RUSAGE_SELF, &usage);
    peak = fmax(1024.0 * (double)usage.ru_maxrss, tensors);
    dsf_progress_say(&r->progress,
                     "peak memory %s: %s tensors, %s the program and its "
                     "libraries; planned %s",
                     dsf_size_text(peak).s, dsf_size_text(tensors).s,
                     dsf_size_text(peak - tensors).s, dsf_size_text(planned).s);
    if (w.nranks > 1)
        dsf_progress_say(
            &r->progress, "tensors of rank %u, which has most: %s, planned %s",
            most,
            dsf_size_text(
                (double)dsflow_exec_resident(r->s.exec, most, DSFLOW_DEVICE))
                .s,
            dsf_size_text(w.ranks[most].peak - w.ranks[most].scratch).s);
    say_tier(r, &w, DSFLOW_HOST);
    say_tier(r, &w, DSFLOW_NVME);
    dsf_weights_fini(&w);
}

/* What a step had to do with disks. */
static void say_io(struct run *r)
{
    if (r->io > 0)
        dsf_progress_say(&r->progress,
                         "disk: %s read, %s written a step; busy %.4g ms, "
                         "%.1f %% hidden behind compute",
                         dsf_size_text(r->read).s, dsf_size_text(r->written).s,
                         1e3 * r->io / (double)r->nseconds,
                         100 * r->io_hidden / r->io);
}

/* Where the trace is, if there is one. */
static void say_trace(struct run *r)
{
    if (r->meter.written == 0)
        return;
    dsf_progress_say(&r->progress,
                     "steps %lld to %lld are traced: dsflow trace %s",
                     (long long)(r->first + r->meter.first + 1),
                     (long long)(r->first + r->meter.last + 1),
                     r->s.job.main.output);
    if (r->meter.lost > 0)
        dsf_progress_say(&r->progress, "%llu tasks are missing in the trace",
                         (unsigned long long)r->meter.lost);
}

/* The lines that say how well the machine was used. */
static void say_end(struct run *r)
{
    struct dsflow_exec_stats stats;

    dsflow_exec_stats(r->s.exec, &stats);
    if (stats.wall_seconds > 0)
        dsf_progress_say(
            &r->progress, "%llu tasks, kernels %.1f %% of %u workers x %.1f s",
            (unsigned long long)stats.tasks,
            100 * stats.kernel_seconds / (stats.wall_seconds * stats.workers),
            stats.workers, stats.wall_seconds);
    say_memory(r);
    say_io(r);
    say_time(r, stats.workers);
    say_trace(r);
}

/* Is there memory for the whole model beside the tensors of the run? */
static bool has_room(struct run *r)
{
    double needed =
        dsf_session_copies(&r->s) + dsf_generator_bytes(&r->s.model);
    double room = dsf_fit_room(&r->s);

    if (dsf_session_copies(&r->s) == 0 || needed <= room)
        return true;
    dsf_progress_say(&r->progress,
                     "no sample: the parameters in one piece take %s and %s of "
                     "memory are left; dsflow generate %s prints one",
                     dsf_size_text(needed).s, dsf_size_text(room).s,
                     r->s.job.main.output);
    return false;
}

static int print_sample(struct run *r, struct dsflow_err *err)
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

static void say_start(struct run *r)
{
    char *gradients = dsf_fit_gradients_text(&r->s, NULL);

    dsf_progress_say(&r->progress,
                     "%s: %.2f M parameters; %lld tokens to train on, %lld to "
                     "validate%s",
                     r->s.job.main.name, (double)r->s.model.params / 1e6,
                     (long long)r->s.text.train_tokens,
                     (long long)r->s.text.validation_tokens,
                     r->s.text.cached ? " (from the cache)" : "");
    if (r->s.why != NULL)
        dsf_progress_say(&r->progress, "%s", r->s.why);
    if (gradients != NULL)
        dsf_progress_say(&r->progress, "%s", gradients);
    free(gradients);
    if (r->start.folder != NULL)
        dsf_progress_say(&r->progress, "goes on from %s", r->start.folder);
    else if (r->start.asked)
        dsf_progress_say(&r->progress,
                         "%s has no checkpoint: starts from the beginning",
                         r->s.job.main.output);
}

/* Bytes that a step moves between ranks, and between tiers of memory. */
static void find_moved(struct run *r)
{
    struct dsf_weights w;

    dsf_weights_init(&w, r->s.graph, (unsigned)r->s.plan->nranks,
                     r->s.plan->rank_workers);
    for (unsigned k = 0; k < w.nkinds; k++) {
        const char *name = w.kinds[k].op->name;
        enum dsf_move move = strcmp(name, "gather") == 0 ? DSF_MOVE_GATHER
                             : strcmp(name, "send") == 0 ? DSF_MOVE_SEND
                                                         : DSF_MOVE_REDUCE;

        r->moved[move] += (int64_t)w.kinds[k].moved;
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
static int check_weights(const struct run *r, struct dsflow_err *err)
{
    struct dsf_params *params = NULL;
    int64_t from;
    int status = dsf_params_open(&r->s, DSF_START, &params, &from, err);

    dsf_params_close(params);
    return status;
}

static int prepare(struct run *r, const struct dsf_words *words,
                   struct dsflow_err *err)
{
    int status = dsf_session_model(&r->s, words->words[0], words, err);
    int64_t from;

    if (status == DSFLOW_OK)
        status = dsf_early_check(&r->s, words, err);
    if (status == DSFLOW_OK)
        status = check_output(&r->s.job, err);
    if (status == DSFLOW_OK)
        status = find_start(r, words, err);
    if (status == DSFLOW_OK && r->start.folder == NULL)
        status = check_weights(r, err);
    if (status == DSFLOW_OK)
        status = dsf_sample_check(&r->s.job, &r->s.model, r->s.tok, err);
    if (status == DSFLOW_OK)
        status =
            dsf_session_check_room(&r->s, r->done, r->start.overwrite, err);
    if (status == DSFLOW_OK)
        status = dsf_traced_check(&r->s.job, err);
    if (status == DSFLOW_OK)
        status = dsf_session_plan(&r->s, NULL, err);
    if (status == DSFLOW_OK)
        dsf_job_warn(&r->s.job);
    if (status == DSFLOW_OK)
        status = make_output(r, err);
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
        status = dsf_traced_choose(&r->s.job, words, r->done, err);
    if (status == DSFLOW_OK)
        status = predict(r, err);
    if (status == DSFLOW_OK)
        warn_unsaved(r);
    dsf_feed_init(&r->feed, &r->s);
    r->feed.stopped = dsf_stop_signal;
    dsf_standstill_init(
        &r->feed.standstill,
        dsf_standstill_patience(r->prediction.sim.step_seconds));
    if (status == DSFLOW_OK) {
        dsf_resume_remove(&r->start, &r->s);
        status = dsf_session_open(&r->s, words, &r->feed.host, err);
    }
    if (status == DSFLOW_OK)
        status = r->start.folder != NULL
                     ? dsf_resume_load(&r->start, &r->s, err)
                     : dsf_session_start(&r->s, DSF_START, &from, err);
    if (status == DSFLOW_OK) {
        find_moved(r);
        dsf_meter_init(&r->meter, r->s.exec, r->s.graph,
                       r->machine.disk.duplex);
        status = dsf_traced_open(&r->meter, &r->s, &r->machine, &r->prediction,
                                 words, r->done, err);
    }
    if (status == DSFLOW_OK)
        status = write_file(r, "job.toml", write_job, err);
    if (status == DSFLOW_OK)
        status = write_file(r, "plan.json", write_plan, err);
    if (status == DSFLOW_OK)
        status = dsf_progress_begin(
            &r->progress, r->done, r->s.job.main.steps,
            r->s.job.main.log_every, r->s.job.trace.tensorboard, err);
    if (status == DSFLOW_OK) {
        dsf_stop_metrics(r->progress.metrics.fd);
        dsf_stop_progress(r->done, r->saved);
        say_start(r);
    }
    return status;
}

/* Save what a signal has stopped. */
static int save_stopped(struct run *r, int sig, struct dsflow_err *err)
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
static int finish(struct run *r, int *sig, struct dsflow_err *err)
{
    int status;

    say_end(r);
    status = print_sample(r, err);
    *sig = dsf_stop_stage(DSF_STOP_ENDING);
    return status;
}

static void catch_signals(const struct dsf_words *words)
{
    dsf_stop_prepare(dsf_flag_value(words, "resume") != NULL,
                     dsf_log_level() < DSFLOW_INFO);
    /* A write that meets a limit, or that nobody reads any more, is an error of
     * that write: Ctrl-C ends tee(1) too, behind which a run may be. */
    signal(SIGXFSZ, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
}

static int run(const struct dsf_words *words, struct dsflow_err *err)
{
    struct run r = { 0 };
    int status, sig = 0, late = 0;

    catch_signals(words);
    status = prepare(&r, words, err);
    if (status == DSFLOW_OK)
        status = train(&r, err);
    if (status == DSFLOW_OK)
        sig = dsf_stop_stage(DSF_STOP_SAMPLING);
    if (status == DSFLOW_OK)
        status = sig != 0 ? save_stopped(&r, sig, err) : finish(&r, &late, err);
    dsf_stop_stage(DSF_STOP_ENDING);
    if (status < 0 && r.s.exec != NULL &&
        dsflow_exec_failed(r.s.exec, err) < 0)
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
