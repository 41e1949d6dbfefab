/* whatif.c - another plan of the job of a trace, with the times of the trace.
 *
 * A kind of task takes what the machine's description says of its size, times
 * how much longer it took in the trace than was said: sizes that the trace has
 * not are scaled like those that it has. */
#include "tune/whatif.h"

#include "base/alloc.h"
#include "graph/task.h"
#include "policies/policies.h"
#include "sim/cost.h"
#include "sim/sim.h"
#include "sim/weights.h"

#include <stdlib.h>
#include <string.h>

static void forget(struct dsf_replan *r)
{
    dsflow_graph_free(r->graph);
    dsf_plan_free(r->plan);
    dsf_model_fini(&r->model);
    dsf_job_fini(&r->job);
    memset(r, 0, sizeof(*r));
}

/* The job of the trace with a change, and with the vocabulary that it had. */
static int make_job(const struct dsf_whatif *w, const struct dsf_change *change,
                    struct dsf_job *job, struct dsflow_err *err)
{
    const struct dsf_trace_facts *f = &w->account->trace->facts;
    char *vocab = dsf_xasprintf("model.vocab=%lld", (long long)f->vocab);
    struct dsf_job said;
    unsigned n = 0;
    int status;

    while (n < 3 && change->sets[n] != NULL)
        n++;
    status = dsf_job_parse(f->job, strlen(f->job), "job.toml", change->sets, n,
                           w->load, &said, err);
    if (status == DSFLOW_OK) {
        status = dsf_job_with(&said, DSF_FOLLOWS, (const char *const *)&vocab,
                              said.model.vocab < 0, job, err);
        dsf_job_fini(&said);
    }
    free(vocab);
    return status;
}

/* On error nothing needs to be freed. */
static int replan(struct dsf_replan *r, const struct dsf_whatif *w,
                  const struct dsf_change *change, struct dsflow_err *err)
{
    int status;

    memset(r, 0, sizeof(*r));
    status = make_job(w, change, &r->job, err);
    if (status < 0)
        return status;
    status = dsf_model_init(&r->model, &r->job, err);
    if (status == DSFLOW_OK)
        status = dsf_plan_new(&r->job, &r->model, &w->present, &r->plan, err);
    if (status == DSFLOW_OK)
        status = dsf_policies_build(r->plan, NULL, &r->graph, err);
    if (status < 0)
        forget(r);
    return status;
}

static bool is_gpu(const struct dsf_whatif *w)
{
    return w->machine.main.kind == DSF_MACHINE_GPU;
}

/* Position of a kind of the account by name; its number: it has none. */
static unsigned kind_of(const struct dsf_whatif *w, const char *name)
{
    const struct dsf_account *a = w->account;
    unsigned k = 0;

    while (k < a->nkinds &&
           (a->kinds[k].op == NULL || strcmp(a->kinds[k].op->name, name) != 0))
        k++;
    return k;
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

static void measure(struct dsf_whatif *w)
{
    const struct dsf_account *a = w->account;
    double said = w->machine.main.overhead, predicted = 0, measured = 0;
    bool simulated = a->trace->facts.simulated;
    uint32_t count = 0;

    w->factor = dsf_xcalloc((size_t)a->nkinds + 1, sizeof(*w->factor));
    w->delay = dsf_xcalloc((size_t)a->nkinds + 1, sizeof(*w->delay));
    for (unsigned k = 0; k < a->nkinds; k++) {
        const struct dsf_kind_use *use = &a->kinds[k];
        /* A simulated span has the overhead in it. */
        double beside = said * use->count;
        double took = use->seconds - (simulated ? beside : 0);

        w->factor[k] = 1;
        if (use->op == NULL)
            continue;
        count += use->count;
        /* Some of them may be the disk's. */
        if (use->op->swaps && a->hidden.io > 0)
            continue;
        if (use->predicted - beside <= 0)
            continue;
        w->factor[k] = took > 0 ? took / (use->predicted - beside) : 1;
        measured += took;
        predicted += use->predicted - beside;
    }
    w->factor_of_all = predicted > 0 ? measured / predicted : 1;
    for (unsigned k = 0; k < a->nkinds; k++)
        if (a->kinds[k].op != NULL && a->kinds[k].op->swaps && a->hidden.io > 0)
            w->factor[k] = w->factor_of_all;
    w->factor_of_disk = measure_disk(a);
    w->overhead = said;
    if (!simulated && count > 0)
        w->overhead = a->all.idle[DSF_CAUSE_RUNTIME] / count;
}

/* Transfers are between the memories of virtual devices, which the simulator
 * does not know: tasks take as much longer as they waited for them. */
static void measure_transfers(struct dsf_whatif *w)
{
    const struct dsf_account *a = w->account;
    double seconds = 0;
    uint32_t count = 0;

    for (size_t i = 0; i < a->nwaits; i++)
        if (a->waits[i].cause == DSF_CAUSE_TRANSFER && a->waits[i].what == NULL)
            seconds += a->waits[i].seconds;
    for (unsigned k = 0; k < a->nkinds; k++)
        if (a->kinds[k].op != NULL)
            count += a->kinds[k].count;
    for (unsigned k = 0; k <= a->nkinds && count > 0; k++)
        w->delay[k] = seconds / count;
}

static void describe(struct dsf_whatif *w)
{
    const struct dsf_trace_facts *f = &w->account->trace->facts;

    dsf_machine_of_model(&w->machine, &w->present);
    if (!f->simulated) {
        w->present.cores = f->cores;
        w->present.available =
            f->memory < 0 ? INT64_MAX : (int64_t)(f->memory * f->nranks);
    }
}

/* Is the plan of the job of the trace the graph of the trace? */
static int check_same(struct dsf_whatif *w, struct dsflow_err *err)
{
    const struct dsflow_graph *g = w->account->trace->graph;
    struct dsf_change none = { .link = 0 };
    int status = replan(&w->base, w, &none, err);
    bool same;

    if (status < 0)
        return status;
    same = dsflow_graph_ntasks(g) == dsflow_graph_ntasks(w->base.graph);
    for (uint32_t i = 0; same && i < dsflow_graph_ntasks(g); i++)
        same = strcmp(dsflow_graph_task(g, (dsflow_task_id){ i })->op->name,
                      dsflow_graph_task(w->base.graph, (dsflow_task_id){ i })
                          ->op->name) == 0;
    if (!same)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "this dsflow plans the job of the trace in another "
                           "way: expected the one that ran it");
    return DSFLOW_OK;
}

int dsf_whatif_init(struct dsf_whatif *w, const struct dsf_account *a,
                    dsf_load_fn load, struct dsflow_err *err)
{
    const struct dsf_trace_facts *f = &a->trace->facts;
    int status;

    memset(w, 0, sizeof(*w));
    w->account = a;
    w->load = load;
    if (f->rates[0] == '\0')
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "the trace does not say how fast its machine is");
    status = dsf_machine_model_parse(f->rates, strlen(f->rates), "machine",
                                     &w->machine, err);
    if (status < 0)
        return status;
    describe(w);
    measure(w);
    measure_transfers(w);
    status = check_same(w, err);
    if (status < 0)
        dsf_whatif_fini(w);
    return status;
}

void dsf_whatif_fini(struct dsf_whatif *w)
{
    forget(&w->base);
    dsf_machine_model_fini(&w->machine);
    free(w->factor);
    free(w->delay);
    memset(w, 0, sizeof(*w));
}

/* Did a device copy beside its kernels? */
static bool on_links(const struct dsf_whatif *w)
{
    return w->account->links && w->base.job.machine.virtuals > 0;
}

/* Seconds by task. */
static double *weigh(const struct dsf_whatif *w, const struct dsf_replan *r,
                     const struct dsf_change *change)
{
    struct dsf_machine_model machine = w->machine;
    struct dsf_cost_model model = { &machine, (unsigned)r->plan->nranks };
    uint32_t n = dsflow_graph_ntasks(r->graph);
    double *seconds = dsf_xcalloc((size_t)n + 1, sizeof(*seconds));
    double waits = 1 - change->transfers;
    const struct dsflow_op *op = NULL;
    unsigned k = 0;

    if (change->link > 0)
        machine.link.bandwidth *= change->link;
    if (change->network > 0)
        machine.network.bandwidth *= change->network;
    if (change->disk > 0) {
        machine.disk.read *= change->disk;
        machine.disk.write *= change->disk;
    }
    for (uint32_t i = 0; i < n; i++) {
        const struct dsflow_task_spec *t =
            dsflow_graph_task(r->graph, (dsflow_task_id){ i });
        double cost = dsf_cost_seconds(&model, r->graph, t);
        double kernel = cost - machine.main.overhead;

        if (t->op != op)
            k = kind_of(w, t->op->name);
        op = t->op;
        if (dsf_task_uses(r->graph, t, DSFLOW_NVME))
            seconds[i] = cost * w->factor_of_disk;
        else if (on_links(w) && (t->op->swaps || t->op->comm))
            seconds[i] =
                waits * kernel *
                (k < w->account->nkinds ? w->factor[k] : w->factor_of_all);
        else
            seconds[i] = w->overhead + w->delay[k] * waits +
                         kernel * (k < w->account->nkinds ? w->factor[k]
                                                          : w->factor_of_all);
    }
    return seconds;
}

bool dsf_whatif_is_serial(const struct dsf_whatif *w)
{
    return strcmp(w->account->trace->facts.executor, "serial") == 0;
}

/* Of ranks on virtual devices, cores do what is in main memory. */
static unsigned workers_of(const struct dsf_whatif *w,
                           const struct dsflow_plan *plan,
                           const struct dsf_change *change)
{
    if (is_gpu(w) || on_links(w))
        return (unsigned)plan->nranks;
    return dsf_whatif_is_serial(w) && !change->parallel ? 1 : plan->workers;
}

/* The rank that needs most says whether it fits. */
static void weigh_memory(const struct dsf_whatif *w, const struct dsf_replan *r,
                         struct dsf_outcome *out)
{
    int64_t host = r->job.memory.host;
    struct dsf_weights weights;

    dsf_weights_init(&weights, r->graph, (unsigned)r->plan->nranks,
                     is_gpu(w) ? 1 : r->plan->rank_workers);
    out->peak = weights.ranks[dsf_weights_neediest(&weights)].peak;
    out->tasks = weights.ntasks;
    out->over = false;
    for (unsigned i = 0; i < weights.nranks && host >= 0; i++)
        out->over = out->over ||
                    weights.ranks[i].tier_bytes[DSFLOW_HOST] > (double)host;
    dsf_weights_fini(&weights);
}

static int evaluate(struct dsf_whatif *w, const struct dsf_replan *r,
                    const struct dsf_change *change, struct dsf_outcome *out,
                    struct dsflow_err *err)
{
    double *seconds = weigh(w, r, change);
    struct dsf_sim_spec spec = {
        .nranks = (unsigned)r->plan->nranks,
        .workers = workers_of(w, r->plan, change),
        .links = is_gpu(w) || on_links(w),
        .node_ranks = dsf_machine_model_node_ranks(&w->machine,
                                                   (unsigned)r->plan->nranks),
        .duplex = w->machine.disk.duplex,
        .program = DSFLOW_STEP,
        .steps = 3,
        .seconds = seconds,
    };
    struct dsf_sim_result result;
    int status = dsf_simulate(r->graph, &spec, &result, NULL, err);

    out->seconds = result.step_seconds;
    weigh_memory(w, r, out);
    w->built += dsflow_graph_ntasks(r->graph);
    dsf_sim_result_fini(&result);
    free(seconds);
    return status;
}

int dsf_whatif_base(struct dsf_whatif *w, struct dsf_outcome *out,
                    struct dsflow_err *err)
{
    struct dsf_change none = { .link = 0 };

    return evaluate(w, &w->base, &none, out, err);
}

int dsf_whatif_try(struct dsf_whatif *w, const struct dsf_change *change,
                   struct dsf_outcome *out, struct dsflow_err *err)
{
    struct dsf_replan r;
    int status = replan(&r, w, change, err);

    if (status < 0)
        return status;
    status = evaluate(w, &r, change, out, err);
    forget(&r);
    return status;
}
