/* predict.c - what a step of a plan will take on a machine. */
#include "sim/predict.h"

#include "base/alloc.h"
#include "graph/task.h"
#include "plan/division.h"
#include "sim/cost.h"
#include "sim/gpu_attention.h"
#include "sim/joined.h"

#include <stdlib.h>
#include <string.h>

/* A step begins while the one before ends: the second of three is like any. */
enum { STEPS = 3 };

/* What has data on NVMe takes the time of a disk: is there one? */
static int check_disk(const struct dsflow_graph *g,
                      const struct dsf_machine_model *m, struct dsflow_err *err)
{
    bool has_disk = m->disk.read > 0 && m->disk.write > 0;

    for (uint32_t i = 0; i < dsflow_graph_ntasks(g) && !has_disk; i++) {
        const struct dsflow_task_spec *t =
            dsflow_graph_task(g, (dsflow_task_id){ i });

        if (dsf_task_uses(g, t, DSFLOW_NVME))
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "%s: [disk]: is missing: expected read and "
                               "write, in bytes a second, as the job has data "
                               "on nvme",
                               m->path != NULL ? m->path : m->main.name);
    }
    return DSFLOW_OK;
}

/* The costs of a plan's tasks, borrowed. */
static struct dsf_cost_model costs_of(const struct dsflow_plan *plan,
                                      const struct dsf_machine_model *machine)
{
    const struct dsf_job_machine *keys = &plan->job->machine;

    return (struct dsf_cost_model){
        .machine = machine,
        .nranks = (unsigned)plan->nranks,
        .virtuals = (unsigned)keys->virtuals,
        .virtual_link = keys->virtual_link > 0 ? (double)keys->virtual_link : 0,
        .gpus = dsf_gpus_of(plan->machine, plan->nranks).n,
        .on = plan->machine,
        .plan = plan,
    };
}

/* Those that the processes have together. */
static unsigned workers_of(const struct dsflow_plan *plan,
                           const struct dsf_sim_spec *spec)
{
    unsigned n = 0;

    for (int32_t p = 0; p < spec->processes.n; p++)
        n += dsf_process_workers(&spec->processes, p, plan->workers);
    return n;
}

void dsf_predict_on_gpus(const struct dsf_machine_model *machine,
                         struct dsf_sim_spec *spec)
{
    const unsigned node_ranks = spec->node_ranks;
    const unsigned cores = (unsigned)machine->main.workers;

    spec->links = spec->two_way = true;
    spec->launch = machine->main.overhead;
    if (cores > node_ranks)
        spec->host_cores = (spec->nranks + node_ranks - 1) / node_ranks * cores;
}

void dsf_predict_on_virtuals(const struct dsflow_plan *plan,
                             struct dsf_sim_spec *spec)
{
    const unsigned virtuals = (unsigned)plan->job->machine.virtuals;

    spec->links = spec->two_way = true;
    spec->host_cores = plan->workers - virtuals;
    spec->workers = virtuals < spec->nranks ? virtuals : spec->nranks;
}

/* What ranks compute on, and what is beside. */
static void put_workers(const struct dsflow_plan *plan,
                        const struct dsf_cost_model *model,
                        struct dsf_sim_spec *spec)
{
    enum dsf_device_kind kind = dsf_cost_kind(model);

    spec->cores = kind != DSF_ON_GPUS ? plan->machine->cores : 0;
    spec->workers = kind == DSF_ON_GPUS     ? dsf_cost_devices(model)
                    : spec->processes.n > 1 ? workers_of(plan, spec)
                                            : plan->workers;
    if (kind == DSF_ON_GPUS)
        dsf_predict_on_gpus(model->machine, spec);
    else if (kind == DSF_ON_VIRTUALS)
        dsf_predict_on_virtuals(plan, spec);
}

/* The file of this machine is of one node, whatever a run has. */
static unsigned node_ranks_of(const struct dsf_cost_model *model)
{
    unsigned nodes = model->on != NULL ? model->on->nodes : 0;

    return nodes > 1
               ? (model->nranks + nodes - 1) / nodes
               : dsf_machine_model_node_ranks(model->machine, model->nranks);
}

static struct dsf_sim_spec spec_of(const struct dsflow_plan *plan,
                                   const struct dsf_cost_model *model,
                                   dsflow_program program)
{
    const struct dsf_machine_model *machine = model->machine;
    unsigned nranks = (unsigned)plan->nranks;
    struct dsf_sim_spec spec = {
        .nranks = nranks,
        .node_ranks = node_ranks_of(model),
        .duplex = machine->disk.duplex,
        .program = program,
        .steps = STEPS,
        .processes = dsf_cost_processes(model),
        .on = model->on,
        .one_link = !machine->link.duplex,
        .one_network = !machine->network.duplex,
        .cost = dsf_cost_fn_seconds,
        .delay = dsf_cost_fn_delay,
        .toll = dsf_cost_fn_toll,
        .user = (void *)model,
    };

    put_workers(plan, model, &spec);
    return spec;
}

/* What a message carries for a task that computes is a transfer of that. */
static void rename_span(const struct dsf_joined *j,
                        const struct dsflow_graph *g, struct dsf_span *span)
{
    const struct dsflow_task_spec *t =
        dsflow_graph_task(j->graph, (dsflow_task_id){ span->what });

    span->what = j->of[span->what];
    if (t->op == dsflow_graph_task(g, (dsflow_task_id){ span->what })->op)
        return;
    span->kind = DSF_SPAN_TRANSFER;
    span->what = t->data[1].i;
}

/* Of several processes, with the messages between them. */
static int simulate(const struct dsf_sim_spec *spec, struct dsflow_graph *g,
                    struct dsf_sim_result *result,
                    struct dsf_timeline *timeline, struct dsflow_err *err)
{
    struct dsf_joined j;
    int status;

    if (spec->processes.n < 2)
        return dsf_simulate(g, spec, result, timeline, err);
    dsf_joined_init(&j, &spec->processes, g);
    status = dsf_simulate(j.graph, spec, result, timeline, err);
    for (uint32_t i = 0; i < result->ncritical; i++)
        result->critical[i] = j.of[result->critical[i]];
    for (size_t i = 0; timeline != NULL && i < timeline->n; i++)
        rename_span(&j, g, &timeline->v[i]);
    dsf_joined_fini(&j);
    return status;
}

int dsf_predict_timeline(const struct dsflow_plan *plan, struct dsflow_graph *g,
                         const struct dsf_machine_model *machine,
                         struct dsf_prediction *out,
                         struct dsf_timeline *timeline, struct dsflow_err *err)
{
    struct dsf_gpu_attention_memo memo = { 0 };
    struct dsf_cost_model model = costs_of(plan, machine);
    int status = check_disk(g, machine, err);
    struct dsf_sim_spec spec = spec_of(plan, &model, DSFLOW_STEP);

    model.memo = &memo;
    memset(out, 0, sizeof(*out));
    if (status < 0)
        return status;
    out->workers = spec.workers;
    out->links = spec.links;
    out->processes = spec.processes;
    return simulate(&spec, g, &out->sim, timeline, err);
}

int dsf_predict(const struct dsflow_plan *plan, struct dsflow_graph *g,
                const struct dsf_machine_model *machine,
                struct dsf_prediction *out, struct dsflow_err *err)
{
    return dsf_predict_timeline(plan, g, machine, out, NULL, err);
}

int dsf_predict_programs(const struct dsflow_plan *plan, struct dsflow_graph *g,
                         const struct dsf_machine_model *machine,
                         struct dsf_prediction *out, struct dsflow_err *err)
{
    struct dsf_gpu_attention_memo memo = { 0 };
    struct dsf_cost_model model = costs_of(plan, machine);
    unsigned n = dsflow_graph_nprograms(g);
    int status = DSFLOW_OK;

    model.memo = &memo;
    out->seconds = dsf_xcalloc(n, sizeof(*out->seconds));
    out->seconds[DSFLOW_STEP] = out->sim.step_seconds;
    for (unsigned p = DSFLOW_STEP + 1; p < n && status == DSFLOW_OK; p++) {
        struct dsf_sim_spec spec = spec_of(plan, &model, (dsflow_program)p);
        struct dsf_sim_result result;

        status = simulate(&spec, g, &result, NULL, err);
        if (status == DSFLOW_OK)
            out->seconds[p] = result.step_seconds;
        dsf_sim_result_fini(&result);
    }
    return status;
}

void dsf_prediction_fini(struct dsf_prediction *p)
{
    free(p->seconds);
    p->seconds = NULL;
    dsf_sim_result_fini(&p->sim);
}
