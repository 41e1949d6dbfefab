/* io_meter.h - how long disks or messages take, and how much of it is hidden
 * behind what workers compute. */
#ifndef DSF_TRAIN_IO_METER_H
#define DSF_TRAIN_IO_METER_H

#include <stdbool.h>

#include "timeline/timeline.h"

/* All zero: nothing was added, and it is of disks. */
struct dsf_io_meter {
    struct dsf_timeline disk, work; /* spans that are not done with */
    unsigned
        nprocesses; /* of messages: the rank of spans is a process, of
                       these, behind whose work alone something is hidden */
    double until;                   /* what came before is */
    double to;                      /* of the last call */
};

/* A span of a disk or a message, or of a worker that computes: when it has
 * ended. */
void dsf_io_meter_add(struct dsf_io_meter *m, const struct dsf_span *span,
                      bool disk);

/* Seconds during which the disks of `lanes` read or wrote, both ways counted
 * once, or those of all messages; and of them in *hidden those during which
 * some worker computed, or one of the process that the message is for. They are
 * of a time as long as [from, to], but earlier by the longest span there is:
 * what is under way at `to` is not known yet. Where `from` is not the `to`
 * before it, what was between is left out. */
double dsf_io_meter_take(struct dsf_io_meter *m,
                         const struct dsf_timeline *lanes, double from,
                         double to, double *hidden);
void dsf_io_meter_fini(struct dsf_io_meter *m);

#endif
