/* try_segment.h - is what the backward pass of a segment computes the gradient
 * of its forward pass? */
#ifndef DSF_VERIFY_TRY_SEGMENT_H
#define DSF_VERIFY_TRY_SEGMENT_H

#include <dsflow/segment.h>

#include "verify/try_codelet.h"

/* The segment that `op` is of, and the kind of task that it takes the place of,
 * which may be itself; NULL where it is of none. */
const struct dsflow_segment *dsf_segment_of(const struct dsflow_op *op,
                                            const struct dsflow_op **original);

/* segment_case.c: random cases of a kind of task from what its segment says of
 * itself. */
extern const struct dsflow_trials dsf_trials_described;

/* Compare the gradients that `op` computes with differences of the segment's
 * own forward pass: for its backward passes those they write, for its forward
 * pass those that built-in ones write. Ends the child when one is wrong. */
void dsf_try_gradients(const struct dsflow_segment *segment,
                       const struct dsflow_op *op,
                       const struct dsf_verify_options *how);

#endif
