/* rows_args.h - the arguments of norm and residual of the rows of one tensor
 * rank (Korthikanti et al. 2022): what is done once for all parts of a segment,
 * on tile.rows rows of whatever sequences. Only rows, width, rms and eps of the
 * tile are read.
 */
#ifndef DSF_TASKS_ROWS_ARGS_H
#define DSF_TASKS_ROWS_ARGS_H

#include <dsflow/segments.h>

struct dsf_norm_args {
    struct dsflow_tile tile;
    int64_t norm_w, norm_b;
    int32_t residual; /* 1: dx has dres in it */
    int32_t zero; /* no padding: equal arguments have equal bytes */
};

/* b: the bias that the whole segment would add once. */
struct dsf_residual_args {
    struct dsflow_tile tile;
    int64_t b;
};

#endif
