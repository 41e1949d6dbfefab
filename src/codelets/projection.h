/* projection.h - the calls of a task that computes in bf16 or fp16: its ports
 * and the parts of its scratch, and y[rows][out] = x[rows][in] W^T with its
 * gradients. Numbers of the task's type T are uint16_t. */
#ifndef DSF_CODELETS_PROJECTION_H
#define DSF_CODELETS_PROJECTION_H

#include "codelets/call.h"
#include "codelets/gradient.h"
#include "kernels/narrow.h"
#include "tasks/args.h"
#include "tasks/scratch.h"

struct dsf_narrow_call {
    enum dsflow_dtype type;
    const struct dsf_narrow_loops *loops;
    float *wide; /* the parts of its scratch */
    uint16_t *narrow;
    void *product;
    float *rows; /* DSF_GRADIENT_ROWS rows of a gradient that is not fp32 */
};

/* T is the type of the data on `port`. */
static inline struct dsf_narrow_call
dsf_narrow_call(const struct dsflow_call *call, unsigned port,
                struct dsf_scratch s)
{
    char *scratch = call->scratch;

    return (struct dsf_narrow_call){
        .type = call->bufs[port].dtype,
        .loops = dsf_narrow(call->bufs[port].dtype),
        .wide = (float *)(void *)scratch,
        .narrow = (uint16_t *)(void *)(scratch + dsf_scratch_narrow(&s)),
        .product = scratch + dsf_scratch_product(&s),
        .rows = (float *)(void *)(scratch + dsf_scratch_bytes(s)),
    };
}

static inline int dsf_has_narrow(const struct dsflow_call *call, unsigned port)
{
    return dsf_is_narrow(call->bufs[port].dtype);
}

/* <name>_cpu: <pass>_narrow where the data on a port is bf16 or fp16, else
 * <pass>_cpu. */
#define DSF_BY_TYPE(name, port, pass)                                          \
    static void name##_cpu(const struct dsflow_call *call)                     \
    {                                                                          \
        if (dsf_has_narrow(call, port))                                        \
            pass##_narrow(call);                                               \
        else                                                                   \
            pass##_cpu(call);                                                  \
    }

/* The numbers of T on a port; NULL where the task leaves it out. */
static inline uint16_t *dsf_halves(const struct dsflow_call *call,
                                   unsigned port)
{
    return call->bufs[port].ptr;
}

/* The tensor at `at` of a unit; NULL where the model has none. */
static inline const uint16_t *dsf_half_at(const uint16_t *unit, int64_t at)
{
    return at < 0 ? NULL : unit + at;
}

/* Of the tile of `args`, which say where its tensors are in the unit on a port.
 */
#define DSF_NARROW_NORM_OF(call, port, args)                                   \
    ((struct dsf_narrow_norm){                                                 \
        dsf_half_at(dsf_halves(call, port), (args)->norm_w),                   \
        dsf_half_at(dsf_halves(call, port), (args)->norm_b),                   \
        (size_t)(args)->tile.width, (args)->tile.eps, (args)->tile.rms })

/* The normed rows, in c->narrow; `x` itself where it is normed already. */
static inline const uint16_t *
dsf_narrow_normed(const struct dsf_narrow_call *c,
                  const struct dsf_narrow_norm *norm, const uint16_t *x,
                  size_t rows)
{
    if (norm->w == NULL)
        return x;
    c->loops->norm_forward(norm, x, c->narrow, rows);
    return c->narrow;
}

struct dsf_projection {
    const struct dsf_narrow_call *call;
    size_t rows, in, out;
};

/* y = x W^T; rows of y are `ld` apart. */
void dsf_projection(const struct dsf_projection *p, const uint16_t *x,
                    const uint16_t *w, float *y, size_t ld);

/* dx = dy W + beta dx; rows of dy are `ld` apart. */
void dsf_projection_input(const struct dsf_projection *p, const uint16_t *dy,
                          size_t ld, const uint16_t *w, float beta, float *dx);

/* dy^T x, which the gradient of W from `at` on is set to, or has added; rows of
 * dy are `ld` apart. */
void dsf_projection_weight(const struct dsf_projection *p, const uint16_t *dy,
                           size_t ld, const uint16_t *x,
                           const struct dsf_gradient *g, int64_t at);

/* Data on a port that is of T, or in fp32: where a product is left that leaves
 * the task there as it is, or rounded. */
static inline float *dsf_product_at(const struct dsf_narrow_call *c,
                                    const struct dsflow_call *call,
                                    unsigned port)
{
    return dsf_has_narrow(call, port) ? c->wide : call->bufs[port].ptr;
}

/* That product[rows][width], with x and b added, is on the port: of a part, x
 * is NULL. b may be NULL. */
void dsf_product_leaves(const struct dsf_narrow_call *c,
                        const struct dsflow_call *call, unsigned port,
                        const uint16_t *x, const uint16_t *b, size_t rows,
                        size_t width);

/* dx of a task on such a port, from the gradient of its normed rows, which is
 * in c->wide: dres (NULL: 0) + what the norm makes of it. */
void dsf_normed_leaves(const struct dsf_narrow_call *c,
                       const struct dsflow_call *call, unsigned port,
                       const struct dsf_narrow_norm *norm, const uint16_t *x,
                       const uint16_t *dres, float *dnorm, size_t rows);

#endif
