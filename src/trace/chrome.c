/* chrome.c - a trace for Perfetto and chrome://tracing: the "Trace Event
 * Format" (JSON). A rank is a process, its lanes are threads. */
#include "trace/show.h"

#include "base/alloc.h"
#include "graph/shape_text.h"
#include "trace/palette.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct chrome {
    const struct dsf_view *view;
    const struct dsf_trace *trace;
    struct dsf_kinds kinds;
    bool has[DSF_NFIGURES]; /* of steps */
    char **kind_text; /* by kind: "name":…,"cat":…,"cname":… */
    FILE *out;
};

/* The names of colours that chrome://tracing knows; Perfetto has its own. */
static const char *const colours[DSF_NFAMILIES] = {
    [DSF_FORWARD] = "thread_state_runnable",
    [DSF_BACKWARD_INPUT] = "rail_response",
    [DSF_BACKWARD_WEIGHT] = "rail_load",
    [DSF_RECOMPUTED] = "startup",
    [DSF_UPDATES] = "rail_idle",
    [DSF_MOVES] = "detailed_memory_dump",
    [DSF_SWAPS] = "rail_animation",
    [DSF_OTHER] = "generic_work",
    [DSF_IDLE] = "thread_state_sleeping",
};

static const char *colour_of(const struct dsf_kind *kind)
{
    if (kind->family == DSF_SWAPS && dsf_is_dark(kind->colour))
        return "terrible";
    return colours[kind->family];
}

static char *quoted(const char *text)
{
    json_t *string = json_string(text);
    char *quotes;

    if (string == NULL) /* not UTF-8 */
        string = json_string("?");
    quotes = json_dumps(string, JSON_ENCODE_ANY);
    json_decref(string);
    return quotes;
}

/* Process 0 is what is of no rank. */
static unsigned process_of(const struct dsf_trace *trace, int rank)
{
    return rank >= 0 && (unsigned)rank < trace->facts.nranks
               ? (unsigned)rank + 1
               : 0;
}

/* Whole nanoseconds since the window began: ends and beginnings that meet must
 * meet in the file too, as Perfetto drops what overlaps. */
static long long since(const struct chrome *c, double t)
{
    return llround((t - c->view->window.begin) * 1e9);
}

/* In microseconds. */
static void put_time(struct chrome *c, const char *key, long long ns)
{
    fprintf(c->out, ",\"%s\":%lld.%03lld", key, ns / 1000, ns % 1000);
}

static void put_place(struct chrome *c, const char *event, long long ns,
                      unsigned lane)
{
    fprintf(c->out, ",\n{\"ph\":\"%s\",\"pid\":%u,\"tid\":%u", event,
            process_of(c->trace, c->trace->timeline.lanes[lane].rank),
            lane + 1);
    put_time(c, "ts", ns);
}

static void put_name(struct chrome *c, const char *what, unsigned process,
                     int thread, const char *name)
{
    char *text = quoted(name);

    fprintf(c->out, ",\n{\"ph\":\"M\",\"name\":\"%s_name\",\"pid\":%u", what,
            process);
    if (thread >= 0)
        fprintf(c->out, ",\"tid\":%d", thread);
    fprintf(c->out, ",\"args\":{\"name\":%s}}", text);
    fprintf(c->out, ",\n{\"ph\":\"M\",\"name\":\"%s_sort_index\",\"pid\":%u",
            what, process);
    if (thread >= 0)
        fprintf(c->out, ",\"tid\":%d", thread);
    fprintf(c->out, ",\"args\":{\"sort_index\":%d}}",
            thread >= 0 ? thread : (int)process);
    free(text);
}

static void put_names(struct chrome *c)
{
    const struct dsf_timeline *timeline = &c->trace->timeline;
    char *name = quoted(c->trace->facts.name);
    char *executor = quoted(c->trace->facts.executor);

    fprintf(c->out,
            "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"job\":%s,"
            "\"executor\":%s},\"traceEvents\":[\n"
            "{\"ph\":\"M\",\"name\":\"process_labels\",\"pid\":0,"
            "\"args\":{\"labels\":%s}}",
            name, executor, name);
    free(executor);
    free(name);
    put_name(c, "process", 0, -1, "all ranks");
    put_name(c, "thread", 0, 0, "steps");
    for (unsigned r = 0; r < c->trace->facts.nranks; r++)
        put_name(c, "process", r + 1, -1,
                 dsf_trace_rank_text(&c->trace->facts, r).s);
    for (unsigned i = 0; i < timeline->nlanes; i++)
        put_name(c, "thread", process_of(c->trace, timeline->lanes[i].rank),
                 (int)i + 1, timeline->lanes[i].name);
}

static void put_span(struct chrome *c, size_t i)
{
    const struct dsf_span *s = &c->trace->timeline.v[i];
    long long step = dsf_trace_step_of(c->trace, s);

    fprintf(c->out, ",%s,\"args\":{\"rank\":%d",
            c->kind_text[dsf_kind_of(&c->kinds, c->trace, s)], s->rank);
    if (step > 0)
        fprintf(c->out, ",\"step\":%lld", step);
    if (s->kind == DSF_SPAN_TASK) {
        const struct dsflow_task_spec *t =
            dsflow_graph_task(c->trace->graph, (dsflow_task_id){ s->what });
        const struct dsf_trace_task *cost = &c->trace->tasks[s->what];

        if (t->layer >= 0)
            fprintf(c->out, ",\"layer\":%d", t->layer);
        if (t->microbatch >= 0)
            fprintf(c->out, ",\"microbatch\":%d", t->microbatch);
        if (t->tile >= 0)
            fprintf(c->out, ",\"tile\":%d", t->tile);
        fprintf(c->out, ",\"bytes\":%.0f,\"flops\":%.0f}}", cost->bytes,
                cost->flops);
    } else {
        const struct dsflow_data_spec *d =
            dsflow_graph_data(c->trace->graph, (dsflow_data_id){ s->what });
        char *name = quoted(d->name);

        fprintf(c->out, ",\"data\":%s,\"shape\":\"%s\",\"bytes\":%zu}}", name,
                dsf_shape_text(d).s, d->bytes);
        free(name);
    }
}

static void run(void *user, double t, size_t span, double end)
{
    struct chrome *c = user;

    put_place(c, "X", since(c, t), c->trace->timeline.v[span].lane);
    put_time(c, "dur", since(c, end) - since(c, t));
    put_span(c, span);
}

static void instant(void *user, double t, size_t span)
{
    struct chrome *c = user;

    put_place(c, "i", since(c, t), c->trace->timeline.v[span].lane);
    fputs(",\"s\":\"t\"", c->out);
    put_span(c, span);
}

/* An arrow is tied to the box that is open at its time: 1 ns before the end is
 * within the first one. */
static void arrow(void *user, double t, uint32_t number,
                  const struct dsf_arrow *a, bool arrives)
{
    struct chrome *c = user;
    const struct dsf_timeline *timeline = &c->trace->timeline;

    put_place(c, arrives ? "f" : "s", since(c, t) - (arrives ? 0 : 1),
              timeline->v[arrives ? a->to : a->from].lane);
    fprintf(c->out, ",\"id\":%u,\"name\":\"data\",\"cat\":\"data\"%s}", number,
            arrives ? ",\"bp\":\"e\"" : "");
}

static void put_counter(struct chrome *c, double t, unsigned process,
                        const char *name, const char *unit, double v)
{
    fprintf(c->out, ",\n{\"ph\":\"C\",\"name\":\"%s\",\"pid\":%u", name,
            process);
    put_time(c, "ts", since(c, t));
    fprintf(c->out, ",\"args\":{\"%s\":%.12g}}", unit, v);
}

static void value(void *user, double t, unsigned rank, enum dsf_series series,
                  double v)
{
    static const struct {
        const char *name, *unit;
        double scale;
    } counters[DSF_NSERIES] = {
        [DSF_MEMORY] = { "memory", "MiB", 1 << 20 },
        [DSF_MEMORY + DSFLOW_HOST] = { "cpu memory", "MiB", 1 << 20 },
        [DSF_MEMORY + DSFLOW_NVME] = { "nvme", "MiB", 1 << 20 },
        [DSF_IN_FLIGHT] = { "in flight", "MiB", 1 << 20 },
        [DSF_READY] = { "ready", "tasks", 1 },
    };
    struct chrome *c = user;

    put_counter(c, t, process_of(c->trace, (int)rank), counters[series].name,
                counters[series].unit, v / counters[series].scale);
}

static void step(void *user, double t, unsigned number)
{
    struct chrome *c = user;
    const struct dsf_lap *lap = &c->view->steps.v[number];

    for (unsigned f = 0; f < DSF_NFIGURES; f++) {
        const struct dsf_figure *figure = &dsf_figures[f];

        if (c->has[f] && !isnan(figure->of(lap)))
            put_counter(c, t, 0, figure->name, figure->unit, figure->of(lap));
    }
    fprintf(c->out,
            ",\n{\"ph\":\"i\",\"s\":\"t\",\"pid\":0,\"tid\":0,"
            "\"name\":\"step %lld",
            (long long)c->trace->facts.first + number);
    if (lap->program != DSFLOW_STEP)
        fprintf(c->out, " (%s)",
                dsflow_graph_program(c->trace->graph, lap->program));
    fputc('"', c->out);
    put_time(c, "ts", since(c, t));
    fputs("}", c->out);
}

void dsf_write_chrome(const struct dsf_view *view, FILE *out)
{
    struct chrome c = { .view = view, .trace = view->trace, .out = out };
    const struct dsf_watcher watcher = { .user = &c,
                                         .run = run,
                                         .instant = instant,
                                         .arrow = arrow,
                                         .value = value,
                                         .step = step };

    dsf_kinds_init(&c.kinds, view->trace);
    for (unsigned f = 0; f < DSF_NFIGURES; f++)
        c.has[f] = dsf_laps_have(&view->steps, &dsf_figures[f]);
    c.kind_text = dsf_xcalloc(c.kinds.n, sizeof(*c.kind_text));
    for (unsigned k = 0; k < c.kinds.n; k++) {
        char *name = quoted(c.kinds.v[k].name);

        c.kind_text[k] = dsf_xasprintf(
            "\"name\":%s,\"cat\":\"%s\",\"cname\":\"%s\"", name,
            dsf_family_name(c.kinds.v[k].family), colour_of(&c.kinds.v[k]));
        free(name);
    }
    put_names(&c);
    dsf_replay(view, &watcher);
    fputs("\n]}\n", out);
    for (unsigned k = 0; k < c.kinds.n; k++)
        free(c.kind_text[k]);
    free(c.kind_text);
    dsf_kinds_fini(&c.kinds);
}
