/* steps.c - the steps of a timeline, and the least each could have taken. */
#include "trace/steps.h"

#include "base/alloc.h"
#include "graph/succs.h"

#include <errno.h>
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

/* The critical paths through the steps of one program, step by step: steps
 * overlap, so that what one adds to those that follow each other is what it
 * needs. The first one after another program is alone. */
static void find_critical(struct dsf_laps *steps, const struct dsf_trace *trace,
                          dsflow_program program)
{
    uint32_t first, ntasks, *at;
    double *level, *next, longest = 0;
    struct dsf_succs succs;

    ntasks = dsflow_graph_program_tasks(trace->graph, program, &first);
    at = dsf_step_spans(trace, first, ntasks, steps->n);
    level = dsf_xcalloc((size_t)ntasks + 1, sizeof(*level));
    next = dsf_xcalloc((size_t)ntasks + 1, sizeof(*next));
    dsf_succs_init(&succs, trace->graph, first, ntasks, steps->n > 1);
    for (unsigned step = 0; step < steps->n; step++) {
        double *other = level, before = longest;

        if (steps->v[step].program != program) {
            memset(level, 0, (size_t)ntasks * sizeof(*level));
            longest = 0;
            continue;
        }
        for (uint32_t i = 0; i < ntasks; i++) {
            uint32_t span = at[(size_t)step * ntasks + i], n;
            const uint32_t *list = dsf_succs(&succs, i, &n);

            if (span != 0)
                level[i] += trace->timeline.v[span - 1].end -
                            trace->timeline.v[span - 1].start;
            if (level[i] > longest)
                longest = level[i];
            for (uint32_t k = 0; k < n; k++)
                if (level[i] > level[list[k]])
                    level[list[k]] = level[i];
            list = dsf_succs_next(&succs, i, &n);
            for (uint32_t k = 0; k < n; k++)
                if (level[i] > next[list[k]])
                    next[list[k]] = level[i];
        }
        steps->v[step].critical = longest - before;
        level = next;
        next = other;
        memset(next, 0, (size_t)ntasks * sizeof(*next));
    }
    dsf_succs_fini(&succs);
    free(at);
    free(level);
    free(next);
}

/* What does the same work: the workers of a rank, and those of several; a link
 * is alone, and a disk, or each of its two lanes where it is duplex. */
struct teams {
    unsigned n;
    unsigned *of_lane; /* team */
    unsigned *members; /* that work at the same time */
};

static void find_teams(struct teams *teams, const struct dsf_trace *trace)
{
    const struct dsf_timeline *timeline = &trace->timeline;
    unsigned nranks = trace->facts.nranks, ndisks = 0;

    teams->n = nranks + 1 + timeline->nlanes;
    teams->of_lane = dsf_xcalloc(timeline->nlanes + 1, sizeof(unsigned));
    teams->members = dsf_xcalloc(teams->n, sizeof(unsigned));
    for (unsigned i = 0; i < timeline->nlanes; i++) {
        const struct dsf_lane *lane = &timeline->lanes[i];
        bool second = lane->kind == DSF_LANE_DISK && ndisks++ % 2 == 1 &&
                      !trace->facts.duplex;

        teams->of_lane[i] = second                          ? nranks + i
                            : lane->kind != DSF_LANE_WORKER ? nranks + 1 + i
                            : lane->rank >= 0 && (unsigned)lane->rank < nranks
                                ? (unsigned)lane->rank
                                : nranks;
        teams->members[teams->of_lane[i]] += !second;
    }
}

/* The least time is that of the busiest team. */
static void find_work(struct dsf_laps *steps, const struct dsf_trace *trace)
{
    const struct dsf_timeline *timeline = &trace->timeline;
    struct teams teams;
    double *work, *reached; /* by step and team; until when a disk works */

    find_teams(&teams, trace);
    work = dsf_xcalloc((size_t)teams.n * steps->n + 1, sizeof(*work));
    reached = dsf_xcalloc((size_t)teams.n * steps->n + 1, sizeof(*reached));
    for (size_t i = 0; i < timeline->n; i++) {
        const struct dsf_span *s = &timeline->v[i];
        size_t at = (size_t)s->step * teams.n + teams.of_lane[s->lane];
        double from = s->start;

        if (!dsf_trace_is_step(trace, s))
            continue;
        /* A disk that reads while it writes works once. */
        if (timeline->lanes[s->lane].kind == DSF_LANE_DISK) {
            from = from > reached[at] ? from : reached[at];
            reached[at] = s->end > reached[at] ? s->end : reached[at];
        }
        work[at] += s->end > from ? s->end - from : 0;
    }
    for (unsigned step = 0; step < steps->n; step++) {
        struct dsf_lap *to = &steps->v[step];

        to->bound = to->critical;
        for (unsigned i = 0; i < teams.n; i++)
            if (teams.members[i] > 0 &&
                work[(size_t)step * teams.n + i] / teams.members[i] > to->bound)
                to->bound =
                    work[(size_t)step * teams.n + i] / teams.members[i];
    }
    free(work);
    free(reached);
    free(teams.of_lane);
    free(teams.members);
}

/* What workers do between the ends of two steps, of whichever step it is. */
static void find_idle(struct dsf_laps *steps, const struct dsf_trace *trace)
{
    const struct dsf_timeline *timeline = &trace->timeline;

    for (unsigned k = 0; k < steps->n; k++)
        steps->v[k].idle = (steps->v[k].end - steps->v[k].begin) *
                           timeline->workers;
    for (size_t i = 0; i < timeline->n; i++) {
        const struct dsf_span *s = &timeline->v[i];

        if (timeline->lanes[s->lane].kind != DSF_LANE_WORKER)
            continue;
        /* Steps end in order, and a task is at work in few of them. */
        for (unsigned k = s->step > 0 ? s->step - 1 : 0; k < steps->n; k++) {
            double from = s->start > steps->v[k].begin ? s->start
                                                       : steps->v[k].begin;
            double to = s->end < steps->v[k].end ? s->end : steps->v[k].end;

            if (steps->v[k].begin >= s->end)
                break;
            if (to > from)
                steps->v[k].idle -= to - from;
        }
    }
    for (unsigned k = 0; k < steps->n; k++) {
        struct dsf_lap *step = &steps->v[k];
        double all = (step->end - step->begin) * timeline->workers;

        step->idle = all > 0 && step->idle > 0 ? step->idle / all : 0;
    }
}

void dsf_laps_init(struct dsf_laps *steps, const struct dsf_trace *trace)
{
    const struct dsf_timeline *timeline = &trace->timeline;
    double end;

    memset(steps, 0, sizeof(*steps));
    for (size_t i = 0; i < timeline->n; i++)
        if (dsf_trace_is_step(trace, &timeline->v[i]) &&
            timeline->v[i].step >= steps->n)
            steps->n = timeline->v[i].step + 1;
    if (steps->n == 0)
        return;
    steps->v = dsf_xcalloc(steps->n, sizeof(*steps->v));
    steps->first = steps->n;
    for (size_t i = 0; i < timeline->n; i++) {
        const struct dsf_span *s = &timeline->v[i];
        struct dsf_lap *step = &steps->v[s->step];

        if (!dsf_trace_is_step(trace, s))
            continue;
        if (s->step < steps->first)
            steps->first = s->step;
        if (!step->ran || s->end > step->end)
            step->end = s->end;
        step->ran = true;
        step->program =
            dsflow_graph_task(trace->graph, (dsflow_task_id){ s->what })
                ->program;
    }
    end = timeline->v[0].start;
    for (unsigned k = steps->first; k < steps->n; k++) {
        struct dsf_lap *step = &steps->v[k];

        if (step->end < end)
            step->end = end;
        step->begin = end;
        end = step->end;
    }
    for (unsigned p = 0; p < dsflow_graph_nprograms(trace->graph); p++)
        if (p == DSFLOW_STEP || trace->facts.steps >> p & 1)
            find_critical(steps, trace, (dsflow_program)p);
    find_work(steps, trace);
    find_idle(steps, trace);
}

void dsf_laps_fini(struct dsf_laps *steps)
{
    free(steps->v);
    memset(steps, 0, sizeof(*steps));
}

double dsf_lap_efficiency(const struct dsf_lap *step)
{
    double time = step->end - step->begin;

    return time > 0 && step->bound < time ? step->bound / time : 1;
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
                           "--steps: the trace has no whole step");
    if (!read_range(text, &a, &b, last))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "--steps: %.40s: expected A or A:B, such as %lld:%lld",
                           text, first, last);
    if (a > b || a < first || b > last)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "--steps: %lld to %lld: expected steps from %lld to "
                           "%lld",
                           a, b, first, last);
    window->begin = steps->v[a - zero].begin;
    window->end = steps->v[b - zero].end;
    return DSFLOW_OK;
}
