/* advise.c - of all that could be changed, what makes the step shorter. */
#include "tune/advise.h"

#include "base/alloc.h"
#include "base/units.h"
#include "tune/candidates.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_TASKS = 400000, /* planned and simulated in all: about a second */
    MOST_ADVICE = 4
};
static const double least_gain = 0.03;

/* Of the keys so far: the best change of each. */
struct best {
    const struct dsf_candidate *v[64];
    struct dsf_outcome outcome[64];
    bool fits[64];
    unsigned n;
};

static bool fits(const struct dsf_whatif *w, const struct dsf_outcome *base,
                 const struct dsf_outcome *o)
{
    double memory = w->account->trace->facts.memory;

    return !(o->over && !base->over) &&
           (memory < 0 || o->peak <= memory || o->peak <= base->peak);
}

/* Of two changes of a key that gain about the same, the first is smaller. */
static void keep(struct best *best, const struct dsf_candidate *c,
                 const struct dsf_outcome *o, bool fits)
{
    unsigned i = 0;

    while (i < best->n && strcmp(best->v[i]->key, c->key) != 0)
        i++;
    if (i == sizeof(best->v) / sizeof(*best->v))
        return;
    if (i < best->n && (best->fits[i] > fits ||
                        (best->fits[i] == fits &&
                         o->seconds > 0.98 * best->outcome[i].seconds)))
        return;
    best->v[i] = c;
    best->outcome[i] = *o;
    best->fits[i] = fits;
    if (i == best->n)
        best->n++;
}

static void try_all(struct dsf_whatif *w, const struct dsf_candidates *c,
                    const struct dsf_outcome *base, struct best *best,
                    struct dsf_advices *advices)
{
    for (size_t i = 0; i < c->n; i++) {
        const struct dsf_candidate *x = &c->v[i];
        struct dsf_change change = {
            .sets = { x->sets[0], x->sets[1], x->sets[2] },
            .link = x->link,
            .network = x->network,
            .disk = x->disk,
            .transfers = x->transfers,
            .parallel = x->parallel,
        };
        struct dsf_outcome o;

        if (w->built + base->tasks > MOST_TASKS) {
            advices->left = (unsigned)(c->n - i);
            return;
        }
        /* What makes no plan is no advice. */
        if (dsf_whatif_try(w, &change, &o, NULL) < 0)
            continue;
        advices->tried++;
        if (o.seconds <= (1 - least_gain) * base->seconds)
            keep(best, x, &o, fits(w, base, &o));
    }
}

/* " of stage 1": whose tasks they are, where that says anything. */
static struct dsf_text whose(const struct dsf_account *a, int rank)
{
    struct dsf_text t = { "" };

    if (dsf_trace_axis(&a->trace->facts, "pipeline") > 1)
        snprintf(t.s, sizeof(t.s), " of stage %d", dsf_account_stage(a, rank));
    else if (a->nranks > 1)
        snprintf(t.s, sizeof(t.s), " of rank %d", rank);
    return t;
}

static double share_of(const struct dsf_account *a, double seconds)
{
    double all = a->all.workers * a->seconds;

    return all > 0 ? seconds / all : 0;
}

static char *say_slot(const struct dsf_account *a,
                      const struct dsf_candidate *c)
{
    for (size_t i = 0; i < a->nrings; i++) {
        const struct dsf_ring_delay *d = &a->rings[i];

        if (strcmp(d->ring, c->key) == 0)
            return dsf_xasprintf("%u tasks%s wait for a slot of %s, %s each",
                                 d->tasks / a->nsteps, whose(a, d->rank).s,
                                 c->key,
                                 dsf_time_text(d->seconds / d->tasks).s);
    }
    return dsf_xasprintf("workers wait %.0f %% of the step for data",
                         100 *
                             share_of(a, a->all.idle[DSF_CAUSE_DATA] +
                                             a->all.idle[DSF_CAUSE_TRANSFER]));
}

static double busy_of(const struct dsf_account *a, unsigned r)
{
    const struct dsf_rank_use *u = &a->ranks[r];
    double all = u->workers * a->seconds;

    return all > 0 ? (u->busy + u->moving) / all : 0;
}

static char *say_stages(const struct dsf_account *a)
{
    unsigned most = 0, least = 0;

    for (unsigned r = 1; r < a->nranks; r++) {
        if (busy_of(a, r) > busy_of(a, most))
            most = r;
        if (busy_of(a, r) < busy_of(a, least))
            least = r;
    }
    if (busy_of(a, most) - busy_of(a, least) > 0.1 &&
        dsf_account_stage(a, (int)most) != dsf_account_stage(a, (int)least))
        return dsf_xasprintf(
            "stages are unequal: stage %d is busy %.0f %% of the step, stage "
            "%d %.0f %%",
            dsf_account_stage(a, (int)most), 100 * busy_of(a, most),
            dsf_account_stage(a, (int)least), 100 * busy_of(a, least));
    return dsf_xasprintf("stages wait %.0f %% of the step for each other",
                         100 * a->bubble);
}

static char *say_small(const struct dsf_account *a, const struct dsf_whatif *w)
{
    double seconds = a->all.busy + a->all.moving;
    uint32_t count = 0;

    for (unsigned k = 0; k < a->nkinds; k++)
        if (a->kinds[k].op != NULL)
            count += a->kinds[k].count;
    return dsf_xasprintf("tasks are small: %u a step, %s each, and the "
                         "runtime adds %s to each",
                         count / a->nsteps,
                         dsf_time_text(count > 0 ? seconds / count : 0).s,
                         dsf_time_text(w->overhead).s);
}

static char *say_busy(const struct dsf_account *a)
{
    unsigned n = a->trace->timeline.workers;

    return dsf_xasprintf("%u worker%s %s busy %.0f %% of the step, and the "
                         "machine has %u cores",
                         n, n == 1 ? "" : "s", n == 1 ? "is" : "are",
                         100 * share_of(a, a->all.busy + a->all.moving),
                         a->trace->facts.cores);
}

static char *say_moving(const struct dsf_account *a)
{
    return dsf_xasprintf(
        "moving data takes %s of a step on each rank, %.0f %% of it while it "
        "computes",
        dsf_time_text(a->hidden.comm / a->nsteps / a->nranks).s,
        a->hidden.comm > 0 ? 100 * a->hidden.comm_hidden / a->hidden.comm : 0);
}

static double disk_share(const struct dsf_account *a)
{
    return a->seconds > 0 ? a->hidden.io_most / a->seconds : 0;
}

static char *say_disk(const struct dsf_account *a)
{
    return dsf_xasprintf(
        "the disk works %.0f %% of the step, %.0f %% of that "
        "while workers compute",
        100 * disk_share(a),
        a->hidden.io > 0 ? 100 * a->hidden.io_hidden / a->hidden.io : 0);
}

static char *say_again(const struct dsf_account *a)
{
    const struct dsflow_graph *g = a->trace->graph;
    double again = 0;

    for (uint32_t i = 0; i < a->steps.ntasks; i++) {
        const struct dsflow_task_spec *t =
            dsflow_graph_task(g, (dsflow_task_id){ i });
        const struct dsf_span *s =
            dsf_executed_span(&a->steps, a->trace, i, a->step);

        if (s != NULL && t->pass == DSFLOW_BACKWARD &&
            (t->op->direction == DSFLOW_DIR_FORWARD ||
             t->op->direction == DSFLOW_DIR_HIDDEN))
            again += s->end - s->start;
    }
    return dsf_xasprintf("%.0f %% of the workers' time goes into "
                         "recomputing activations",
                         100 * again / (a->all.workers * a->steps.seconds));
}

static char *say_waiting(const struct dsf_account *a)
{
    double sum = 0;

    for (int c = 0; c < DSF_NCAUSES; c++)
        sum += a->all.idle[c];
    return dsf_xasprintf("workers are idle %.0f %% of the step, most of it "
                         "waiting for what other tasks compute",
                         100 * share_of(a, sum));
}

static char *say_cause(const struct dsf_whatif *w,
                       const struct dsf_candidate *c)
{
    const struct dsf_account *a = w->account;

    switch (c->reason) {
    case DSF_REASON_SLOT:
        return say_slot(a, c);
    case DSF_REASON_STAGES:
        return say_stages(a);
    case DSF_REASON_SMALL:
        return say_small(a, w);
    case DSF_REASON_BUSY:
        return say_busy(a);
    case DSF_REASON_MOVING:
        return say_moving(a);
    case DSF_REASON_TRANSFER:
        return dsf_xasprintf("workers wait %.0f %% of the step for data on its "
                             "way between memories",
                             100 *
                                 share_of(a, a->all.idle[DSF_CAUSE_TRANSFER]));
    case DSF_REASON_DISK:
        return say_disk(a);
    case DSF_REASON_AGAIN:
        return say_again(a);
    case DSF_REASON_LARGE:
    case DSF_REASON_ORDER:
        break;
    }
    return say_waiting(a);
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

static void collect(struct dsf_advices *advices, const struct dsf_whatif *w,
                    const struct best *best, const struct dsf_outcome *base)
{
    advices->v = dsf_xcalloc((size_t)best->n + 1, sizeof(*advices->v));
    for (unsigned i = 0; i < best->n; i++) {
        const struct dsf_candidate *c = best->v[i];
        const struct dsf_outcome *o = &best->outcome[i];
        double share = o->seconds / base->seconds;

        advices->v[advices->n++] = (struct dsf_advice){
            .cause = say_cause(w, c),
            .key = dsf_xstrdup(c->key),
            .from = dsf_xstrdup(c->from),
            .to = dsf_xstrdup(c->to),
            .also = c->sets[1] != NULL ? dsf_xstrdup(c->sets[1]) : NULL,
            .seconds = share * w->account->steps.seconds,
            .share = share,
            .bytes = o->peak - base->peak,
            .more = o->peak > base->peak ? 1 - base->peak / o->peak : 0,
            .fits = best->fits[i],
            .rounds = c->rounds,
            .machine = c->machine,
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

static const char *const causes[DSF_NCAUSES] = {
    [DSF_CAUSE_DATA] = "what other tasks compute",
    [DSF_CAUSE_RANK] = "what other ranks compute",
    [DSF_CAUSE_SLOT] = "buffers that are in use",
    [DSF_CAUSE_TRANSFER] = "data on its way",
    [DSF_CAUSE_RUNTIME] = "the runtime, with tasks that are ready",
    [DSF_CAUSE_END] = "the end of the trace",
};

/* What the step is bound by, in a sentence. */
static char *say_limit(const struct dsf_account *a)
{
    double busy = share_of(a, a->all.busy + a->all.moving);
    double path = a->laps.critical / a->laps.seconds; /* NAN: not known */
    unsigned n = a->trace->timeline.workers;
    int most = 0;

    for (int c = 1; c < DSF_NCAUSES; c++)
        if (a->all.idle[c] > a->all.idle[most])
            most = c;
    if (busy >= 0.9)
        return dsf_xasprintf("%u worker%s %s busy %.0f %% of the step: more "
                             "of them or less arithmetic would help",
                             n, n == 1 ? "" : "s", n == 1 ? "is" : "are",
                             100 * busy);
    if (disk_share(a) >= 0.9)
        return dsf_xasprintf(
            "the disk works %.0f %% of the step: a faster one, "
            "less on it (offload.share) or more tokens a "
            "step, with the same traffic, would help",
            100 * disk_share(a));
    if (path >= 0.9)
        return dsf_xasprintf("the critical path takes %.0f %% of the step: "
                             "faster workers or smaller tasks (batch.tile) "
                             "would help",
                             100 * path);
    return dsf_xasprintf("workers are busy %.0f %% of the step; they wait most "
                         "for %s, %.0f %%",
                         100 * busy, causes[most],
                         100 * share_of(a, a->all.idle[most]));
}

void dsf_advise(struct dsf_advices *advices, const struct dsf_account *a,
                dsf_load_fn load)
{
    struct dsf_candidates candidates;
    struct dsf_outcome base;
    struct dsf_whatif w;
    struct dsflow_err err;
    struct best best = { .n = 0 };

    memset(advices, 0, sizeof(*advices));
    advices->limit = say_limit(a);
    if (dsf_whatif_init(&w, a, load, &err) < 0) {
        advices->missing = dsf_xstrdup(err.msg);
        return;
    }
    if (dsf_whatif_base(&w, &base, &err) < 0) {
        advices->missing = dsf_xstrdup(err.msg);
    } else {
        advices->reproduced = base.seconds / a->steps.seconds;
        dsf_candidates_init(&candidates, &w);
        try_all(&w, &candidates, &base, &best, advices);
        collect(advices, &w, &best, &base);
        dsf_candidates_fini(&candidates);
    }
    trim(advices);
    dsf_whatif_fini(&w);
}
