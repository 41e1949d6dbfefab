/* cover.h - the time that spans cover together. */
#ifndef DSF_TRACE_COVER_H
#define DSF_TRACE_COVER_H

#include "trace/timeline.h"

/* Apart from each other, in order. All zero: none. */
struct dsf_cover {
    struct dsf_interval {
        double start, end;
    } * v;
    size_t n, cap;
};

/* Spans come in order of start. */
void dsf_cover_add(struct dsf_cover *c, const struct dsf_span *s);

/* Seconds of [start, end] that are covered. */
double dsf_cover_overlap(const struct dsf_cover *c, double start, double end);
void dsf_cover_fini(struct dsf_cover *c);

#endif
