/* chart.c - a curve on a terminal. */
#include "cli/chart.h"

#include "base/alloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct canvas {
    unsigned rows, cells;   /* characters */
    unsigned height, width; /* dots: 4 and 2 a character */
    unsigned char *dots;    /* bits of each character */
    bool *marked;
    double low, high;    /* of the loss */
    int64_t first, last; /* steps */
    double dots_a_step;
};

static unsigned dot_x(const struct canvas *c, int64_t step)
{
    return (unsigned)((double)(step - c->first) * c->dots_a_step + 0.5);
}

static unsigned dot_y(const struct canvas *c, double loss)
{
    return (unsigned)lround((c->high - loss) / (c->high - c->low) *
                            (c->height - 1));
}

static void set_dot(struct canvas *c, unsigned x, unsigned y)
{
    /* The order of the dots in Unicode's braille, by row and column. */
    static const unsigned char bits[4][2] = {
        { 0x01, 0x08 }, { 0x02, 0x10 }, { 0x04, 0x20 }, { 0x40, 0x80 }
    };

    c->dots[y / 4 * c->cells + x / 2] |= bits[y % 4][x % 2];
}

/* A line from one dot to the next, whole also where it is steep. */
static void join(struct canvas *c, unsigned x0, unsigned y0, unsigned x1,
                 unsigned y1)
{
    unsigned above = y0;

    for (unsigned x = x0; x <= x1; x++) {
        double part = x1 == x0 ? 1 : (double)(x - x0) / (x1 - x0);
        unsigned y = (unsigned)lround(y0 + part * ((double)y1 - y0));

        set_dot(c, x, y);
        for (; above < y; above++)
            set_dot(c, x, above);
        for (; above > y; above--)
            set_dot(c, x, above);
    }
}

/* The mean of the points of each column of dots; NAN: there are none. */
static double *means(const struct canvas *c, const struct dsf_point *points,
                     size_t n)
{
    double *mean = dsf_xcalloc(c->width, sizeof(*mean));
    size_t i = 0;

    for (unsigned x = 0; x < c->width; x++) {
        double sum = 0;
        size_t start = i;

        for (; i < n && dot_x(c, points[i].step) <= x; i++)
            sum += points[i].loss;
        mean[x] = i > start ? sum / (double)(i - start) : NAN;
    }
    return mean;
}

static void find_range(struct canvas *c, const double *mean,
                       const struct dsf_point *marks, size_t nmarks)
{
    c->low = INFINITY;
    c->high = -INFINITY;
    for (unsigned x = 0; x < c->width; x++)
        if (!isnan(mean[x])) {
            c->low = fmin(c->low, mean[x]);
            c->high = fmax(c->high, mean[x]);
        }
    for (size_t i = 0; i < nmarks; i++) {
        c->low = fmin(c->low, marks[i].loss);
        c->high = fmax(c->high, marks[i].loss);
    }
    if (c->high - c->low < 1e-6 * fabs(c->high) + 1e-12) {
        c->high += 0.5;
        c->low -= 0.5;
    }
}

static void plot(struct canvas *c, const double *mean,
                 const struct dsf_point *marks, size_t nmarks)
{
    bool any = false;
    unsigned x0 = 0, y0 = 0;

    for (unsigned x = 0; x < c->width; x++)
        if (!isnan(mean[x])) {
            unsigned y = dot_y(c, mean[x]);

            join(c, any ? x0 : x, any ? y0 : y, x, y);
            x0 = x;
            y0 = y;
            any = true;
        }
    for (size_t i = 0; i < nmarks; i++)
        if (marks[i].step >= c->first && marks[i].step <= c->last)
            c->marked[dot_y(c, marks[i].loss) / 4 * c->cells +
                      dot_x(c, marks[i].step) / 2] = true;
}

static void add_cell(struct dsf_row *row, const struct canvas *c, unsigned i)
{
    unsigned char bits = c->dots[i];
    char cell[4] = { (char)0xe2, (char)(0xa0 | bits >> 6),
                     (char)(0x80 | (bits & 0x3f)), '\0' };

    if (c->marked[i])
        dsf_row_add(row, DSF_BOLD, "◆");
    else
        dsf_row_add(row, NULL, "%s", bits == 0 ? " " : cell);
}

/* Steps, below: the first, one in the middle where there is room, the last. */
static void add_steps(struct dsf_row *row, const struct canvas *c,
                      unsigned margin)
{
    int64_t middle = c->first + (c->last - c->first) / 2;
    char text[3][24];
    unsigned size[3];
    const int64_t steps[3] = { c->first, middle, c->last };

    for (unsigned i = 0; i < 3; i++)
        size[i] = (unsigned)snprintf(text[i], sizeof(text[i]), "%lld",
                                     (long long)steps[i]);
    dsf_row_to(row, margin);
    dsf_row_add(row, DSF_DIM, "%s", text[0]);
    if (c->first == c->last || size[0] + 2 + size[2] > c->cells)
        return;
    if (size[0] + size[1] + size[2] + 8 < c->cells) {
        dsf_row_to(row, margin + (c->cells - size[1]) / 2);
        dsf_row_add(row, DSF_DIM, "%s", text[1]);
    }
    dsf_row_to(row, margin + c->cells - size[2]);
    dsf_row_add(row, DSF_DIM, "%s", text[2]);
}

void dsf_chart_draw(struct dsf_row *out, unsigned rows,
                    const struct dsf_point *points, size_t n,
                    const struct dsf_point *marks, size_t nmarks)
{
    enum { LABEL = 8, MARGIN = LABEL + 2 };
    struct canvas c = { .rows = rows,
                        .cells = out->most > MARGIN ? out->most - MARGIN : 1,
                        .first = points[0].step,
                        .last = points[n - 1].step };
    double *mean;

    c.width = 2 * c.cells;
    c.height = 4 * c.rows;
    if (c.last > c.first)
        c.dots_a_step = (c.width - 1) / (double)(c.last - c.first);
    c.dots = dsf_xcalloc((size_t)c.rows * c.cells, 1);
    c.marked = dsf_xcalloc((size_t)c.rows * c.cells, sizeof(*c.marked));
    mean = means(&c, points, n);
    find_range(&c, mean, marks, nmarks);
    plot(&c, mean, marks, nmarks);

    for (unsigned r = 0; r < rows; r++) {
        /* A label is the loss in the middle of its row. */
        double loss =
            c.high - (4 * r + 1.5) / (c.height - 1) * (c.high - c.low);

        if (r == 0 || r == rows - 1 || r == rows / 2)
            dsf_row_add(&out[r], DSF_DIM, "%*.4g ┤", LABEL, loss);
        else
            dsf_row_add(&out[r], DSF_DIM, "%*s │", LABEL, "");
        for (unsigned x = 0; x < c.cells; x++)
            add_cell(&out[r], &c, r * c.cells + x);
    }
    dsf_row_to(&out[rows], LABEL + 1);
    dsf_row_add(&out[rows], DSF_DIM, "└");
    dsf_row_add_cells(&out[rows], DSF_DIM, "─", c.cells);
    add_steps(&out[rows + 1], &c, MARGIN);
    free(mean);
    free(c.dots);
    free(c.marked);
}
