/* dot_times.c - the graph that ran, with the times of its tasks. */
#include "trace/show.h"

#include "base/alloc.h"
#include "base/units.h"
#include "timeline/critical.h"
#include "graph/dot.h"
#include "trace/palette.h"

#include <stdlib.h>

struct times {
    const struct dsf_trace *trace;
    struct dsf_kinds kinds;
    double *mean;       /* by task */
    uint32_t *ran;      /* by task: how often */
    uint32_t *critical; /* by task: its place on the critical path, from 1 */
};

static bool shows(void *user, uint32_t task)
{
    return ((struct times *)user)->ran[task] > 0;
}

static void label(void *user, uint32_t task, FILE *out)
{
    const struct times *times = user;
    double predicted = times->trace->tasks[task].predicted;

    fprintf(out, "\\n%s", dsf_seconds_text(times->mean[task]).s);
    /* A simulation is what was predicted. */
    if (predicted >= 0 && !times->trace->facts.simulated)
        fprintf(out, "\\npredicted %s", dsf_seconds_text(predicted).s);
}

static void style(void *user, uint32_t task, FILE *out)
{
    const struct times *times = user;
    const struct dsf_kind *kind = &times->kinds.v[times->kinds.of_task[task]];

    fprintf(out, ", fillcolor=\"#%06x\"", kind->colour);
    if (dsf_is_dark(kind->colour))
        fputs(", fontcolor=\"white\"", out);
    if (times->critical[task] != 0)
        fprintf(out, ", color=\"#%06x\", penwidth=5",
                dsf_family_colour(DSF_SWAPS));
}

static void edge(void *user, uint32_t from, uint32_t to, FILE *out)
{
    const struct times *times = user;

    if (times->critical[from] != 0 &&
        times->critical[to] == times->critical[from] + 1)
        fprintf(out, " [color=\"#%06x\", penwidth=4]",
                dsf_family_colour(DSF_SWAPS));
}

/* Means over the spans that begin in the window. */
static void find_means(struct times *times, const struct dsf_window *window)
{
    const struct dsf_timeline *timeline = &times->trace->timeline;
    uint32_t n = dsflow_graph_ntasks(times->trace->graph);

    for (size_t i = 0; i < timeline->n; i++) {
        const struct dsf_span *s = &timeline->v[i];

        if (s->kind != DSF_SPAN_TASK || s->start < window->begin ||
            s->start > window->end)
            continue;
        times->mean[s->what] += s->end - s->start;
        times->ran[s->what]++;
    }
    for (uint32_t i = 0; i < n; i++)
        if (times->ran[i] > 0)
            times->mean[i] /= times->ran[i];
}

static void find_way(struct times *times)
{
    uint32_t first, ntasks, *path, n;
    struct dsf_succs edges;

    ntasks =
        dsflow_graph_program_tasks(times->trace->graph, DSFLOW_STEP, &first);
    if (ntasks == 0)
        return;
    dsf_succs_init(&edges, times->trace->graph, first, ntasks, false);
    dsf_critical(&edges, times->mean + first, ntasks, 0, &path, &n);
    for (uint32_t i = 0; i < n; i++)
        times->critical[first + path[i]] = i + 1;
    free(path);
    dsf_succs_fini(&edges);
}

void dsf_write_times_dot(const struct dsf_view *view, FILE *out)
{
    size_t n = (size_t)dsflow_graph_ntasks(view->trace->graph) + 1;
    struct times times = { .trace = view->trace };
    const struct dsf_dot more = {
        .user = &times, .shows = shows, .label = label, .style = style,
        .edge = edge,
    };

    times.mean = dsf_xcalloc(n, sizeof(*times.mean));
    times.ran = dsf_xcalloc(n, sizeof(*times.ran));
    times.critical = dsf_xcalloc(n, sizeof(*times.critical));
    dsf_kinds_init(&times.kinds, view->trace);
    find_means(&times, &view->window);
    find_way(&times);
    dsf_graph_write_dot(view->trace->graph, &more, out, NULL);
    dsf_kinds_fini(&times.kinds);
    free(times.mean);
    free(times.ran);
    free(times.critical);
}
