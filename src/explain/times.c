/* times.c - the step of a trace, planned again, and how long tasks take.
 *
 * A kind of task takes what the machine's description says of its size and
 * type, times how much longer it took in the trace than was said: sizes that
 * the trace has not are scaled like those that it has, and so is a type, where
 * it has the kind in another one. */
#include "explain/times.h"

#include "base/alloc.h"
#include "explain/replay.h"
#include "graph/task.h"
#include "policies/policies.h"
#include "sim/gpu_attention.h"
#include "sim/predict.h"
#include "sim/sim.h"

#include <stdlib.h>
#include <string.h>

static bool is_gpu(const struct dsf_times *t)
{
    return t->machine.main.kind == DSF_MACHINE_GPU;
}

/* NULL: the trace has no such task. */
static struct dsf_timed *find_timed(const struct dsf_times *t,
                                    const struct dsflow_op *op,
                                    enum dsflow_dtype dtype)
{
    for (unsigned k = 0; k < t->ntimed; k++)
        if (t->timed[k].op == op && t->timed[k].dtype == dtype)
            return &t->timed[k];
    return NULL;
}

static struct dsf_timed *timed_of(struct dsf_times *t,
                                  const struct dsflow_op *op,
                                  enum dsflow_dtype dtype)
{
    struct dsf_timed *x = find_timed(t, op, dtype);

    if (x != NULL)
        return x;
    dsf_grow(&t->timed, &t->cap_timed, t->ntimed + 1, sizeof(*t->timed));
    x = &t->timed[t->ntimed++];
    *x = (struct dsf_timed){ .op = op, .dtype = dtype, .factor = 1 };
    return x;
}

/* The tasks of the steps that count. A trace does not say which types ports
 * take: the graph that was planned again does. */
static void add_up(struct dsf_times *t)
{
    const struct dsf_account *a = t->account;
    const struct dsf_timeline *timeline = &a->trace->timeline;

    for (size_t i = 0; i < timeline->n; i++) {
        const struct dsf_span *s = &timeline->v[i];
        const struct dsflow_task_spec *task;
        struct dsf_timed *x;
        double predicted;

        if (s->kind != DSF_SPAN_TASK || s->what >= a->steps.ntasks ||
            s->step < a->steps.from || s->step >= a->steps.to)
            continue;
        task = dsflow_graph_task(t->graph, (dsflow_task_id){ s->what });
        predicted = a->trace->tasks[s->what].predicted;
        x = timed_of(t, task->op, dsf_cost_type(t->graph, task));
        x->count++;
        x->seconds += s->end - s->start;
        x->predicted =
            predicted < 0 || x->predicted < 0 ? -1 : x->predicted + predicted;
    }
}

/* A disk that reads while it writes does both more slowly, unless it is duplex:
 * then what it takes for all of it is what counts. */
static double measure_disk(const struct dsf_account *a)
{
    const struct dsf_timeline *t = &a->trace->timeline;
    double predicted = 0, took = 0;

    for (size_t i = 0; i < t->n; i++) {
        const struct dsf_span *s = &t->v[i];

        if (t->lanes[s->lane].kind != DSF_LANE_DISK ||
            s->kind != DSF_SPAN_TASK || s->step < a->steps.from ||
            s->step >= a->steps.to || a->trace->tasks[s->what].predicted < 0)
            continue;
        predicted += a->trace->tasks[s->what].predicted;
        took += s->end - s->start;
    }
    if (!a->trace->facts.duplex)
        took = a->hidden.io;
    return predicted > 0 && took > 0 ? took / predicted : 1;
}

static void measure(struct dsf_times *t)
{
    const struct dsf_account *a = t->account;
    double said = t->machine.main.overhead, predicted = 0, measured = 0;
    bool simulated = a->trace->facts.simulated;
    uint32_t count = 0;

    add_up(t);
    for (unsigned k = 0; k < t->ntimed; k++) {
        struct dsf_timed *x = &t->timed[k];
        /* A simulated span has the overhead in it, as has what was predicted
         * of it; but not on GPUs. */
        double beside = simulated && !is_gpu(t) ? said * x->count : 0;
        double took = x->seconds - beside;

        count += x->count;
        /* Some of them may be the disk's. */
        if ((x->op->swaps && a->hidden.io > 0) || x->predicted - beside <= 0)
            continue;
        x->factor = took > 0 ? took / (x->predicted - beside) : 1;
        measured += took;
        predicted += x->predicted - beside;
    }
    t->factor_of_all = predicted > 0 ? measured / predicted : 1;
    for (unsigned k = 0; k < t->ntimed; k++)
        if (t->timed[k].op->swaps && a->hidden.io > 0)
            t->timed[k].factor = t->factor_of_all;
    t->overhead = said;
    if (!simulated && count > 0)
        t->overhead = a->all.idle[DSF_CAUSE_RUNTIME] / count;
}

/* Transfers are between the memories of virtual devices, which the simulator
 * does not know: tasks take as much longer as they waited for them. */
static double measure_delay(const struct dsf_account *a)
{
    double seconds = 0;
    uint32_t count = 0;

    for (size_t i = 0; i < a->nwaits; i++)
        if (a->waits[i].cause == DSF_CAUSE_TRANSFER && a->waits[i].what == NULL)
            seconds += a->waits[i].seconds;
    for (unsigned k = 0; k < a->nkinds; k++)
        if (a->kinds[k].op != NULL)
            count += a->kinds[k].count;
    return count > 0 ? seconds / count : 0;
}

/* The machine of the trace, or a faster one. */
static struct dsf_machine_model with_effect(const struct dsf_times *t,
                                            const struct dsf_effect *effect)
{
    struct dsf_machine_model m = t->machine;

    if (effect->link > 0)
        m.link.bandwidth *= effect->link;
    if (effect->network > 0)
        m.network.bandwidth *= effect->network;
    if (effect->disk > 0) {
        m.disk.read *= effect->disk;
        m.disk.write *= effect->disk;
    }
    return m;
}

/* That of the kind in this type, else in another one. */
static double factor_of(const struct dsf_times *t, const struct dsflow_op *op,
                        enum dsflow_dtype dtype)
{
    const struct dsf_timed *x = find_timed(t, op, dtype);

    for (unsigned k = 0; k < t->ntimed && x == NULL; k++)
        if (t->timed[k].op == op)
            x = &t->timed[k];
    return x != NULL ? x->factor : t->factor_of_all;
}

/* Seconds by task. */
static double *weigh(const struct dsf_times *t, const struct dsflow_plan *plan,
                     struct dsflow_graph *graph,
                     const struct dsf_effect *effect)
{
    struct dsf_machine_model machine = with_effect(t, effect);
    struct dsf_gpu_attention_memo memo = { 0 };
    struct dsf_cost_model model = { .machine = &machine,
                                    .nranks = (unsigned)plan->nranks,
                                    .plan = plan,
                                    .memo = &memo };
    uint32_t n = dsflow_graph_ntasks(graph);
    double *seconds = dsf_xcalloc((size_t)n + 1, sizeof(*seconds));
    double waits = 1 - effect->transfers;
    /* It has the overhead in all spans, those of links too. */
    bool simulated = t->account->trace->facts.simulated;

    for (uint32_t i = 0; i < n; i++) {
        const struct dsflow_task_spec *task =
            dsflow_graph_task(graph, (dsflow_task_id){ i });
        double cost = dsf_cost_seconds(&model, graph, task);
        double beside = is_gpu(t) ? 0 : machine.main.overhead;
        double kernel = (cost - beside) *
                        factor_of(t, task->op, dsf_cost_type(graph, task));

        if (dsf_task_uses(graph, task, DSFLOW_NVME))
            seconds[i] = cost * t->factor_of_disk;
        else if (t->links && (task->op->swaps || task->op->comm))
            seconds[i] = (simulated ? t->overhead : 0) + waits * kernel;
        else
            seconds[i] =
                (is_gpu(t) ? 0 : t->overhead) + t->delay * waits + kernel;
    }
    return seconds;
}

/* GPUs, and cores beside them: of a run, those that it had. */
static void put_gpus(const struct dsf_times *t, struct dsf_sim_spec *spec)
{
    const struct dsf_trace *trace = t->account->trace;
    const unsigned cores = dsf_replay_cores(trace);

    spec->workers = spec->nranks;
    if (!trace->facts.simulated && trace->timeline.workers < spec->workers)
        spec->workers = trace->timeline.workers;
    dsf_predict_on_gpus(&t->machine, spec);
    if (cores > 0 && !trace->facts.simulated)
        spec->host_cores = cores;
}

/* Of ranks on devices, cores do what is in main memory. Workers of a run that
 * share cores take longer for what they do: its spans have that in them. */
static void put_workers(const struct dsf_times *t,
                        const struct dsflow_plan *plan,
                        const struct dsf_effect *effect,
                        struct dsf_sim_spec *spec)
{
    const struct dsf_trace_facts *f = &t->account->trace->facts;

    if (is_gpu(t)) {
        put_gpus(t, spec);
        return;
    }
    spec->workers = plan->workers;
    spec->cores = f->simulated ? t->present.cores : 0;
    if (strcmp(f->executor, "serial") == 0 && !effect->parallel)
        spec->workers = 1;
    else if (plan->job->machine.virtuals > 0)
        dsf_predict_on_virtuals(plan, spec);
    spec->links = spec->two_way = t->links;
}

int dsf_times_seconds(const struct dsf_times *t, const struct dsflow_plan *plan,
                      struct dsflow_graph *graph,
                      const struct dsf_effect *effect, double *seconds,
                      struct dsflow_err *err)
{
    unsigned nranks = (unsigned)plan->nranks;
    double *of_tasks = weigh(t, plan, graph, effect);
    struct dsf_sim_spec spec = {
        .nranks = nranks,
        .node_ranks = dsf_machine_model_node_ranks(&t->machine, nranks),
        .duplex = t->machine.disk.duplex,
        .program = DSFLOW_STEP,
        .steps = 3,
        .seconds = of_tasks,
    };
    struct dsf_sim_result result;
    int status;

    put_workers(t, plan, effect, &spec);
    status = dsf_simulate(graph, &spec, &result, NULL, err);
    *seconds = result.step_seconds;
    dsf_sim_result_fini(&result);
    free(of_tasks);
    return status;
}

/* The job of the trace, with the vocabulary that it had. */
static int make_job(const struct dsf_trace_facts *f, dsf_load_fn load,
                    struct dsf_job **out, struct dsflow_err *err)
{
    char *vocab = dsf_xasprintf("model.vocab=%lld", (long long)f->vocab);
    struct dsf_job said, *job = dsf_xcalloc(1, sizeof(*job));
    int status = dsf_job_parse(f->job, strlen(f->job), "job.toml", NULL, 0,
                               load, &said, err);

    if (status == DSFLOW_OK) {
        status = dsf_job_with(&said, DSF_FOLLOWS, (const char *const *)&vocab,
                              said.model.vocab < 0, job, err);
        dsf_job_fini(&said);
    }
    if (status < 0)
        free(job);
    else
        *out = job;
    free(vocab);
    return status;
}

/* Is the plan of the job of the trace the graph of the trace? */
static int check_same(const struct dsflow_graph *a,
                      const struct dsflow_graph *b, struct dsflow_err *err)
{
    bool same = dsflow_graph_ntasks(a) == dsflow_graph_ntasks(b);

    for (uint32_t i = 0; same && i < dsflow_graph_ntasks(a); i++)
        same =
            strcmp(dsflow_graph_task(a, (dsflow_task_id){ i })->op->name,
                   dsflow_graph_task(b, (dsflow_task_id){ i })->op->name) == 0;
    if (same)
        return DSFLOW_OK;
    return dsflow_fail(err, DSFLOW_EINVAL,
                       "this dsflow plans the job of the trace in another "
                       "way: expected the one that ran it");
}

/* The machine that the trace was of. */
static void describe(struct dsf_times *t)
{
    const struct dsf_trace_facts *f = &t->account->trace->facts;

    dsf_machine_of_model(&t->machine, &t->present);
    /* Ranks of a run may share GPUs, which those of a description do not. */
    if (!f->simulated && is_gpu(t) && t->present.devices < f->nranks) {
        t->present.node_devices *= (f->nranks - 1) / t->present.devices + 1;
        t->present.devices = f->nranks;
    }
    if (!f->simulated) {
        t->present.cores = f->cores;
        t->present.available =
            f->memory < 0 ? INT64_MAX : (int64_t)(f->memory * f->nranks);
    }
}

/* The job of the trace, as it was. */
static int plan_again(struct dsf_times *t, dsf_load_fn load,
                      struct dsflow_err *err)
{
    const struct dsf_trace *trace = t->account->trace;
    int status = make_job(&trace->facts, load, &t->job, err);

    if (status < 0)
        return status;
    t->links = t->account->links && t->job->machine.virtuals > 0;
    describe(t);
    status = dsf_model_init(&t->model, t->job, err);
    if (status == DSFLOW_OK)
        status = dsf_plan_new(t->job, &t->model, &t->present, &t->plan, err);
    if (status == DSFLOW_OK)
        status = dsf_policies_build(t->plan, NULL, &t->graph, err);
    return status == DSFLOW_OK ? check_same(trace->graph, t->graph, err)
                               : status;
}

int dsf_times_init(struct dsf_times *t, const struct dsf_account *a,
                   dsf_load_fn load, struct dsflow_err *err)
{
    const char *rates = a->trace->facts.rates;
    int status;

    memset(t, 0, sizeof(*t));
    if (rates[0] == '\0')
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "the trace does not say how fast its machine is");
    status = dsf_machine_model_parse(rates, strlen(rates), "machine",
                                     &t->machine, err);
    if (status < 0)
        return status;
    t->account = a;
    t->factor_of_disk = measure_disk(a);
    t->delay = measure_delay(a);
    status = plan_again(t, load, err);
    if (status == DSFLOW_OK)
        measure(t);
    else
        dsf_times_fini(t);
    return status;
}

void dsf_times_fini(struct dsf_times *t)
{
    dsflow_graph_free(t->graph);
    dsf_plan_free(t->plan);
    dsf_model_fini(&t->model);
    if (t->job != NULL)
        dsf_job_fini(t->job);
    free(t->job);
    dsf_machine_model_fini(&t->machine);
    free(t->timed);
    memset(t, 0, sizeof(*t));
}
