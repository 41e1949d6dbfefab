/* account.c - what the steps of a trace did: ranks, kinds, bound. */
#include "explain/account.h"

#include "base/alloc.h"
#include "explain/account_private.h"
#include "explain/replay.h"
#include "sim/sim.h"
#include "tasks/tasks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *dsf_cause_str(enum dsf_cause cause)
{
    static const char *const names[DSF_NCAUSES] = { "data",    "rank",
                                                    "slot",    "transfer",
                                                    "runtime", "end" };

    return names[cause];
}

double dsf_account_share(const struct dsf_account *a, double seconds)
{
    double all = a->all.workers * a->seconds;

    return all > 0 ? seconds / all : 0;
}

int dsf_account_stage(const struct dsf_account *a, int rank)
{
    return rank < 0 ? 0
                    : (int)dsf_trace_coord(&a->trace->facts, (unsigned)rank,
                                           "pipeline");
}

int dsf_rank_of(const struct dsf_account *a, const struct dsf_span *span)
{
    int rank =
        span->kind == DSF_SPAN_TASK ? dsf_task_of(a, span)->rank : span->rank;

    if (rank < 0)
        rank = a->trace->timeline.lanes[span->lane].rank;
    return rank >= 0 && (unsigned)rank < a->nranks ? rank : 0;
}

struct dsf_blocker dsf_blocker_of(const struct dsf_account *a,
                                  const struct dsf_span *span)
{
    struct dsf_blocker last = { NULL, NULL };
    uint32_t i = a->edges.first[span->what];

    for (; i < a->edges.first[span->what + 1]; i++) {
        const struct dsf_edge *e = &a->edges.v[i];
        const struct dsf_span *s = dsf_executed_span(
            &a->steps, a->trace, e->task, (int64_t)span->step - e->before);

        if (s == NULL)
            continue;
        /* Of two reasons to wait for one task, what it computes is the first:
         * more slots would not help. */
        if (last.span == NULL || s->end > last.span->end ||
            (s->end == last.span->end && last.edge->slot && !e->slot))
            last = (struct dsf_blocker){ s, e };
    }
    return last;
}

/* Kinds are few, and come in runs. */
static struct dsf_kind_use *kind_of(struct dsf_account *a,
                                    const struct dsflow_op *op)
{
    for (unsigned k = 0; k < a->nkinds; k++)
        if (a->kinds[k].op == op)
            return &a->kinds[k];
    dsf_grow(&a->kinds, &a->cap_kinds, (size_t)a->nkinds + 1,
             sizeof(*a->kinds));
    a->kinds[a->nkinds] = (struct dsf_kind_use){ .op = op };
    return &a->kinds[a->nkinds++];
}

/* Is it of the steps that count? Of a run, transfers do not say. */
static bool counts(const struct dsf_account *a, const struct dsf_span *span)
{
    return (span->kind == DSF_SPAN_TRANSFER ||
            dsf_task_of(a, span)->program == DSFLOW_STEP) &&
           span->step >= a->steps.from && span->step < a->steps.to;
}

/* Seconds of a span between the start and the end of the steps. */
static double within(const struct dsf_account *a, const struct dsf_span *span)
{
    double start = fmax(span->start, a->steps.start);
    double end = fmin(span->end, a->steps.end);

    return end > start ? end - start : 0;
}

static void add_to_kind(struct dsf_account *a, const struct dsf_span *span)
{
    bool task = span->kind == DSF_SPAN_TASK;
    struct dsf_kind_use *k = kind_of(a, task ? dsf_task_of(a, span)->op : NULL);
    double predicted = task ? a->trace->tasks[span->what].predicted : -1;

    k->all++;
    k->all_seconds += span->end - span->start;
    if (task && !counts(a, span))
        return;
    if (!task) {
        if (within(a, span) > 0) {
            k->count++;
            k->seconds += within(a, span);
            a->unsent[span->between ? DSF_WIRES_BETWEEN : DSF_WIRES_INSIDE] +=
                span->out ? 0 : (double)span->unsent;
        }
        k->predicted = -1;
        return;
    }
    k->count++;
    k->seconds += span->end - span->start;
    dsf_traffic_add(&k->traffic, &a->trace->tasks[span->what].moves);
    if (a->trace->timeline.lanes[span->lane].kind == DSF_LANE_WORKER)
        k->on_workers += span->end - span->start;
    if (predicted < 0 || k->predicted < 0)
        k->predicted = -1;
    else
        k->predicted += predicted;
}

static void add_up(struct dsf_account *a)
{
    const struct dsf_timeline *t = &a->trace->timeline;

    a->busy = dsf_xcalloc((size_t)t->nlanes + 1, sizeof(*a->busy));
    for (size_t i = 0; i < t->n; i++) {
        const struct dsf_span *span = &t->v[i];
        struct dsf_rank_use *r = &a->ranks[dsf_rank_of(a, span)];
        enum dsf_lane_kind lane = t->lanes[span->lane].kind;
        bool is_task = span->kind == DSF_SPAN_TASK;
        double seconds = within(a, span);

        add_to_kind(a, span);
        dsf_shares_add(&r->did, lane,
                       dsf_share_of(is_task ? dsf_task_of(a, span) : NULL),
                       seconds);
        a->busy[span->lane] += seconds;
        if (lane != DSF_LANE_WORKER)
            a->links = a->links || (is_task && lane != DSF_LANE_DISK);
    }
}

static void find_link(struct dsf_account *a)
{
    const struct dsf_timeline *t = &a->trace->timeline;

    for (unsigned l = 0; l < t->nlanes; l++)
        if (a->busy[l] > a->link_seconds) {
            a->link_seconds = a->busy[l];
            a->link = t->lanes[l].kind == DSF_LANE_LINK ? &t->lanes[l] : NULL;
        }
}

/* Workers that several ranks share are divided by the use they make of them;
 * idle, equally. */
static void share_workers(struct dsf_account *a)
{
    const struct dsf_timeline *t = &a->trace->timeline;

    for (unsigned l = 0; l < t->workers; l++) {
        int rank = t->lanes[l].rank;

        if (rank >= 0 && (unsigned)rank < a->nranks)
            a->ranks[rank].workers += 1;
        else
            for (unsigned r = 0; r < a->nranks; r++)
                a->ranks[r].workers += 1.0 / a->nranks;
    }
}

static void sum_ranks(struct dsf_account *a)
{
    for (unsigned r = 0; r < a->nranks; r++) {
        const struct dsf_rank_use *u = &a->ranks[r];

        a->all.workers += u->workers;
        dsf_shares_join(&a->all.did, &u->did);
        for (int c = 0; c < DSF_NCAUSES; c++)
            a->all.idle[c] += u->idle[c];
    }
}

static int by_seconds(const void *x, const void *y)
{
    const struct dsf_kind_use *a = x, *b = y;

    if (a->seconds != b->seconds)
        return a->seconds > b->seconds ? -1 : 1;
    return strcmp(a->op != NULL ? a->op->name : "",
                  b->op != NULL ? b->op->name : "");
}

/* What would take as long as it was measured, in the order of the simulator. */
static int simulate(struct dsf_account *a, struct dsflow_err *err)
{
    struct dsflow_graph *g = a->trace->graph;
    double *seconds =
        dsf_xcalloc((size_t)dsflow_graph_ntasks(g) + 1, sizeof(*seconds));
    struct dsf_sim_spec spec = {
        .nranks = a->nranks,
        .workers = a->trace->timeline.workers,
        /* What it took on a disk in a run has in it what was done beside. */
        .duplex = a->trace->facts.duplex || !a->trace->facts.simulated,
        .program = DSFLOW_STEP,
        .steps = 3,
        .seconds = seconds,
    };
    struct dsf_sim_result result;
    int status;

    dsf_replay_on(a->trace, a->links, &spec);
    for (uint32_t i = 0; i < a->steps.ntasks; i++)
        for (uint32_t n = a->steps.from; n < a->steps.to; n++) {
            const struct dsf_span *s =
                dsf_executed_span(&a->steps, a->trace, i, n);

            if (s != NULL)
                seconds[i] += (s->end - s->start) / a->nsteps;
        }
    status = dsf_simulate(g, &spec, &result, NULL, err);
    if (status == DSFLOW_OK)
        a->simulated = result.step_seconds;
    dsf_sim_result_fini(&result);
    free(seconds);
    return status;
}

static void find_hidden(struct dsf_account *a)
{
    const struct dsf_timeline *t = &a->trace->timeline;
    struct dsf_hiding hiding;

    dsf_hiding_init(&hiding, t, a->nranks, a->steps.start, a->steps.end);
    for (size_t i = 0; i < t->n; i++)
        if (!dsf_moves(a, &t->v[i]))
            dsf_hiding_work(&hiding, dsf_rank_of(a, &t->v[i]), &t->v[i]);
    for (size_t i = 0; i < t->n; i++) {
        const struct dsf_span *s = &t->v[i];
        bool task = s->kind == DSF_SPAN_TASK;
        int rank = task || s->rank >= 0 ? dsf_rank_of(a, s) : DSFLOW_ANYWHERE;

        if (!dsf_moves(a, s))
            continue;
        if (task || a->trace->facts.simulated)
            dsf_hiding_move(&hiding, rank, s, counts(a, s));
        else
            dsf_hiding_part(&hiding, rank, s);
    }
    a->hidden = dsf_hiding_end(&hiding);
}

/* In the long run no step is shorter than its bound; the middle one of three
 * that are simulated may be, and a plan says the bound then (dsf_sim_measure).
 */
static void settle(struct dsf_account *a)
{
    const struct dsf_laps *laps = &a->trace->laps;
    double bound = 0;

    for (unsigned k = a->steps.from; k < a->steps.to && k < laps->n; k++)
        if (laps->v[k].ran && !isnan(laps->v[k].bound))
            bound += laps->v[k].bound;
    if (!a->trace->facts.simulated || !(bound > a->laps.seconds))
        return;
    a->laps.seconds = a->laps.bound = bound;
    a->laps.efficiency = 1;
    a->steps.seconds = fmax(a->steps.seconds, bound / a->laps.n);
}

int dsf_account_init(struct dsf_account *a, const struct dsf_trace *trace,
                     struct dsflow_err *err)
{
    int status;

    memset(a, 0, sizeof(*a));
    a->trace = trace;
    a->nranks = trace->facts.nranks > 0 ? trace->facts.nranks : 1;
    if (trace->timeline.workers == 0)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "the trace has no worker: expected one or more");
    status = dsf_executed_init(&a->steps, trace, err);
    if (status < 0)
        return status;
    a->nsteps = a->steps.to - a->steps.from;
    a->seconds = a->steps.end - a->steps.start;
    a->ranks = dsf_xcalloc(a->nranks, sizeof(*a->ranks));
    dsf_edges_init(&a->edges, trace->graph);
    add_up(a);
    find_link(a);
    share_workers(a);
    dsf_account_waits(a);
    sum_ranks(a);
    dsf_account_path(a);
    find_hidden(a);
    qsort(a->kinds, a->nkinds, sizeof(*a->kinds), by_seconds);
    a->laps = dsf_laps_sum(&trace->laps, a->steps.from, a->steps.to);
    settle(a);
    status = simulate(a, err);
    if (status < 0)
        dsf_account_fini(a);
    return status;
}

void dsf_account_traffic(const struct dsf_account *a, struct dsf_weights *w)
{
    *w = (struct dsf_weights){
        .nkinds = a->nkinds,
        .kinds = dsf_xcalloc((size_t)a->nkinds + 1, sizeof(*w->kinds)),
    };
    for (unsigned k = 0; k < a->nkinds; k++) {
        struct dsf_kind_weight *kind = &w->kinds[k];

        kind->op = a->kinds[k].op;
        kind->traffic = a->kinds[k].traffic;
        for (int i = 0; i < DSF_NWIRES; i++) {
            if (kind->op != NULL &&
                strcmp(kind->op->name, dsf_op_add_rows.name) == 0)
                kind->traffic.bytes[i] -= a->unsent[i];
            kind->traffic.bytes[i] /= a->nsteps;
            kind->traffic.dense[i] /= a->nsteps;
        }
        kind->moved = dsf_traffic_bytes(&kind->traffic);
        dsf_traffic_add(&w->traffic, &kind->traffic);
        w->moved += kind->moved;
    }
}

void dsf_account_fini(struct dsf_account *a)
{
    if (a->trace != NULL)
        dsf_executed_fini(&a->steps, a->trace);
    dsf_edges_fini(&a->edges);
    free(a->ranks);
    free(a->busy);
    free(a->kinds);
    free(a->waits);
    free(a->rings);
    free(a->path);
    memset(a, 0, sizeof(*a));
}
