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

/* The best change of each row of the table. */
struct search {
    struct dsf_times times;  /* of the trace, … */
    struct dsf_evaluator e;  /* … of whose job something is changed, … */
    struct dsf_outcome base; /* … and nothing */
    struct dsf_tunables table;
    struct dsf_changes changes;
    const struct dsf_change **best; /* by row; NULL: none */
};

static struct dsf_outcome outcome_of(struct search *h,
                                     const struct dsf_change *x)
{
    struct dsf_choice choice = { .v = { x }, .n = 1 };
    struct dsf_outcome o;

    dsf_evaluate(&h->e, &choice, true, &o);
    return o;
}

static bool fits(const struct search *h, const struct dsf_outcome *o)
{
    double memory = h->times.account->trace->facts.memory;
    int64_t host = h->times.job->memory.host;
    bool over =
        host >= 0 && o->host > (double)host && !(h->base.host > (double)host);

    return !over &&
           (memory < 0 || o->peak <= memory || o->peak <= h->base.peak);
}

/* Of two changes of a key that gain about the same, the first is smaller. */
static bool is_better(struct search *h, const struct dsf_outcome *o,
                      const struct dsf_change *than)
{
    struct dsf_outcome was;

    if (than == NULL)
        return true;
    was = outcome_of(h, than);
    if (fits(h, o) != fits(h, &was))
        return fits(h, o);
    return o->seconds <= 0.98 * was.seconds;
}

static void try_all(struct search *h, struct dsf_advices *advices)
{
    for (unsigned i = 0; i < h->changes.n; i++) {
        const struct dsf_change *x = h->changes.v[i];
        const struct dsf_change **best = &h->best[x->row - h->table.v];
        struct dsf_outcome o;

        if (h->e.tasks + h->base.tasks > MOST_TASKS) {
            advices->left = h->changes.n - i;
            return;
        }
        o = outcome_of(h, x);
        if (o.status < 0) /* what makes no plan is no advice */
            continue;
        advices->tried++;
        if (o.seconds <= (1 - least_gain) * h->base.seconds &&
            is_better(h, &o, *best))
            *best = x;
    }
}

static void list_all(struct search *h)
{
    dsf_tunables_init(&h->table);
    h->best = dsf_xcalloc((size_t)h->table.n + 1, sizeof(*h->best));
    h->changes = (struct dsf_changes){ .job = h->times.job,
                                       .plan = h->times.plan,
                                       .account = h->times.account,
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
    return x->share + 0.1 * (x->rounds || x->narrows) + 0.05 * x->machine +
           0.05 * x->more + 0.03 * (x->also != NULL);
}

static int by_merit(const void *x, const void *y)
{
    const struct dsf_advice *a = x, *b = y;
    double d = merit(a) - merit(b);

    if (a->fits != b->fits)
        return a->fits ? -1 : 1;
    return d < 0 ? -1 : d > 0;
}

static void collect(struct dsf_advices *advices, struct search *h)
{
    const struct dsf_account *a = h->times.account;

    advices->v = dsf_xcalloc((size_t)h->table.n + 1, sizeof(*advices->v));
    for (unsigned i = 0; i < h->table.n; i++) {
        const struct dsf_change *x = h->best[i];
        struct dsf_outcome o;
        double share;

        if (x == NULL)
            continue;
        o = outcome_of(h, x);
        share = o.seconds / h->base.seconds;
        advices->v[advices->n++] = (struct dsf_advice){
            .cause =
                dsf_reason_text(a, x->reason, x->row->key, h->times.overhead),
            .key = dsf_xstrdup(x->row->key),
            .from = dsf_xstrdup(x->from),
            .to = dsf_xstrdup(x->to),
            .also = x->nsets > 1 ? dsf_xstrdup(x->sets[1]) : NULL,
            .seconds = share * a->steps.seconds,
            .share = share,
            .bytes = o.peak - h->base.peak,
            .more = o.peak > h->base.peak ? 1 - h->base.peak / o.peak : 0,
            .fits = fits(h, &o),
            .rounds = x->row->regroups,
            .narrows = x->row->narrows,
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

static int seconds_of(void *user, const struct dsflow_plan *plan,
                      struct dsflow_graph *graph,
                      const struct dsf_effect *effect, double *seconds,
                      struct dsflow_err *err)
{
    return dsf_times_seconds(user, plan, graph, effect, seconds, err);
}

void dsf_advise(struct dsf_advices *advices, const struct dsf_account *a,
                dsf_load_fn load)
{
    static const struct dsf_choice none;
    struct search h = { .best = NULL };
    struct dsflow_err err;

    memset(advices, 0, sizeof(*advices));
    advices->limit = dsf_limit_text(a);
    if (dsf_times_init(&h.times, a, load, &err) < 0) {
        advices->missing = dsf_xstrdup(err.msg);
        return;
    }
    h.e = (struct dsf_evaluator){ .job = h.times.job,
                                  .model = &h.times.model,
                                  .machine = &h.times.present,
                                  .m = &h.times.machine,
                                  .plan = h.times.plan,
                                  .graph = h.times.graph,
                                  .seconds = seconds_of,
                                  .user = &h.times,
                                  .said = DSF_FOLLOWS };
    dsf_evaluate(&h.e, &none, true, &h.base);
    if (h.base.status < 0) {
        advices->missing = dsf_xstrdup(h.base.err.msg);
    } else {
        advices->reproduced = h.base.seconds / a->steps.seconds;
        list_all(&h);
        try_all(&h, advices);
        collect(advices, &h);
        trim(advices);
    }
    dsf_changes_fini(&h.changes);
    dsf_tunables_fini(&h.table);
    free(h.best);
    dsf_evaluator_forget(&h.e);
    dsf_times_fini(&h.times);
}
