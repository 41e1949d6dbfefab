/* show.h - a trace in the formats of others. */
#ifndef DSF_TRACE_SHOW_H
#define DSF_TRACE_SHOW_H

#include <stdio.h>

#include "trace/series.h"

/* Each writes the whole of it, and can fail in nothing but `out`, which the
 * caller checks. */
void dsf_write_paje(const struct dsf_view *view, FILE *out);
void dsf_write_chrome(const struct dsf_view *view, FILE *out);
void dsf_write_svg(const struct dsf_view *view, FILE *out);

/* The tasks that ran, with the mean of their times. */
void dsf_write_times_dot(const struct dsf_view *view, FILE *out);

#endif
