/* rows.h - what has a row in a picture: a lane of the timeline, or, of a worker
 * that several ranks share, each rank that ran on it. */
#ifndef DSF_TRACE_ROWS_H
#define DSF_TRACE_ROWS_H

#include "trace/trace.h"

struct dsf_rows {
    struct dsf_timeline timeline; /* the same spans; a lane is a row */
    uint16_t *worker; /* by row: the lane it was; NULL: nothing was cut */
};

/* Cuts the lanes of `trace` that several ranks share. A rank has a row on each
 * worker that does a good part of its work; the rest of what runs on the worker
 * stays in a row of no rank. Where no worker is shared there is nothing to cut:
 * returns false, and `rows` needs no fini. */
bool dsf_rows_init(struct dsf_rows *rows, const struct dsf_trace *trace);
void dsf_rows_fini(struct dsf_rows *rows);

#endif
