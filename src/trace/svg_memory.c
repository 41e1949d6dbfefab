/* svg_memory.c - the memory of each rank below the picture of a step. */
#include "trace/svg.h"

#include "base/alloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Half pixels or less: the most in each, or less than 0 where nothing changed. */
enum { COLUMNS = 2 * (SVG_RIGHT - SVG_LEFT) + 1, HEIGHT = 110, MOST_CURVES = 8 };

struct dsf_svg_memory {
    const struct dsf_svg *svg;
    unsigned nranks;
    float (*most)[COLUMNS]; /* by rank, and of none */
    float *last;            /* by rank */
};

/* Ranks whose curves can hardly be told apart. */
struct curve {
    unsigned rank; /* the first */
    unsigned n;
    unsigned from, last; /* of the range that grows */
    size_t range;        /* where it stands in names */
    char names[64];
};

struct dsf_svg_memory *dsf_svg_memory_new(const struct dsf_svg *svg)
{
    struct dsf_svg_memory *m = dsf_xcalloc(1, sizeof(*m));

    m->svg = svg;
    m->nranks = svg->trace->facts.nranks + 1;
    m->most = dsf_xcalloc(m->nranks, sizeof(*m->most));
    m->last = dsf_xcalloc(m->nranks, sizeof(*m->last));
    for (unsigned r = 0; r < m->nranks; r++)
        for (unsigned i = 0; i < COLUMNS; i++)
            m->most[r][i] = -1;
    return m;
}

void dsf_svg_memory_free(struct dsf_svg_memory *m)
{
    free(m->most);
    free(m->last);
    free(m);
}

void dsf_svg_memory_add(struct dsf_svg_memory *m, double t, unsigned rank,
                        double bytes)
{
    int i = (int)((dsf_svg_x(m->svg, t) - m->svg->left) /
                  (SVG_RIGHT - m->svg->left) * (COLUMNS - 1));

    if (i < 0 || i >= COLUMNS)
        return;
    if (bytes > m->most[rank][i])
        m->most[rank][i] = (float)bytes;
    /* A column that begins high was high before. */
    if (m->last[rank] > m->most[rank][i])
        m->most[rank][i] = m->last[rank];
    m->last[rank] = (float)bytes;
    if (i + 1 < COLUMNS)
        m->most[rank][i + 1] = (float)bytes;
}

static double x_of(const struct dsf_svg_memory *m, unsigned column)
{
    return m->svg->left +
           (double)column / (COLUMNS - 1) * (SVG_RIGHT - m->svg->left);
}

static double fill(struct dsf_svg_memory *m)
{
    double most = 0;

    for (unsigned r = 0; r < m->nranks; r++) {
        float before = 0;

        for (unsigned i = 0; i < COLUMNS; i++) {
            if (m->most[r][i] < 0)
                m->most[r][i] = before;
            before = m->most[r][i];
            if (before > most)
                most = before;
        }
    }
    return most;
}

static bool are_alike(const struct dsf_svg_memory *m, unsigned a, unsigned b,
                      double most)
{
    double sum = 0;

    for (unsigned i = 0; i < COLUMNS; i++)
        sum += fabsf(m->most[a][i] - m->most[b][i]);
    return sum / COLUMNS <= most / 100;
}

/* "rank 0, 2-5": the last range grows while ranks follow each other. */
static void name(struct curve *c, unsigned rank, bool none)
{
    size_t size = sizeof(c->names);

    if (c->n > 0 && rank != c->last + 1) {
        c->range = strlen(c->names);
        c->from = rank;
    } else if (c->n == 0) {
        c->from = rank;
    }
    c->last = rank;
    c->n += none ? 0 : 1;
    if (c->range + 24 > size)
        return; /* there are others, and no room */
    if (none)
        snprintf(c->names, size, "of no rank");
    else if (c->from == rank)
        snprintf(c->names + c->range, size - c->range, "%s%u",
                 c->n == 1 ? "rank " : ", ", rank);
    else
        snprintf(c->names + c->range, size - c->range, "%s%u-%u",
                 c->range == 0 ? "rank " : ", ", c->from, rank);
}

static unsigned find_curves(const struct dsf_svg_memory *m, double most,
                            struct curve *curves)
{
    unsigned n = 0;

    for (unsigned r = 0; r < m->nranks; r++) {
        unsigned k = 0;

        if (r + 1 == m->nranks && m->last[r] == 0)
            break;
        while (k < n && !are_alike(m, curves[k].rank, r, most))
            k++;
        /* What is of no rank has a curve of its own. */
        if (r + 1 == m->nranks)
            k = n;
        if (k == n)
            curves[n++] = (struct curve){ .rank = r };
        name(&curves[k], r, r + 1 == m->nranks);
    }
    for (unsigned k = 0; k < n; k++)
        if (curves[k].n > 1 && curves[k].n + 1 == m->nranks)
            strcpy(curves[k].names, "each rank");
    return n;
}

/* From dark to light, as paper has it too (after viridis). */
static uint32_t colour_of(unsigned i, unsigned n)
{
    static const uint8_t ramp[][3] = { { 68, 1, 84 },    { 59, 82, 139 },
                                       { 33, 145, 140 }, { 94, 190, 80 },
                                       { 216, 190, 30 } };
    double at = n > 1 ? 4.0 * i / (n - 1) : 1;
    unsigned k = at >= 4 ? 3 : (unsigned)at;
    uint32_t c = 0;

    for (unsigned j = 0; j < 3; j++)
        c = c << 8 | (uint32_t)(ramp[k][j] +
                                (at - k) * (ramp[k + 1][j] - ramp[k][j]));
    return c;
}

static void put_axis(const struct dsf_svg *svg, const char *title, double y,
                     double most)
{
    FILE *out = svg->out;
    int power = most >= 1 << 30 ? 30 : most >= 1 << 20 ? 20 : 10;
    const char *unit = power == 30 ? "GiB" : power == 20 ? "MiB" : "KiB";
    double scale = (double)(1 << power), tick = dsf_svg_tick(most / scale, 4);

    for (double v = 0; v <= most / scale * 1.0001; v += tick) {
        double at = y + HEIGHT - v * scale / most * HEIGHT;

        fprintf(out, "<path d=\"M%d %sH%d\" stroke=\"#ddd\"/>\n", svg->left,
                dsf_svg_num(at).s, SVG_RIGHT);
        dsf_svg_text(out, svg->left - 5, at + 3.5,
                     " text-anchor=\"end\" class=\"s\"", "%g%s%s", v,
                     v > 0 ? " " : "", v > 0 ? unit : "");
    }
    dsf_svg_text(out, 8, y + HEIGHT / 2 + 4, " class=\"b\"", "%s", title);
}

static void put_curve(const struct dsf_svg_memory *m, unsigned rank, double y,
                      double most, uint32_t colour)
{
    FILE *out = m->svg->out;
    double before = -1;

    fprintf(out, "<path fill=\"none\" stroke=\"#%06x\" stroke-width=\"1.3\" "
                 "d=\"", colour);
    for (unsigned i = 0; i < COLUMNS; i++) {
        double at = y + HEIGHT - m->most[rank][i] / most * HEIGHT;

        at = round(at * 10) / 10;
        if (i == 0)
            fprintf(out, "M%d %s", m->svg->left, dsf_svg_num(at).s);
        else if (at != before)
            fprintf(out, "H%sV%s", dsf_svg_num(x_of(m, i)).s,
                    dsf_svg_num(at).s);
        before = at;
    }
    fprintf(out, "H%d\"/>\n", SVG_RIGHT);
}

/* Of more curves than can be read: the most and the least of all ranks. */
static void put_band(struct dsf_svg_memory *m, double y, double most)
{
    FILE *out = m->svg->out;
    unsigned n = m->nranks - 1;

    fputs("<path fill=\"#3b528b\" fill-opacity=\".25\" stroke=\"#3b528b\" "
          "d=\"", out);
    for (unsigned half = 0; half < 2; half++)
        for (unsigned k = 0; k < COLUMNS; k += 2) {
            unsigned i = half == 0 ? k : COLUMNS - 1 - k;
            double v = m->most[0][i];

            for (unsigned r = 1; r < n; r++)
                if (half == 0 ? m->most[r][i] > v : m->most[r][i] < v)
                    v = m->most[r][i];
            fprintf(out, "%s%s %s", half == 0 && k == 0 ? "M" : "L",
                    dsf_svg_num(x_of(m, i)).s,
                    dsf_svg_num(y + HEIGHT - v / most * HEIGHT).s);
        }
    fputs("z\"/>\n", out);
    dsf_svg_text(out, m->svg->left + 6, y + 12, " class=\"s\"",
                 "from the least to the most of %u ranks", n);
}

/* In a row above the curves: a line and the ranks it is of. */
static double put_name(const struct dsf_svg_memory *m, const struct curve *c,
                       double x, double y, uint32_t colour)
{
    fprintf(m->svg->out, "<path d=\"M%s %sh14\" stroke=\"#%06x\" "
                         "stroke-width=\"2\"/>\n",
            dsf_svg_num(x).s, dsf_svg_num(y - 3.5).s, colour);
    dsf_svg_text(m->svg->out, x + 18, y, " class=\"s\"", "%s", c->names);
    return x + 34 + 5.4 * (double)strlen(c->names);
}

double dsf_svg_memory_draw(struct dsf_svg_memory *m, const char *title,
                           double y)
{
    double most = fill(m), x = m->svg->left;
    struct curve *curves;
    unsigned n;

    if (most <= 0)
        return y;
    y += 16;
    curves = dsf_xcalloc(m->nranks, sizeof(*curves));
    n = find_curves(m, most, curves);
    put_axis(m->svg, title, y, most);
    if (n > MOST_CURVES)
        put_band(m, y, most);
    for (unsigned i = 0; i < n && n <= MOST_CURVES; i++) {
        put_curve(m, curves[i].rank, y, most, colour_of(i, n));
        x = put_name(m, &curves[i], x, y - 5, colour_of(i, n));
    }
    free(curves);
    return y + HEIGHT;
}
