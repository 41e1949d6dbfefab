/* show.h - a trace in the formats of others, as files. */
#ifndef DSF_TRACE_SHOW_H
#define DSF_TRACE_SHOW_H

#include <stdio.h>

#include "trace/rows.h"
#include "trace/series.h"

/* Each writes the whole of it, and can fail in nothing but `out`, which the
 * caller checks. */
void dsf_write_paje(const struct dsf_view *view, FILE *out);
void dsf_write_chrome(const struct dsf_view *view, FILE *out);
void dsf_write_svg(const struct dsf_view *view, FILE *out);

/* The tasks that ran, with the mean of their times. */
void dsf_write_times_dot(const struct dsf_view *view, FILE *out);

/* What can be made of a trace. */
struct dsf_trace_form {
    const char *name; /* "svg" */
    void (*write)(const struct dsf_view *view, FILE *out);
};
extern const struct dsf_trace_form dsf_trace_forms[]; /* ends without a name */

/* The file of a trace: in the folder of a run, or `path` itself; freed by the
 * caller. Errors: DSFLOW_EINVAL. */
int dsf_trace_find(const char *path, char **file, struct dsflow_err *err);

/* A trace as it is shown: what ranks share is cut, steps are chosen. It stays
 * where it is, and borrows the trace. */
struct dsf_shown {
    struct dsf_trace trace;
    struct dsf_rows rows;
    bool cut;
    struct dsf_view view;
};
/* `steps` is as dsf_window_parse has it; NULL: all. On error `shown` needs no
 * fini. */
int dsf_shown_init(struct dsf_shown *shown, const struct dsf_trace *trace,
                   const char *steps, struct dsflow_err *err);
void dsf_shown_fini(struct dsf_shown *shown);

/* Into the file `path`, or into `out`, which is called `path` in messages.
 * Errors: DSFLOW_EINVAL, where it cannot be made; DSFLOW_EIO. */
int dsf_shown_write(const struct dsf_shown *shown,
                    const struct dsf_trace_form *form, const char *path,
                    FILE *out, struct dsflow_err *err);

#endif
