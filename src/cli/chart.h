/* chart.h - a curve on a terminal, in braille: eight dots a character. */
#ifndef DSF_CLI_CHART_H
#define DSF_CLI_CHART_H

#include "cli/screen.h"
#include "train/follow.h"

/* `rows` rows of a curve with its axis, and two below: of `n` points (at least
 * one) in the order of their steps, and `nmarks` others that are marked. The
 * rows have been started, and are all filled. */
void dsf_chart_draw(struct dsf_row *out, unsigned rows,
                    const struct dsf_point *points, size_t n,
                    const struct dsf_point *marks, size_t nmarks);

#endif
