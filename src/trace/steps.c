/* steps.c - the steps of a timeline, and the least each could have taken. */
#include "trace/steps.h"

#include "base/alloc.h"
#include "timeline/critical.h"
#include "timeline/shares.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

uint32_t *dsf_step_spans(const struct dsf_trace *trace, uint32_t first,
                         uint32_t ntasks, unsigned nsteps)
{
    const struct dsf_timeline *timeline = &trace->timeline;
    uint32_t *at = dsf_xcalloc((size_t)ntasks * nsteps + 1, sizeof(*at));

    for (size_t i = 0; i < timeline->n; i++) {
        const struct dsf_span *s = &timeline->v[i];

        if (s->kind == DSF_SPAN_TASK && s->what - first < ntasks &&
            s->step < nsteps)
            at[(size_t)s->step * ntasks + s->what - first] = (uint32_t)i + 1;
    }
    return at;
}

/* Spans by step: positions in the timeline, in its order. */
struct by_step {
    size_t *first; /* [nsteps + 1] */
    size_t *v;
};

static void sort_spans(struct by_step *b, const struct dsf_trace *trace,
                       unsigned nsteps)
{
    const struct dsf_timeline *t = &trace->timeline;

    b->first = dsf_xcalloc((size_t)nsteps + 2, sizeof(*b->first));
    b->v = dsf_xcalloc(t->n + 1, sizeof(*b->v));
    for (size_t i = 0; i < t->n; i++)
        if (dsf_trace_is_step(trace, &t->v[i]))
            b->first[t->v[i].step + 2]++;
    for (unsigned k = 0; k < nsteps; k++)
        b->first[k + 2] += b->first[k + 1];
    for (size_t i = 0; i < t->n; i++)
        if (dsf_trace_is_step(trace, &t->v[i]))
            b->v[b->first[t->v[i].step + 1]++] = i;
}

/* What finding the bound of one step after the other needs. */
struct bounds {
    const struct dsf_trace *trace;
    struct dsf_teams teams;
    struct dsf_load load;
    struct dsf_succs *succs; /* by program: made when it is needed */
    double *seconds;         /* by task of the graph */
};

static void find_bound(struct bounds *b, struct dsf_lap *lap, const size_t *v,
                       size_t n, bool follows)
{
    struct dsf_succs *succs = &b->succs[lap->program];
    uint32_t first, ntasks = dsflow_graph_program_tasks(b->trace->graph,
                                                        lap->program, &first);
    enum dsf_bound what;

    if (succs->first == NULL)
        dsf_succs_init(succs, b->trace->graph, first, ntasks, true);
    memset(b->seconds + first, 0, ntasks * sizeof(*b->seconds));
    dsf_load_clear(&b->load);
    for (size_t i = 0; i < n; i++) {
        const struct dsf_span *s = &b->trace->timeline.v[v[i]];

        b->seconds[s->what] = s->end - s->start;
        dsf_load_add(&b->load, s->lane, s->end - s->start, s->rank >= 0);
    }
    lap->critical =
        dsf_critical(succs, b->seconds + first, ntasks, follows, NULL, NULL);
    lap->bound = dsf_bound_seconds(&b->load, lap->critical, &what);
}

static void find_bounds(struct dsf_laps *laps, const struct dsf_trace *trace,
                        const struct by_step *spans)
{
    unsigned nprograms = dsflow_graph_nprograms(trace->graph);
    struct bounds b = { .trace = trace };

    b.succs = dsf_xcalloc(nprograms, sizeof(*b.succs));
    b.seconds = dsf_xcalloc((size_t)dsflow_graph_ntasks(trace->graph) + 1,
                            sizeof(*b.seconds));
    dsf_teams_init(&b.teams, &trace->timeline, trace->facts.duplex);
    dsf_load_init(&b.load, &b.teams);
    for (unsigned k = laps->first; k < laps->n; k++)
        find_bound(&b, &laps->v[k], spans->v + spans->first[k],
                   spans->first[k + 1] - spans->first[k],
                   k > laps->first &&
                       laps->v[k - 1].program == laps->v[k].program);
    for (unsigned p = 0; p < nprograms; p++)
        dsf_succs_fini(&b.succs[p]);
    free(b.succs);
    free(b.seconds);
    dsf_load_fini(&b.load);
    dsf_teams_fini(&b.teams);
}

/* What workers do between the ends of two steps, of whichever step it is. */
static void find_idle(struct dsf_laps *steps, const struct dsf_trace *trace)
{
    const struct dsf_timeline *timeline = &trace->timeline;
    struct dsf_shares *did = dsf_xcalloc((size_t)steps->n + 1, sizeof(*did));

    for (size_t i = 0; i < timeline->n; i++) {
        const struct dsf_span *s = &timeline->v[i];
        enum dsf_share what = dsf_share_of(
            s->kind == DSF_SPAN_TASK
                ? dsflow_graph_task(trace->graph, (dsflow_task_id){ s->what })
                : NULL);

        /* Steps end in order, and a task is at work in few of them. */
        for (unsigned k = s->step > 0 ? s->step - 1 : 0; k < steps->n; k++) {
            double from = fmax(s->start, steps->v[k].begin);
            double to = fmin(s->end, steps->v[k].end);

            if (steps->v[k].begin >= s->end)
                break;
            if (to > from)
                dsf_shares_add(&did[k], timeline->lanes[s->lane].kind, what,
                               to - from);
        }
    }
    for (unsigned k = 0; k < steps->n; k++)
        steps->v[k].idle = dsf_shares_idle(
            &did[k],
            (steps->v[k].end - steps->v[k].begin) * timeline->workers);
    free(did);
}

void dsf_laps_init(struct dsf_laps *laps, const struct dsf_trace *trace)
{
    const struct dsf_timeline *timeline = &trace->timeline;
    struct by_step spans;
    unsigned n = 0;
    double end;

    memset(laps, 0, sizeof(*laps));
    for (size_t i = 0; i < timeline->n; i++)
        if (dsf_trace_is_step(trace, &timeline->v[i]) &&
            timeline->v[i].step >= n)
            n = timeline->v[i].step + 1;
    sort_spans(&spans, trace, n);
    end = timeline->n > 0 ? timeline->v[0].start : 0;
    for (unsigned k = 0; k < n; k++) {
        struct dsf_lap lap = { .ran = spans.first[k + 1] > spans.first[k],
                               .begin = end };

        for (size_t i = spans.first[k]; i < spans.first[k + 1]; i++) {
            const struct dsf_span *s = &timeline->v[spans.v[i]];

            end = fmax(end, s->end);
            lap.program =
                dsflow_graph_task(trace->graph, (dsflow_task_id){ s->what })
                    ->program;
        }
        lap.end = end;
        if (lap.ran || laps->n > 0)
            dsf_laps_add(laps, k, &lap);
    }
    find_bounds(laps, trace, &spans);
    find_idle(laps, trace);
    free(spans.first);
    free(spans.v);
}

struct dsf_lap_sum dsf_laps_sum(const struct dsf_laps *laps, unsigned from,
                                unsigned to)
{
    struct dsf_lap_sum sum = { 0 };

    for (unsigned k = from; k < to && k < laps->n; k++) {
        const struct dsf_lap *lap = &laps->v[k];

        if (!lap->ran || isnan(lap->bound))
            continue;
        sum.n++;
        sum.seconds += lap->end - lap->begin;
        sum.bound += fmin(lap->bound, lap->end - lap->begin);
        sum.critical += lap->critical;
    }
    sum.efficiency = sum.n > 0 ? dsf_efficiency(sum.bound, sum.seconds) : NAN;
    return sum;
}

struct dsf_lap_scales dsf_laps_scales(const struct dsf_laps *laps)
{
    struct dsf_lap_scales s = { 0 };

    for (unsigned k = laps->first; k < laps->n; k++) {
        const struct dsf_lap *lap = &laps->v[k];

        if (!lap->ran)
            continue;
        s.least = s.n == 0 ? lap->loss_scale : fmin(s.least, lap->loss_scale);
        s.most = fmax(s.most, lap->loss_scale);
        s.skipped += lap->skipped;
        s.n++;
    }
    return s;
}

static double percent_of(const struct dsf_lap *lap)
{
    return 100 * dsf_lap_efficiency(lap);
}

static double loss_scale_of(const struct dsf_lap *lap)
{
    return lap->loss_scale;
}

static double skipped_of(const struct dsf_lap *lap)
{
    return lap->skipped;
}

const struct dsf_figure dsf_figures[DSF_NFIGURES] = {
    [DSF_EFFICIENCY] = { "efficiency", "%", percent_of },
    [DSF_LOSS_SCALE] = { "loss scale", "factor", loss_scale_of },
    [DSF_SKIPPED] = { "skipped", "steps", skipped_of },
};

bool dsf_laps_have(const struct dsf_laps *laps, const struct dsf_figure *f)
{
    for (unsigned k = laps->first; k < laps->n; k++)
        if (laps->v[k].ran && f->of(&laps->v[k]) > 0)
            return true;
    return false;
}

struct dsf_window dsf_window_whole(const struct dsf_trace *trace)
{
    const struct dsf_timeline *timeline = &trace->timeline;
    struct dsf_window w = { 0, 0 };

    if (timeline->n > 0)
        w.begin = timeline->v[0].start;
    for (size_t i = 0; i < timeline->n; i++)
        if (timeline->v[i].end > w.end)
            w.end = timeline->v[i].end;
    return w;
}

/* A whole number, and where it ended; false where there is none. */
static bool read_whole(const char **text, long long *n)
{
    char *end;

    errno = 0;
    *n = strtoll(*text, &end, 10);
    if (end == *text || errno != 0)
        return false;
    *text = end;
    return true;
}

/* "A", "A:B", "A:" */
static bool read_range(const char *text, long long *a, long long *b,
                       long long last)
{
    const char *end;

    if (!read_whole(&text, a))
        return false;
    end = text;
    *b = *a;
    if (*text == ':' && *++text == '\0')
        *b = last;
    else if (text != end && !read_whole(&text, b))
        return false;
    return *text == '\0';
}

int dsf_window_parse(const char *text, const struct dsf_trace *trace,
                     const struct dsf_laps *steps, struct dsf_window *window,
                     struct dsflow_err *err)
{
    long long zero = trace->facts.first, a, b;
    long long first = zero + steps->first, last = zero + steps->n - 1;

    if (steps->n == 0)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "the trace has no whole step");
    if (!read_range(text, &a, &b, last))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%.40s: expected A or A:B, such as %lld:%lld",
                           text, first, last);
    if (a > b || a < first || b > last)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%lld to %lld: expected steps from %lld to %lld",
                           a, b, first, last);
    window->begin = steps->v[a - zero].begin;
    window->end = steps->v[b - zero].end;
    return DSFLOW_OK;
}
