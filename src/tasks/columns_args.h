/* columns_args.h - the arguments of what several workers do of one token:
 * each some columns of what leaves a segment, from whole units. No sum is cut,
 * so that the number of workers changes none.
 */
#ifndef DSF_TASKS_COLUMNS_ARGS_H
#define DSF_TASKS_COLUMNS_ARGS_H

#include <dsflow/segments.h>

/* mlp_up                   { x R, unit R, act W }
 *   act = act(norm(x) W1^T + b1): tile.ffn columns, of the rows of W1 from w
 *   on; with SwiGLU those are of the gate, and those of up are from `up` on
 *   (-1: GELU). */
enum { DSF_MLP_UP_X, DSF_MLP_UP_UNIT, DSF_MLP_UP_ACT };
struct dsf_mlp_up_args {
    struct dsflow_tile tile;
    int64_t w, up, b, norm_w, norm_b;
};

/* project                  { x R, in R, unit R, y W }
 *   y = x + b + in W^T: tile.width columns, of the rows of W from w on; `in`
 * has rows of tile.ffn. */
enum { DSF_PROJECT_X, DSF_PROJECT_IN, DSF_PROJECT_UNIT, DSF_PROJECT_Y };
struct dsf_project_args {
    struct dsflow_tile tile;
    int64_t w, b;
};

/* columns                  { out W, in R, ... }
 *   Rows of `n` columns of each `in`, side by side: those from `from` on of
 *   `cols`. */
struct dsf_columns_args {
    int32_t rows, n, from, cols;
};

#endif
