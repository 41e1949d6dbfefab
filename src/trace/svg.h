/* svg.h - what the parts of the picture of a step share. */
#ifndef DSF_TRACE_SVG_H
#define DSF_TRACE_SVG_H

#include "trace/palette.h"
#include "trace/show.h"

/* Pixels, from the top left. Names of lanes end at `left`, or further right
 * where they are long. */
enum { SVG_WIDTH = 1000, SVG_LEFT = 108, SVG_RIGHT = 976 };

/* The colour of a worker's time with another rank. */
enum { SVG_ELSEWHERE = 0xc4c4c4 };

struct dsf_svg_row {
    double y, height;
};

struct dsf_svg {
    const struct dsf_view *view;
    const struct dsf_trace *trace;
    struct dsf_kinds kinds;
    struct dsf_svg_row *rows; /* by lane */
    FILE *out;
    int left;          /* where the time begins */
    double per_second; /* pixels */
};

static inline double dsf_svg_x(const struct dsf_svg *svg, double t)
{
    return svg->left + (t - svg->view->window.begin) * svg->per_second;
}

/* A coordinate, with no more digits than can be seen. */
struct dsf_svg_num { char s[24]; };
struct dsf_svg_num dsf_svg_num(double v);

/* Text at x, y; `how` are more attributes, or "". */
void dsf_svg_text(FILE *out, double x, double y, const char *how,
                  const char *fmt, ...) __attribute__((format(printf, 5, 6)));

void dsf_svg_escape(FILE *out, const char *text);

/* The step between round ticks: at most `n` of them up to `most`. */
double dsf_svg_tick(double most, int n);

/* The boxes in the rows: added in order of time, drawn when it is known where
 * the rows are. */
struct dsf_svg_boxes;
struct dsf_svg_boxes *dsf_svg_boxes_new(const struct dsf_svg *svg);
void dsf_svg_boxes_add(struct dsf_svg_boxes *boxes, size_t span, double x0,
                       double x1);
void dsf_svg_boxes_draw(struct dsf_svg_boxes *boxes);
/* What the boxes that were drawn are filled with; for the head of the file. */
void dsf_svg_put_textures(const struct dsf_svg *svg);
/* Draws from `y` down, and returns where it ended. */
double dsf_svg_put_legend(const struct dsf_svg_boxes *boxes, double y);
void dsf_svg_boxes_free(struct dsf_svg_boxes *boxes);

/* Memory of each rank in one tier: collected while the timeline is played. */
struct dsf_svg_memory;
struct dsf_svg_memory *dsf_svg_memory_new(const struct dsf_svg *svg);
void dsf_svg_memory_add(struct dsf_svg_memory *memory, double t, unsigned rank,
                        double bytes);
/* Draws from `y` down, and returns where it ended: there, if it is empty. */
double dsf_svg_memory_draw(struct dsf_svg_memory *memory, const char *title,
                           double y);
void dsf_svg_memory_free(struct dsf_svg_memory *memory);

#endif
