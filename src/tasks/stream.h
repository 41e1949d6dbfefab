/* stream.h - which random numbers round what. */
#ifndef DSF_TASKS_STREAM_H
#define DSF_TASKS_STREAM_H

#include <stdint.h>

/* The stream of a state of the optimizer, of one part of a unit: the same for
 * its replicas, shards and pieces; never 0, which is no stream. */
uint64_t dsf_state_stream(int64_t seed, const char *state, int32_t unit,
                          int32_t part);

#endif
