/* cover.h - the time that spans cover together. */
#ifndef DSF_TIMELINE_COVER_H
#define DSF_TIMELINE_COVER_H

#include "timeline/timeline.h"

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

/* Seconds that are covered, and that both cover. */
double dsf_cover_seconds(const struct dsf_cover *c);
double dsf_cover_both(const struct dsf_cover *a, const struct dsf_cover *b);
void dsf_cover_fini(struct dsf_cover *c);

#endif
