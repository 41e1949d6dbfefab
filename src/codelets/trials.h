/* trials.h - random cases of the built-in kinds of task. */
#ifndef DSF_CODELETS_TRIALS_H
#define DSF_CODELETS_TRIALS_H

#include <dsflow/codelet.h>
#include <dsflow/segments.h>

/* Of whole segments, and of what one of several tensor ranks does. */
extern const struct dsflow_trials dsf_trials_segment, dsf_trials_part;

extern const struct dsflow_trials dsf_trials_update, dsf_trials_add,
    dsf_trials_square, dsf_trials_sum, dsf_trials_clip, dsf_trials_cast;

/* A number from least to most. */
int32_t dsf_any(uint64_t *state, int32_t least, int32_t most);

/* The sizes of a small model, and of a tile of it. */
struct dsflow_tile dsf_any_tile(uint64_t *state);

#endif
