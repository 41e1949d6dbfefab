/* svg_boxes.c - the boxes in the rows of the picture of a step, what they say
 * when the mouse is on them, and their legend. */
#include "trace/svg.h"

#include "base/alloc.h"
#include "base/units.h"
#include "graph/shape_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* With more boxes than this the file would be large: those of a row and a kind
 * are one path then, and say their kind only. */
enum { MOST_TITLES = 30000 };

/* What a row does from x0 to x1. */
struct box {
    float x0, x1;
    uint32_t span; /* the first of it */
    uint32_t count;
    double end; /* seconds */
    uint16_t row, kind;
};

/* A row while its boxes are made. What is too narrow to be seen is gathered
 * into a box of the kind that has most of it. */
struct open_box {
    double x0, x1, end;
    double *share; /* by kind, of what is gathered */
    uint32_t span, count;
    int only; /* kind of all of it, or -1 */
    bool open;
};

/* When a worker that several ranks share is busy. */
struct busy {
    struct piece {
        float x0, x1;
    } * v;
    size_t n, cap;
};

struct dsf_svg_boxes {
    const struct dsf_svg *svg;
    unsigned nrows;
    double narrow; /* narrower boxes are gathered */
    struct open_box *rows;
    struct box *v;
    size_t n, cap;
    struct busy *busy; /* by worker; NULL: none is shared */
};

struct dsf_svg_boxes *dsf_svg_boxes_new(const struct dsf_svg *svg)
{
    struct dsf_svg_boxes *b = dsf_xcalloc(1, sizeof(*b));

    b->svg = svg;
    b->nrows = svg->trace->timeline.nlanes;
    b->narrow = fmax(900.0 * b->nrows / 100000, 0.3);
    b->rows = dsf_xcalloc((size_t)b->nrows + 1, sizeof(*b->rows));
    for (unsigned i = 0; i < b->nrows; i++)
        b->rows[i].share = dsf_xcalloc(svg->kinds.n, sizeof(*b->rows[i].share));
    if (svg->view->worker != NULL)
        b->busy = dsf_xcalloc((size_t)b->nrows + 1, sizeof(*b->busy));
    return b;
}

void dsf_svg_boxes_free(struct dsf_svg_boxes *b)
{
    for (unsigned i = 0; i < b->nrows; i++) {
        free(b->rows[i].share);
        if (b->busy != NULL)
            free(b->busy[i].v);
    }
    free(b->busy);
    free(b->rows);
    free(b->v);
    free(b);
}

static void close_box(struct dsf_svg_boxes *b, unsigned i)
{
    struct open_box *row = &b->rows[i];
    unsigned kind = 0;

    if (!row->open)
        return;
    for (unsigned k = 0; k < b->svg->kinds.n; k++)
        if (row->share[k] > row->share[kind])
            kind = k;
    memset(row->share, 0, b->svg->kinds.n * sizeof(*row->share));
    row->open = false;
    dsf_grow(&b->v, &b->cap, b->n + 1, sizeof(*b->v));
    b->v[b->n++] = (struct box){
        .x0 = (float)row->x0,
        .x1 = (float)row->x1,
        .span = row->span,
        .count = row->count,
        .end = row->end,
        .row = (uint16_t)i,
        .kind = (uint16_t)kind,
    };
}

static void add_busy(struct busy *busy, double x0, double x1)
{
    if (busy->n > 0 && x0 - busy->v[busy->n - 1].x1 < 0.3) {
        busy->v[busy->n - 1].x1 = (float)x1;
        return;
    }
    dsf_grow(&busy->v, &busy->cap, busy->n + 1, sizeof(*busy->v));
    busy->v[busy->n++] = (struct piece){ (float)x0, (float)x1 };
}

void dsf_svg_boxes_add(struct dsf_svg_boxes *b, size_t span, double x0,
                       double x1)
{
    const struct dsf_svg *svg = b->svg;
    const struct dsf_span *s = &svg->trace->timeline.v[span];
    struct open_box *row = &b->rows[s->lane];
    int kind = (int)dsf_kind_of(&svg->kinds, svg->trace, s);
    double gap = x0 - row->x1;
    bool narrow = x1 - x0 < b->narrow && row->x1 - row->x0 < b->narrow;
    bool same =
        row->only == kind && gap < 0.05 && x1 - x0 < 3 && row->x1 - row->x0 < 3;

    if (row->open && !same && !(narrow && gap < b->narrow))
        close_box(b, s->lane);
    if (!row->open) {
        row->open = true;
        row->x0 = x0;
        row->only = kind;
        row->span = (uint32_t)span;
        row->count = 0;
    }
    if (row->only != kind)
        row->only = -1;
    row->x1 = x1;
    row->end = s->end;
    row->count++;
    row->share[kind] += x1 - x0;
    if (b->busy != NULL)
        add_busy(&b->busy[svg->view->worker[s->lane]], x0, x1);
}

static int by_row_and_kind(const void *a, const void *b)
{
    const struct box *x = a, *y = b;

    if (x->row != y->row)
        return x->row < y->row ? -1 : 1;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    return x->x0 < y->x0 ? -1 : x->x0 > y->x0;
}

/* Where it is in the model and the batch. */
static void put_task(const struct dsf_svg *svg, const struct dsf_span *s,
                     FILE *out)
{
    const struct dsflow_task_spec *t =
        dsflow_graph_task(svg->trace->graph, (dsflow_task_id){ s->what });

    fprintf(out, "%s\n", t->op->name);
    if (s->rank >= 0)
        fprintf(out, "rank %d, ", s->rank);
    if (t->microbatch >= 0)
        fprintf(out, "micro-batch %d, ", t->microbatch);
    if (t->layer >= 0)
        fprintf(out, "layer %d, ", t->layer);
    if (t->tile >= 0)
        fprintf(out, "tile %d, ", t->tile);
    fprintf(out, "%s\n", svg->trace->timeline.lanes[s->lane].name);
}

/* What a box is: one task or transfer, or several of which one kind has most of
 * the time. */
static void put_what(const struct dsf_svg *svg, const struct box *box,
                     FILE *out)
{
    const struct dsf_span *s = &svg->trace->timeline.v[box->span];

    if (box->count > 1) {
        fprintf(out, "%u tasks, most of the time %s\n", box->count,
                svg->kinds.v[box->kind].name);
        if (s->rank >= 0)
            fprintf(out, "rank %d, ", s->rank);
        fprintf(out, "%s\n", svg->trace->timeline.lanes[s->lane].name);
    } else if (s->kind == DSF_SPAN_TASK) {
        put_task(svg, s, out);
    } else {
        const struct dsflow_data_spec *d =
            dsflow_graph_data(svg->trace->graph, (dsflow_data_id){ s->what });

        fprintf(out, "%s of %s, %s, %s\n%s\n", svg->kinds.v[box->kind].name,
                d->name, dsf_shape_text(d).s, dsf_size_text((double)d->bytes).s,
                svg->trace->timeline.lanes[s->lane].name);
    }
}

static void put_title(const struct dsf_svg *svg, const struct box *box)
{
    const struct dsf_span *s = &svg->trace->timeline.v[box->span];
    char *text;
    size_t size;
    FILE *out = dsf_xmemstream(&text, &size);

    put_what(svg, box, out);
    fprintf(out, "start %s, duration %s",
            dsf_seconds_text(s->start - svg->view->window.begin).s,
            dsf_seconds_text(box->end - s->start).s);
    fclose(out);
    fputs("<title>", svg->out);
    dsf_svg_escape(svg->out, text);
    fputs("</title>", svg->out);
    free(text);
}

static void put_outline(const struct dsf_svg *svg, const struct box *box)
{
    const struct dsf_svg_row *row = &svg->rows[box->row];
    double width = box->x1 - box->x0;
    struct dsf_svg_num x = dsf_svg_num(box->x0);

    /* A hair between boxes that are wide enough to be seen. */
    width = width > 4 ? width - 0.4 : width < 0.3 ? 0.3 : width;
    fprintf(svg->out, "M%s %sh%sv%sH%sz", x.s, dsf_svg_num(row->y).s,
            dsf_svg_num(width).s, dsf_svg_num(row->height).s, x.s);
}

static void put_fill(const struct dsf_svg *svg, unsigned kind)
{
    if (svg->kinds.v[kind].texture == DSF_PLAIN)
        fprintf(svg->out, "fill=\"#%06x\"", svg->kinds.v[kind].colour);
    else
        fprintf(svg->out, "fill=\"url(#k%u)\"", kind);
}

/* A line in the middle of the rows of a worker that several ranks share: where
 * it has no box on it, the worker is at a task of another rank. */
static void put_busy(const struct dsf_svg_boxes *b)
{
    const struct dsf_svg *svg = b->svg;

    for (unsigned i = 0; i < b->nrows; i++) {
        const struct dsf_svg_row *row = &svg->rows[i];
        const struct busy *busy = &b->busy[svg->view->worker[i]];

        if (svg->trace->timeline.lanes[i].rank < 0 || busy->n == 0)
            continue;
        fprintf(svg->out, "<path stroke=\"#%06x\" stroke-width=\"%s\" d=\"",
                SVG_ELSEWHERE, dsf_svg_num(row->height * 0.15).s);
        for (size_t k = 0; k < busy->n; k++)
            fprintf(svg->out, "M%s %sH%s", dsf_svg_num(busy->v[k].x0).s,
                    dsf_svg_num(row->y + row->height / 2).s,
                    dsf_svg_num(busy->v[k].x1).s);
        fputs("\"/>\n", svg->out);
    }
}

void dsf_svg_boxes_draw(struct dsf_svg_boxes *b)
{
    const struct dsf_svg *svg = b->svg;
    FILE *out = svg->out;
    bool each;

    for (unsigned i = 0; i < b->nrows; i++)
        close_box(b, i);
    if (b->busy != NULL)
        put_busy(b);
    each = b->n <= MOST_TITLES;
    if (b->n > 1)
        qsort(b->v, b->n, sizeof(*b->v), by_row_and_kind);
    for (size_t i = 0; i < b->n; i++) {
        const struct box *box = &b->v[i];
        bool first =
            i == 0 || box->row != box[-1].row || box->kind != box[-1].kind;
        bool last =
            i + 1 == b->n || box->row != box[1].row || box->kind != box[1].kind;

        if (first) {
            fputs(each ? "<g " : "<path ", out);
            put_fill(svg, box->kind);
            fputs(each ? ">\n" : " d=\"", out);
        }
        if (each)
            fputs("<path d=\"", out);
        put_outline(svg, box);
        if (each) {
            fputs("\">", out);
            put_title(svg, box);
            fputs("</path>\n", out);
        }
        if (last && each) {
            fputs("</g>\n", out);
        } else if (last) {
            fputs("\"><title>", out);
            dsf_svg_escape(out, svg->kinds.v[box->kind].name);
            fputs("</title></path>\n", out);
        }
    }
}

/* A tile of each texture, SVG_TILE wide and high. */
static const char *const textures[DSF_NTEXTURES] = {
    [DSF_UPWARD] = "M-1 1L1 -1M0 6L6 0M5 7L7 5",
    [DSF_DOWNWARD] = "M-1 5L1 7M0 0L6 6M5 -1L7 1",
    [DSF_LEVEL] = "M0 3H6",
    [DSF_UPRIGHT] = "M3 0V6",
    [DSF_CROSSED] = "M0 3H6M3 0V6",
    [DSF_DOTTED] = "M2 3h2",
};

void dsf_svg_put_textures(const struct dsf_svg *svg)
{
    FILE *out = svg->out;

    for (unsigned k = 0; k < svg->kinds.n; k++) {
        const struct dsf_kind *kind = &svg->kinds.v[k];
        int shade = dsf_is_dark(kind->colour) ? 55 : -40;

        if (textures[kind->texture] == NULL)
            continue;
        fprintf(out,
                "<pattern id=\"k%u\" width=\"6\" height=\"6\" "
                "patternUnits=\"userSpaceOnUse\"><path fill=\"#%06x\" "
                "d=\"M0 0h6v6h-6z\"/><path stroke=\"#%06x\" "
                "stroke-width=\"%s\" d=\"%s\"/></pattern>\n",
                k, kind->colour, dsf_shade(kind->colour, shade),
                kind->texture == DSF_DOTTED ? "2" : ".8",
                textures[kind->texture]);
    }
}

/* The segment, where the family says the rest. */
static const char *short_name(const struct dsf_kind *kind)
{
    const struct dsflow_op *op = kind->op;

    return op != NULL && op->segment != NULL &&
                   op->direction != DSFLOW_DIR_HIDDEN
               ? op->segment
               : kind->name;
}

/* Is a kind that looks the same in the legend already? */
static bool is_known(const struct dsf_kinds *kinds, const bool *present,
                     unsigned kind)
{
    const struct dsf_kind *k = &kinds->v[kind];

    for (unsigned i = 0; i < kind; i++)
        if (present[i] && kinds->v[i].family == k->family &&
            strcmp(short_name(&kinds->v[i]), short_name(k)) == 0)
            return true;
    return false;
}

/* The kinds of a family from `y` down; returns where they end. */
static double put_family(const struct dsf_svg *svg, const bool *present,
                         enum dsf_kind_family family, double y)
{
    const struct dsf_kinds *kinds = &svg->kinds;
    double x = SVG_LEFT + 24;
    bool any = false;

    for (unsigned k = 0; k < kinds->n; k++) {
        const char *name = short_name(&kinds->v[k]);
        double width = 36 + 5.6 * (int)strlen(name);

        if (!present[k] || kinds->v[k].family != family ||
            is_known(kinds, present, k))
            continue;
        if (!any)
            dsf_svg_text(svg->out, 8, y + 9, " class=\"b\"", "%s",
                         dsf_family_name(family));
        if (x + width > SVG_RIGHT) {
            x = SVG_LEFT + 24;
            y += 16;
        }
        any = true;
        fputs("<path ", svg->out);
        put_fill(svg, k);
        fprintf(svg->out, " d=\"M%s %sh20v11h-20z\"/>\n", dsf_svg_num(x).s,
                dsf_svg_num(y).s);
        dsf_svg_text(svg->out, x + 24, y + 9, " class=\"s\"", "%s", name);
        x += width;
    }
    return y + (any ? 16 : 0);
}

static double put_elsewhere(const struct dsf_svg *svg, double y)
{
    int x = SVG_LEFT + 24;

    dsf_svg_text(svg->out, 8, y + 9, " class=\"b\"", "%s",
                 dsf_family_name(DSF_IDLE));
    fprintf(svg->out,
            "<path fill=\"#%06x\" d=\"M%d %sh20v11h-20z\"/><path "
            "stroke=\"#%06x\" stroke-width=\"2\" d=\"M%d %sh20\"/>\n",
            dsf_family_colour(DSF_IDLE), x, dsf_svg_num(y).s, SVG_ELSEWHERE, x,
            dsf_svg_num(y + 5.5).s);
    dsf_svg_text(svg->out, x + 24, y + 9, " class=\"s\"",
                 "its core runs another rank");
    return y + 16;
}

double dsf_svg_put_legend(const struct dsf_svg_boxes *b, double y)
{
    bool *present = dsf_xcalloc((size_t)b->svg->kinds.n + 1, sizeof(*present));

    for (size_t i = 0; i < b->n; i++)
        present[b->v[i].kind] = true;
    for (unsigned f = 0; f < DSF_NFAMILIES; f++)
        y = put_family(b->svg, present, (enum dsf_kind_family)f, y);
    free(present);
    return b->busy != NULL ? put_elsewhere(b->svg, y) : y;
}
