/* session.c - from a job.toml to a model that runs. */
#include "train/session.h"

#include "base/alloc.h"
#include "base/notice.h"
#include "base/units.h"
#include "exec/cuda_module.h"
#include "exec/spread.h"
#include "measure/disks.h"
#include "measure/machine_cache.h"
#include "model/model_inputs.h"
#include "net/watch.h"
#include "plan/programs.h"
#include "plan/sight.h"
#include "policies/policies.h"
#include "policies/processes.h"
#include "train/by_all.h"
#include "train/heard.h"
#include "train/machine_keys.h"
#include "train/params.h"
#include "train/vocabulary.h"
#include "train/together.h"
#include "train/transport.h"
#include "train/watched.h"
#include "tune/fit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct dsf_setup dsf_session_setup(struct dsf_session *s)
{
    return (struct dsf_setup){ .job = s->job,
                               .model = &s->model,
                               .machine = &s->machine,
                               .plan = s->plan,
                               .graph = s->graph,
                               .some = s->together.alone,
                               .why = s->why };
}

int dsf_session_fit(struct dsf_session *s, const struct dsf_machine_model *m,
                    const char *until, struct dsflow_err *err)
{
    struct dsf_setup setup = dsf_session_setup(s);
    int status = dsf_fit(&setup, m, until, err);

    if (setup.chosen != NULL)
        dsf_session_take_job(s, setup.chosen);
    s->plan = setup.plan;
    s->graph = setup.graph;
    s->why = setup.why;
    return status;
}

int dsf_session_plan(struct dsf_session *s, struct dsflow_err *err)
{
    struct dsf_machine_model m = { 0 };
    int status = DSFLOW_OK;

    if (dsf_fit_is_open(s->job))
        status = dsf_machine_of_job(&s->machine, s->job, &m, err);
    if (status == DSFLOW_OK)
        status = dsf_session_fit(s, &m, NULL, err);
    dsf_machine_model_fini(&m);
    return status;
}

struct dsf_processes dsf_session_processes(const struct dsf_session *s,
                                           const struct dsf_wire *wire)
{
    return (struct dsf_processes){ .ranks = s->plan->nranks,
                                   .n = wire->nprocesses,
                                   .devices = s->machine.gpus > 0 ||
                                              s->job->machine.virtuals > 0,
                                   .direct = s->together.direct };
}

bool dsf_session_is_large(const struct dsf_session *s)
{
    struct dsflow_plan *plan;
    double tasks;

    if (s->together.wire == NULL || dsf_fit_is_open(s->job) ||
        dsf_plan_new(s->job, &s->model, &s->machine, &plan, NULL) < 0)
        return false;
    tasks =
        plan->nranks < s->together.wire->nprocesses ? 0 : dsf_plan_tasks(plan);
    dsf_plan_free(plan);
    return tasks > (double)s->job->run.whole;
}

int dsf_session_plan_alone(struct dsf_session *s, const struct dsf_wire *wire,
                           struct dsflow_err *err)
{
    int status = dsf_plan_new(s->job, &s->model, &s->machine, &s->plan, err);
    struct dsf_asked_graph asked;
    struct dsf_processes all;

    if (status < 0)
        return status;
    all = dsf_session_processes(s, wire);
    dsf_watch_ranks(dsf_process_first(&all, wire->process),
                    dsf_process_first(&all, wire->process + 1) -
                        dsf_process_first(&all, wire->process));
    status =
        dsf_policies_build_asked(s->plan, &all, wire->process, &asked, err);
    if (status < 0)
        return status;
    s->graph = asked.graph;
    s->together.alone = !asked.is_whole;
    s->together.plain = asked.plain;
    return DSFLOW_OK;
}

int dsf_session_part(struct dsf_session *s, const struct dsf_wire *wire,
                     struct dsflow_err *err)
{
    const struct dsf_processes all = dsf_session_processes(s, wire);
    const struct dsf_asked_graph asked = { s->graph, !s->together.alone,
                                           s->together.plain };

    return dsf_process_build_from(&all, wire->process, &asked,
                                  &s->together.part, err);
}

void dsf_session_weigh_own(const struct dsf_session *s,
                           const struct dsf_wire *wire, struct dsf_weights *w)
{
    const struct dsf_processes all = dsf_session_processes(s, wire);

    dsf_fit_weigh_some(s->plan, s->graph,
                       dsf_process_first(&all, wire->process),
                       dsf_process_first(&all, wire->process + 1), w);
}

/* What is read of one file, with its size, or of several. */
static void notice_text(const struct dsf_job *job)
{
    const struct dsflow_strings *train = &job->data.train;
    struct stat st;

    if (train->n == 1 && stat(train->v[0], &st) == 0)
        dsf_notice("tokenizing %.200s (%s)", train->v[0],
                   dsf_size_text((double)st.st_size).s);
    else
        dsf_notice("tokenizing the text");
}

static int read_text(struct dsf_session *s, struct dsflow_err *err)
{
    char *cache = dsf_xasprintf("%s/cache", s->job->main.output);
    int status;

    dsf_vocabulary_say(s);
    notice_text(s->job);
    status = dsf_corpus_open(s->job, s->tok, s->plan->sequence,
                             s->model.dims.vocab, cache, &s->corpus, err);
    dsf_notice_end();
    free(cache);
    return status;
}

int dsf_session_text(struct dsf_session *s, struct dsflow_err *err)
{
    int status = s->own != NULL ? dsf_corpus_own(s->own, &s->corpus, err)
                                : read_text(s, err);

    if (status == DSFLOW_OK)
        dsf_corpus_info(s->corpus, &s->text);
    return status;
}

const struct dsf_weights *dsf_session_weights(struct dsf_session *s)
{
    if (s->weights == NULL) {
        s->weights = dsf_xcalloc(1, sizeof(*s->weights));
        if (s->together.alone)
            dsf_session_weigh_own(s, s->together.wire, s->weights);
        else
            dsf_fit_weigh(s->plan, s->graph, NULL, s->weights);
    }
    return s->weights;
}

/* Budgets that were given do not make memory: is there as much as is needed?
 * `nranks` ranks have a weight, and so may use their share of it. */
static int check_present(const struct dsf_session *s,
                         const struct dsf_weights *w, int32_t nranks,
                         struct dsflow_err *err)
{
    double total = 0, disk = 0;

    for (unsigned r = 0; r < w->nranks; r++) {
        total += dsf_weights_in(&w->ranks[r], DSFLOW_HOST);
        if (s->machine.gpus == 0)
            total += w->ranks[r].peak;
        disk += w->ranks[r].tier_bytes[DSFLOW_NVME];
    }
    total *= (double)s->plan->nranks / nranks;
    disk *= (double)s->plan->nranks / nranks;
    if (s->machine.available >= 0 && total > (double)s->machine.available)
        return dsflow_fail(
            err, DSFLOW_EFIT,
            "%s: the job needs %s of memory and %s are free (dsflow plan says "
            "for what)",
            s->job->path, dsf_size_text(total).s,
            dsf_size_text((double)s->machine.available).s);
    return dsf_disks_check_room(s->job, disk, err);
}

static int32_t nranks_of(const struct dsf_session *s,
                         const struct dsf_wire *wire)
{
    const struct dsf_processes all = dsf_session_processes(s, wire);

    return dsf_process_first(&all, wire->process + 1) -
           dsf_process_first(&all, wire->process);
}

int dsf_session_check_memory(struct dsf_session *s, struct dsflow_err *err)
{
    struct dsf_setup setup = dsf_session_setup(s);
    const struct dsf_weights *w = dsf_session_weights(s);
    const int32_t n =
        s->together.alone ? nranks_of(s, s->together.wire) : s->plan->nranks;
    int status = dsf_fit_check(&setup, NULL, w, err);

    return status == DSFLOW_OK ? check_present(s, w, n, err) : status;
}

int dsf_session_check_part(struct dsf_session *s, const struct dsf_wire *wire,
                           struct dsflow_err *err)
{
    struct dsf_setup setup = dsf_session_setup(s);
    struct dsf_weights w;
    int status;

    setup.graph = s->together.part.graph;
    dsf_fit_weigh(s->plan, s->together.part.graph, NULL, &w);
    status = dsf_fit_check(&setup, NULL, &w, err);
    if (status == DSFLOW_OK)
        status = check_present(s, &w, nranks_of(s, wire), err);
    dsf_weights_fini(&w);
    return status;
}

/* What this process has, of a graph or of its part of one, and the constants in
 * it, on every rank that uses them. */
static void open_mine(struct dsf_session *s, struct dsflow_graph *graph,
                      struct dsflow_exec *exec)
{
    dsf_contents_init(&s->mine, &s->model, graph, exec, &s->plan->kept,
                      s->plan->nparts);
    dsf_exact_inputs_init(&s->exact_inputs, s->job, graph, exec);
    for (uint32_t i = 0; i < dsflow_graph_ndata(graph); i++)
        if (dsflow_graph_data(graph, (dsflow_data_id){ i })->constant)
            dsf_plan_fill_constant(
                s->plan, dsflow_graph_data(graph, (dsflow_data_id){ i }),
                dsflow_exec_map(exec, (dsflow_data_id){ i }, DSFLOW_RW));
}

static struct dsflow_exec_options options_of(const struct dsf_session *s,
                                             enum dsflow_exec_kind kind)
{
    const struct dsf_job_machine *m = &s->job->machine;

    return DSFLOW_EXEC_OPTIONS(
            .kind = kind, .workers = s->plan->workers - (unsigned)m->virtuals,
            .cores = s->machine.processes > 0 ? s->machine.node_cores
                                              : s->machine.cores,
            .ranks = (unsigned)s->plan->nranks,
            .virtuals = (unsigned)m->virtuals,
            .virtual_memory =
                m->virtual_memory < 0 ? 0 : (size_t)m->virtual_memory,
            .virtual_link = m->virtual_link < 0 ? 0 : (size_t)m->virtual_link,
            .gpus = dsf_machine_keys_gpus(&s->machine, s->plan),
            .scheduler =
                strcmp(m->scheduler, "auto") == 0 ? NULL : m->scheduler,
            .disk = dsf_disks_options(s->job));
}

int dsf_session_open(struct dsf_session *s, enum dsflow_exec_kind kind,
                     const struct dsflow_host *host, struct dsflow_err *err)
{
    struct dsflow_exec_options options = options_of(s, kind);
    int status = DSFLOW_OK;

    if (s->together.wire != NULL)
        status = dsf_together_begin(s, &options, err);
    else if (s->plan->nranks > 1)
        dsf_transport_warn_of_one(s->job);
    if (status < 0)
        return status;
    dsf_cuda_round_to_tf32(dsf_machine_keys_tf32(s->job, &s->machine));
    dsf_notice("allocating the memory of a step, and starting workers");
    status = dsflow_exec_open(s->graph, &options, host, &s->exec, err);
    if (status == DSFLOW_OK && s->together.wire != NULL) {
        dsf_watched_begin(s);
        status = dsf_together_opened(s, err);
    }
    dsf_notice_end();
    if (status < 0)
        return status;
    dsf_contents_init(&s->contents, &s->model, s->graph, s->exec,
                      &s->plan->kept, s->plan->nparts);
    if (s->together.wire != NULL)
        open_mine(s, s->together.part.graph, dsf_spread_own(s->exec));
    else
        open_mine(s, s->graph, s->exec);
    return DSFLOW_OK;
}

int dsf_session_serve(struct dsf_session *s, struct dsf_wire *wire,
                      unsigned workers, enum dsflow_exec_kind kind,
                      const struct dsflow_host *host, struct dsflow_err *err)
{
    struct dsflow_exec_options options = options_of(s, kind);
    int status;

    options.wire = wire;
    options.workers = workers;
    dsf_cuda_round_to_tf32(dsf_machine_keys_tf32(s->job, &s->machine));
    status =
        dsflow_exec_open(s->together.part.graph, &options, host, &s->exec, err);
    if (status == DSFLOW_OK)
        dsf_watched_begin(s);
    if (status == DSFLOW_OK)
        open_mine(s, s->together.part.graph, s->exec);
    return status;
}

int dsf_session_start_own(struct dsf_session *s, int64_t step, int64_t *from,
                          int64_t *updates, struct dsflow_err *err)
{
    struct dsf_params *params;
    int status = dsf_params_open(s, step, &params, from, err);

    if (status < 0)
        return status;
    *updates = dsf_params_updates(params);
    for (unsigned u = 0; u < s->model.nunits && status == DSFLOW_OK; u++)
        status = dsf_contents_fill(&s->mine, u, DSF_KEPT_PARAM, dsf_params_read,
                                   params, err);
    dsf_params_close(params);
    return status;
}

static struct dsflow_control *control_of(struct dsf_session *s,
                                         enum dsflow_access access)
{
    return dsf_contents_map(&s->contents, 0, DSF_KEPT_CONTROL, access);
}

int64_t dsf_session_updates(struct dsf_session *s)
{
    return control_of(s, DSFLOW_R)->updates;
}

int dsf_session_round(struct dsf_session *s, int64_t updates,
                      struct dsflow_err *err)
{
    int status;

    if (s->exact_inputs.waits == dsf_inputs_wait(s->job, updates))
        return DSFLOW_OK;
    status = dsf_by_all_round(s, updates, err);
    if (status < 0)
        return status;
    dsf_session_round_own(s, updates);
    return dsf_by_all_end(s, status, err);
}

void dsf_session_round_own(struct dsf_session *s, int64_t updates)
{
    dsf_exact_inputs_set(&s->exact_inputs, s->job, s->mine.exec, updates);
}

int dsf_session_start(struct dsf_session *s, int64_t step, int64_t *from,
                      struct dsflow_err *err)
{
    int64_t updates = 0;
    int status = dsf_by_all_start(s, step, err);

    if (status < 0)
        return status;
    dsf_notice(strcmp(s->job->model.init, "random") == 0
                   ? "drawing the first weights"
                   : "reading the weights");
    status = dsf_session_start_own(s, step, from, &updates, err);
    status = dsf_by_all_end(s, status, err);
    dsf_notice_end();
    if (status == DSFLOW_OK) /* copies may follow from it */
        control_of(s, DSFLOW_RW)->updates = updates;
    s->unprepared = true;
    if (status == DSFLOW_OK)
        status = dsf_session_round(s, updates, err);
    return status == DSFLOW_OK ? dsf_session_prepare(s, err) : status;
}

int dsf_session_prepare(struct dsf_session *s, struct dsflow_err *err)
{
    dsflow_program program;
    int status = DSFLOW_OK;

    if (s->unprepared &&
        dsflow_graph_find_program(s->graph, DSF_PREPARE, &program)) {
        status = dsflow_exec_submit(s->exec, program, err);
        if (status == DSFLOW_OK)
            status = dsflow_exec_wait(s->exec, err);
    }
    s->unprepared = false;
    return status;
}

double dsf_session_copies(const struct dsf_session *s)
{
    double bytes = 0;

    for (unsigned u = 0; u < s->model.nunits; u++)
        if (!dsf_contents_stands(&s->contents, u, DSF_KEPT_PARAM))
            bytes += (double)s->model.units[u].elems * sizeof(float);
    return bytes;
}

int dsf_session_units(struct dsf_session *s, float ***out,
                      struct dsflow_err *err)
{
    float **params = dsf_xcalloc(s->model.nunits, sizeof(*params));
    int status = DSFLOW_OK;

    *out = params;
    for (unsigned u = 0; u < s->model.nunits && status == DSFLOW_OK; u++) {
        if (dsf_contents_stands(&s->contents, u, DSF_KEPT_PARAM)) {
            params[u] =
                dsf_contents_map(&s->contents, u, DSF_KEPT_PARAM, DSFLOW_R);
            continue;
        }
        status = dsf_unit_alloc(&s->model, u, &params[u], err);
        if (status == DSFLOW_OK)
            status = dsf_contents_get(&s->contents, u, DSF_KEPT_PARAM,
                                      params[u], err);
    }
    return status;
}

void dsf_session_units_free(struct dsf_session *s, float **params)
{
    for (unsigned u = 0; params != NULL && u < s->model.nunits; u++)
        if (!dsf_contents_stands(&s->contents, u, DSF_KEPT_PARAM))
            free(params[u]);
    free(params);
}

void dsf_session_close(struct dsf_session *s)
{
    if (s->together.part.graph != NULL)
        dsf_watched_end();
    dsflow_exec_close(s->exec);
    dsf_graph_part_free(&s->together.part);
    dsf_heard_fini(&s->together.heard);
    if (s->weights != NULL)
        dsf_weights_fini(s->weights);
    free(s->weights);
    dsflow_graph_free(s->graph);
    dsf_plan_free(s->plan);
    dsf_corpus_close(s->corpus);
    dsf_model_fini(&s->model);
    dsf_tokenizer_free(s->tok);
    dsf_session_take_job(s, NULL);
    dsf_contents_fini(&s->contents);
    dsf_contents_fini(&s->had);
    dsf_contents_fini(&s->mine);
    dsf_exact_inputs_fini(&s->exact_inputs);
    free(s->why);
    free(s->origin.path);
    dsf_ckpt_fields_fini(&s->origin.of);
}
