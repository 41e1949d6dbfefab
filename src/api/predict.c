/* predict.c - jobs planned, and what a step takes. */
#include <dsflow/predict.h>

#include "api/api.h"
#include "base/alloc.h"
#include "sim/predict.h"
#include "sim/weights.h"
#include "train/planned.h"
#include "train/record.h"

#include <math.h>
#include <stdlib.h>

struct dsflow_planned {
    struct dsf_planned p;
};

int dsflow_plan_job(const struct dsflow_job *job,
                    const struct dsflow_machine *machine, const char *until,
                    struct dsflow_planned **out, struct dsflow_err *err)
{
    struct dsflow_planned *x = dsf_xcalloc(1, sizeof(*x));
    locale_t own = dsf_api_enter();
    int status = dsf_api_open(job, NULL, &x->p.s, err);

    if (status == DSFLOW_OK)
        status = dsf_planned_until(until, err);
    if (status == DSFLOW_OK)
        status = dsf_planned_make(
            &x->p, machine != NULL ? &machine->model : NULL, until, true, err);
    if (status == DSFLOW_OK && x->p.whole)
        status = dsf_planned_check(&x->p, err);
    dsf_api_leave(own);
    *out = status == DSFLOW_OK ? x : NULL;
    if (status < 0)
        dsflow_planned_free(x);
    return status;
}

void dsflow_planned_free(struct dsflow_planned *x)
{
    if (x == NULL)
        return;
    dsf_planned_close(&x->p);
    free(x);
}

const struct dsflow_plan *dsflow_planned_plan(const struct dsflow_planned *x)
{
    return x->p.s.plan;
}

struct dsflow_graph *dsflow_planned_graph(const struct dsflow_planned *x)
{
    return x->p.s.graph;
}

const char *dsflow_planned_chosen(const struct dsflow_planned *x)
{
    return x->p.s.why;
}

static void find_bytes(const struct dsf_weights *w,
                       struct dsflow_prediction *out)
{
    out->device_bytes = out->host_bytes = out->nvme_bytes = 0;
    for (unsigned i = 0; i < w->nranks; i++) {
        const struct dsf_rank_weight *rank = &w->ranks[i];

        out->device_bytes = fmax(out->device_bytes, rank->peak);
        out->host_bytes = fmax(out->host_bytes, rank->tier_bytes[DSFLOW_HOST]);
        out->nvme_bytes = fmax(out->nvme_bytes, rank->tier_bytes[DSFLOW_NVME]);
    }
}

static int check_whole(const struct dsflow_planned *x, struct dsflow_err *err)
{
    return x->p.whole ? DSFLOW_OK
                      : dsflow_fail(err, DSFLOW_EINVAL,
                                    "the job was planned up to a policy: "
                                    "expected a whole plan");
}

int dsflow_predict(const struct dsflow_planned *x,
                   struct dsflow_prediction *out, struct dsflow_err *err)
{
    const struct dsf_session *s = &x->p.s;
    struct dsf_prediction found;
    int status = dsf_api_check_size("struct dsflow_prediction", out->size,
                                    sizeof(*out), err);

    if (status == DSFLOW_OK)
        status = check_whole(x, err);
    if (status == DSFLOW_OK)
        status = dsf_predict(s->plan, s->graph, x->p.machine, &found, err);
    if (status < 0)
        return status;
    out->step_seconds = found.sim.step_seconds;
    out->bound_seconds = found.sim.bound_seconds;
    out->tokens_per_second =
        (double)(s->job->batch.sequences * s->plan->sequence) /
        out->step_seconds;
    find_bytes(s->weights, out); /* there since dsf_planned_check */
    dsf_prediction_fini(&found);
    return DSFLOW_OK;
}

int dsflow_planned_trace(const struct dsflow_planned *x, const char *path,
                         struct dsflow_err *err)
{
    int status = check_whole(x, err);
    locale_t own;

    if (status < 0)
        return status;
    own = dsf_api_enter();
    status = dsf_record_simulation(&x->p.s, x->p.machine, path, err);
    dsf_api_leave(own);
    return status;
}
