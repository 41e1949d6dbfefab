/* series.c - a timeline played again. Everything that is counted changes at
 * the beginning or the end of a span, so that there is nothing to sort but the
 * ends, and a million spans are played in little memory. */
#include "trace/series.h"

#include "base/alloc.h"
#include "graph/succs.h"
#include "graph/task.h"

#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

/* A piece of data while the timeline is played. */
struct life {
    uint32_t uses_left; /* in the step it is alive in; 0: it is not */
    uint32_t step;
};

struct replay {
    const struct dsf_trace *trace;
    const struct dsf_window *window;
    const struct dsf_laps *steps;
    const struct dsf_watcher *watcher;
    const struct dsf_span *v;
    size_t n;

    uint32_t *ends;    /* spans by their end */
    uint32_t *next;    /* by span: the next on its lane, NONE: none */
    struct dsf_arrows arrows; /* none, where nobody asks for them */

    uint32_t first, ntasks; /* of a step */
    unsigned nsteps;
    uint32_t *waits;   /* by instance: predecessors that have not ended */
    struct dsf_succs succs;

    struct life *lives; /* by data */
    uint32_t *uses;     /* by data and program: in one run of it */
    unsigned nprograms;
    double (*values)[DSF_NSERIES]; /* by rank, and of none */
    double (*last)[DSF_NSERIES];   /* as they were told */
    uint8_t *dirty;     /* by rank: bits of series */
    unsigned *changed;  /* ranks */
    unsigned nchanged;
    unsigned told;      /* steps that have begun */
    double now;
};

static unsigned index_of(const struct replay *r, int rank)
{
    unsigned n = r->trace->facts.nranks;

    if (rank >= 0 && (unsigned)rank < n)
        return (unsigned)rank;
    return n == 1 ? 0 : n;
}

static const struct dsflow_data_spec *data_of(const struct dsf_trace *trace,
                                              uint32_t i)
{
    return dsflow_graph_data(trace->graph, (dsflow_data_id){ i });
}

static const struct dsflow_task_spec *task_of(const struct dsf_trace *trace,
                                              const struct dsf_span *s)
{
    return dsflow_graph_task(trace->graph, (dsflow_task_id){ s->what });
}

/* Bytes that a span takes from one memory to another. */
static double bytes_moved(const struct dsf_trace *trace,
                          const struct dsf_span *span)
{
    const struct dsflow_task_spec *t;

    if (span->kind == DSF_SPAN_TRANSFER)
        return (double)data_of(trace, span->what)->bytes - (double)span->unsent;
    t = task_of(trace, span);
    if (t->op->swaps)
        return (double)dsf_task_swapped(trace->graph, t);
    return dsf_traffic_bytes(&trace->tasks[span->what].moves);
}

static void change(struct replay *r, int rank, enum dsf_series series,
                   double by)
{
    unsigned i = index_of(r, rank);

    if (by == 0)
        return;
    if (r->dirty[i] == 0)
        r->changed[r->nchanged++] = i;
    r->dirty[i] |= (uint8_t)(1 << series);
    r->values[i][series] += by;
}

static enum dsf_series memory_of(const struct dsflow_data_spec *d)
{
    return (enum dsf_series)(DSF_MEMORY + d->tier);
}

/* Values count when the moment is over. */
static void tell_values(struct replay *r)
{
    const struct dsf_window *w = r->window;

    if (r->now >= w->end || r->watcher->value == NULL)
        return;
    for (unsigned i = 0; i < r->nchanged; i++) {
        unsigned rank = r->changed[i];

        for (unsigned k = 0; k < DSF_NSERIES; k++)
            if (r->dirty[rank] & 1 << k &&
                r->values[rank][k] != r->last[rank][k]) {
                r->last[rank][k] = r->values[rank][k];
                r->watcher->value(r->watcher->user, r->now, rank,
                                  (enum dsf_series)k, r->last[rank][k]);
            }
        r->dirty[rank] = 0;
    }
    r->nchanged = 0;
}

/* Of those before the window, the last is told at its beginning. */
static void tell_steps(struct replay *r, double until)
{
    const struct dsf_watcher *w = r->watcher;

    if (r->told < r->steps->first)
        r->told = r->steps->first;
    for (; r->told < r->steps->n && r->steps->v[r->told].begin <= until;
         r->told++) {
        double t = r->steps->v[r->told].begin;

        if (t < r->window->begin &&
            (r->told + 1 == r->steps->n ||
             r->steps->v[r->told + 1].begin > r->window->begin))
            t = r->window->begin;
        if (t >= r->window->begin && t < r->window->end && w->step != NULL)
            w->step(w->user, t, r->told);
    }
}

/* What changes before the window is told once, at its beginning. */
static void move_to(struct replay *r, double t)
{
    if (t < r->window->begin)
        t = r->window->begin;
    if (t > r->now) {
        tell_values(r);
        r->now = t;
    }
    tell_steps(r, t);
}

static bool is_of_step(const struct replay *r, const struct dsf_span *s)
{
    return s->kind == DSF_SPAN_TASK && s->what - r->first < r->ntasks &&
           s->step < r->nsteps;
}

/* A task has data that is not persistent: is it the first, in this step? */
static void touch(struct replay *r, const struct dsflow_task_spec *t,
                  uint32_t step, uint32_t data)
{
    struct life *life = &r->lives[data];
    const struct dsflow_data_spec *d = data_of(r->trace, data);

    if (d->persistent)
        return;
    if (life->uses_left == 0)
        change(r, d->home, memory_of(d), (double)d->bytes);
    else if (life->step == step)
        return;
    life->step = step;
    life->uses_left = r->uses[(size_t)data * r->nprograms + t->program];
}

static void let_go(struct replay *r, uint32_t data)
{
    struct life *life = &r->lives[data];
    const struct dsflow_data_spec *d = data_of(r->trace, data);

    if (!d->persistent && life->uses_left > 0 && --life->uses_left == 0)
        change(r, d->home, memory_of(d), -(double)d->bytes);
}

static void begin_span(struct replay *r, const struct dsf_span *s)
{
    const struct dsflow_task_spec *t;

    change(r, s->rank, DSF_IN_FLIGHT, bytes_moved(r->trace, s));
    if (s->kind != DSF_SPAN_TASK)
        return;
    t = task_of(r->trace, s);
    for (unsigned p = 0; p < t->ndata; p++)
        touch(r, t, s->step, t->data[p].i);
    if (is_of_step(r, s))
        change(r, t->rank, DSF_READY, -1);
}

/* An instance has one thing less to wait for. */
static void release(struct replay *r, unsigned step, uint32_t task)
{
    size_t x = (size_t)step * r->ntasks + task;

    if (step < r->nsteps && r->waits[x] != NONE && --r->waits[x] == 0)
        change(r,
               dsflow_graph_task(r->trace->graph,
                                 (dsflow_task_id){ r->first + task })
                   ->rank,
               DSF_READY, 1);
}

static void end_span(struct replay *r, const struct dsf_span *s)
{
    const struct dsflow_task_spec *t;
    const uint32_t *list;
    uint32_t n;

    change(r, s->rank, DSF_IN_FLIGHT, -bytes_moved(r->trace, s));
    if (s->kind != DSF_SPAN_TASK)
        return;
    t = task_of(r->trace, s);
    for (unsigned p = 0; p < t->ndata; p++)
        let_go(r, t->data[p].i);
    if (!is_of_step(r, s))
        return;
    list = dsf_succs(&r->succs, s->what - r->first, &n);
    for (uint32_t k = 0; k < n; k++)
        release(r, s->step, list[k]);
    list = dsf_succs_next(&r->succs, s->what - r->first, &n);
    for (uint32_t k = 0; k < n; k++)
        release(r, s->step + 1, list[k]);
}

static void tell_begin(struct replay *r, uint32_t i, uint32_t *arrow)
{
    const struct dsf_span *s = &r->v[i];
    const struct dsf_watcher *w = r->watcher;
    bool shown = s->start < r->window->end;

    for (; *arrow < r->arrows.n && r->arrows.v[*arrow].to == i; (*arrow)++)
        if (shown && s->start >= r->window->begin &&
            r->v[r->arrows.v[*arrow].from].end > r->window->begin)
            w->arrow(w->user, r->now, *arrow, &r->arrows.v[*arrow], true);
    if (!shown || s->end < r->window->begin)
        return;
    if (s->start == s->end) {
        if (s->start >= r->window->begin && w->instant != NULL)
            w->instant(w->user, r->now, i);
    } else if (s->end > r->window->begin && w->run != NULL)
        w->run(w->user, r->now, i,
               s->end < r->window->end ? s->end : r->window->end);
}

static void tell_end(struct replay *r, uint32_t i)
{
    const struct dsf_span *s = &r->v[i];
    const struct dsf_watcher *w = r->watcher;
    uint32_t next = r->next[i];

    if (s->end < r->window->begin || s->end >= r->window->end)
        return;
    for (uint32_t a = w->arrow == NULL ? NONE : r->arrows.leaves[i]; a != NONE;
         a = r->arrows.also[a])
        if (s->end > r->window->begin &&
            r->v[r->arrows.v[a].to].start < r->window->end)
            w->arrow(w->user, r->now, a, &r->arrows.v[a], false);
    if (s->start == s->end || w->idle == NULL)
        return;
    if (next == NONE || r->v[next].start > s->end)
        w->idle(w->user, r->now, s->lane);
}

static int by_end(const void *a, const void *b, void *spans)
{
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    const struct dsf_span *x = (const struct dsf_span *)spans + i;
    const struct dsf_span *y = (const struct dsf_span *)spans + j;

    if (x->end != y->end)
        return x->end < y->end ? -1 : 1;
    return i < j ? -1 : i > j;
}

/* Spans by their end; the next of each on its lane that takes time; and what
 * lanes are idle as the window opens. */
static void order(struct replay *r, bool *idle)
{
    unsigned nlanes = r->trace->timeline.nlanes;
    uint32_t *after = dsf_xcalloc(nlanes + 1, sizeof(*after));

    r->ends = dsf_xcalloc(r->n + 1, sizeof(*r->ends));
    r->next = dsf_xcalloc(r->n + 1, sizeof(*r->next));
    memset(after, 0xff, nlanes * sizeof(*after));
    for (unsigned i = 0; i < nlanes; i++)
        idle[i] = true;
    for (size_t i = r->n; i-- > 0;) {
        const struct dsf_span *s = &r->v[i];

        r->ends[i] = (uint32_t)i;
        r->next[i] = after[s->lane];
        if (s->end > s->start)
            after[s->lane] = (uint32_t)i;
        if (s->start <= r->window->begin && s->end > r->window->begin)
            idle[s->lane] = false;
    }
    qsort_r(r->ends, r->n, sizeof(*r->ends), by_end, (void *)r->v);
    free(after);
}

/* Only what is in the timeline is waited for. */
static void count_waits(struct replay *r)
{
    uint32_t *at, n;

    r->ntasks =
        dsflow_graph_program_tasks(r->trace->graph, DSFLOW_STEP, &r->first);
    for (size_t i = 0; i < r->n; i++)
        if (r->v[i].kind == DSF_SPAN_TASK && r->v[i].step >= r->nsteps &&
            r->v[i].what - r->first < r->ntasks)
            r->nsteps = r->v[i].step + 1;
    at = dsf_step_spans(r->trace, r->first, r->ntasks, r->nsteps);
    r->waits = dsf_xcalloc((size_t)r->ntasks * r->nsteps + 1,
                           sizeof(*r->waits));
    dsf_succs_init(&r->succs, r->trace->graph, r->first, r->ntasks,
                   r->nsteps > 1);
    for (unsigned step = 0; step < r->nsteps; step++)
        for (uint32_t i = 0; i < r->ntasks; i++) {
            size_t x = (size_t)step * r->ntasks;
            const uint32_t *list = dsf_succs(&r->succs, i, &n);

            if (at[x + i] == 0)
                continue;
            for (uint32_t k = 0; k < n; k++)
                r->waits[x + list[k]]++;
            if (step + 1 == r->nsteps)
                continue;
            list = dsf_succs_next(&r->succs, i, &n);
            for (uint32_t k = 0; k < n; k++)
                r->waits[x + r->ntasks + list[k]]++;
        }
    for (size_t x = 0; x < (size_t)r->ntasks * r->nsteps; x++) {
        if (at[x] == 0)
            r->waits[x] = NONE;
        else if (r->waits[x] == 0)
            change(r,
                   dsflow_graph_task(
                       r->trace->graph,
                       (dsflow_task_id){ r->first +
                                         (uint32_t)(x % r->ntasks) })
                       ->rank,
                   DSF_READY, 1);
    }
    free(at);
}

static void count_data(struct replay *r)
{
    const struct dsflow_graph *g = r->trace->graph;
    uint32_t ndata = dsflow_graph_ndata(g);

    r->nprograms = dsflow_graph_nprograms(g);
    r->lives = dsf_xcalloc((size_t)ndata + 1, sizeof(*r->lives));
    r->uses = dsf_xcalloc((size_t)ndata * r->nprograms + 1, sizeof(*r->uses));
    for (uint32_t i = 0; i < dsflow_graph_ntasks(g); i++) {
        const struct dsflow_task_spec *t =
            dsflow_graph_task(g, (dsflow_task_id){ i });

        for (unsigned p = 0; p < t->ndata; p++)
            r->uses[(size_t)t->data[p].i * r->nprograms + t->program]++;
    }
    for (uint32_t i = 0; i < ndata; i++) {
        const struct dsflow_data_spec *d = data_of(r->trace, i);

        if (d->persistent)
            change(r, d->home, memory_of(d), (double)d->bytes);
    }
}

/* Ends come before beginnings of the same time, but not before their own. */
static void play(struct replay *r)
{
    size_t b = 0, e = 0;
    uint32_t arrow = 0;

    while (e < r->n) {
        uint32_t end = r->ends[e];

        if (end < b && (b == r->n || r->v[end].end <= r->v[b].start)) {
            move_to(r, r->v[end].end);
            end_span(r, &r->v[end]);
            tell_end(r, end);
            e++;
            continue;
        }
        move_to(r, r->v[b].start);
        begin_span(r, &r->v[b]);
        tell_begin(r, (uint32_t)b, &arrow);
        b++;
    }
    tell_values(r);
}

void dsf_replay(const struct dsf_view *view, const struct dsf_watcher *watcher)
{
    const struct dsf_trace *trace = view->trace;
    unsigned nlanes = trace->timeline.nlanes;
    bool *idle = dsf_xcalloc(nlanes + 1, sizeof(*idle));
    struct replay r = {
        .trace = trace,
        .window = &view->window,
        .steps = &view->steps,
        .watcher = watcher,
        .v = trace->timeline.v,
        .n = trace->timeline.n,
        .now = view->window.begin,
    };

    r.values = dsf_xcalloc(trace->facts.nranks + 1, sizeof(*r.values));
    r.last = dsf_xcalloc(trace->facts.nranks + 1, sizeof(*r.last));
    r.dirty = dsf_xcalloc(trace->facts.nranks + 1, sizeof(*r.dirty));
    r.changed = dsf_xcalloc(trace->facts.nranks + 1, sizeof(*r.changed));
    order(&r, idle);
    count_data(&r);
    if (watcher->arrow != NULL)
        dsf_arrows_init(&r.arrows, trace);
    count_waits(&r);
    for (unsigned i = 0; i < nlanes && watcher->idle != NULL; i++)
        if (idle[i])
            watcher->idle(watcher->user, r.now, i);
    play(&r);
    free(idle);
    free(r.ends);
    free(r.next);
    dsf_arrows_fini(&r.arrows);
    free(r.waits);
    dsf_succs_fini(&r.succs);
    free(r.lives);
    free(r.uses);
    free(r.values);
    free(r.last);
    free(r.dirty);
    free(r.changed);
}
