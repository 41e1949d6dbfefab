/* predict.c - jobs planned, and what a step takes. */
#include <dsflow/predict.h>

#include "api/api.h"
#include "base/alloc.h"
#include "machine/memory.h"
#include "measure/disks.h"
#include "measure/machine_cache.h"
#include "policies/policies.h"
#include "sim/predict.h"
#include "train/early.h"
#include "train/record.h"
#include "tune/fit.h"

#include <math.h>
#include <stdlib.h>

struct dsflow_planned {
    struct dsf_session s;
    const struct dsf_machine_model *machine;
    struct dsf_machine_model present; /* where the caller gave none */
    bool whole;                       /* every policy has been applied */
};

/* What can be known of the machine before anything is built; and how much
 * memory there is here to build it in. */
static int find_machine(struct dsflow_planned *p,
                        const struct dsflow_machine *machine,
                        int64_t *available, struct dsflow_err *err)
{
    int status;

    if (machine != NULL) {
        p->machine = &machine->model;
        dsf_machine_of_model(p->machine, &p->s.machine);
        *available = dsf_memory_probe("").available;
        return DSFLOW_OK;
    }
    status = dsf_machine_probe(&p->s.machine, err);
    *available = p->s.machine.available;
    if (status == DSFLOW_OK)
        status = dsf_disks_check(p->s.job, err);
    if (status == DSFLOW_OK)
        status = dsf_machine_of_job(&p->s.machine, p->s.job, &p->present, err);
    p->machine = &p->present;
    return status;
}

static int check_until(const char *until, struct dsflow_err *err)
{
    if (until == NULL || dsflow_policy_find(until) != NULL)
        return DSFLOW_OK;
    return dsflow_fail(err, DSFLOW_EINVAL, "there is no policy %.60s", until);
}

/* Does every rank fit in its memories? */
static int check_fit(struct dsflow_planned *p, struct dsflow_err *err)
{
    struct dsf_setup setup = dsf_session_setup(&p->s);
    const struct dsf_machine_model *m =
        p->machine == &p->present ? NULL : p->machine;
    struct dsf_weights w;
    int status;

    dsf_fit_weigh(p->s.plan, p->s.graph, m, &w);
    status = dsf_fit_check(&setup, m, &w, err);
    dsf_weights_fini(&w);
    return status;
}

int dsflow_plan_job(const struct dsflow_job *job,
                    const struct dsflow_machine *machine, const char *until,
                    struct dsflow_planned **out, struct dsflow_err *err)
{
    struct dsflow_planned *p = dsf_xcalloc(1, sizeof(*p));
    int64_t available = -1;
    int status = dsf_api_open(job, NULL, &p->s, err);

    p->whole = until == NULL;
    if (status == DSFLOW_OK)
        status = check_until(until, err);
    if (status == DSFLOW_OK)
        status = find_machine(p, machine, &available, err);
    if (status == DSFLOW_OK)
        status = dsf_early_check_size(&p->s, available, err);
    if (status == DSFLOW_OK)
        status = dsf_session_fit(&p->s, p->machine, until, err);
    if (status == DSFLOW_OK && p->whole)
        status = check_fit(p, err);
    *out = status == DSFLOW_OK ? p : NULL;
    if (status < 0)
        dsflow_planned_free(p);
    return status;
}

void dsflow_planned_free(struct dsflow_planned *p)
{
    if (p == NULL)
        return;
    dsf_session_close(&p->s);
    dsf_machine_model_fini(&p->present);
    free(p);
}

const struct dsflow_plan *dsflow_planned_plan(const struct dsflow_planned *p)
{
    return p->s.plan;
}

struct dsflow_graph *dsflow_planned_graph(const struct dsflow_planned *p)
{
    return p->s.graph;
}

const char *dsflow_planned_chosen(const struct dsflow_planned *p)
{
    return p->s.why;
}

static void find_bytes(const struct dsflow_planned *p,
                       struct dsflow_prediction *out)
{
    struct dsf_weights w;

    dsf_fit_weigh(p->s.plan, p->s.graph,
                  p->machine == &p->present ? NULL : p->machine, &w);
    out->device_bytes = out->host_bytes = out->nvme_bytes = 0;
    for (unsigned i = 0; i < w.nranks; i++) {
        const struct dsf_rank_weight *rank = &w.ranks[i];

        out->device_bytes = fmax(out->device_bytes, rank->peak);
        out->host_bytes = fmax(out->host_bytes, rank->tier_bytes[DSFLOW_HOST]);
        out->nvme_bytes = fmax(out->nvme_bytes, rank->tier_bytes[DSFLOW_NVME]);
    }
    dsf_weights_fini(&w);
}

static int check_whole(const struct dsflow_planned *p, struct dsflow_err *err)
{
    return p->whole ? DSFLOW_OK
                    : dsflow_fail(err, DSFLOW_EINVAL,
                                  "the job was planned up to a policy: "
                                  "expected a whole plan");
}

int dsflow_predict(const struct dsflow_planned *p,
                   struct dsflow_prediction *out, struct dsflow_err *err)
{
    struct dsf_prediction found;
    int status = dsf_api_check_size("struct dsflow_prediction", out->size,
                                    sizeof(*out), err);

    if (status == DSFLOW_OK)
        status = check_whole(p, err);
    if (status == DSFLOW_OK)
        status = dsf_predict(p->s.plan, p->s.graph, p->machine, &found, err);
    if (status < 0)
        return status;
    out->step_seconds = found.sim.step_seconds;
    out->bound_seconds = found.sim.bound_seconds;
    out->tokens_per_second =
        (double)(p->s.job->batch.sequences * p->s.plan->sequence) /
        out->step_seconds;
    find_bytes(p, out);
    dsf_prediction_fini(&found);
    return DSFLOW_OK;
}

int dsflow_planned_trace(const struct dsflow_planned *p, const char *path,
                         struct dsflow_err *err)
{
    int status = check_whole(p, err);

    return status == DSFLOW_OK
               ? dsf_record_simulation(&p->s, p->machine, path, err)
               : status;
}
