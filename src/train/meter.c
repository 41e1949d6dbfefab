/* meter.c - where the time of each step goes. */
#include "train/meter.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/units.h"
#include "exec/exec_trace.h"
#include "timeline/hidden.h"
#include "plan/programs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void find_programs(struct dsf_meter *m)
{
    unsigned n = dsflow_graph_nprograms(m->graph);
    bool *counts = dsf_xcalloc(n, sizeof(*counts));

    m->programs = dsf_xcalloc(n, sizeof(*m->programs));
    m->paths = dsf_xcalloc(n, sizeof(*m->paths));
    for (unsigned i = 0; i < n; i++)
        m->programs[i].counts = counts[i] = dsf_plan_runs_in_steps(
            m->plan, dsflow_graph_program(m->graph, (dsflow_program)i));
    dsf_step_paths_init(m->paths, counts, &m->processes, m->graph);
    free(counts);
}

void dsf_meter_init(struct dsf_meter *m, struct dsflow_exec *exec,
                    const struct dsflow_plan *plan, struct dsflow_graph *graph,
                    int64_t done, bool duplex)
{
    size_t n = (size_t)dsflow_graph_ntasks(graph) + 1;
    size_t ndata = (size_t)dsflow_graph_ndata(graph) + 1;

    *m = (struct dsf_meter){ .exec = exec,
                             .plan = plan,
                             .graph = graph,
                             .done = done,
                             .duplex = duplex };
    m->processes = dsf_processes_of(plan->machine, plan->nranks);
    m->sent.nprocesses = (unsigned)m->processes.n;
    find_programs(m);
    dsf_exec_lanes(exec, &m->lanes);
    m->seconds = dsf_xcalloc(n, sizeof(*m->seconds));
    m->ran = dsf_xcalloc(n, sizeof(*m->ran));
    dsf_teams_init(&m->teams, &m->lanes, duplex);
    dsf_load_init(&m->load, &m->teams);
    m->disk = m->lanes.nlanes;
    while (m->disk > 0 && m->lanes.lanes[m->disk - 1].kind == DSF_LANE_DISK)
        m->disk--;
    m->disks = m->disk < m->lanes.nlanes;
    if (m->processes.n < 2)
        return;
    m->came = dsf_xcalloc(ndata, sizeof(*m->came));
    m->ncame = dsf_xcalloc(ndata, sizeof(*m->ncame));
}

void dsf_meter_fini(struct dsf_meter *m)
{
    unsigned n = m->programs != NULL ? dsflow_graph_nprograms(m->graph) : 0;

    dsf_trace_close(m->file, false, NULL);
    for (unsigned i = 0; i < n; i++)
        free(m->programs[i].step);
    dsf_step_paths_fini(m->paths, n);
    free(m->programs);
    free(m->paths);
    dsf_timeline_fini(&m->lanes);
    dsf_timeline_fini(&m->drained);
    dsf_timeline_fini(&m->kept);
    free(m->seconds);
    free(m->ran);
    free(m->came);
    free(m->ncame);
    dsf_load_fini(&m->load);
    dsf_teams_fini(&m->teams);
    dsf_io_meter_fini(&m->io);
    dsf_io_meter_fini(&m->sent);
    memset(m, 0, sizeof(*m));
}

int dsf_meter_record(struct dsf_meter *m, struct dsf_trace *trace,
                     const char *path, int64_t first, int64_t last,
                     struct dsflow_err *err)
{
    struct dsf_timeline own = trace->timeline;
    int status;

    m->first = first;
    m->last = last;
    trace->timeline = m->lanes;
    status = dsf_trace_create(path, trace, &m->file, err);
    trace->timeline = own;
    return status;
}

static const struct dsflow_task_spec *task_of(const struct dsf_meter *m,
                                              const struct dsf_span *span)
{
    return dsflow_graph_task(m->graph, (dsflow_task_id){ span->what });
}

static struct dsf_meter_program *program_of(const struct dsf_meter *m,
                                            const struct dsf_span *span)
{
    return &m->programs[task_of(m, span)->program];
}

static bool is_of_step(const struct dsf_meter *m, const struct dsf_span *span)
{
    return span->kind == DSF_SPAN_TASK && program_of(m, span)->counts;
}

static enum dsf_share share_of(const struct dsf_meter *m,
                               const struct dsf_span *span)
{
    return dsf_share_of(span->kind == DSF_SPAN_TASK ? task_of(m, span) : NULL);
}

static bool is_disk(const struct dsf_meter *m, const struct dsf_span *span)
{
    return m->lanes.lanes[span->lane].kind == DSF_LANE_DISK;
}

/* The new ones that disks, and what may hide them, are at. */
static void keep_io(struct dsf_meter *m)
{
    for (size_t i = m->carried; i < m->drained.n && m->disks; i++) {
        const struct dsf_span *s = &m->drained.v[i];

        if (is_disk(m, s) || share_of(m, s) != DSF_SHARE_MOVE)
            dsf_io_meter_add(&m->io, s, is_disk(m, s));
    }
}

static bool hides(const struct dsf_meter *m, const struct dsf_span *span)
{
    const struct dsflow_task_spec *t =
        span->kind == DSF_SPAN_TASK ? task_of(m, span) : NULL;

    return t != NULL && dsf_task_hides(t);
}

/* The same of messages to other processes, and of what these compute. */
static void keep_sent(struct dsf_meter *m)
{
    for (size_t i = m->carried; i < m->drained.n && m->processes.n > 1; i++) {
        struct dsf_span s = m->drained.v[i];
        bool sends = dsf_exec_sends(m->exec, s.lane);

        if (s.rank < 0 || (!sends && !hides(m, &s)))
            continue;
        s.rank = (int16_t)dsf_process_of(&m->processes, s.rank);
        dsf_io_meter_add(&m->sent, &s, sends);
    }
}

static void smooth(double *seconds, uint32_t *times, const struct dsf_span *s)
{
    enum { WINDOW = 16 };
    const uint32_t n = *times < WINDOW ? ++*times : WINDOW;

    *seconds += (s->end - s->start - *seconds) / n;
}

/* Does a task compute with what came? */
static bool is_come(const struct dsf_meter *m, const struct dsf_span *s)
{
    return m->came != NULL && s->kind == DSF_SPAN_TRANSFER &&
           s->program < dsflow_graph_nprograms(m->graph) &&
           m->programs[s->program].counts &&
           dsf_exec_receives(m->exec, s->lane);
}

/* What each task takes, and what comes for it. Its first execution touches its
 * memory for the first time, and says nothing about the others. */
static void learn(struct dsf_meter *m)
{
    for (size_t i = m->carried; i < m->drained.n; i++) {
        const struct dsf_span *s = &m->drained.v[i];

        if (s->kind == DSF_SPAN_TASK && s->step > 0)
            smooth(&m->seconds[s->what], &m->ran[s->what], s);
        else if (s->step > 0 && is_come(m, s))
            smooth(&m->came[s->what], &m->ncame[s->what], s);
    }
}

/* The step in which a program ran for the `run`-th time, as steps are submitted
 * in their order. */
static uint32_t step_of(struct dsf_meter *m, const struct dsf_meter_program *p,
                        uint32_t run)
{
    while (p->nruns <= run) {
        struct dsf_meter_program *of = &m->programs[dsf_plan_program(
            m->plan, m->graph, m->done + m->known + 1)];

        dsf_grow(&of->step, &of->cap_runs, of->nruns + 1, sizeof(*of->step));
        of->step[of->nruns++] = m->known++;
    }
    return (uint32_t)p->step[run];
}

/* What of the messages of each step did not come. A step that is told has all:
 * its update needs them. */
static void count_unsent(struct dsf_meter *m)
{
    for (size_t i = m->carried; i < m->drained.n; i++) {
        const struct dsf_span *s = &m->drained.v[i];
        uint32_t step;

        if (s->unsent == 0 || s->kind != DSF_SPAN_TRANSFER || s->out ||
            s->program >= dsflow_graph_nprograms(m->graph) ||
            !m->programs[s->program].counts)
            continue;
        step = step_of(m, &m->programs[s->program], s->step);
        m->unsent[step % DSF_METER_STEPS]
                 [s->between ? DSF_WIRES_BETWEEN : DSF_WIRES_INSIDE] +=
            (double)s->unsent;
    }
}

/* The executor counts the runs of each program by itself. */
static void count_steps(struct dsf_meter *m)
{
    for (size_t i = m->carried; i < m->drained.n; i++) {
        struct dsf_span *s = &m->drained.v[i];

        if (is_of_step(m, s))
            s->step = step_of(m, program_of(m, s), s->step);
    }
}

/* Sums over [from, to]. A report is taken some time after it was made: what
 * ended meanwhile is carried over to the next step. What began before `from`
 * and was not seen by then counts whole, as nobody counted its beginning. */
static void add_up(struct dsf_meter *m, double from, double to)
{
    size_t n = 0;

    memset(&m->did, 0, sizeof(m->did));
    dsf_load_clear(&m->load);
    for (size_t i = 0; i < m->drained.n; i++) {
        struct dsf_span s = m->drained.v[i];
        double begun = i < m->carried ? fmax(s.start, from) : s.start;
        double here = fmin(s.end, to) - begun;

        if (s.end > from && here > 0) {
            dsf_shares_add(&m->did, m->lanes.lanes[s.lane].kind,
                           share_of(m, &s), here);
            if (!is_disk(m, &s) || m->duplex)
                dsf_load_add(&m->load, s.lane, here, s.rank >= 0);
        }
        if (s.end > to)
            m->drained.v[n++] = s;
    }
    m->drained.n = m->carried = n;
}

/* The critical path changes little from step to step, and finding it takes time
 * from the workers: not more than one part in a thousand. */
static void find_critical(const struct dsf_meter *m,
                          struct dsf_meter_program *p)
{
    enum { SHARE = 1000 };
    double now = dsf_now();

    if (p->critical > 0 && now - p->searched < SHARE * p->search)
        return;
    p->critical =
        dsf_step_path_seconds(&m->paths[p - m->programs], m->seconds, m->came);
    p->searched = now;
    p->search = dsf_now() - now;
}

/* The new ones that belong to the trace: what is no task of a step, while one
 * of those steps is under way. */
static void keep_spans(struct dsf_meter *m, int64_t step)
{
    m->kept.n = 0;
    for (size_t i = m->carried; i < m->drained.n; i++) {
        const struct dsf_span *s = &m->drained.v[i];
        int64_t at = is_of_step(m, s) ? (int64_t)s->step : step;

        if (at >= m->first && at <= m->last)
            dsf_timeline_add(&m->kept, s);
    }
}

/* A trace that cannot be written is no reason to end the run. */
static void write_spans(struct dsf_meter *m, int64_t step, bool end)
{
    struct dsflow_err err;
    int status;

    keep_spans(m, step);
    status = dsf_trace_append(m->file, m->kept.v, m->kept.n, &err);
    m->written += m->kept.n;
    /* A step after the next needs all that the last one of the trace does. */
    if (status == DSFLOW_OK && step <= m->last + 1 && !end)
        return;
    if (status == DSFLOW_OK)
        status = dsf_trace_close(m->file, true, &err);
    else
        dsf_trace_close(m->file, false, NULL);
    m->file = NULL;
    if (status < 0) {
        m->written = 0;
        dsf_warn("the trace ends here: %s", err.msg);
    }
}

static void drain(struct dsf_meter *m, int64_t step, double from, double to,
                  bool end)
{
    uint64_t lost = dsf_exec_drain(m->exec, &m->drained);

    learn(m);
    count_steps(m);
    count_unsent(m);
    keep_io(m);
    keep_sent(m);
    if (m->file != NULL) {
        m->lost += step >= m->first ? lost : 0;
        write_spans(m, step, end);
    }
    add_up(m, from, to);
}

/* The least that a step could have taken. `io`: seconds in which disks worked,
 * both ways counted once. */
static double find_bound(struct dsf_meter *m, struct dsf_meter_program *p,
                         double io)
{
    enum dsf_bound what;

    find_critical(m, p);
    if (m->disks && !m->duplex)
        dsf_load_add(&m->load, m->disk, io, true);
    return dsf_bound_seconds(&m->load, p->critical, &what);
}

/* What is said of a step is kept with its spans: a trace says the same. */
static void keep_step(struct dsf_meter *m, int64_t i, const struct dsf_lap *lap)
{
    if (m->file != NULL && i >= m->first && i <= m->last)
        dsf_trace_append_lap(m->file, (unsigned)i, lap, NULL);
}

void dsf_meter_step(struct dsf_meter *m, int64_t i, double from, double to,
                    struct dsf_step *step)
{
    double began = dsf_exec_began(m->exec), seconds = to - from;
    double workers = seconds * m->lanes.workers, hidden, *unsent;
    dsflow_program program =
        dsf_plan_program(m->plan, m->graph, m->done + i + 1);
    struct dsf_lap lap = { .ran = true,
                           .program = program,
                           .begin = from - began,
                           .end = to - began,
                           .loss_scale =
                               step->overflows >= 0 ? step->loss_scale : 0,
                           .skipped = step->skipped };

    drain(m, i, from - began, to - began, false);
    step->io_seconds =
        dsf_io_meter_take(&m->io, &m->lanes, from - began, to - began, &hidden);
    step->io_hidden = hidden / step->io_seconds; /* NAN: no disk works */
    step->sent_seconds = dsf_io_meter_take(&m->sent, &m->lanes, from - began,
                                           to - began, &hidden);
    step->sent_hidden = hidden / step->sent_seconds;
    unsent = m->unsent[i % DSF_METER_STEPS];
    memcpy(step->unsent, unsent, sizeof(step->unsent));
    memset(unsent, 0, sizeof(step->unsent));
    /* A task that is still running counts in the step in which it ends, which
     * may so get more than it has. */
    for (int k = 0; k < DSF_SHARE_IDLE; k++)
        step->share[k] = m->did.did[k] / fmax(m->did.busy, workers);
    step->share[DSF_SHARE_IDLE] = dsf_shares_idle(&m->did, workers);
    /* The first step touches memory for the first time. */
    lap.idle = step->share[DSF_SHARE_IDLE];
    lap.bound =
        i > 0 ? find_bound(m, &m->programs[program], step->io_seconds) : NAN;
    lap.critical = m->programs[program].critical;
    step->efficiency = dsf_efficiency(lap.bound, seconds);
    keep_step(m, i, &lap);
}

void dsf_meter_end(struct dsf_meter *m)
{
    drain(m, m->last, 0, INFINITY, true);
}
