/* svg.c - the picture of a step: what each lane does when, and the memory of
 * each rank, with no viewer and for paper too. */
#include "trace/svg.h"

#include "base/alloc.h"
#include "base/units.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { FEW_LINES = 200 };

/* What a lane does from x0 to x1. */
struct box {
    float x0, x1;
    uint16_t lane, kind;
};

/* Tasks of one micro-batch and pass that follow each other, for its number. */
struct batch {
    double x0, x1;
    int16_t microbatch, rank;
    uint8_t pass;
};

/* A lane while its boxes are made. What is too narrow to be seen is gathered
 * into a box of the kind that has most of it. */
struct row {
    double y, height;
    double x0, x1;
    double *share; /* by kind, of what is gathered */
    int only;      /* kind of all of it, or -1 */
    bool open;
    struct batch batch;
};

struct line {
    float x0, x1;
    uint16_t from, to;
};

struct label {
    float x;
    uint16_t lane;
    int16_t microbatch;
    uint8_t pass;
};

struct gantt {
    struct dsf_svg svg;
    struct row *rows; /* by lane */
    unsigned nlanes;
    double narrow;    /* narrower boxes are gathered */
    double bottom;
    struct box *boxes;
    size_t nboxes, cap_boxes;
    struct line *lines;
    size_t nlines, cap_lines;
    struct label *labels;
    size_t nlabels, cap_labels;
    struct dsf_svg_memory *memory[DSFLOW_NTIERS];
};

struct dsf_svg_num dsf_svg_num(double v)
{
    struct dsf_svg_num n;
    char *end;

    snprintf(n.s, sizeof(n.s), "%.2f", v);
    end = n.s + strlen(n.s) - 1;
    while (*end == '0')
        *end-- = '\0';
    if (*end == '.')
        *end = '\0';
    return n;
}

void dsf_svg_text(FILE *out, double x, double y, const char *how,
                  const char *fmt, ...)
{
    char text[256];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    fprintf(out, "<text x=\"%s\" y=\"%s\"%s>", dsf_svg_num(x).s,
            dsf_svg_num(y).s, how);
    for (const char *c = text; *c != '\0'; c++)
        switch (*c) {
        case '<': fputs("&lt;", out); break;
        case '>': fputs("&gt;", out); break;
        case '&': fputs("&amp;", out); break;
        default:
            if ((unsigned char)*c >= ' ')
                fputc(*c, out);
        }
    fputs("</text>\n", out);
}

double dsf_svg_tick(double most, int n)
{
    double least = most / n, tick = pow(10, floor(log10(least)));

    return least <= tick ? tick : least <= 2 * tick ? 2 * tick
                              : least <= 5 * tick   ? 5 * tick
                                                    : 10 * tick;
}

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
            g->rows[i].y = g->bottom;
            g->rows[i].height = unit * (is_worker(g, i) ? 1 : 0.5);
            g->bottom += g->rows[i].height + (unit > 12 ? 1.5 : 0);
        }
        if (any)
            g->bottom += unit > 12 ? 6 : unit > 4 ? 1.5 : 0.3;
    }
}

static void close_box(struct gantt *g, unsigned lane)
{
    struct row *row = &g->rows[lane];
    unsigned kind = 0;

    if (!row->open)
        return;
    for (unsigned k = 0; k < g->svg.kinds.n; k++) {
        if (row->share[k] > row->share[kind])
            kind = k;
    }
    memset(row->share, 0, g->svg.kinds.n * sizeof(*row->share));
    row->open = false;
    dsf_grow(&g->boxes, &g->cap_boxes, g->nboxes + 1, sizeof(*g->boxes));
    g->boxes[g->nboxes++] = (struct box){ (float)row->x0, (float)row->x1,
                                          (uint16_t)lane, (uint16_t)kind };
}

static void add_box(struct gantt *g, unsigned lane, int kind, double x0,
                    double x1)
{
    struct row *row = &g->rows[lane];
    double gap = x0 - row->x1;
    bool narrow = x1 - x0 < g->narrow && row->x1 - row->x0 < g->narrow;
    bool same = row->only == kind && gap < 0.05 && x1 - x0 < 3;

    if (row->open && !same && !(narrow && gap < g->narrow))
        close_box(g, lane);
    if (!row->open) {
        row->open = true;
        row->x0 = x0;
        row->only = kind;
    }
    if (row->only != kind)
        row->only = -1;
    row->x1 = x1;
    row->share[kind] += x1 - x0;
}

static void close_batch(struct gantt *g, unsigned lane)
{
    struct batch *b = &g->rows[lane].batch;
    double width = b->microbatch > 99 ? 22 : b->microbatch > 9 ? 16 : 10;

    if (b->microbatch >= 0 && b->x1 - b->x0 > width &&
        g->rows[lane].height >= 9) {
        dsf_grow(&g->labels, &g->cap_labels, g->nlabels + 1,
                 sizeof(*g->labels));
        g->labels[g->nlabels++] =
            (struct label){ (float)((b->x0 + b->x1) / 2), (uint16_t)lane,
                            b->microbatch, b->pass };
    }
    b->microbatch = -1;
}

static void add_to_batch(struct gantt *g, const struct dsf_span *s, double x0,
                         double x1)
{
    struct batch *b = &g->rows[s->lane].batch;
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

    add_box(g, s->lane, (int)dsf_kind_of(&g->svg.kinds, g->svg.trace, s), x0,
            x1);
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

static int by_lane_and_kind(const void *a, const void *b)
{
    const struct box *x = a, *y = b;

    if (x->lane != y->lane)
        return x->lane < y->lane ? -1 : 1;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    return x->x0 < y->x0 ? -1 : x->x0 > y->x0;
}

/* One path for all boxes of a kind on a lane. */
static void put_boxes(struct gantt *g)
{
    FILE *out = g->svg.out;

    if (g->nboxes > 1)
        qsort(g->boxes, g->nboxes, sizeof(*g->boxes), by_lane_and_kind);
    for (size_t i = 0; i < g->nboxes; i++) {
        const struct box *b = &g->boxes[i];
        const struct row *row = &g->rows[b->lane];
        double width = b->x1 - b->x0;
        struct dsf_svg_num x = dsf_svg_num(b->x0), h = dsf_svg_num(row->height);

        /* A hair between boxes that are wide enough to be seen. */
        width = width > 4 ? width - 0.4 : width < 0.3 ? 0.3 : width;
        if (i == 0 || b->lane != b[-1].lane || b->kind != b[-1].kind)
            fprintf(out, "<path fill=\"#%06x\" d=\"",
                    g->svg.kinds.v[b->kind].colour);
        fprintf(out, "M%s %sh%sv%sH%sz", x.s, dsf_svg_num(row->y).s,
                dsf_svg_num(width).s, h.s, x.s);
        if (i + 1 == g->nboxes || b->lane != b[1].lane || b->kind != b[1].kind)
            fputs("\"/>\n", out);
    }
}

static void put_labels(struct gantt *g)
{
    for (size_t i = 0; i < g->nlabels; i++) {
        const struct label *l = &g->labels[i];
        const struct row *row = &g->rows[l->lane];

        dsf_svg_text(g->svg.out, l->x, row->y + row->height / 2 + 4,
                     l->pass == DSFLOW_FORWARD
                         ? " text-anchor=\"middle\" class=\"m\""
                         : " text-anchor=\"middle\" class=\"m w\"",
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
        const struct row *a = &g->rows[l->from], *b = &g->rows[l->to];
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
            const struct row *row = &g->rows[i];

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

/* "mlp" of "mlp.forward" and of "mlp_part.forward": the family says more. */
static int segment(const char *name)
{
    int n = (int)strcspn(name, ".");

    return n > 5 && strncmp(name + n - 5, "_part", 5) == 0 ? n - 5 : n;
}

/* Is a kind that looks the same in the legend already? */
static bool is_known(const struct dsf_kinds *kinds, const bool *present,
                     unsigned kind)
{
    const struct dsf_kind *k = &kinds->v[kind];
    int n = segment(k->name);

    for (unsigned i = 0; i < kind; i++)
        if (present[i] && kinds->v[i].family == k->family &&
            segment(kinds->v[i].name) == n &&
            strncmp(kinds->v[i].name, k->name, (size_t)n) == 0)
            return true;
    return false;
}

static double put_legend(struct gantt *g, double y)
{
    const struct dsf_kinds *kinds = &g->svg.kinds;
    bool *present = dsf_xcalloc(kinds->n + 1, sizeof(*present));
    FILE *out = g->svg.out;

    for (size_t i = 0; i < g->nboxes; i++)
        present[g->boxes[i].kind] = true;
    for (unsigned f = 0; f < DSF_NFAMILIES; f++) {
        double x = SVG_LEFT + 24;
        bool any = false;

        for (unsigned k = 0; k < kinds->n; k++) {
            int n = segment(kinds->v[k].name);
            double width = 28 + 5.6 * n;

            if (!present[k] || kinds->v[k].family != f ||
                is_known(kinds, present, k))
                continue;
            if (!any)
                dsf_svg_text(out, 8, y + 9, " class=\"b\"", "%s",
                             dsf_family_name((enum dsf_family)f));
            if (x + width > SVG_RIGHT) {
                x = SVG_LEFT + 24;
                y += 15;
            }
            any = true;
            fprintf(out, "<path fill=\"#%06x\" d=\"M%s %sh12v10h-12z\"/>\n",
                    kinds->v[k].colour, dsf_svg_num(x).s, dsf_svg_num(y).s);
            dsf_svg_text(out, x + 16, y + 9, " class=\"s\"", "%.*s", n,
                         kinds->v[k].name);
            x += width;
        }
        y += any ? 15 : 0;
    }
    free(present);
    return y;
}

/* The steps that end in the window. */
static void put_title(struct gantt *g)
{
    const struct dsf_trace_facts *f = &g->svg.trace->facts;
    const struct dsf_view *view = g->svg.view;
    double seconds = 0, bound = 0, idle = 0;
    unsigned first = 0, n = 0;
    char when[64] = "";

    for (unsigned k = 0; k < view->steps.n; k++) {
        const struct dsf_lap *s = &view->steps.v[k];

        if (s->end <= view->window.begin || s->end > view->window.end)
            continue;
        if (n++ == 0)
            first = k;
        seconds += s->end - s->begin;
        bound += dsf_lap_efficiency(s) * (s->end - s->begin);
        idle += s->idle * (s->end - s->begin);
    }
    dsf_svg_text(g->svg.out, 8, 22, " class=\"t\"", "%s", f->name);
    if (n == 0 || seconds <= 0)
        return;
    if (n > 1)
        snprintf(when, sizeof(when), "steps %lld to %lld, each ",
                 (long long)f->first + first,
                 (long long)f->first + first + n - 1);
    else
        snprintf(when, sizeof(when), "step %lld, ",
                 (long long)f->first + first);
    dsf_svg_text(g->svg.out, 8, 40, "",
                 "%s%s%s: efficiency %.1f %%, workers idle %.1f %%; "
                 "data %u x pipeline %u x tensor %u",
                 when, f->simulated ? "simulated, " : "",
                 dsf_seconds_text(seconds / n).s, 100 * bound / seconds,
                 100 * idle / seconds, f->data, f->pipeline, f->tensor);
}

static void put_head(struct gantt *g, double height)
{
    fprintf(g->svg.out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" "
            "height=\"%.0f\" viewBox=\"0 0 %d %.0f\" "
            "font-family=\"sans-serif\" font-size=\"12\">\n"
            "<style>.s{font-size:10px;fill:#444}.b{font-size:11px;"
            "font-weight:bold}.t{font-size:16px;font-weight:bold}"
            ".m{font-size:11px}.w{fill:#fff}</style>\n"
            "<defs><marker id=\"a\" markerWidth=\"5\" markerHeight=\"4\" "
            "refX=\"5\" refY=\"2\" orient=\"auto\" "
            "markerUnits=\"userSpaceOnUse\"><path d=\"M0 0L5 2L0 4z\" "
            "fill=\"#222\" stroke=\"none\"/></marker></defs>\n"
            "<rect width=\"%d\" height=\"%.0f\" fill=\"#fff\"/>\n",
            SVG_WIDTH, height, SVG_WIDTH, height, SVG_WIDTH, height);
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

    for (unsigned i = 0; i < g->nlanes; i++) {
        g->rows[i].share =
            dsf_xcalloc(g->svg.kinds.n, sizeof(*g->rows[i].share));
        g->rows[i].batch.microbatch = -1;
    }
    dsf_replay(g->svg.view, &watcher);
    for (unsigned i = 0; i < g->nlanes; i++) {
        close_box(g, i);
        close_batch(g, i);
        free(g->rows[i].share);
    }
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
    put_boxes(g);
    put_lines(g);
    put_labels(g);
    return put_legend(g, y + 16) + 4;
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
    char *body = NULL;
    size_t bytes;

    view.window = typical(whole);
    seconds = view.window.end - view.window.begin;
    g.svg.left = find_left(view.trace);
    g.svg.per_second = (SVG_RIGHT - g.svg.left) / (seconds > 0 ? seconds : 1);
    g.narrow = 900.0 * g.nlanes / 100000;
    g.narrow = g.narrow < 0.3 ? 0.3 : g.narrow;
    g.rows = dsf_xcalloc(g.nlanes + 1, sizeof(*g.rows));
    dsf_kinds_init(&g.svg.kinds, view.trace);
    for (int t = 0; t < DSFLOW_NTIERS; t++)
        g.memory[t] = dsf_svg_memory_new(&g.svg);
    g.svg.out = open_memstream(&body, &bytes);
    if (g.svg.out != NULL) {
        height = draw(&g);
        fclose(g.svg.out);
        g.svg.out = out;
        put_head(&g, height);
        fwrite(body, 1, bytes, out);
        fputs("</svg>\n", out);
    }
    free(body);
    for (int t = 0; t < DSFLOW_NTIERS; t++)
        dsf_svg_memory_free(g.memory[t]);
    dsf_kinds_fini(&g.svg.kinds);
    free(g.rows);
    free(g.boxes);
    free(g.lines);
    free(g.labels);
}
