/* rows_args.h - the arguments of norm and residual of the rows of one tensor
 * rank (Korthikanti et al. 2022): what is done once for all parts of a segment,
 * on tile.rows rows of whatever sequences. Only rows, width, rms and eps of the
 * tile are read.
 */
#ifndef DSF_TASKS_ROWS_ARGS_H
#define DSF_TASKS_ROWS_ARGS_H

#include <dsflow/segments.h>

/* norm.forward             { x R, unit R, y W }
 * norm.backward_input      { x R, unit R, dy R, dx W, dnorm W, dres R? }
 *   dx = dres (left out: 0) + norm_backward(dy).
 * norm.backward_weight     { dnorm R, grad RW }
 *   grad += dnorm, which is [2][width] as in segments.h. */
enum dsf_norm_port {
    DSF_NORM_X,
    DSF_NORM_UNIT,
    DSF_NORM_Y,
    DSF_NORM_DY,
    DSF_NORM_DX,
    DSF_NORM_DNORM,
    DSF_NORM_DRES,
    DSF_NORM_GRAD,
    DSF_NORM_NPORTS
};
struct dsf_norm_args {
    struct dsflow_tile tile;
    int64_t norm_w, norm_b;
    int32_t residual; /* 1: dx has dres in it */
    int32_t zero; /* no padding: equal arguments have equal bytes */
};

/* b: what every rank adds on its own rows, the bias that would be added once by
 * the whole segment.
 *
 * residual.forward         { x R, in R, y W, unit R? }    y = x + b + in
 * residual.backward_weight { dy R, grad RW }            grad[b] += rows of dy
 */
enum dsf_residual_port {
    DSF_RESIDUAL_X,
    DSF_RESIDUAL_IN,
    DSF_RESIDUAL_Y,
    DSF_RESIDUAL_UNIT,
    DSF_RESIDUAL_DY,
    DSF_RESIDUAL_GRAD,
    DSF_RESIDUAL_NPORTS
};
struct dsf_residual_args {
    struct dsflow_tile tile;
    int64_t b;
};

#endif
