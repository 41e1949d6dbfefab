/* record.c - a session as a trace. */
#include "train/record.h"

#include "base/alloc.h"
#include "plan/division.h"
#include "plan/programs.h"
#include "sim/gpu_attention.h"
#include "trace/steps.h"
#include "train/origin.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the model began with need not be there when the trace is looked at. */
static char *job_text(const struct dsf_session *s)
{
    const bool random = strcmp(s->job->model.init, "random") == 0;
    struct dsf_job said;
    char *text;
    size_t bytes;
    FILE *out = dsf_xmemstream(&text, &bytes);

    if (!random && dsf_origin_say(s, &said, NULL) == DSFLOW_OK) {
        dsf_job_write(&said, out);
        dsf_job_fini(&said);
    } else {
        dsf_job_write(s->job, out);
    }
    fclose(out);
    return text;
}

static char *rates_text(const struct dsf_machine_model *m)
{
    char *text;
    size_t bytes;
    FILE *out;

    if (m->main.name == NULL)
        return dsf_xstrdup("");
    out = dsf_xmemstream(&text, &bytes);
    dsf_machine_model_write(m, out);
    fclose(out);
    return text;
}

static void put_axes(struct dsf_trace_facts *facts, const struct dsf_mesh *mesh)
{
    const struct dsflow_axis *axis;

    for (unsigned i = 0; (axis = dsflow_axis_at(i)) != NULL; i++) {
        struct dsf_trace_axis *a = &facts->axes[facts->naxes++];

        snprintf(a->name, sizeof(a->name), "%s", axis->name);
        a->size = (unsigned)mesh->size[i];
        a->stride = (unsigned)mesh->stride[i];
    }
}

/* The programs that run in steps, as bits. */
static uint64_t steps_of(const struct dsf_session *s)
{
    uint64_t bits = 0;

    for (unsigned p = 0; p < dsflow_graph_nprograms(s->graph); p++)
        if (dsf_plan_runs_in_steps(
                s->plan, dsflow_graph_program(s->graph, (dsflow_program)p)))
            bits |= (uint64_t)1 << p;
    return bits;
}

/* Of a run of which nothing is predicted they are no numbers. */
static double known(double seconds)
{
    return isnan(seconds) ? -1 : seconds;
}

void dsf_record_init(struct dsf_trace *trace, const struct dsf_session *s,
                     const struct dsf_machine_model *m,
                     const struct dsf_prediction *prediction,
                     const char *executor)
{
    const struct dsflow_plan *plan = s->plan;
    bool simulated = strcmp(executor, "simulation") == 0;
    bool unmeasured = s->machine.gpus > 0 && m->main.kind != DSF_MACHINE_GPU;
    bool cores_for_gpus = !simulated && unmeasured;
    /* Spans of a run are of kernels alone. */
    struct dsf_machine_model kernels = *m;
    /* Without the links of virtual devices, as dsf_times_seconds has it. */
    struct dsf_gpu_attention_memo memo = { 0 };
    struct dsf_cost_model model = { .machine = &kernels,
                                    .nranks = (unsigned)plan->nranks,
                                    .plan = plan,
                                    .memo = &memo };
    double memory = dsf_fit_budget(s->plan, m);
    int32_t *node_of = dsf_rank_nodes(plan->machine, plan->nranks);

    memset(trace, 0, sizeof(*trace));
    trace->facts = (struct dsf_trace_facts){
        .name = dsf_xstrdup(s->job->main.name),
        .job = job_text(s),
        .machine = dsf_xstrdup(m->main.name != NULL ? m->main.name : ""),
        /* Those of cores say nothing of a run on GPUs. */
        .rates = unmeasured ? dsf_xstrdup("") : rates_text(m),
        .executor = dsf_xstrdup(executor),
        .simulated = simulated,
        .duplex = m->disk.duplex,
        .nranks = (unsigned)plan->nranks,
        .cores = s->machine.cores,
        .first = 1,
        .steps = steps_of(s),
        .tokens = (int64_t)plan->nmicro * plan->micro * plan->sequence,
        .vocab = s->model.dims.vocab,
        .memory = isfinite(memory) ? memory : -1,
        .predicted = known(prediction->sim.step_seconds),
        .bound = known(prediction->sim.bound_seconds),
    };
    put_axes(&trace->facts, &plan->mesh);
    trace->graph = s->graph;
    dsf_trace_weigh(trace, node_of);
    free(node_of);
    if (!simulated)
        kernels.main.overhead = 0;
    for (uint32_t i = 0; i < dsflow_graph_ntasks(s->graph); i++)
        trace->tasks[i].predicted =
            cores_for_gpus
                ? -1
                : dsf_cost_seconds(
                      &model, s->graph,
                      dsflow_graph_task(s->graph, (dsflow_task_id){ i }));
}

/* What messages take, and how long they are on their way, stands in no span of
 * a task of the graph. */
static void bind_laps(struct dsf_laps *laps, const struct dsf_prediction *p)
{
    for (unsigned k = laps->first; k < laps->n && p->processes.n > 1; k++) {
        laps->v[k].critical = p->sim.steps[k].critical_seconds;
        laps->v[k].bound = p->sim.steps[k].bound_seconds;
    }
}

int dsf_record_simulation(const struct dsf_session *s,
                          const struct dsf_machine_model *m, const char *path,
                          struct dsflow_err *err)
{
    struct dsf_timeline timeline = { 0 };
    struct dsf_prediction prediction;
    struct dsf_trace_file *file = NULL;
    struct dsf_trace trace;
    int status = dsf_predict_timeline(s->plan, s->graph, m, &prediction,
                                      &timeline, err);

    if (status < 0)
        return status;
    dsf_record_init(&trace, s, m, &prediction, "simulation");
    trace.timeline = timeline;
    status = dsf_trace_create(path, &trace, &file, err);
    if (status == DSFLOW_OK)
        status = dsf_trace_append(file, timeline.v, timeline.n, err);
    dsf_timeline_sort(&trace.timeline);
    dsf_laps_init(&trace.laps, &trace);
    bind_laps(&trace.laps, &prediction);
    for (unsigned k = 0; k < trace.laps.n && status == DSFLOW_OK; k++)
        status = dsf_trace_append_lap(file, k, &trace.laps.v[k], err);
    if (status == DSFLOW_OK)
        status = dsf_trace_close(file, true, err);
    else
        dsf_trace_drop(file);
    dsf_trace_fini(&trace);
    dsf_prediction_fini(&prediction);
    return status;
}
