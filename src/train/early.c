/* early.c - what is wrong with a job and can be known at once. */
#include "train/early.h"

#include "base/units.h"
#include "measure/disks.h"
#include "train/machine_keys.h"
#include "tune/budget.h"

#include <math.h>

/* More than this takes hours to build, wherever it fits. */
static const double MOST_TASKS = 100e6;

/* Bytes that a task takes while a graph is built. */
enum { TASK_BYTES = 320 };

/* About how many tasks a step has with tiles of this size; INFINITY: it makes
 * no plan. */
static double tasks_with(const struct dsf_session *s, int64_t tile)
{
    char set[48];
    const char *const sets[] = { set };
    struct dsflow_plan *plan;
    struct dsf_job job;
    double tasks = INFINITY;

    snprintf(set, sizeof(set), "batch.tile=%lld", (long long)tile);
    if (dsf_job_with(s->job, DSF_FOLLOWS, sets, 1, &job, NULL) < 0)
        return INFINITY;
    if (dsf_plan_new(&job, &s->model, &s->machine, &plan, NULL) == DSFLOW_OK) {
        tasks = dsf_plan_tasks(plan);
        dsf_plan_free(plan);
    }
    dsf_job_fini(&job);
    return tasks;
}

/* The least tile with which the graph is of a size that can be built; 0: none.
 */
static int64_t larger_tile(const struct dsf_session *s, double most)
{
    for (int64_t tile = 512; tile <= 65536; tile *= 2)
        if (tasks_with(s, tile) <= most)
            return tile;
    return 0;
}

static int fail_size(const struct dsf_session *s, double tasks, double most,
                     struct dsflow_err *err)
{
    int64_t tile = larger_tile(s, most);
    char instead[64] = "fewer layers or micro-batches";

    if (tile > 0)
        snprintf(instead, sizeof(instead), "batch.tile = %lld",
                 (long long)tile);
    return dsf_job_fail(s->job, err, DSFLOW_EFIT, "batch", "tile",
                        "a step has about %.3g million tasks: expected at most "
                        "%.3g million here; %s would fit",
                        tasks / 1e6, most / 1e6, instead);
}

int dsf_early_check_size(const struct dsf_session *s, int64_t available,
                         struct dsflow_err *err)
{
    struct dsflow_plan *plan;
    double tasks, most = MOST_TASKS;
    int status = dsf_plan_new(s->job, &s->model, &s->machine, &plan, err);

    if (status < 0)
        return status;
    if (available >= 0)
        most = fmin(most, (double)available / TASK_BYTES);
    tasks = dsf_plan_tasks(plan);
    dsf_plan_free(plan);
    return tasks <= most ? DSFLOW_OK : fail_size(s, tasks, most, err);
}

/* Can the model be anywhere on this machine? */
static int check_model(const struct dsf_session *s, struct dsflow_err *err)
{
    double needs = dsf_fit_least(s->job, &s->model),
           params = (double)s->model.params;
    double memory, disks;

    if (!dsf_fit_is_hopeless(s->job, &s->model, &s->machine, NULL, &memory,
                             &disks))
        return DSFLOW_OK;
    return dsf_job_fail(s->job, err, DSFLOW_EFIT, "model", "width",
                        "%d: %.1f %s parameters take %s with the states of "
                        "%s: this machine has %s of memory and %s of free disk",
                        s->model.dims.width,
                        params / (params < 1e12 ? 1e9 : 1e12),
                        params < 1e12 ? "billion" : "trillion",
                        dsf_size_text(needs).s, s->job->optimizer.kind,
                        dsf_size_text(memory).s, dsf_size_text(disks).s);
}

int dsf_early_check_text(const struct dsf_session *s, struct dsflow_err *err)
{
    return s->own != NULL
               ? DSFLOW_OK
               : dsf_corpus_check(s->job, s->tok,
                                  dsf_plan_sequence(s->job, &s->model), err);
}

int dsf_early_check(struct dsf_session *s, enum dsflow_exec_kind kind,
                    struct dsflow_err *err)
{
    int status = dsf_machine_probe(&s->machine, err);

    if (status == DSFLOW_OK && s->together.hosts != NULL)
        dsf_hosts_join(s->together.hosts, &s->machine);
    if (kind != DSFLOW_STARPU)
        dsf_machine_keys_warn_of_gpus(s->job);
    if (status == DSFLOW_OK && kind == DSFLOW_STARPU)
        dsf_machine_keys_warn(s->job, &s->machine);
    if (status == DSFLOW_OK && kind == DSFLOW_STARPU)
        status = dsf_machine_keys_find_gpus(
            s->job, s->together.wire != NULL ? s->together.wire->nprocesses : 1,
            &s->machine, &s->model, err);
    if (status == DSFLOW_OK)
        status = dsf_disks_check(s->job, err);
    if (status == DSFLOW_OK)
        status = dsf_early_check_text(s, err);
    if (status == DSFLOW_OK)
        status = dsf_early_check_size(s, s->machine.available, err);
    return status == DSFLOW_OK ? check_model(s, err) : status;
}
