/* side.h - what the CUDA sides of the segments that multiply matrices share:
 * the parts of a call's scratch, its tensors, projections. Numbers of the
 * call's type T stand behind void pointers. */
#ifndef DSF_GPU_SIDE_H
#define DSF_GPU_SIDE_H

#include "gpu/numbers.h"
#include "gpu/product.h"
#include "tasks/tile.h"

/* Bytes of the parts of a call's scratch beside the workspace of products. */
struct dsf_gpu_room {
    size_t normed; /* T: normed rows, or a gradient before it is widened */
    size_t inner;  /* T: what stands between two products */
    size_t wide;   /* fp32: what products leave for a kernel */
    size_t sums;   /* a kernel's, over blocks of rows */
};

/* A call on a GPU. */
struct dsf_gpu_work {
    const struct dsflow_call *call;
    enum dsflow_dtype type; /* T */
    void *stream;
    void *workspace, *normed, *inner, *sums;
    float *wide;
};

static inline size_t dsf_gpu_bytes(enum dsflow_dtype type, size_t n)
{
    return n * (type == DSFLOW_FP32 ? 4 : 2);
}

static inline int dsf_gpu_is_narrow(enum dsflow_dtype type)
{
    return type == DSFLOW_BF16 || type == DSFLOW_FP16;
}

/* Bytes of n numbers in fp32, where T is not that: else a product leaves them
 * where they stay. */
static inline size_t dsf_gpu_wide(enum dsflow_dtype type, size_t n)
{
    return dsf_gpu_is_narrow(type) ? n * sizeof(float) : 0;
}

/* Bytes of fp32 that a product of `rows` x `cols` numbers of T may leave before
 * what follows it, where it fuses or not. */
static inline size_t dsf_gpu_left(enum dsflow_dtype type, int fuses,
                                  size_t rows, size_t cols)
{
    return dsf_gpu_wide(type,
                        fuses ? dsf_gpu_product_few(rows, cols) : rows * cols);
}

/* The place of a tensor in its unit, for dsf_gpu_product_fuses; -1: none. */
static inline size_t dsf_gpu_place(int64_t at)
{
    return at < 0 ? 0 : (size_t)at;
}

static inline size_t dsf_gpu_most(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* All of the scratch. */
size_t dsf_gpu_room_bytes(struct dsf_gpu_room room);

/* The CUDA side of <segment>.<pass>: `pass`, with the room that <pass>_room
 * says of its arguments and of T, which is that of the data on a port. */
#define DSF_GPU_SEGMENT_SIDE(segment, pass, SEGMENT, PORT)                     \
    static size_t pass##_scratch(const struct dsflow_case *c)                  \
    {                                                                          \
        return dsf_gpu_room_bytes(                                             \
            pass##_room(c->args, c->shapes[DSFLOW_##SEGMENT##_##PORT].dtype)); \
    }                                                                          \
    const struct dsf_gpu_side dsf_gpu_side_##segment##_##pass = {              \
        .op = #segment "." #pass, .run = pass, .scratch = pass##_scratch       \
    }

/* The same of <segment>.backward_weight, whose room follows from the type of
 * its gradient, too. */
#define DSF_GPU_WEIGHT_SIDE(segment, SEGMENT, PORT)                            \
    static size_t backward_weight_scratch(const struct dsflow_case *c)         \
    {                                                                          \
        return dsf_gpu_room_bytes(backward_weight_room(                        \
            c->args, c->shapes[DSFLOW_##SEGMENT##_##PORT].dtype,               \
            c->shapes[DSFLOW_##SEGMENT##_GRAD].dtype));                        \
    }                                                                          \
    const struct dsf_gpu_side dsf_gpu_side_##segment##_backward_weight = {     \
        .op = #segment ".backward_weight",                                     \
        .run = backward_weight,                                                \
        .scratch = backward_weight_scratch                                     \
    }

/* T is the type of the data on `port`. */
struct dsf_gpu_work dsf_gpu_work(const struct dsflow_call *call, unsigned port,
                                 struct dsf_gpu_room room, void *stream);

/* NULL where the task leaves the port out. */
static inline void *dsf_gpu_port(const struct dsf_gpu_work *w, unsigned port)
{
    return w->call->bufs[port].ptr;
}

/* Of the tile of `args`, which say where its tensors are in the unit on a port.
 */
#define DSF_GPU_NORM_OF(w, port, args)                                         \
    dsf_gpu_norm_of((w)->call, port, &(args)->tile, (args)->norm_w,            \
                    (args)->norm_b)

/* The normed rows, in w->normed; `x` itself where it is normed already. */
const void *dsf_gpu_normed(const struct dsf_gpu_work *w,
                           const struct dsf_gpu_norm *norm, const void *x,
                           size_t rows);

/* Rows of inputs of a product as the tile says, in w->normed; `in` itself where
 * it says nothing. */
const void *dsf_gpu_inputs(const struct dsf_gpu_work *w,
                           const struct dsflow_tile *tile, const void *in,
                           size_t rows, size_t cols);

/* What stands in `x` becomes them. */
void dsf_gpu_inputs_in_place(const struct dsf_gpu_work *w,
                             const struct dsflow_tile *tile, void *x,
                             size_t rows, size_t cols);

/* As dsf_gpu_normed: what is normed already is rounded already. */
const void *dsf_gpu_normed_inputs(const struct dsf_gpu_work *w,
                                  const struct dsflow_tile *tile,
                                  const struct dsf_gpu_norm *norm,
                                  const void *x, size_t rows);

/* y[rows][out] = x[rows][in] W^T. */
struct dsf_gpu_projection {
    const struct dsf_gpu_work *work;
    size_t rows, in, out;
};

/* The product of y = x W^T, with y of T and rows of it `ld` apart. The caller
 * says what follows, and enqueues it. */
struct dsf_gpu_product dsf_gpu_project(const struct dsf_gpu_projection *p,
                                       const void *x, const void *w, void *y,
                                       size_t ld);

/* dx[rows][in] = dy W, in fp32, to which `dx` is added where `add`; rows of dy
 * are `ld` apart. */
struct dsf_gpu_product dsf_gpu_project_input(const struct dsf_gpu_projection *p,
                                             const void *dy, size_t ld,
                                             const void *w, float *dx, int add);

/* The gradient from number `at` on = dy^T x, added to where it says so; rows of
 * dy are `ld` apart. The work's `wide` has dsf_gpu_weight_wide bytes. */
void dsf_gpu_project_weight(const struct dsf_gpu_projection *p, const void *dy,
                            size_t ld, const void *x,
                            const struct dsf_gpu_gradient *grad, int64_t at);

/* What the library does not leave in the type of the gradient, beside that of
 * the task, is left in fp32, some rows of [rows][cols] at a time: bytes of
 * these. */
size_t dsf_gpu_weight_wide(enum dsflow_dtype type, enum dsflow_dtype grad,
                           size_t rows, size_t cols);

/* b += the sums of the columns of dy, if there is a b. */
void dsf_gpu_bias_gradient(const struct dsf_gpu_projection *p, const void *dy,
                           size_t ld, const struct dsf_gpu_gradient *grad,
                           int64_t b);

/* The data on a port that is of T, or in fp32, becomes x W^T + add + bias; of a
 * part, add is NULL. */
void dsf_gpu_project_to(const struct dsf_gpu_projection *p, const void *x,
                        const void *w, unsigned port, const void *add,
                        const void *bias);

/* Where the gradient of the input of a segment is left, in fp32, for
 * dsf_gpu_input_gradient: of a part whose port is in fp32, there. */
float *dsf_gpu_input_at(const struct dsf_gpu_work *w, unsigned port,
                        int64_t norm_w);

/* dx on such a port, from that: dres (NULL: 0) + what the norm makes of it; of
 * a part, which has no norm, it is that. */
void dsf_gpu_input_gradient(const struct dsf_gpu_work *w, unsigned port,
                            const struct dsf_gpu_norm *norm, const void *x,
                            const float *dnormed, const void *dres,
                            float *dnorm, size_t rows);

/* Add dnorm[2][width] to the gradients of a norm, if there is one. */
void dsf_gpu_norm_sums(const struct dsf_gpu_work *w,
                       const struct dsf_gpu_gradient *grad, int64_t at,
                       int64_t b, const float *dnorm, size_t width);

/* The gradient on a port, which is added to: but for the `n` extents that
 * products will set, in ascending order, it begins with 0 where it is fresh. */
struct dsf_gpu_extent {
    int64_t at;
    size_t n;
};
struct dsf_gpu_gradient dsf_gpu_gradient_but(const struct dsf_gpu_work *w,
                                             unsigned port,
                                             const struct dsf_gpu_extent *set,
                                             unsigned n);

#endif
