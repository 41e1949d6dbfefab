/* io_meter.h - how long disks work, and how much of it is hidden behind what
 * workers compute. */
#ifndef DSF_TRAIN_IO_METER_H
#define DSF_TRAIN_IO_METER_H

#include <stdbool.h>

#include "timeline/timeline.h"

/* All zero: nothing was added. */
struct dsf_io_meter {
    struct dsf_timeline disk, work; /* spans that are not done with */
    double until;                   /* what came before is */
    double to;                      /* of the last call */
};

/* A span of a disk, or of a worker that computes: when it has ended. */
void dsf_io_meter_add(struct dsf_io_meter *m, const struct dsf_span *span,
                      bool disk);

/* Seconds during which the disks of `lanes` read or wrote, both ways counted
 * once, and of them in *hidden those during which some worker computed. They
 * are of a time as long as [from, to], but earlier by the longest span there
 * is: what is under way at `to` is not known yet. Where `from` is not the `to`
 * before it, what was between is left out. */
double dsf_io_meter_take(struct dsf_io_meter *m,
                         const struct dsf_timeline *lanes, double from,
                         double to, double *hidden);
void dsf_io_meter_fini(struct dsf_io_meter *m);

#endif
