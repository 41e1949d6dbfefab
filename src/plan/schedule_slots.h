/* schedule_slots.h - what tells one schedule of a pipeline from another: how
 * many micro-batches a stage may keep, and which it prefers. */
#ifndef DSF_PLAN_SCHEDULE_SLOTS_H
#define DSF_PLAN_SCHEDULE_SLOTS_H

#include <stdbool.h>
#include <stdint.h>

#include "config/choice.h"

#define DSF_PIPELINE_SCHEDULES(X)                                              \
    X(DSF_1F1B, "1f1b")                                                        \
    X(DSF_GPIPE, "gpipe")                                                      \
    X(DSF_INTERLEAVED, "interleaved") X(DSF_ZERO_BUBBLE, "zero_bubble")
enum dsf_pipeline_schedule { DSF_PIPELINE_SCHEDULES(DSF_CHOICE_VALUE) };

/* One forward or backward of one chunk for one micro-batch. */
struct dsf_action {
    int32_t chunk, micro;
    bool backward;
};

/* Which actions a stage would take, in order, if each were ready in time: their
 * positions are priorities. Fills actions[2 * chunks * micro]. Chunk v of stage
 * s is piece v * stages + s of the layers; only `interleaved` has more than
 * one. The weight gradients of an action belong to it, but for zero_bubble,
 * where they come after all others. */
void dsf_pipeline_order(enum dsf_pipeline_schedule schedule, int stages,
                        int stage, int chunks, int micro,
                        struct dsf_action *actions);

/* Micro-batches whose activations of a chunk a stage keeps at once: the length
 * of a ring, from which the schedule follows. */
int dsf_pipeline_slots(enum dsf_pipeline_schedule schedule, int stages,
                       int stage, int chunks, int chunk, int micro);

#endif
