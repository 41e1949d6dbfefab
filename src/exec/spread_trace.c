/* spread_trace.c - one timeline of what several processes ran.
 *
 * A message is a transfer of the data that it has, on lanes of the process that
 * notes it. Only this one has the whole graph: the others name tasks by their
 * number among those of their process, and data by their own number of it, of
 * which they say once what it is called (spread_lanes.c). Where it has not that
 * either (dsf_graph_part.alone), its own lanes and spans are all there are.
 * Times of another process become those of this one by the distance of the two
 * clocks. */
#include "exec/spread_private.h"

#include "base/alloc.h"
#include "exec/exec_trace.h"
#include "net/pass.h"

#include <math.h>
#include <stdlib.h>

enum { ASKED_LATER = 4 };

/* What a process says before its spans. */
struct some {
    double began; /* of its clock */
    uint64_t n, lost;
};

/* As the process with the whole graph knows them: what carries something for a
 * task is a transfer of that, and what goes out, to the rank of the task. */
static void rename_spans(const struct dsflow_exec *exec,
                         const struct dsf_graph_part *part, struct dsf_span *v,
                         size_t n)
{
    struct dsf_timeline own = { 0 };

    dsf_exec_lanes(exec, &own);
    for (size_t i = 0; i < n; i++) {
        uint32_t what = v[i].what;

        if (v[i].kind != DSF_SPAN_TASK)
            continue;
        /* Workers and cores run tasks: a copy beside what comes is one, too. */
        if (part->moved[what] != DSF_NOT_IN_PART &&
            own.lanes[v[i].lane].kind == DSF_LANE_LINK) {
            v[i].kind = DSF_SPAN_TRANSFER;
            v[i].what = part->moved[what];
            if (part->to[what] != DSFLOW_ANYWHERE)
                v[i].rank = part->to[what];
        } else
            v[i].what = part->nth[what];
    }
    dsf_timeline_fini(&own);
}

/* What a span of that process is of, in the whole graph. */
static bool find_what(const struct dsf_spread *s, int32_t process,
                      struct dsf_span *span)
{
    const struct dsf_spread_others *o = &s->others[process];
    const uint32_t *first = &s->part->first[process];

    if (span->kind == DSF_SPAN_TASK) {
        if (span->what >= first[1] - first[0])
            return false;
        span->what = s->part->ordered[first[0] + span->what];
        return true;
    }
    if (span->what >= o->ndata || o->data[span->what] == DSF_NOT_IN_PART)
        return false;
    span->what = o->data[span->what];
    return true;
}

/* Those of a process that say something in the whole graph: how many. */
static size_t find_all(const struct dsf_spread *s, int32_t process,
                       struct dsf_span *v, size_t n)
{
    size_t kept = 0;

    for (size_t i = 0; i < n; i++) {
        struct dsf_span span = v[i];

        if (span.lane < s->others[process].nlanes &&
            find_what(s, process, &span))
            v[kept++] = span;
    }
    return kept;
}

/* Spans of a process, whose timeline began `later` seconds after ours. That may
 * be known better than the last time: what follows in a lane does not begin
 * before what was taken then ends. */
static void add_spans(const struct dsf_spread *s, int32_t process, double later,
                      struct dsf_span *v, size_t n,
                      struct dsf_timeline *timeline)
{
    const struct dsf_spread_others *o = &s->others[process];
    const size_t first = timeline->n;

    n = find_all(s, process, v, n);

    for (size_t i = 0; i < n; i++) {
        struct dsf_span span = v[i];
        double ended = o->one_clock ? 0 : o->ended[span.lane];

        span.lane = o->lanes[span.lane];
        span.start = fmax(span.start + later, ended);
        span.end = fmax(span.end + later, span.start);
        dsf_timeline_add(timeline, &span);
    }
    for (size_t i = 0; i < n; i++)
        o->ended[v[i].lane] =
            fmax(o->ended[v[i].lane], timeline->v[first + i].end);
}

static uint64_t drain_other(const struct dsf_spread *s, int32_t process,
                            struct dsf_timeline *timeline)
{
    const struct dsf_spread_command c = { .what = DSF_SPREAD_SPANS };
    const struct dsf_spread_others *o = &s->others[process];
    struct dsf_span *v = NULL;
    struct some some;
    int64_t n;

    if (dsf_spread_ask(s, process, c, NULL) < 0 ||
        dsf_spread_answered(s, process, &n, NULL) < 0 ||
        dsf_pass(s->wire, false, process, DSF_SPREAD_CONTENTS, &some,
                 sizeof(some), NULL) < 0)
        return 0;
    v = dsf_xcalloc((size_t)some.n + 1, sizeof(*v));
    if (some.n == 0 || dsf_pass(s->wire, false, process, DSF_SPREAD_CONTENTS, v,
                                some.n * sizeof(*v), NULL) == DSFLOW_OK)
        add_spans(s, process, some.began - o->clock.ahead - s->own->opened, v,
                  some.n, timeline);
    free(v);
    return some.lost;
}

uint64_t dsf_spread_drain(const struct dsflow_exec *exec,
                          struct dsf_timeline *timeline)
{
    const struct dsf_spread *s = exec->spread;
    struct dsf_timeline own = { 0 };
    uint64_t lost = dsf_exec_drain(s->own, &own);

    rename_spans(s->own, s->part, own.v, own.n);
    for (int32_t p = 0; s->others != NULL && p < s->wire->nprocesses; p++)
        if (p == s->wire->process)
            add_spans(s, p, 0, own.v, own.n, timeline);
        else if (s->others[p].known) {
            dsf_spread_find_clock(s, p, ASKED_LATER);
            lost += drain_other(s, p, timeline);
        }
    dsf_timeline_fini(&own);
    return lost;
}

/* --- in the others -------------------------------------------------------- */

int dsf_spread_tell_spans(struct dsflow_exec *exec,
                          const struct dsf_graph_part *part,
                          struct dsf_wire *wire, int32_t to,
                          struct dsflow_err *err)
{
    struct dsf_timeline own = { 0 };
    struct some some = { .began = dsf_exec_began(exec) };
    int status;

    some.lost = dsf_exec_drain(exec, &own);
    some.n = own.n;
    rename_spans(exec, part, own.v, own.n);
    status = dsf_spread_answer(wire, to, DSFLOW_OK, (int64_t)own.n, NULL, err);
    if (status == DSFLOW_OK)
        status = dsf_pass(wire, true, to, DSF_SPREAD_CONTENTS, &some,
                          sizeof(some), err);
    if (status == DSFLOW_OK && own.n > 0)
        status = dsf_pass(wire, true, to, DSF_SPREAD_CONTENTS, own.v,
                          own.n * sizeof(*own.v), err);
    dsf_timeline_fini(&own);
    return status;
}
