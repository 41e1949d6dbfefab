/* scratch.h - the scratch of a task that computes in bf16 or fp16: the op
 * counts its parts, and the codelet takes them in the same order. */
#ifndef DSF_TASKS_SCRATCH_H
#define DSF_TASKS_SCRATCH_H

#include <stdbool.h>
#include <dsflow/op.h>
#include "kernels/narrow.h"
#include "tasks/tile.h"

struct dsf_scratch {
    size_t wide;    /* floats: what products leave, before it is rounded */
    size_t narrow;  /* numbers of the task's type */
    size_t product; /* bytes: the most that one of its products needs */
};

/* A product takes this many numbers of what leaves a projection at a time,
 * where it sums over them or has a row for each: the words of a vocabulary
 * would take too much scratch. */
enum { DSF_PROJECTION_BLOCK = 2048 };

static inline size_t dsf_least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline size_t dsf_most(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Bytes of scratch of the products of y[rows][out] = x[rows][in] W^T, in this
 * direction of it. */
static inline size_t dsf_projection_scratch(enum dsflow_direction direction,
                                            size_t rows, size_t in, size_t out)
{
    const size_t block = dsf_least(out, DSF_PROJECTION_BLOCK);

    if (direction == DSFLOW_DIR_BACKWARD_INPUT)
        return dsf_product_scratch(rows, in, block);
    if (direction == DSFLOW_DIR_BACKWARD_WEIGHT)
        return dsf_product_scratch(block, in, rows);
    return dsf_product_scratch(rows, out, in);
}

/* To a gradient that is not fp32 so many rows of a matrix are added at a time:
 * what the product leaves of them stays in the cache. */
enum { DSF_GRADIENT_ROWS = 256 };

/* Bytes of scratch, behind the rest, for such a gradient on `port` of a task,
 * of a matrix [out][in]; 0: it is fp32, or the task has none. */
static inline size_t dsf_gradient_scratch(const struct dsflow_case *c,
                                          unsigned port, size_t in, size_t out)
{
    if (c->op->direction != DSFLOW_DIR_BACKWARD_WEIGHT || port >= c->n ||
        !dsf_is_narrow(c->shapes[port].dtype))
        return 0;
    return dsf_round16(dsf_least(out, DSF_GRADIENT_ROWS) * in) * DSF_CELL;
}

/* Where the parts begin, and all of them, in bytes. */
static inline size_t dsf_scratch_narrow(const struct dsf_scratch *s)
{
    return dsf_round16(s->wide) * DSF_CELL;
}

static inline size_t dsf_scratch_product(const struct dsf_scratch *s)
{
    return dsf_scratch_narrow(s) + dsf_round16((s->narrow + 1) / 2) * DSF_CELL;
}

static inline size_t dsf_scratch_bytes(struct dsf_scratch s)
{
    return dsf_scratch_product(&s) + s.product;
}

struct dsf_scratch dsf_mlp_scratch(enum dsflow_direction direction,
                                   const struct dsflow_mlp_args *a);
struct dsf_scratch dsf_out_scratch(enum dsflow_direction direction,
                                   const struct dsflow_out_args *a);
struct dsf_scratch dsf_qkv_scratch(enum dsflow_direction direction,
                                   const struct dsflow_qkv_args *a);
struct dsf_scratch dsf_mlp_up_scratch(const struct dsf_mlp_up_args *a);
struct dsf_scratch dsf_project_scratch(const struct dsf_project_args *a);
/* Of the head in columns: where the parts begin, and all of them, in bytes. */
struct dsf_head_columns_room {
    size_t sums;   /* double [rows], of a block of columns, … */
    size_t tops;   /* float [rows] */
    size_t normed; /* rows of x, of the task's type; of the whole */
    size_t block;  /* float [rows][block]; back in fp32 they are in `logits` */
    size_t logits; /* [rows][columns], of the task's type; back */
    size_t dx;     /* float [rows][width]; back */
    size_t product, rows; /* as in dsf_narrow_call */
    size_t bytes;
};
struct dsf_head_columns_room
dsf_head_columns_room(const struct dsf_head_columns_args *a,
                      enum dsflow_dtype type, enum dsflow_dtype grad,
                      bool back);

/* Columns that the head takes at a time, and those of a block of them. */
static inline size_t dsf_head_columns(const struct dsf_head_columns_args *a)
{
    return dsf_least((size_t)a->columns, (size_t)a->head.tile.vocab);
}
static inline size_t dsf_head_block(const struct dsf_head_columns_args *a)
{
    return dsf_least(dsf_head_columns(a), DSF_HEAD_COLUMNS);
}

/* Of head.forward, before that of its notes (tile.h); and of the others. */
struct dsf_scratch dsf_head_block_scratch(const struct dsflow_head_args *a);
struct dsf_scratch dsf_head_products(enum dsflow_direction direction,
                                     const struct dsflow_head_args *a);

#endif
