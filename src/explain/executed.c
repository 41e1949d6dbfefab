/* executed.c - the steps of a timeline, and those that say how the others are.
 */
#include "explain/executed.h"

#include "base/alloc.h"
#include "base/by_value.h"
#include "trace/steps.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static void index_lanes(struct dsf_executed *s, const struct dsf_trace *trace)
{
    const struct dsf_timeline *t = &trace->timeline;
    size_t *cap = dsf_xcalloc((size_t)t->nlanes + 1, sizeof(*cap));

    s->lane = dsf_xcalloc((size_t)t->nlanes + 1, sizeof(*s->lane));
    s->nlane = dsf_xcalloc((size_t)t->nlanes + 1, sizeof(*s->nlane));
    s->place = dsf_xcalloc(t->n + 1, sizeof(*s->place));
    for (size_t i = 0; i < t->n; i++) {
        unsigned l = t->v[i].lane;

        dsf_grow(&s->lane[l], &cap[l], (size_t)s->nlane[l] + 1,
                 sizeof(**s->lane));
        s->place[i] = s->nlane[l];
        s->lane[l][s->nlane[l]++] = (uint32_t)i;
    }
    free(cap);
}

static double seconds_of(const struct dsf_trace *trace, uint32_t step)
{
    return trace->laps.v[step].end - trace->laps.v[step].begin;
}

static void find_median(struct dsf_executed *s, const struct dsf_trace *trace)
{
    uint32_t n = s->to - s->from;
    double *seconds = dsf_xcalloc(n, sizeof(*seconds));

    for (uint32_t i = 0; i < n; i++)
        seconds[i] = seconds_of(trace, s->from + i);
    qsort(seconds, n, sizeof(*seconds), dsf_by_value);
    s->seconds = seconds[(n - 1) / 2];
    s->middle = s->from;
    while (seconds_of(trace, s->middle) != s->seconds)
        s->middle++;
    free(seconds);
}

/* Are all tasks of a step there? */
static bool is_whole(const struct dsf_executed *s, uint32_t step)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->ntasks; i++)
        n += s->span[(size_t)step * s->ntasks + i] > 0;
    return n > 0 && n == s->ntasks;
}

/* Steps may run other programs than the one that is explained. */
static int fail_none(const struct dsf_trace *trace, struct dsflow_err *err)
{
    for (unsigned k = trace->laps.first; k < trace->laps.n; k++)
        if (trace->laps.v[k].ran && trace->laps.v[k].program != DSFLOW_STEP)
            return dsflow_fail(
                err, DSFLOW_EINVAL,
                "the trace has no whole step of the program step: expected "
                "one, as those of %s are drawn, and not explained",
                dsflow_graph_program(trace->graph, trace->laps.v[k].program));
    return dsflow_fail(err, DSFLOW_EINVAL,
                       "the trace has no whole step: expected one that "
                       "begins and ends in it");
}

/* The most consecutive whole steps; of them, those inside. */
static int choose(struct dsf_executed *s, const struct dsf_trace *trace,
                  struct dsflow_err *err)
{
    uint32_t first = 0, most = 0;

    for (uint32_t i = 0, begin = 0; i < s->n; i++) {
        if (!is_whole(s, i)) {
            begin = i + 1;
            continue;
        }
        if (i + 1 - begin > most) {
            first = begin;
            most = i + 1 - begin;
        }
    }
    if (most == 0)
        return fail_none(trace, err);
    s->from = most > 1 ? first + 1 : first;
    s->to = most > 2 ? first + most - 1 : first + most;
    s->start = trace->laps.v[s->from].begin;
    s->end = trace->laps.v[s->to - 1].end;
    find_median(s, trace);
    return DSFLOW_OK;
}

int dsf_executed_init(struct dsf_executed *s, const struct dsf_trace *trace,
                      struct dsflow_err *err)
{
    uint32_t first;
    int status;

    memset(s, 0, sizeof(*s));
    s->ntasks = dsflow_graph_program_tasks(trace->graph, DSFLOW_STEP, &first);
    s->n = trace->laps.n;
    s->span = dsf_step_spans(trace, first, s->ntasks, s->n);
    index_lanes(s, trace);
    status = choose(s, trace, err);
    if (status < 0)
        dsf_executed_fini(s, trace);
    return status;
}

void dsf_executed_fini(struct dsf_executed *s, const struct dsf_trace *trace)
{
    for (unsigned l = 0; s->lane != NULL && l < trace->timeline.nlanes; l++)
        free(s->lane[l]);
    free(s->lane);
    free(s->nlane);
    free(s->place);
    free(s->span);
    memset(s, 0, sizeof(*s));
}

uint32_t dsf_executed_steps(const struct dsf_trace *trace,
                            dsflow_program program)
{
    uint32_t n = 0;

    for (unsigned k = 0; k < trace->laps.n; k++)
        n += trace->laps.v[k].ran && trace->laps.v[k].program == program;
    return n;
}

const struct dsf_span *dsf_executed_before(const struct dsf_executed *s,
                                           const struct dsf_trace *trace,
                                           const struct dsf_span *span)
{
    uint32_t place = s->place[span - trace->timeline.v];

    return place > 0 ? &trace->timeline.v[s->lane[span->lane][place - 1]]
                     : NULL;
}

const struct dsf_span *dsf_executed_until(const struct dsf_executed *s,
                                          const struct dsf_trace *trace,
                                          unsigned lane, double until)
{
    uint32_t low = 0, high = s->nlane[lane];

    while (low < high) {
        uint32_t mid = low + (high - low) / 2;

        if (trace->timeline.v[s->lane[lane][mid]].end <= until)
            low = mid + 1;
        else
            high = mid;
    }
    return low > 0 ? &trace->timeline.v[s->lane[lane][low - 1]] : NULL;
}
