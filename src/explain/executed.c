/* executed.c - the steps of a timeline, and those that say how the others are.
 */
#include "explain/executed.h"

#include "base/alloc.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static bool is_step(const struct dsf_trace *trace, const struct dsf_span *span)
{
    return span->kind == DSF_SPAN_TASK &&
           dsflow_graph_task(trace->graph, (dsflow_task_id){ span->what })
                   ->program == DSFLOW_STEP;
}

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

static void index_spans(struct dsf_executed *s, const struct dsf_trace *trace,
                        uint32_t *count)
{
    const struct dsf_timeline *t = &trace->timeline;

    for (size_t i = 0; i < t->n; i++) {
        const struct dsf_span *span = &t->v[i];
        uint32_t step = span->step - s->base;

        if (!is_step(trace, span))
            continue;
        if (s->span[(size_t)step * s->ntasks + span->what] == 0)
            count[step]++;
        s->span[(size_t)step * s->ntasks + span->what] = (uint32_t)i + 1;
        if (s->begun[step] < 0 || span->start < s->begun[step])
            s->begun[step] = span->start;
        if (span->end > s->ended[step])
            s->ended[step] = span->end;
    }
    for (uint32_t i = 1; i < s->n; i++)
        if (s->ended[i] < s->ended[i - 1])
            s->ended[i] = s->ended[i - 1];
}

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

static double seconds_of(const struct dsf_executed *s, uint32_t step)
{
    return dsf_executed_end(s, step) - dsf_executed_begin(s, step);
}

static void find_median(struct dsf_executed *s)
{
    uint32_t n = s->to - s->from;
    double *seconds = dsf_xcalloc(n, sizeof(*seconds));

    for (uint32_t i = 0; i < n; i++)
        seconds[i] = seconds_of(s, s->from + i);
    qsort(seconds, n, sizeof(*seconds), by_value);
    s->seconds = seconds[(n - 1) / 2];
    s->middle = s->from;
    while (seconds_of(s, s->middle) != s->seconds)
        s->middle++;
    free(seconds);
}

/* The most consecutive whole steps; of them, those inside. */
static int choose(struct dsf_executed *s, const uint32_t *count, uint32_t whole,
                  struct dsflow_err *err)
{
    uint32_t first = 0, most = 0;

    for (uint32_t i = 0, begin = 0; i < s->n; i++) {
        if (count[i] < whole) {
            begin = i + 1;
            continue;
        }
        if (i + 1 - begin > most) {
            first = begin;
            most = i + 1 - begin;
        }
    }
    if (most == 0 || whole == 0)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "the trace has no whole step: expected one that "
                           "begins and ends in it");
    s->from = s->base + (most > 1 ? first + 1 : first);
    s->to = s->base + (most > 2 ? first + most - 1 : first + most);
    s->start = most > 1 ? s->ended[first] : s->begun[first];
    s->end = dsf_executed_end(s, s->to - 1);
    find_median(s);
    return DSFLOW_OK;
}

int dsf_executed_init(struct dsf_executed *s, const struct dsf_trace *trace,
                      struct dsflow_err *err)
{
    const struct dsf_timeline *t = &trace->timeline;
    uint32_t *count, whole = 0, last = 0;
    int status;

    memset(s, 0, sizeof(*s));
    s->ntasks = dsflow_graph_ntasks(trace->graph);
    for (uint32_t i = 0; i < s->ntasks; i++)
        whole +=
            dsflow_graph_task(trace->graph, (dsflow_task_id){ i })->program ==
            DSFLOW_STEP;
    s->base = UINT32_MAX;
    for (size_t i = 0; i < t->n; i++) {
        if (!is_step(trace, &t->v[i]))
            continue;
        s->base = t->v[i].step < s->base ? t->v[i].step : s->base;
        last = t->v[i].step > last ? t->v[i].step : last;
    }
    s->n = s->base <= last ? last - s->base + 1 : 0;
    s->span = dsf_xcalloc((size_t)s->n * s->ntasks + 1, sizeof(*s->span));
    s->begun = dsf_xcalloc((size_t)s->n + 1, sizeof(*s->begun));
    s->ended = dsf_xcalloc((size_t)s->n + 1, sizeof(*s->ended));
    for (uint32_t i = 0; i < s->n; i++)
        s->begun[i] = -1;
    count = dsf_xcalloc((size_t)s->n + 1, sizeof(*count));
    index_spans(s, trace, count);
    index_lanes(s, trace);
    status = choose(s, count, whole, err);
    free(count);
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
    free(s->begun);
    free(s->ended);
    memset(s, 0, sizeof(*s));
}

uint32_t dsf_executed_steps(const struct dsf_trace *trace,
                            dsflow_program program)
{
    const struct dsf_timeline *t = &trace->timeline;
    uint32_t last = 0, n = 0;
    bool *seen;

    for (size_t i = 0; i < t->n; i++)
        last = t->v[i].step > last ? t->v[i].step : last;
    seen = dsf_xcalloc((size_t)last + 1, sizeof(*seen));
    for (size_t i = 0; i < t->n; i++) {
        const struct dsf_span *s = &t->v[i];

        if (!dsf_trace_is_step(trace, s) || seen[s->step] ||
            dsflow_graph_task(trace->graph, (dsflow_task_id){ s->what })
                    ->program != program)
            continue;
        seen[s->step] = true;
        n++;
    }
    free(seen);
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
