/* series.h - a timeline played again, from its first moment to its last: what
 * each lane does, what follows from what on another rank, and what there is of
 * memory, of data on its way and of ready tasks. */
#ifndef DSF_TRACE_SERIES_H
#define DSF_TRACE_SERIES_H

#include "trace/arrows.h"
#include "trace/steps.h"

enum dsf_series {
    DSF_MEMORY,    /* bytes of the data of a tier that is alive: in each step
                      from the first task that has it to the last; persistent
                      always. DSF_MEMORY + tier */
    DSF_IN_FLIGHT = DSF_MEMORY + DSFLOW_NTIERS, /* bytes that are being moved */
    DSF_READY,     /* tasks that wait for a worker, and for nothing else */
    DSF_NSERIES
};

/* Called in order of time; times are in the window, and what begins before it
 * or ends after it is cut there. Any may be NULL. */
struct dsf_watcher {
    void *user;
    /* The lane of the span is at it from now until `end`. */
    void (*run)(void *user, double t, size_t span, double end);
    void (*idle)(void *user, double t, unsigned lane);
    /* A span that takes no time: its lane may be at something else. */
    void (*instant)(void *user, double t, size_t span);
    /* At the end of the first span, then at the beginning of the second. */
    void (*arrow)(void *user, double t, uint32_t number,
                  const struct dsf_arrow *arrow, bool arrives);
    /* `rank` is nranks for what is of no rank. */
    void (*value)(void *user, double t, unsigned rank, enum dsf_series series,
                  double value);
    /* One of view->steps begins, or had begun before the window. */
    void (*step)(void *user, double t, unsigned number);
};

/* What is shown of a trace. The lanes of its timeline are rows: see rows.h. */
struct dsf_view {
    const struct dsf_trace *trace;
    const uint16_t
        *worker; /* by row, which one it is of; NULL: none is shared */
    struct dsf_laps steps;
    struct dsf_window window;
    bool chosen; /* the window, by who asks */
};

void dsf_replay(const struct dsf_view *view, const struct dsf_watcher *watcher);

#endif
