/* screen.h - what `dsflow run` and `dsflow watch` draw with: rows that never
 * wrap, colours where there are any, bars, numbers for people. */
#ifndef DSF_CLI_SCREEN_H
#define DSF_CLI_SCREEN_H

#include "base/units.h"
#include "train/pace.h"

#include <stdio.h>

struct dsf_screen {
    bool terminal; /* lines can be drawn again in place */
    bool colour;
    unsigned columns, rows;
};

/* What `fd` is, and its size now. */
struct dsf_screen dsf_screen_look(int fd);

/* For processes whose standard error goes to this terminal by way of others:
 * it is in their environment, as it is now. */
void dsf_screen_hand_over(const struct dsf_screen *s);

/* A row of at most so many columns; what does not fit is cut off. */
struct dsf_row {
    char s[8192];
    size_t n;               /* bytes */
    unsigned columns, most; /* used, and there are */
    bool colour;
};

void dsf_row_start(struct dsf_row *row, unsigned most, bool colour);
/* `style` is what stands between "\033[" and "m", or NULL. Control characters
 * become '?'. */
void dsf_row_add(struct dsf_row *row, const char *style, const char *fmt, ...)
    DSFLOW_PRINTF(3, 4);
/* Spaces up to a column. */
void dsf_row_to(struct dsf_row *row, unsigned column);

#define DSF_BOLD "1"
#define DSF_DIM  "2"

/* `n` times the same character. */
void dsf_row_add_cells(struct dsf_row *row, const char *style, const char *cell,
                       unsigned n);
/* How far: `cells` wide. */
void dsf_row_add_bar(struct dsf_row *row, double part, unsigned cells);
/* Where the time goes: a piece of `cells` for each share. */
void dsf_row_add_shares(struct dsf_row *row, const double *share,
                        unsigned cells);
/* "█ forward 31 %  █ backward 52 %  …", from share `first` on; NULL: only the
 * words. Returns the first that had no room, or DSF_NSHARES. */
unsigned dsf_row_add_legend(struct dsf_row *row, const double *share,
                            unsigned first);

/* "2 min 5 s left"; empty after the last step, or where it is not known. */
struct dsf_text dsf_left_text(const struct dsf_pace *p, int64_t step,
                              int64_t steps);

/* A step as a plain line, where nothing can be drawn again. */
void dsf_step_print(FILE *out, const struct dsf_step *s, int64_t steps,
                    const struct dsf_pace *p);
void dsf_validation_print(FILE *out, const struct dsf_validation *v);

#endif
