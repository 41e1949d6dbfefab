/* advise.c - of all that could be changed, what makes the step shorter. */
#include "tune/advise.h"

#include "base/alloc.h"
#include "explain/times.h"
#include "tune/evaluate.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST_TASKS = 400000, /* planned and simulated in all: about a second */
    MOST_ADVICE = 4
};
static const double least_gain = 0.03;

/* The job of a trace, planned again, and the best change of each row of the
 * table. */
struct search {
    const struct dsf_account *account; /* borrowed */
    struct dsf_times times;
    struct dsf_machine machine;
    struct dsf_model model;
    struct dsf_built planned; /* nothing changed */
    struct dsf_evaluator e;   /* of it */
    struct dsf_outcome base;  /* likewise */

    struct dsf_tunables table;
    struct dsf_changes changes;
    const struct dsf_change **best; /* by row; NULL: none */
    struct dsf_outcome *outcome;    /* likewise */
};

static bool fits(const struct search *h, const struct dsf_outcome *o)
{
    double memory = h->account->trace->facts.memory;
    int64_t host = h->planned.job->memory.host;
    bool over =
        host >= 0 && o->host > (double)host && !(h->base.host > (double)host);

    return !over &&
           (memory < 0 || o->peak <= memory || o->peak <= h->base.peak);
}

/* Of two changes of a key that gain about the same, the first is smaller. */
static void keep(struct search *h, const struct dsf_change *x,
                 const struct dsf_outcome *o)
{
    size_t i = (size_t)(x->row - h->table.v);
    bool now = fits(h, o), was = h->best[i] != NULL && fits(h, &h->outcome[i]);

    if (h->best[i] != NULL &&
        (was > now ||
         (was == now && o->seconds > 0.98 * h->outcome[i].seconds)))
        return;
    h->best[i] = x;
    h->outcome[i] = *o;
}

static void try_all(struct search *h, struct dsf_advices *advices)
{
    for (unsigned i = 0; i < h->changes.n; i++) {
        struct dsf_choice choice = { .v = { h->changes.v[i] }, .n = 1 };
        struct dsf_outcome o;

        if (h->e.tasks + h->base.tasks > MOST_TASKS) {
            advices->left = h->changes.n - i;
            return;
        }
        /* What makes no plan is no advice. */
        dsf_evaluate(&h->e, &choice, true, &o);
        if (o.status < 0)
            continue;
        advices->tried++;
        if (o.seconds <= (1 - least_gain) * h->base.seconds)
            keep(h, h->changes.v[i], &o);
    }
}

static void list_all(struct search *h)
{
    dsf_tunables_init(&h->table);
    h->best = dsf_xcalloc((size_t)h->table.n + 1, sizeof(*h->best));
    h->outcome = dsf_xcalloc((size_t)h->table.n + 1, sizeof(*h->outcome));
    h->changes = (struct dsf_changes){ .job = h->planned.job,
                                       .plan = h->planned.plan,
                                       .account = h->account,
                                       .machine = &h->times.machine };
    for (unsigned i = 0; i < h->table.n; i++) {
        h->changes.row = &h->table.v[i];
        if (h->changes.row->better != NULL)
            h->changes.row->better(&h->changes);
    }
}

/* Gain is what counts. Of changes that gain about the same, the first is one
 * that changes no bit of the result, costs little memory, and is one key, of
 * the job. */
static double merit(const struct dsf_advice *x)
{
    return x->share + 0.1 * x->rounds + 0.05 * x->machine + 0.05 * x->more +
           0.03 * (x->also != NULL);
}

static int by_merit(const void *x, const void *y)
{
    const struct dsf_advice *a = x, *b = y;
    double d = merit(a) - merit(b);

    if (a->fits != b->fits)
        return a->fits ? -1 : 1;
    return d < 0 ? -1 : d > 0;
}

static void collect(struct dsf_advices *advices, const struct search *h)
{
    const struct dsf_account *a = h->account;

    advices->v = dsf_xcalloc((size_t)h->table.n + 1, sizeof(*advices->v));
    for (unsigned i = 0; i < h->table.n; i++) {
        const struct dsf_change *x = h->best[i];
        const struct dsf_outcome *o = &h->outcome[i];
        double share = o->seconds / h->base.seconds;

        if (x == NULL)
            continue;
        advices->v[advices->n++] = (struct dsf_advice){
            .cause =
                dsf_reason_text(a, x->reason, x->row->key, h->times.overhead),
            .key = dsf_xstrdup(x->row->key),
            .from = dsf_xstrdup(x->from),
            .to = dsf_xstrdup(x->to),
            .also = x->nsets > 1 ? dsf_xstrdup(x->sets[1]) : NULL,
            .seconds = share * a->steps.seconds,
            .share = share,
            .bytes = o->peak - h->base.peak,
            .more = o->peak > h->base.peak ? 1 - h->base.peak / o->peak : 0,
            .fits = fits(h, o),
            .rounds = x->row->regroups,
            .machine = x->row->of == DSF_OF_MACHINE,
        };
    }
    if (advices->n > 1)
        qsort(advices->v, advices->n, sizeof(*advices->v), by_merit);
}

/* The best ones; those of one cause follow each other. */
static void trim(struct dsf_advices *advices)
{
    while (advices->n > MOST_ADVICE)
        dsf_advices_drop(advices);
    for (unsigned i = 0; i < advices->n; i++)
        for (unsigned k = i + 2; k < advices->n; k++) {
            struct dsf_advice x = advices->v[k];

            if (strcmp(x.cause, advices->v[i].cause) != 0 ||
                strcmp(x.cause, advices->v[i + 1].cause) == 0)
                continue;
            memmove(&advices->v[i + 2], &advices->v[i + 1],
                    (k - i - 1) * sizeof(x));
            advices->v[i + 1] = x;
            break;
        }
}

/* The job of the trace, with the vocabulary that it had. */
static int make_job(const struct dsf_trace_facts *f, dsf_load_fn load,
                    struct dsf_job *job, struct dsflow_err *err)
{
    char *vocab = dsf_xasprintf("model.vocab=%lld", (long long)f->vocab);
    struct dsf_job said;
    int status = dsf_job_parse(f->job, strlen(f->job), "job.toml", NULL, 0,
                               load, &said, err);

    if (status == DSFLOW_OK) {
        status = dsf_job_with(&said, DSF_FOLLOWS, (const char *const *)&vocab,
                              said.model.vocab < 0, job, err);
        dsf_job_fini(&said);
    }
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
static void describe(struct search *h)
{
    const struct dsf_trace_facts *f = &h->account->trace->facts;

    dsf_machine_of_model(&h->times.machine, &h->machine);
    if (!f->simulated) {
        h->machine.cores = f->cores;
        h->machine.available =
            f->memory < 0 ? INT64_MAX : (int64_t)(f->memory * f->nranks);
    }
}

static int plan(struct search *h, dsf_load_fn load, struct dsflow_err *err)
{
    const struct dsf_trace *trace = h->account->trace;
    struct dsf_job *job = dsf_xcalloc(1, sizeof(*job));
    struct dsf_built *b = &h->planned;
    int status = make_job(&trace->facts, load, job, err);

    if (status < 0) {
        free(job);
        return status;
    }
    b->job = job;
    h->times.links = h->account->links && job->machine.virtuals > 0;
    describe(h);
    status = dsf_model_init(&h->model, job, err);
    if (status == DSFLOW_OK)
        status = dsf_plan_new(job, &h->model, &h->machine, &b->plan, err);
    if (status == DSFLOW_OK)
        status = dsf_policies_build(b->plan, NULL, &b->graph, err);
    return status == DSFLOW_OK ? check_same(trace->graph, b->graph, err)
                               : status;
}

static int seconds_of(void *user, const struct dsflow_plan *plan,
                      struct dsflow_graph *graph,
                      const struct dsf_effect *effect, double *seconds,
                      struct dsflow_err *err)
{
    return dsf_times_seconds(user, plan, graph, effect, seconds, err);
}

/* What the step takes with nothing changed. */
static int find_base(struct search *h, dsf_load_fn load, struct dsflow_err *err)
{
    static const struct dsf_choice none;
    int status = dsf_times_init(&h->times, h->account, err);

    if (status == DSFLOW_OK)
        status = plan(h, load, err);
    if (status < 0)
        return status;
    h->e = (struct dsf_evaluator){ .job = h->planned.job,
                                   .model = &h->model,
                                   .machine = &h->machine,
                                   .m = &h->times.machine,
                                   .plan = h->planned.plan,
                                   .graph = h->planned.graph,
                                   .seconds = seconds_of,
                                   .user = &h->times,
                                   .said = DSF_FOLLOWS };
    dsf_evaluate(&h->e, &none, true, &h->base);
    if (h->base.status < 0)
        *err = h->base.err;
    return h->base.status;
}

static void end(struct search *h)
{
    dsf_changes_fini(&h->changes);
    dsf_tunables_fini(&h->table);
    free(h->best);
    free(h->outcome);
    dsf_evaluator_forget(&h->e);
    dsf_built_fini(&h->planned);
    dsf_model_fini(&h->model);
    dsf_times_fini(&h->times);
}

void dsf_advise(struct dsf_advices *advices, const struct dsf_account *a,
                dsf_load_fn load)
{
    struct search h = { .account = a };
    struct dsflow_err err;

    memset(advices, 0, sizeof(*advices));
    advices->limit = dsf_limit_text(a);
    if (find_base(&h, load, &err) < 0) {
        advices->missing = dsf_xstrdup(err.msg);
    } else {
        advices->reproduced = h.base.seconds / a->steps.seconds;
        list_all(&h);
        try_all(&h, advices);
        collect(advices, &h);
        trim(advices);
    }
    end(&h);
}
