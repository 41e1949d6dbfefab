/* paje.c - a trace for ViTE and the tools of Paje (Kergommeaux, Stein, Bernard
 * 2000): a process holds ranks, and a rank its workers, links and disks.
 *
 * What is of no rank is in a container beside those of ranks. A lane is in
 * exactly one state at any time, and "idle" is one. Values of events and links
 * stand there by name: ViTE has them for states only, and complains of others.
 */
#include "graph/shape_text.h"
#include "trace/show.h"

#include "trace/palette.h"

#include <math.h>

/* Times are whole nanoseconds: %f of a double is slow, and may say less. */
static void put_time(const struct dsf_view *view, double t, FILE *out)
{
    long long ns = llround((t - view->window.begin) * 1e9);

    fprintf(out, "%lld.%09lld", ns / 1000000000, ns % 1000000000);
}

struct paje {
    const struct dsf_view *view;
    const struct dsf_trace *trace;
    struct dsf_kinds kinds;
    bool has[DSF_NFIGURES]; /* of steps */
    FILE *out;
};

enum {
    CONTAINER_TYPE,
    STATE_TYPE,
    EVENT_TYPE,
    LINK_TYPE,
    VARIABLE_TYPE,
    VALUE,
    CONTAINER,
    END_CONTAINER,
    IDLE,
    RUN,
    INSTANT,
    LINK_FROM,
    LINK_TO,
    VARIABLE
};

/* What a task is, behind the name of its kind. */
#define DETAILS                                                                \
    "%       Layer int\n"                                                      \
    "%       Micro int\n"                                                      \
    "%       Tile int\n"                                                       \
    "%       Step int\n"                                                       \
    "%       Rank int\n"                                                       \
    "%       Bytes double\n"                                                   \
    "%       Flops double\n"                                                   \
    "%       Data string\n"

static const struct {
    int id;
    const char *name, *fields;
} events[] = {
    { CONTAINER_TYPE, "PajeDefineContainerType",
      "%       Alias string\n%       Type string\n%       Name string\n" },
    { STATE_TYPE, "PajeDefineStateType",
      "%       Alias string\n%       Type string\n%       Name string\n" },
    { EVENT_TYPE, "PajeDefineEventType",
      "%       Alias string\n%       Type string\n%       Name string\n"
      "%       Color color\n" },
    { LINK_TYPE, "PajeDefineLinkType",
      "%       Alias string\n%       Type string\n"
      "%       StartContainerType string\n%       EndContainerType string\n"
      "%       Name string\n" },
    { VARIABLE_TYPE, "PajeDefineVariableType",
      "%       Alias string\n%       Type string\n%       Name string\n"
      "%       Color color\n" },
    { VALUE, "PajeDefineEntityValue",
      "%       Alias string\n%       Type string\n%       Name string\n"
      "%       Color color\n" },
    { CONTAINER, "PajeCreateContainer",
      "%       Time date\n%       Alias string\n%       Type string\n"
      "%       Container string\n%       Name string\n" },
    { END_CONTAINER, "PajeDestroyContainer",
      "%       Time date\n%       Type string\n%       Name string\n" },
    { IDLE, "PajeSetState",
      "%       Time date\n%       Type string\n%       Container string\n"
      "%       Value string\n" },
    { RUN, "PajeSetState",
      "%       Time date\n%       Type string\n%       Container string\n"
      "%       Value string\n" DETAILS },
    { INSTANT, "PajeNewEvent",
      "%       Time date\n%       Type string\n%       Container string\n"
      "%       Value string\n" DETAILS },
    { LINK_FROM, "PajeStartLink",
      "%       Time date\n%       Type string\n%       Container string\n"
      "%       StartContainer string\n%       Value string\n"
      "%       Key string\n" },
    { LINK_TO, "PajeEndLink",
      "%       Time date\n%       Type string\n%       Container string\n"
      "%       EndContainer string\n%       Value string\n"
      "%       Key string\n" },
    { VARIABLE, "PajeSetVariable",
      "%       Time date\n%       Type string\n%       Container string\n"
      "%       Value double\n" },
};

/* Types of lane, by enum dsf_lane_kind: container, state, event. */
static const struct {
    const char *container, *name, *state, *event;
} lane_types[DSF_NLANE_KINDS] = {
    [DSF_LANE_WORKER] = { "CW", "Worker", "SW", "EW" },
    [DSF_LANE_LINK] = { "CL", "Link", "SL", "EL" },
    [DSF_LANE_DISK] = { "CD", "Disk", "SD", "ED" },
    [DSF_LANE_HOST] = { "CH", "Cores", "SH", "EH" },
};

/* Sizes are in MiB, as ViTE writes figures in full. */
static const struct {
    const char *alias, *name;
    double unit;
    enum dsf_kind_family colour;
} variables[DSF_NSERIES] = {
    [DSF_MEMORY] = { "VM", "memory (MiB)", 1 << 20, DSF_FORWARD },
    [DSF_MEMORY + DSFLOW_HOST] = { "VH", "cpu memory (MiB)", 1 << 20,
                                   DSF_BACKWARD_INPUT },
    [DSF_MEMORY + DSFLOW_NVME] = { "VN", "nvme (MiB)", 1 << 20, DSF_SWAPS },
    [DSF_IN_FLIGHT] = { "VF", "in flight (MiB)", 1 << 20, DSF_MOVES },
    [DSF_READY] = { "VR", "ready tasks", 1, DSF_UPDATES },
};

/* Of steps. */
static const struct {
    const char *alias;
    enum dsf_kind_family colour;
} figures[DSF_NFIGURES] = {
    [DSF_EFFICIENCY] = { "VE", DSF_BACKWARD_WEIGHT },
    [DSF_LOSS_SCALE] = { "VL", DSF_BACKWARD_INPUT },
    [DSF_SKIPPED] = { "VS", DSF_SWAPS },
};

/* Nothing escapes a quote in Paje. */
static void put_text(const char *text, FILE *out)
{
    for (; *text != '\0'; text++)
        fputc(*text == '"' ? '\'' : *text, out);
}

static void put_name(const char *name, FILE *out)
{
    fputs(" \"", out);
    put_text(name, out);
    fputc('"', out);
}

static void put_colour(uint32_t c, FILE *out)
{
    fprintf(out, " \"%.4f %.4f %.4f\"", (c >> 16 & 255) / 255.0,
            (c >> 8 & 255) / 255.0, (c & 255) / 255.0);
}

static void put_value(const char *type, unsigned i, const struct dsf_kind *kind,
                      FILE *out)
{
    fprintf(out, "%d %s%u %s", VALUE, type, i, type);
    put_name(kind->name, out);
    put_colour(kind->colour, out);
    fputc('\n', out);
}

static void put_types(struct paje *p)
{
    FILE *out = p->out;

    for (size_t i = 0; i < sizeof(events) / sizeof(*events); i++)
        fprintf(out, "%%EventDef %s %d\n%s%%EndEventDef\n", events[i].name,
                events[i].id, events[i].fields);
    fprintf(out, "%d CP 0 Process\n%d CR CP Rank\n", CONTAINER_TYPE,
            CONTAINER_TYPE);
    for (unsigned k = 0; k < DSF_NLANE_KINDS; k++) {
        fprintf(out, "%d %s CR %s\n", CONTAINER_TYPE, lane_types[k].container,
                lane_types[k].name);
        fprintf(out, "%d %s %s \"%s state\"\n", STATE_TYPE, lane_types[k].state,
                lane_types[k].container, lane_types[k].name);
        fprintf(out, "%d %s %s \"%s event\"", EVENT_TYPE, lane_types[k].event,
                lane_types[k].container, lane_types[k].name);
        put_colour(dsf_family_colour(DSF_OTHER), out);
        fputc('\n', out);
        for (unsigned i = 0; i < p->kinds.n; i++)
            put_value(lane_types[k].state, i, &p->kinds.v[i], out);
        fprintf(out, "%d %si %s idle", VALUE, lane_types[k].state,
                lane_types[k].state);
        put_colour(dsf_family_colour(DSF_IDLE), out);
        fputc('\n', out);
    }
}

/* A link type for each two kinds of lane that data goes between. */
static void put_links_and_variables(struct paje *p)
{
    for (unsigned a = 0; a < DSF_NLANE_KINDS; a++)
        for (unsigned b = 0; b < DSF_NLANE_KINDS; b++)
            fprintf(p->out, "%d L%u%u CP %s %s \"%s to %s\"\n", LINK_TYPE, a, b,
                    lane_types[a].container, lane_types[b].container,
                    lane_types[a].name, lane_types[b].name);
    for (unsigned k = 0; k < DSF_NSERIES; k++) {
        fprintf(p->out, "%d %s CR \"%s\"", VARIABLE_TYPE, variables[k].alias,
                variables[k].name);
        put_colour(dsf_family_colour(variables[k].colour), p->out);
        fputc('\n', p->out);
    }
    for (unsigned f = 0; f < DSF_NFIGURES; f++) {
        if (!p->has[f])
            continue;
        fprintf(p->out, "%d %s CP \"%s (%s)\"", VARIABLE_TYPE, figures[f].alias,
                dsf_figures[f].name, dsf_figures[f].unit);
        put_colour(dsf_family_colour(figures[f].colour), p->out);
        fputc('\n', p->out);
    }
}

static unsigned owner(const struct dsf_trace *trace, const struct dsf_lane *lane)
{
    return lane->rank >= 0 && (unsigned)lane->rank < trace->facts.nranks
               ? (unsigned)lane->rank
               : trace->facts.nranks;
}

static bool has_shared(const struct dsf_trace *trace)
{
    for (unsigned i = 0; i < trace->timeline.nlanes; i++)
        if (owner(trace, &trace->timeline.lanes[i]) == trace->facts.nranks)
            return true;
    return false;
}

static void put_lanes_of(struct paje *p, unsigned rank)
{
    const struct dsf_timeline *timeline = &p->trace->timeline;

    for (unsigned i = 0; i < timeline->nlanes; i++) {
        const struct dsf_lane *lane = &timeline->lanes[i];
        char whose[32] = "";

        if (owner(p->trace, lane) != rank)
            continue;
        /* Names are used once: a worker has several rows. */
        if (p->view->worker != NULL && lane->kind == DSF_LANE_WORKER &&
            lane->rank >= 0)
            snprintf(whose, sizeof(whose), "rank %u on ", rank);
        fprintf(p->out, "%d 0 W%u %s R%u \"%s", CONTAINER, i,
                lane_types[lane->kind].container, rank, whose);
        put_text(lane->name, p->out);
        fputs("\"\n", p->out);
    }
}

/* What is shared comes first: it is what runs. */
static void put_containers(struct paje *p)
{
    unsigned nranks = p->trace->facts.nranks;
    const char *name = p->trace->facts.name;

    fprintf(p->out, "%d 0 P0 CP 0", CONTAINER);
    put_name(name[0] != '\0' ? name : "dsflow", p->out);
    fputc('\n', p->out);
    if (has_shared(p->trace)) {
        fprintf(p->out, "%d 0 R%u CR P0 \"all ranks\"\n", CONTAINER, nranks);
        put_lanes_of(p, nranks);
    }
    for (unsigned r = 0; r < nranks; r++) {
        fprintf(p->out, "%d 0 R%u CR P0", CONTAINER, r);
        put_name(dsf_trace_rank_text(&p->trace->facts, r).s, p->out);
        fputc('\n', p->out);
        put_lanes_of(p, r);
    }
}

static void put_head(struct paje *p, int event, const char *type, double t,
                     unsigned lane)
{
    fprintf(p->out, "%d ", event);
    put_time(p->view, t, p->out);
    fprintf(p->out, " %s W%u", type, lane);
}

static void put_span(struct paje *p, int event, double t, size_t i)
{
    const struct dsf_span *s = &p->trace->timeline.v[i];
    const struct dsf_lane *lane = &p->trace->timeline.lanes[s->lane];
    long long step = dsf_trace_step_of(p->trace, s);
    unsigned kind = dsf_kind_of(&p->kinds, p->trace, s);

    if (event == RUN) {
        put_head(p, event, lane_types[lane->kind].state, t, s->lane);
        fprintf(p->out, " %s%u", lane_types[lane->kind].state, kind);
    } else {
        put_head(p, event, lane_types[lane->kind].event, t, s->lane);
        put_name(p->kinds.v[kind].name, p->out);
    }
    if (s->kind == DSF_SPAN_TASK) {
        const struct dsflow_task_spec *task =
            dsflow_graph_task(p->trace->graph, (dsflow_task_id){ s->what });
        const struct dsf_trace_task *cost = &p->trace->tasks[s->what];

        fprintf(p->out, " %d %d %d %lld %d %.0f %.0f -\n", task->layer,
                task->microbatch, task->tile, step, task->rank, cost->bytes,
                cost->flops);
    } else {
        const struct dsflow_data_spec *d =
            dsflow_graph_data(p->trace->graph, (dsflow_data_id){ s->what });

        fprintf(p->out, " -1 -1 -1 %lld %d %zu 0 \"", step, s->rank, d->bytes);
        put_text(d->name, p->out);
        fprintf(p->out, " %s\"\n", dsf_shape_text(d).s);
    }
}

static void run(void *user, double t, size_t span, double end)
{
    put_span(user, RUN, t, span);
}

static void instant(void *user, double t, size_t span)
{
    put_span(user, INSTANT, t, span);
}

static void idle(void *user, double t, unsigned lane)
{
    struct paje *p = user;
    const char *type = lane_types[p->trace->timeline.lanes[lane].kind].state;

    put_head(p, IDLE, type, t, lane);
    fprintf(p->out, " %si\n", type);
}

static void arrow(void *user, double t, uint32_t number,
                  const struct dsf_arrow *a, bool arrives)
{
    struct paje *p = user;
    const struct dsf_timeline *timeline = &p->trace->timeline;
    unsigned from = timeline->v[a->from].lane, to = timeline->v[a->to].lane;
    unsigned x = timeline->lanes[from].kind, y = timeline->lanes[to].kind;

    fprintf(p->out, "%d ", arrives ? LINK_TO : LINK_FROM);
    put_time(p->view, t, p->out);
    fprintf(p->out, " L%u%u P0 W%u data %u\n", x, y, arrives ? to : from,
            number);
}

static void value(void *user, double t, unsigned rank, enum dsf_series series,
                  double v)
{
    struct paje *p = user;

    if (rank == p->trace->facts.nranks && !has_shared(p->trace))
        return;
    fprintf(p->out, "%d ", VARIABLE);
    put_time(p->view, t, p->out);
    fprintf(p->out, " %s R%u %.12g\n", variables[series].alias, rank,
            v / variables[series].unit);
}

static void step(void *user, double t, unsigned number)
{
    struct paje *p = user;

    for (unsigned f = 0; f < DSF_NFIGURES; f++) {
        double v = dsf_figures[f].of(&p->view->steps.v[number]);

        if (!p->has[f] || isnan(v))
            continue;
        fprintf(p->out, "%d ", VARIABLE);
        put_time(p->view, t, p->out);
        fprintf(p->out, " %s P0 %.4f\n", figures[f].alias, v);
    }
}

static void put_end_of(struct paje *p, const char *type, const char *name,
                       unsigned number)
{
    fprintf(p->out, "%d ", END_CONTAINER);
    put_time(p->view, p->view->window.end, p->out);
    fprintf(p->out, " %s %s%u\n", type, name, number);
}

static void put_ends(struct paje *p)
{
    const struct dsf_timeline *timeline = &p->trace->timeline;
    unsigned nranks = p->trace->facts.nranks;

    for (unsigned i = 0; i < timeline->nlanes; i++)
        put_end_of(p, lane_types[timeline->lanes[i].kind].container, "W", i);
    for (unsigned r = 0; r < nranks + (has_shared(p->trace) ? 1 : 0); r++)
        put_end_of(p, "CR", "R", r);
    put_end_of(p, "CP", "P", 0);
}

void dsf_write_paje(const struct dsf_view *view, FILE *out)
{
    struct paje p = { .view = view, .trace = view->trace, .out = out };
    const struct dsf_watcher watcher = { .user = &p,
                                         .run = run,
                                         .idle = idle,
                                         .instant = instant,
                                         .arrow = arrow,
                                         .value = value,
                                         .step = step };

    dsf_kinds_init(&p.kinds, view->trace);
    for (unsigned f = 0; f < DSF_NFIGURES; f++)
        p.has[f] = dsf_laps_have(&view->steps, &dsf_figures[f]);
    put_types(&p);
    put_links_and_variables(&p);
    put_containers(&p);
    dsf_replay(view, &watcher);
    put_ends(&p);
    dsf_kinds_fini(&p.kinds);
}
