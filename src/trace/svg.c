/* svg.c - the picture of a step: what each lane does when, and the memory of
 * each rank, with no viewer and for paper too. */
#include "trace/svg.h"

#include "base/alloc.h"
#include "base/units.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FEW_LINES = 200 };

/* Tasks of one micro-batch and pass that follow each other, for its number. */
struct batch {
    double x0, x1;
    int16_t microbatch, rank;
    uint8_t pass;
};

struct line {
    float x0, x1;
    uint16_t from, to;
};

struct label {
    float x;
    uint16_t lane;
    int16_t microbatch;
};

struct gantt {
    struct dsf_svg svg;
    struct dsf_svg_boxes *boxes;
    struct batch *batches; /* by lane, while they are made */
    unsigned nlanes;
    double bottom;
    struct line *lines;
    size_t nlines, cap_lines;
    struct label *labels;
    size_t nlabels, cap_labels;
    struct dsf_svg_memory *memory[DSFLOW_NTIERS];
};

static int rank_of(const struct gantt *g, unsigned lane)
{
    return g->svg.trace->timeline.lanes[lane].rank;
}

static bool is_worker(const struct gantt *g, unsigned lane)
{
    return g->svg.trace->timeline.lanes[lane].kind == DSF_LANE_WORKER;
}

/* Lanes of a rank stand together; workers of several ranks come before them,
 * and links and disks of several after them. */
static int group_of(const struct gantt *g, unsigned lane)
{
    int rank = rank_of(g, lane), nranks = (int)g->svg.trace->facts.nranks;

    if (rank >= 0 && rank < nranks)
        return rank;
    return is_worker(g, lane) ? -1 : nranks;
}

static void place_rows(struct gantt *g)
{
    int nranks = (int)g->svg.trace->facts.nranks;
    double weight = 0, unit;

    for (unsigned i = 0; i < g->nlanes; i++)
        weight += is_worker(g, i) ? 1 : 0.5;
    unit = 560 / (weight > 0 ? weight : 1);
    unit = unit > 34 ? 34 : unit < 1.6 ? 1.6 : unit;
    for (int r = -1; r <= nranks; r++) {
        bool any = false;

        for (unsigned i = 0; i < g->nlanes; i++) {
            if (group_of(g, i) != r)
                continue;
            any = true;
            g->svg.rows[i].y = g->bottom;
            g->svg.rows[i].height = unit * (is_worker(g, i) ? 1 : 0.5);
            g->bottom += g->svg.rows[i].height + (unit > 12 ? 1.5 : 0);
        }
        if (any)
            g->bottom += unit > 12 ? 6 : unit > 4 ? 1.5 : 0.3;
    }
}

static void close_batch(struct gantt *g, unsigned lane)
{
    struct batch *b = &g->batches[lane];
    double width = b->microbatch > 99 ? 22 : b->microbatch > 9 ? 16 : 10;

    if (b->microbatch >= 0 && b->x1 - b->x0 > width &&
        g->svg.rows[lane].height >= 9) {
        dsf_grow(&g->labels, &g->cap_labels, g->nlabels + 1,
                 sizeof(*g->labels));
        g->labels[g->nlabels++] =
            (struct label){ (float)((b->x0 + b->x1) / 2), (uint16_t)lane,
                            b->microbatch };
    }
    b->microbatch = -1;
}

static void add_to_batch(struct gantt *g, const struct dsf_span *s, double x0,
                         double x1)
{
    struct batch *b = &g->batches[s->lane];
    const struct dsflow_task_spec *t;

    if (s->kind != DSF_SPAN_TASK || !is_worker(g, s->lane))
        return;
    t = dsflow_graph_task(g->svg.trace->graph, (dsflow_task_id){ s->what });
    if (t->op->comm && x1 - x0 < 2)
        return;
    if (b->microbatch != t->microbatch || b->pass != t->pass ||
        b->rank != t->rank || x0 - b->x1 > 2) {
        close_batch(g, s->lane);
        *b = (struct batch){ x0, x1, t->microbatch, t->rank, t->pass };
    }
    b->x1 = x1;
}

static void run(void *user, double t, size_t span, double end)
{
    struct gantt *g = user;
    const struct dsf_span *s = &g->svg.trace->timeline.v[span];
    double x0 = dsf_svg_x(&g->svg, t), x1 = dsf_svg_x(&g->svg, end);

    dsf_svg_boxes_add(g->boxes, span, x0, x1);
    add_to_batch(g, s, x0, x1);
}

/* From rank to rank only: what goes on within one is near anyway. */
static void arrow(void *user, double t, uint32_t number,
                  const struct dsf_arrow *a, bool arrives)
{
    struct gantt *g = user;
    const struct dsf_span *from = &g->svg.trace->timeline.v[a->from];
    const struct dsf_span *to = &g->svg.trace->timeline.v[a->to];

    if (!arrives || from->rank == to->rank)
        return;
    dsf_grow(&g->lines, &g->cap_lines, g->nlines + 1, sizeof(*g->lines));
    g->lines[g->nlines++] =
        (struct line){ (float)dsf_svg_x(&g->svg, from->end),
                       (float)dsf_svg_x(&g->svg, t), from->lane, to->lane };
}

static void value(void *user, double t, unsigned rank, enum dsf_series series,
                  double v)
{
    struct gantt *g = user;

    if (series < DSF_MEMORY + DSFLOW_NTIERS)
        dsf_svg_memory_add(g->memory[series - DSF_MEMORY], t, rank, v);
}

static void put_labels(struct gantt *g)
{
    for (size_t i = 0; i < g->nlabels; i++) {
        const struct label *l = &g->labels[i];
        const struct dsf_svg_row *row = &g->svg.rows[l->lane];

        dsf_svg_text(g->svg.out, l->x, row->y + row->height / 2 + 4,
                     " text-anchor=\"middle\" class=\"m\" "
                     "pointer-events=\"none\"",
                     "%d", l->microbatch);
    }
}

/* On lanes that are of several ranks, arrows show little when there are many. */
static bool is_shown(const struct gantt *g, const struct line *l)
{
    return g->nlines <= FEW_LINES || rank_of(g, l->from) >= 0 ||
           rank_of(g, l->to) >= 0;
}

/* From edge to edge; the more there are, the fainter. */
static void put_lines(struct gantt *g)
{
    FILE *out = g->svg.out;
    double opacity = 0.7;

    if (g->nlines > FEW_LINES)
        opacity *= FEW_LINES / (double)g->nlines;
    if (opacity < 0.02)
        return;
    fprintf(out, "<g stroke=\"#222\" stroke-width=\".6\" opacity=\"%.2f\">\n",
            opacity);
    for (size_t i = 0; i < g->nlines; i++) {
        const struct line *l = &g->lines[i];
        const struct dsf_svg_row *a = &g->svg.rows[l->from],
                                 *b = &g->svg.rows[l->to];
        bool down = a->y < b->y;
        double y0 = down ? a->y + a->height : a->y;
        double y1 = down ? b->y : b->y + b->height;

        if (a == b || !is_shown(g, l))
            continue;
        fprintf(out, "<path d=\"M%s %sL%s %s\"%s/>\n", dsf_svg_num(l->x0).s,
                dsf_svg_num(y0).s, dsf_svg_num(l->x1).s, dsf_svg_num(y1).s,
                g->nlines <= 4 * FEW_LINES ? " marker-end=\"url(#a)\"" : "");
    }
    fputs("</g>\n", out);
}

/* Names of ranks and lanes, as far as there is room for them. */
static void put_lane_names(struct gantt *g)
{
    const struct dsf_timeline *timeline = &g->svg.trace->timeline;
    int nranks = (int)g->svg.trace->facts.nranks, left = g->svg.left;
    const char *shared = "disks";
    double free_from = 0;

    for (unsigned i = 0; i < g->nlanes; i++)
        if (group_of(g, i) == nranks &&
            timeline->lanes[i].kind == DSF_LANE_LINK)
            shared = "links";

    for (int r = -1; r <= nranks; r++) {
        double top = INFINITY, bottom = 0;

        for (unsigned i = 0; i < g->nlanes; i++) {
            const struct dsf_svg_row *row = &g->svg.rows[i];

            if (group_of(g, i) != r)
                continue;
            if (row->y < top)
                top = row->y;
            if (row->y + row->height > bottom)
                bottom = row->y + row->height;
            fprintf(g->svg.out,
                    "<path fill=\"#%06x\" d=\"M%d %sh%dv%sh-%dz\"/>\n",
                    dsf_family_colour(DSF_IDLE), left,
                    dsf_svg_num(row->y).s, SVG_RIGHT - left,
                    dsf_svg_num(row->height).s, SVG_RIGHT - left);
            if (row->height >= 8)
                dsf_svg_text(g->svg.out, left - 5,
                             row->y + row->height / 2 + 3.5,
                             " text-anchor=\"end\" class=\"s\"", "%s",
                             timeline->lanes[i].name);
        }
        if (top > bottom || (top + bottom) / 2 - 5 < free_from)
            continue;
        free_from = (top + bottom) / 2 + 5;
        if (r == nranks)
            dsf_svg_text(g->svg.out, 8, (top + bottom) / 2 + 3.5,
                         " class=\"b\"", "%s", shared);
        else
            dsf_svg_text(g->svg.out, 8, (top + bottom) / 2 + 3.5,
                         " class=\"b\"", r < 0 ? "all ranks" : "rank %d", r);
    }
}

/* Round ticks below the lanes, and lines through everything. */
static void put_time_axis(struct gantt *g, double top, double bottom)
{
    static const struct {
        double scale;
        const char *unit;
    } units[] = { { 1, "s" }, { 1e3, "ms" }, { 1e6, "us" } };
    double all = g->svg.view->window.end - g->svg.view->window.begin, tick;
    FILE *out = g->svg.out;
    unsigned u = 0;

    if (!(all > 0))
        return;
    while (u < 2 && all * units[u].scale < 2)
        u++;
    tick = dsf_svg_tick(all * units[u].scale, 12);
    for (int i = 0; i * tick <= all * units[u].scale * 1.0001; i++) {
        double x = g->svg.left + i * tick / units[u].scale * g->svg.per_second;

        fprintf(out, "<path d=\"M%s %sV%s\" stroke=\"#ccc\" "
                     "stroke-width=\".6\"/>\n",
                dsf_svg_num(x).s, dsf_svg_num(top).s, dsf_svg_num(bottom).s);
        dsf_svg_text(out, x, g->bottom + 13,
                     " text-anchor=\"middle\" class=\"s\"", "%g%s%s", i * tick,
                     i > 0 ? " " : "", i > 0 ? units[u].unit : "");
    }
}

/* The steps that end in the window. */
static void put_title(struct gantt *g)
{
    const struct dsf_trace_facts *f = &g->svg.trace->facts;
    const struct dsf_view *view = g->svg.view;
    double seconds = 0, idle = 0, efficiency;
    unsigned first = 0, n = 0;
    const char *program;
    char when[96] = "", mesh[200], share[40] = "";
    bool is_plain;

    for (unsigned k = 0; k < view->steps.n; k++) {
        const struct dsf_lap *s = &view->steps.v[k];

        if (s->end <= view->window.begin || s->end > view->window.end)
            continue;
        if (n++ == 0)
            first = k;
        seconds += s->end - s->begin;
        idle += s->idle * (s->end - s->begin);
    }
    dsf_svg_text(g->svg.out, 8, 22, " class=\"t\"", "%s", f->name);
    if (n == 0 || seconds <= 0)
        return;
    is_plain = view->steps.v[first].program == DSFLOW_STEP;
    program =
        dsflow_graph_program(g->svg.trace->graph, view->steps.v[first].program);
    if (n > 1)
        snprintf(when, sizeof(when), "steps %lld to %lld, each ",
                 (long long)f->first + first,
                 (long long)f->first + first + n - 1);
    else
        snprintf(when, sizeof(when), "step %lld%s%.40s, ",
                 (long long)f->first + first, is_plain ? "" : " of ",
                 is_plain ? "" : program);
    dsf_trace_mesh_text(f, mesh, sizeof(mesh));
    efficiency = dsf_laps_sum(&view->steps, first, first + n).efficiency;
    if (!isnan(efficiency))
        snprintf(share, sizeof(share), "efficiency %.1f %%, ",
                 100 * efficiency);
    dsf_svg_text(g->svg.out, 8, 40, "", "%s%s%s: %sworkers idle %.1f %%; %s",
                 when, f->simulated ? "simulated, " : "",
                 dsf_seconds_text(seconds / n).s, share, 100 * idle / seconds,
                 mesh);
}

static void put_head(struct gantt *g, double height)
{
    fprintf(g->svg.out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" "
            "height=\"%.0f\" viewBox=\"0 0 %d %.0f\" "
            "font-family=\"sans-serif\" font-size=\"12\">\n"
            "<style>.s{font-size:10px;fill:#444}.b{font-size:11px;"
            "font-weight:bold}.t{font-size:16px;font-weight:bold}"
            ".m{font-size:11px;paint-order:stroke;stroke:#fff;"
            "stroke-width:2.5px;stroke-linejoin:round}</style>\n"
            "<defs><marker id=\"a\" markerWidth=\"5\" markerHeight=\"4\" "
            "refX=\"5\" refY=\"2\" orient=\"auto\" "
            "markerUnits=\"userSpaceOnUse\"><path d=\"M0 0L5 2L0 4z\" "
            "fill=\"#222\" stroke=\"none\"/></marker>\n",
            SVG_WIDTH, height, SVG_WIDTH, height);
    dsf_svg_put_textures(&g->svg);
    fprintf(g->svg.out,
            "</defs>\n<rect width=\"%d\" height=\"%.0f\" fill=\"#fff\"/>\n",
            SVG_WIDTH, height);
}

static int by_time(const void *a, const void *b)
{
    const struct dsf_lap *x = *(const struct dsf_lap *const *)a;
    const struct dsf_lap *y = *(const struct dsf_lap *const *)b;
    double u = x->end - x->begin, v = y->end - y->begin;

    return u < v ? -1 : u > v;
}

/* The median of the steps that have others before and after them. */
static struct dsf_window typical(const struct dsf_view *view)
{
    const struct dsf_laps *steps = &view->steps;
    unsigned all = steps->n - steps->first, ends = all >= 3 ? 1 : 0;
    unsigned n = all - 2 * ends;
    const struct dsf_lap **sorted, *step;

    if (view->chosen || all == 0)
        return view->window;
    sorted = dsf_xcalloc(n, sizeof(*sorted));
    for (unsigned k = 0; k < n; k++)
        sorted[k] = &steps->v[steps->first + ends + k];
    qsort(sorted, n, sizeof(*sorted), by_time);
    step = sorted[n / 2];
    free(sorted);
    return (struct dsf_window){ step->begin, step->end };
}

static void play(struct gantt *g)
{
    const struct dsf_watcher watcher = {
        .user = g, .run = run, .arrow = arrow, .value = value
    };

    for (unsigned i = 0; i < g->nlanes; i++)
        g->batches[i].microbatch = -1;
    dsf_replay(g->svg.view, &watcher);
    for (unsigned i = 0; i < g->nlanes; i++)
        close_batch(g, i);
}

/* One picture of each tier that has anything. */
static double put_memory(struct gantt *g, double y)
{
    static const char *const names[DSFLOW_NTIERS] = {
        [DSFLOW_DEVICE] = "memory",
        [DSFLOW_HOST] = "cpu",
        [DSFLOW_NVME] = "nvme",
    };

    for (int t = 0; t < DSFLOW_NTIERS; t++)
        y = dsf_svg_memory_draw(g->memory[t], names[t], y);
    return y;
}

/* The lower parts know where they end when they are drawn: the head, which has
 * the height, comes last and goes first. */
static double draw(struct gantt *g)
{
    double top = g->bottom, y;

    place_rows(g);
    play(g);
    put_title(g);
    put_lane_names(g);
    y = put_memory(g, g->bottom + 22);
    put_time_axis(g, top, y);
    dsf_svg_boxes_draw(g->boxes);
    put_lines(g);
    put_labels(g);
    return dsf_svg_put_legend(g->boxes, y + 16) + 4;
}

/* Room for "rank 12" and the longest name of a lane. */
static int find_left(const struct dsf_trace *trace)
{
    size_t most = 0;

    for (unsigned i = 0; i < trace->timeline.nlanes; i++)
        if (strlen(trace->timeline.lanes[i].name) > most)
            most = strlen(trace->timeline.lanes[i].name);
    return most > 9 ? SVG_LEFT + 6 * (int)(most - 9) : SVG_LEFT;
}

void dsf_write_svg(const struct dsf_view *whole, FILE *out)
{
    struct dsf_view view = *whole;
    struct gantt g = { .svg = { .view = &view, .trace = view.trace },
                       .nlanes = view.trace->timeline.nlanes,
                       .bottom = 54 };
    double height, seconds;
    char *body;
    size_t bytes;

    view.window = typical(whole);
    seconds = view.window.end - view.window.begin;
    g.svg.left = find_left(view.trace);
    g.svg.per_second = (SVG_RIGHT - g.svg.left) / (seconds > 0 ? seconds : 1);
    g.svg.rows = dsf_xcalloc(g.nlanes + 1, sizeof(*g.svg.rows));
    g.batches = dsf_xcalloc(g.nlanes + 1, sizeof(*g.batches));
    dsf_kinds_init(&g.svg.kinds, view.trace);
    g.boxes = dsf_svg_boxes_new(&g.svg);
    for (int t = 0; t < DSFLOW_NTIERS; t++)
        g.memory[t] = dsf_svg_memory_new(&g.svg);
    g.svg.out = dsf_xmemstream(&body, &bytes);
    height = draw(&g);
    fclose(g.svg.out);
    g.svg.out = out;
    put_head(&g, height);
    fwrite(body, 1, bytes, out);
    fputs("</svg>\n", out);
    free(body);
    for (int t = 0; t < DSFLOW_NTIERS; t++)
        dsf_svg_memory_free(g.memory[t]);
    dsf_kinds_fini(&g.svg.kinds);
    dsf_svg_boxes_free(g.boxes);
    free(g.svg.rows);
    free(g.batches);
    free(g.lines);
    free(g.labels);
}
