/* arrows.h - which span has data from which span on another lane. */
#ifndef DSF_TRACE_ARROWS_H
#define DSF_TRACE_ARROWS_H

#include "trace/trace.h"

/* Data goes from a span to another one on another lane. What takes data from
 * one place to another has at most one arrow to it, from the last of what it
 * waits for, and one from it, to the first that uses it; what takes it from
 * many has none. */
struct dsf_arrow {
    uint32_t from, to; /* positions in the timeline */
};

struct dsf_arrows {
    struct dsf_arrow *v; /* in order of where they go to */
    uint32_t n;
    uint32_t *leaves; /* by span: the first arrow from it; UINT32_MAX: none */
    uint32_t *also;   /* by arrow: another one from the same span, likewise */
    size_t cap, cap_also;
};

void dsf_arrows_init(struct dsf_arrows *a, const struct dsf_trace *trace);
void dsf_arrows_fini(struct dsf_arrows *a);

#endif
