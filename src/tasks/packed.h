/* packed.h - states of the optimizer in fewer bytes: how many, and what makes
 * the random numbers of their rounding. */
#ifndef DSF_TASKS_PACKED_H
#define DSF_TASKS_PACKED_H

#include <dsflow/graph.h>

#include "config/job.h"

/* Numbers of a unit are packed in blocks of so many. The blocks at which a unit
 * may be cut (dsflow_data_spec.block) are multiples of it. */
#define DSF_PACKED_BLOCK DSFLOW_BLOCK_ELEMS

enum dsflow_dtype dsf_packed_dtype(enum dsf_states format);

/* Bytes of `elems` numbers, and how many numbers such bytes have. In int8, two
 * bytes for each block come first. */
size_t dsf_packed_bytes(enum dsf_states format, int64_t elems);
int64_t dsf_packed_elems(enum dsf_states format, size_t bytes);

/* Of a state of a unit: the same for its replicas, shards and pieces. */
uint64_t dsf_packed_stream(int64_t seed, const struct dsflow_data_spec *state);

#endif
