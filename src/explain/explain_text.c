/* explain_text.c - what a trace says, for people: advice first. */
#include "explain/explain_private.h"

#include "base/alloc.h"
#include "base/units.h"
#include "sim/traffic_report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 8, MOST_KINDS = 8, MOST_WAITS = 4, MOST_WAY = 4 };

static struct dsf_text time_text(double seconds)
{
    static const char *const units[] = { "s", "ms", "us" };
    struct dsf_text t;
    int u = 0, digits;

    while (u < 2 && seconds < 0.9995 && seconds > 0) {
        seconds *= 1000;
        u++;
    }
    digits = seconds < 9.995 ? 2 : seconds < 99.95 ? 1 : 0;
    snprintf(t.s, sizeof(t.s), "%.*f %s", digits, seconds, units[u]);
    return t;
}

/* "12.3 %": of all workers and all of the time. */
static struct dsf_text percent(double share)
{
    struct dsf_text t;

    snprintf(t.s, sizeof(t.s), "%.1f %%", 100 * share);
    return t;
}

/* What losses were multiplied by, and which steps that made useless. */
static void print_scales(const struct dsf_trace *trace, FILE *out)
{
    struct dsf_lap_scales s = dsf_laps_scales(&trace->laps);

    if (s.most > 0)
        fprintf(out, "loss scale %.10g", s.least);
    if (s.most > s.least)
        fprintf(out, " to %.10g", s.most);
    if (s.skipped > 0)
        fprintf(out, "%s%u of %u steps %s skipped: %s", s.most > 0 ? "; " : "",
                s.skipped, s.n, s.skipped == 1 ? "was" : "were",
                s.most > 0 ? "gradients overflowed"
                           : "the loss or the gradient was not finite");
    if (s.most > 0 || s.skipped > 0)
        fputc('\n', out);
}

static void print_head(const struct dsf_account *a, FILE *out)
{
    const struct dsf_trace_facts *f = &a->trace->facts;
    const struct dsf_executed *s = &a->steps;
    unsigned workers = a->trace->timeline.workers;
    double mean = a->laps.seconds / a->laps.n;
    char on_average[64] = "";

    /* It is of all time; what is said of a step is the median. */
    if (mean > 1.02 * s->seconds)
        snprintf(on_average, sizeof(on_average), " of %s on average",
                 time_text(mean).s);

    fprintf(out, "%s: %s, %u %s, %u worker%s", f->name,
            f->simulated ? "simulated" : f->executor, a->nranks,
            a->nranks == 1 ? "rank" : "ranks", workers,
            workers == 1 ? "" : "s");
    fprintf(out, " (%s)\n", f->machine);
    fprintf(out, "step%s %lld", a->nsteps > 1 ? "s" : "",
            (long long)(f->first + s->from));
    if (a->nsteps > 1)
        fprintf(out, " to %lld", (long long)(f->first + s->to - 1));
    fprintf(out, " of %lld to %lld: %s a step%s, %.0f tokens/s",
            (long long)(f->first + a->trace->laps.first),
            (long long)(f->first + s->n - 1), time_text(s->seconds).s,
            a->nsteps > 1 ? " (median)" : "",
            s->seconds > 0 ? (double)f->tokens / s->seconds : 0);
    if (strcmp(f->executor, "starpu") == 0 && f->predicted > 0)
        fprintf(out, "\nstep %s, predicted %s: %s", time_text(s->seconds).s,
                time_text(f->predicted).s,
                dsf_against_text(s->seconds, f->predicted).s);
    if (a->laps.n > 0)
        fprintf(out,
                "\nefficiency %s%s: with tasks like these no order takes less "
                "than %s",
                percent(a->laps.efficiency).s, on_average,
                time_text(a->laps.bound / a->laps.n).s);
    fputc('\n', out);
    print_scales(a->trace, out);
    for (unsigned p = DSFLOW_STEP + 1;
         p < dsflow_graph_nprograms(a->trace->graph); p++) {
        uint32_t n = dsf_executed_steps(a->trace, (dsflow_program)p);

        if (n > 0)
            fprintf(out, "%u step%s ran the program %s: not counted here\n", n,
                    n == 1 ? "" : "s",
                    dsflow_graph_program(a->trace->graph, (dsflow_program)p));
    }
    if (a->trace->cut)
        fprintf(out, "the trace breaks off: the run did not end by itself\n");
}

/* "batch.tile=auto" as it would stand in the job. */
static void print_also(const char *also, FILE *out)
{
    size_t n = strcspn(also, "=");

    fprintf(out, ", %.*s = %s", (int)n, also, also + n + (also[n] == '='));
}

static void print_one(const struct dsf_advice *x, const char *before,
                      const struct dsf_account *a, FILE *out)
{
    /* Said once of all that it speaks for. */
    if (before == NULL || strcmp(before, x->cause) != 0)
        fprintf(out, "  %s\n", x->cause);
    fprintf(out, "    %s = %s (now %s)", x->key, x->to, x->from);
    if (x->also != NULL)
        print_also(x->also, out);
    fprintf(out, ": %.0f %% less time", 100 * (1 - x->share));
    if (fabs(x->bytes) >= 1024)
        fprintf(out, ", %c%s a rank%s", x->bytes > 0 ? '+' : '-',
                dsf_size_text(fabs(x->bytes)).s,
                !x->fits                                      ? ", too much"
                : x->bytes > 0 && a->trace->facts.memory >= 0 ? ", fits"
                                                              : "");
    fprintf(out, "%s%s%s\n", x->rounds ? " [1]" : "", x->machine ? " [2]" : "",
            x->narrows ? " [3]" : "");
}

static void print_notes(const struct dsf_advices *advices, FILE *out)
{
    bool rounds = false, machine = false, narrows = false;

    for (unsigned i = 0; i < advices->n; i++) {
        rounds = rounds || advices->v[i].rounds;
        machine = machine || advices->v[i].machine;
        narrows = narrows || advices->v[i].narrows;
    }
    if (rounds)
        fprintf(out, "  [1] sums in another order: the last bits differ, and "
                     "this run cannot be resumed with it\n");
    if (machine)
        fprintf(out, "  [2] another machine, not another job\n");
    if (narrows)
        fprintf(out, "  [3] rounds numbers to fewer bits: other losses; this "
                     "run can be resumed with it\n");
}

static void print_advice(const struct dsf_account *a,
                         const struct dsf_advices *advices, FILE *out)
{
    if (advices->missing != NULL) {
        fprintf(out, "\n%s\n", advices->limit);
        fprintf(out, "what would make it shorter is not known: %s\n",
                advices->missing);
        return;
    }
    if (advices->n > 0)
        fprintf(out, "\nWhat would make it shorter\n");
    for (unsigned i = 0; i < advices->n; i++)
        print_one(&advices->v[i], i > 0 ? advices->v[i - 1].cause : NULL, a,
                  out);
    print_notes(advices, out);
    if (advices->tried == 0)
        fprintf(out, "\n%s\n", advices->limit);
    else if (advices->n == 0)
        fprintf(out, "\n%s;\nnone of %u changes that were tried saves 3 %%\n",
                advices->limit, advices->tried);
    else
        fprintf(out, "  (the best of %u changes, each simulated by itself)\n",
                advices->tried);
    if (advices->left > 0)
        fprintf(out, "  %u %s not tried: they take long to simulate\n",
                advices->left,
                advices->tried > 0 ? "more were" : "changes were");
    if (fabs(advices->reproduced - 1) > 0.1)
        fprintf(out,
                "  these are rough: with nothing changed the simulation says "
                "%s, and the step took %s\n",
                time_text(advices->reproduced * a->steps.seconds).s,
                time_text(a->steps.seconds).s);
}

/* Are there workers of several ranks? */
static bool is_shared(const struct dsf_account *a)
{
    const struct dsf_timeline *t = &a->trace->timeline;

    for (unsigned w = 0; w < t->workers; w++)
        if (t->lanes[w].rank < 0 && a->nranks > 1)
            return true;
    return false;
}

static void print_rank(const struct dsf_account *a, const char *name,
                       const struct dsf_rank_use *u, FILE *out)
{
    double all = (is_shared(a) ? a->all.workers : u->workers) * a->seconds;

    if (!(all > 0))
        return;
    fprintf(out, "%-22s %8s %8s", name, percent(u->did.computing / all).s,
            percent(u->did.moving / all).s);
    for (int c = 0; c < DSF_CAUSE_END; c++)
        fprintf(out, " %8s", percent(u->idle[c] / all).s);
    fputc('\n', out);
}

static void print_ranks(const struct dsf_account *a, FILE *out)
{
    unsigned step = (a->nranks + MOST_RANKS - 1) / MOST_RANKS;

    fprintf(out, "\n%-22s %8s %8s   idle, waiting for:\n", "Share of the time",
            "", "");
    fprintf(out, "%-22s %8s %8s", "Workers", "compute", "move");
    for (int c = 0; c < DSF_CAUSE_END; c++)
        fprintf(out, " %8s", dsf_cause_str((enum dsf_cause)c));
    fputc('\n', out);
    print_rank(a, "all", &a->all, out);
    for (unsigned r = 0; r < a->nranks && a->nranks > 1; r += step) {
        char name[64];

        snprintf(name, sizeof(name), "rank %u", r);
        if (dsf_trace_axis(&a->trace->facts, "pipeline") > 1)
            snprintf(name, sizeof(name), "rank %u, stage %d", r,
                     dsf_account_stage(a, (int)r));
        print_rank(a, name, &a->ranks[r], out);
    }
    if (step > 1)
        fprintf(out, "(one rank of %u)\n", step);
    if (is_shared(a))
        fprintf(out, "(ranks share the workers: their lines add up to all)\n");
}

/* What the head of the table of workers does not say. */
static void print_shares(const struct dsf_account *a, FILE *out)
{
    if (a->hidden.comm > 0.005 * a->seconds * a->nranks)
        fprintf(out,
                "Moving data takes %s of a step on each rank, %s of it while "
                "the rank computes.\n",
                time_text(a->hidden.comm / a->nsteps / a->nranks).s,
                percent(a->hidden.comm_hidden / a->hidden.comm).s);
    if (a->link != NULL)
        fprintf(
            out,
            "The link \"%s\" is at work for %s of the time, longer than any "
            "worker: less to send,\nor a faster link, makes a step "
            "shorter.\n",
            a->link->name, percent(a->link_seconds / a->seconds).s);
    if (a->hidden.io > 0)
        fprintf(out,
                "Disks read or write for %s of a step, %s of it while workers "
                "compute.\n",
                time_text(a->hidden.io / a->nsteps).s,
                percent(a->hidden.io_hidden / a->hidden.io).s);
    if (dsf_trace_axis(&a->trace->facts, "pipeline") > 1)
        fprintf(out,
                "The bubble, in which stages wait for each other, is %s.\n",
                percent(a->bubble).s);
    if (a->nqueued > 0)
        fprintf(out,
                "%u tasks a step are ready while their workers are busy, "
                "for %s on average.\n",
                a->nqueued / a->nsteps, time_text(a->queued / a->nqueued).s);
}

static void print_kind(const struct dsf_account *a, const char *name,
                       const struct dsf_kind_use *k, FILE *out)
{
    double each = k->count > 0 ? k->seconds / k->count : 0;

    fprintf(out, "%-26s %7u %10s %10s %10s", name, k->count / a->nsteps,
            time_text(k->seconds / a->nsteps).s, time_text(each).s,
            percent(dsf_account_share(a, k->on_workers)).s);
    if (k->predicted > 0 && k->count > 0)
        fprintf(out, " %10s", time_text(k->predicted / k->count).s);
    fputc('\n', out);
}

static void print_kinds(const struct dsf_account *a, FILE *out)
{
    struct dsf_kind_use rest = { .count = 0 };
    unsigned n = a->nkinds > MOST_KINDS + 1 ? MOST_KINDS : a->nkinds;
    char name[32];

    fprintf(out, "\n%-26s %7s %10s %10s %10s %10s\n", "Tasks of a step",
            "count", "total time", "time each", "of workers", "predicted");
    for (unsigned k = 0; k < n; k++)
        print_kind(a,
                   a->kinds[k].op != NULL ? a->kinds[k].op->name : "transfers",
                   &a->kinds[k], out);
    for (unsigned k = n; k < a->nkinds; k++) {
        rest.count += a->kinds[k].count;
        rest.seconds += a->kinds[k].seconds;
        rest.on_workers += a->kinds[k].on_workers;
        rest.predicted = a->kinds[k].predicted < 0 || rest.predicted < 0
                             ? -1
                             : rest.predicted + a->kinds[k].predicted;
    }
    snprintf(name, sizeof(name), "%u other kinds", a->nkinds - n);
    if (n < a->nkinds)
        print_kind(a, name, &rest, out);
}

static void print_wait(const struct dsf_account *a, const struct dsf_wait *w,
                       FILE *out)
{
    char from[32] = "";

    if (w->from >= 0 && w->from != w->rank)
        snprintf(from, sizeof(from), " of rank %d", w->from);
    fprintf(out, "  %10s  ", time_text(w->seconds / a->nsteps).s);
    if (a->nranks > 1)
        fprintf(out, "rank %d, ", w->rank);
    if (w->cause == DSF_CAUSE_SLOT && w->ring)
        fprintf(out, "for a slot of %s%s\n", w->what, from);
    else if (w->cause == DSF_CAUSE_SLOT)
        fprintf(out, "for a buffer that %s%s uses\n", w->what, from);
    else if (w->cause == DSF_CAUSE_TRANSFER && w->what == NULL)
        fprintf(out, "for data on its way between memories\n");
    else if (w->cause == DSF_CAUSE_RUNTIME)
        fprintf(out, "for the runtime: the next task was ready\n");
    else if (w->cause == DSF_CAUSE_END)
        fprintf(out, "with no task left in the trace\n");
    else if (w->cause == DSF_CAUSE_TRANSFER)
        fprintf(out, "while %s%s moves data\n", w->what, from);
    else
        fprintf(out, "for what %s%s computes\n", w->what, from);
}

static void print_waits(const struct dsf_account *a, FILE *out)
{
    if (a->nwaits == 0)
        return;
    fprintf(out, "\nLongest waits of workers in a step\n");
    for (size_t i = 0; i < a->nwaits && i < MOST_WAITS; i++)
        print_wait(a, &a->waits[i], out);
}

/* Of a kind in all layers: the sum, and the layer if it is one. */
static struct dsf_stretch sum_of(const struct dsf_account *a, size_t first)
{
    struct dsf_stretch sum = a->path[first];

    for (size_t i = first + 1; i < a->npath; i++)
        if (a->path[i].op == sum.op) {
            sum.layer = -1;
            sum.count += a->path[i].count;
            sum.seconds += a->path[i].seconds;
        }
    return sum;
}

static bool is_first(const struct dsf_account *a, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (a->path[k].op == a->path[i].op)
            return false;
    return true;
}

static int longer(const void *x, const void *y)
{
    const struct dsf_stretch *a = x, *b = y;

    if (a->seconds != b->seconds)
        return a->seconds > b->seconds ? -1 : 1;
    return strcmp(a->op->name, b->op->name);
}

static void print_path(const struct dsf_account *a, FILE *out)
{
    struct dsf_stretch *kinds = dsf_xcalloc(a->npath + 1, sizeof(*kinds));
    double gaps = 0;
    size_t n = 0;

    for (int c = 0; c < DSF_NCAUSES; c++)
        gaps += a->path_gaps[c];
    for (size_t i = 0; i < a->npath; i++)
        if (is_first(a, i))
            kinds[n++] = sum_of(a, i);
    qsort(kinds, n, sizeof(*kinds), longer);
    fprintf(out,
            "\nThe chain of tasks that step %lld waited for: %s, %s of it "
            "between tasks\n",
            (long long)(a->trace->facts.first + a->step),
            time_text(a->path_seconds).s,
            percent(a->path_seconds > 0 ? gaps / a->path_seconds : 0).s);
    for (size_t i = 0; i < n && i < MOST_WAY; i++) {
        char layer[32] = "";

        if (kinds[i].layer >= 0)
            snprintf(layer, sizeof(layer), " of layer %d", kinds[i].layer);
        fprintf(out, "  %10s  %u %s%s\n", time_text(kinds[i].seconds).s,
                kinds[i].count, kinds[i].op->name, layer);
    }
    free(kinds);
}

void dsf_explain_text(const struct dsf_account *a,
                      const struct dsf_advices *advices, FILE *out)
{
    struct dsf_weights w;

    print_head(a, out);
    print_advice(a, advices, out);
    print_ranks(a, out);
    print_shares(a, out);
    print_kinds(a, out);
    dsf_account_traffic(a, &w);
    dsf_traffic_print(&w, out);
    dsf_weights_fini(&w);
    print_waits(a, out);
    print_path(a, out);
}
