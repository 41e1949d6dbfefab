/* run.c - a run, up to its first step and after its last. */
#include "train/run.h"

#include "base/log.h"
#include "base/notice.h"
#include "base/units.h"
#include "net/watch.h"
#include "sim/weights.h"
#include "tasks/components.h"
#include "text/text_source.h"
#include "train/early.h"
#include "train/generate.h"
#include "train/mfu.h"
#include "train/params.h"
#include "train/sample.h"
#include "train/traced.h"
#include "train/together.h"

#include <dsflow/plan.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

void dsf_run_init(struct dsf_run *r)
{
    memset(r, 0, sizeof(*r));
    r->saved = -1;
    r->metrics.fd = -1;
    dsf_feed_init(&r->feed, &r->s);
}

/* A checkpoint to go on from, as far as can be known by now. */
static int find_start(struct dsf_run *r, struct dsflow_err *err)
{
    int status = dsf_resume_find(&r->start, &r->s, err);

    if (status < 0 || r->start.folder == NULL)
        return status;
    r->done = r->saved = r->start.meta.step;
    return dsf_resume_check(&r->start, &r->s, err);
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

int dsf_run_check(struct dsf_run *r, struct dsflow_err *err)
{
    int status;

    r->s.together.wire = r->wire;
    r->s.together.hosts = &r->hosts;
    status =
        r->s.own != NULL ? DSFLOW_OK : dsf_text_source_has_train(r->s.job, err);
    if (status == DSFLOW_OK)
        status = dsf_early_check(&r->s, r->executor, err);
    if (status == DSFLOW_OK)
        status = dsf_run_check_output(r->s.job, err);
    if (status == DSFLOW_OK)
        status = find_start(r, err);
    if (status == DSFLOW_OK && r->start.folder == NULL)
        status = check_weights(r, err);
    if (status == DSFLOW_OK)
        status = dsf_sample_check(r->s.job, &r->s.model, r->s.tok, err);
    if (status == DSFLOW_OK)
        status =
            dsf_session_check_room(&r->s, r->done, r->start.overwrite, err);
    return status == DSFLOW_OK ? dsf_traced_check(r->s.job, err) : status;
}

bool dsf_run_is_predicted(const struct dsf_run *r)
{
    return !r->s.together.alone &&
           (r->s.machine.gpus == 0 || r->machine.main.kind == DSF_MACHINE_GPU);
}

/* Once: it may have to be measured. */
static int find_machine(struct dsf_run *r, struct dsflow_err *err)
{
    int status = DSFLOW_OK;

    if (!r->has_machine)
        status = dsf_machine_of_job(&r->s.machine, r->s.job, &r->machine, err);
    r->has_machine = true;
    return status;
}

/* The plan, and the graph of all ranks; a large one is for several processes to
 * have together. */
static int build(struct dsf_run *r, struct dsflow_err *err)
{
    int status;

    if (!dsf_session_is_large(&r->s))
        return dsf_session_fit(&r->s, &r->machine, NULL, err);
    dsf_notice("building the graph of a step");
    status = dsf_session_plan_alone(&r->s, r->wire, err);
    dsf_notice_end();
    return status;
}

int dsf_run_plan(struct dsf_run *r, struct dsflow_err *err)
{
    int status = DSFLOW_OK;

    if (dsf_fit_is_timed(r->s.job))
        status = find_machine(r, err);
    if (status == DSFLOW_OK && dsf_fit_is_open(r->s.job) &&
        !dsf_run_is_predicted(r))
        dsf_warn(
            "what is \"auto\" is chosen by times of cores: dsflow bench gpu "
            "measures the GPUs of this machine");
    if (status == DSFLOW_OK)
        status = build(r, err);
    if (status == DSFLOW_OK)
        dsf_job_warn(r->s.job);
    return status == DSFLOW_OK ? dsf_run_take_output(r->s.job, &r->metrics, err)
                               : status;
}

int dsf_run_text(struct dsf_run *r, struct dsflow_err *err)
{
    int status = dsf_session_check_memory(&r->s, err);

    if (status == DSFLOW_OK)
        status = dsf_session_text(&r->s, err);
    if (status == DSFLOW_OK)
        status = dsf_resume_check(&r->start, &r->s, err);
    if (status == DSFLOW_OK) /* now with what is offloaded to the same disk */
        status =
            dsf_session_check_room(&r->s, r->done, r->start.overwrite, err);
    return status;
}

/* Of a long run whose only save is its last act. */
static void warn_unsaved(const struct dsf_run *r)
{
    enum { LONG = 30 * 60 }; /* seconds of work that may not be lost silently */
    const struct dsf_job *job = r->s.job;
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

int dsf_run_predict(struct dsf_run *r, struct dsflow_err *err)
{
    int status = find_machine(r, err);

    if (status < 0 || !dsf_run_is_predicted(r)) {
        r->prediction.sim.step_seconds = r->prediction.sim.bound_seconds = NAN;
        return status;
    }
    dsf_notice("simulating steps");
    status =
        dsf_predict(r->s.plan, r->s.graph, &r->machine, &r->prediction, err);
    if (status == DSFLOW_OK)
        status = dsf_predict_programs(r->s.plan, r->s.graph, &r->machine,
                                      &r->prediction, err);
    dsf_notice_end();
    if (status == DSFLOW_OK)
        warn_unsaved(r);
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
    const struct dsf_weights *w = dsf_session_weights(&r->s);

    for (unsigned k = 0; k < w->nkinds; k++)
        r->moved[moves[w->kinds[k].op->comm]] += (int64_t)w->kinds[k].moved;
    for (unsigned i = 0; i < w->nranks; i++) {
        const struct dsf_rank_weight *rank = &w->ranks[i];

        for (int t = 0; t < DSFLOW_NTIERS; t++) {
            r->moved[DSF_MOVE_SWAP_IN] += (int64_t)rank->in[t];
            r->moved[DSF_MOVE_SWAP_OUT] += (int64_t)rank->out[t];
        }
        r->read += rank->in[DSFLOW_NVME];
        r->written += rank->out[DSFLOW_NVME];
    }
}

/* The weights, or all that a checkpoint holds. */
static int load(struct dsf_run *r, struct dsflow_err *err)
{
    int64_t from;

    return r->start.folder != NULL
               ? dsf_resume_load(&r->start, &r->s, err)
               : dsf_session_start(&r->s, DSF_START, &from, err);
}

/* Lines of later steps are cut off. */
static int begin_metrics(struct dsf_run *r, struct dsflow_err *err)
{
    int status = dsf_metrics_begin(&r->metrics, r->done, err);

    if (status == DSFLOW_OK && r->s.job->trace.tensorboard)
        status = dsf_event_file_open(&r->events, r->s.job->main.output, r->done,
                                     err);
    r->begun = status == DSFLOW_OK;
    if (status == DSFLOW_OK && r->restart > 0)
        status = dsf_metrics_restart(&r->metrics, r->done, r->restart, r->why,
                                     err);
    return status;
}

int dsf_run_open(struct dsf_run *r, struct dsflow_err *err)
{
    const char *executor = r->executor == DSFLOW_SERIAL ? "serial" : "starpu";
    int status;

    r->feed.is_stopped = r->calls.is_stopped;
    r->feed.user = r->calls.user;
    dsf_standstill_init(
        &r->feed.standstill,
        dsf_standstill_patience(r->prediction.sim.step_seconds));
    if (r->s.job->run.patience > 0)
        dsf_watch_patience((double)r->s.job->run.patience +
                           fmax(r->prediction.sim.step_seconds, 0));
    else
        dsf_watch_patience(0);
    status = dsf_session_open(&r->s, r->executor, &r->feed.host, err);
    if (status == DSFLOW_OK)
        status = load(r, err);
    if (status == DSFLOW_OK)
        status = dsf_resume_begin(&r->start, &r->s, err);
    if (status < 0)
        return status;
    r->updates = dsf_session_updates(&r->s);
    find_moved(r);
    r->token_seconds =
        r->executor == DSFLOW_SERIAL ? 0 : dsf_token_seconds(r->s.plan);
    dsf_meter_init(&r->meter, r->s.exec, r->s.plan, r->s.graph, r->done,
                   r->machine.disk.duplex);
    status = dsf_traced_open(&r->meter, &r->s, &r->machine, &r->prediction,
                             executor, r->done, err);
    if (status == DSFLOW_OK)
        status = dsf_run_write_files(r, err);
    r->submitted = r->first = r->done;
    r->saved_at = dsf_now();
    return status == DSFLOW_OK ? begin_metrics(r, err) : status;
}

int dsf_run_check_copies(const struct dsf_run *r, struct dsflow_err *err)
{
    const struct dsf_session *s = &r->s;
    double copies =
        dsf_session_copies(s) + dsf_text_weights_bytes(&s->model, s->job);
    double needed = copies + dsf_generator_bytes(&s->model, s->job), room;

    if (copies == 0) /* text is made from the units where they are */
        return DSFLOW_OK;
    room = dsf_fit_room(s->plan, s->graph);
    if (needed <= room)
        return DSFLOW_OK;
    return dsflow_fail(err, DSFLOW_EFIT,
                       "text takes %s, for parameters, keys and values, and %s "
                       "of memory are left",
                       dsf_size_text(needed).s, dsf_size_text(room).s);
}

void dsf_run_end(struct dsf_run *r, enum dsf_end end, const char *why)
{
    /* When this cannot be written, the run looks killed: true enough. */
    if (r->begun)
        dsf_metrics_end(&r->metrics, r->done, end, why, NULL);
}

void dsf_run_close(struct dsf_run *r)
{
    if (r->wire != NULL)
        dsf_together_end(&r->s, r->wire);
    dsf_metrics_close(&r->metrics);
    dsf_event_file_close(&r->events);
    dsf_meter_fini(&r->meter);
    free(r->seconds);
    dsf_prediction_fini(&r->prediction);
    dsf_machine_model_fini(&r->machine);
    dsf_resume_fini(&r->start);
    dsf_session_close(&r->s);
    dsf_feed_fini(&r->feed);
    dsf_hosts_fini(&r->hosts);
}
