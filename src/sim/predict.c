/* predict.c - what a step of a plan will take on a machine. */
#include "sim/predict.h"

#include "sim/cost.h"

#include <string.h>

/* A step begins while the one before ends: the second of three is like any. */
enum { STEPS = 3 };

int dsf_predict_timeline(const struct dsflow_plan *plan, struct dsflow_graph *g,
                         const struct dsf_machine_model *machine,
                         struct dsf_prediction *out,
                         struct dsf_timeline *timeline, struct dsflow_err *err)
{
    const struct dsf_machine_main *m = &machine->main;
    unsigned nranks = (unsigned)plan->nranks;
    bool gpus = m->kind == DSF_MACHINE_GPU;
    struct dsf_cost_model model = { machine, nranks };
    struct dsf_sim_spec spec = {
        .nranks = nranks,
        .workers = gpus ? nranks : plan->workers,
        .links = gpus,
        .phase = DSFLOW_STEP,
        .steps = STEPS,
        .cost = dsf_cost_fn_seconds,
        .user = &model,
    };

    memset(out, 0, sizeof(*out));
    if (gpus && (int64_t)nranks > m->nodes * m->devices)
        return dsflow_fail(err, DSFLOW_EFIT,
                           "the mesh of the job has %u ranks: expected at most "
                           "the %lld GPUs of %s",
                           nranks, (long long)(m->nodes * m->devices), m->name);
    out->workers = spec.workers;
    out->links = spec.links;
    return dsf_simulate(g, &spec, &out->sim, timeline, err);
}

int dsf_predict(const struct dsflow_plan *plan, struct dsflow_graph *g,
                const struct dsf_machine_model *machine,
                struct dsf_prediction *out, struct dsflow_err *err)
{
    return dsf_predict_timeline(plan, g, machine, out, NULL, err);
}

void dsf_prediction_fini(struct dsf_prediction *p)
{
    dsf_sim_result_fini(&p->sim);
}
