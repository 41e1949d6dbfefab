/* segment.h - run one codelet as the executor would, and compare with double
 * precision. */
#ifndef DSF_UNIT_CODELETS_SEGMENT_H
#define DSF_UNIT_CODELETS_SEGMENT_H

#include "unit/kernels/numeric.h"

#include "codelets/codelets.h"
#include "tasks/tasks.h"
#include "tasks/tile.h"

/* `elems` elements of the type that a port has. */
static inline struct dsflow_shape shape_of(const struct dsflow_op *op,
                                           unsigned port, size_t elems)
{
    enum dsflow_dtype dtype =
        op->ports[port < op->nports ? port : op->nports - 1].dtype;

    return dsflow_shape_of(dtype != 0 ? dtype : DSFLOW_FP32, (int64_t)elems);
}

/* The op's check: its first ports, in order, with as many elements; 0: left
 * out. */
static inline int check_elems(const struct dsflow_op *op, const size_t *elems,
                              unsigned n, const void *args,
                              struct dsflow_err *err)
{
    struct dsflow_shape shapes[DSFLOW_TRIAL_PORTS] = { { 0 } };

    for (unsigned p = 0; p < op->nports && n > 0; p++)
        if (op->ports[p].name != NULL) {
            shapes[p] = shape_of(op, p, *elems++);
            n--;
        }
    return op->check(&(struct dsflow_case){ op, shapes, op->nports, args },
                     err);
}

/* A tensor on a port. */
struct on {
    unsigned port;
    struct tensor *t;
};

/* Check as the graph does, then run; `fresh` as in the graph. */
static inline void run(const struct dsflow_codelet *codelet, const void *args,
                       unsigned fresh, unsigned n, const struct on *ports)
{
    const struct dsflow_op *op = codelet->op;
    struct dsflow_buf bufs[DSFLOW_TRIAL_PORTS] = { { .ptr = NULL } };
    struct dsflow_shape shapes[DSFLOW_TRIAL_PORTS] = { { 0 } };
    const struct dsflow_case c = { op, shapes, op->nports, args };
    struct dsflow_err err = { .msg = "" };
    struct dsflow_cost cost = { .flops = -1, .bytes = -1 };
    struct guarded scratch;

    for (unsigned i = 0; i < n; i++) {
        size_t bytes = ports[i].t->n * sizeof(float);
        unsigned p = ports[i].port;

        assert_true(p < op->nports && op->ports[p].name != NULL);
        shapes[p] = shape_of(op, p, 1);
        shapes[p] = shape_of(op, p, bytes / shapes[p].bytes);
        bufs[p] = (struct dsflow_buf){ ports[i].t->f, bytes, shapes[p].elems,
                                       shapes[p].dtype };
    }
    if (op->check(&c, &err) != DSFLOW_OK)
        fail_msg("%s", err.msg);
    op->cost(&c, &cost);
    assert_true(cost.flops >= 0 && cost.bytes > 0);
    scratch = guarded_new(op->scratch ? op->scratch(&c) : 0);
    memset(scratch.p, 0xff, scratch.bytes); /* not numbers */
    codelet->cpu(&(struct dsflow_call){ .bufs = bufs,
                                        .nbufs = op->nports,
                                        .args = args,
                                        .fresh = fresh,
                                        .scratch = scratch.p });
    guarded_free(&scratch);
}

/* RUN(codelet, args, { PORT, tensor }, …) */
#define RUN(codelet, args, ...) RUN_FRESH(0, codelet, args, __VA_ARGS__)
#define RUN_FRESH(fresh, codelet, args, ...)                                   \
    run(codelet, args, fresh,                                                  \
        sizeof((struct on[]){ __VA_ARGS__ }) / sizeof(struct on),              \
        (struct on[]){ __VA_ARGS__ })

/* What a fresh gradient has before the first task that adds to it. */
static inline void soil(struct tensor *t)
{
    for (size_t i = 0; i < t->n; i++)
        t->f[i] = NAN;
}

/* The next n numbers of a unit, which has `*at` so far. */
static inline size_t place(size_t *at, size_t n)
{
    size_t here = *at;

    *at += dsf_round16(n);
    return here;
}

/* The scalar that a test differentiates; it reads doubles of its case. */
typedef double (*objective_fn)(void *user);

/* Is `grad` the gradient of `objective` by the n doubles at `v`? Central
 * differences, for at most about 40 of them. */
static inline void check_gradient(objective_fn objective, void *user, double *v,
                                  const float *grad, size_t n, const char *name)
{
    const double h = 1e-5;
    size_t stride = n < 40 ? 1 : n / 40 | 1;
    double diff = 0, size = 0;

    for (size_t i = 0; i < n; i += stride) {
        double saved = v[i], up, down, slope;

        v[i] = saved + h;
        up = objective(user);
        v[i] = saved - h;
        down = objective(user);
        v[i] = saved;
        slope = (up - down) / (2 * h);
        diff += (slope - (double)grad[i]) * (slope - (double)grad[i]);
        size += slope * slope;
    }
    if (!(sqrt(diff) <= 5e-6 * sqrt(size) + 2e-6))
        fail_msg("gradient of %s: off by %g of %g (%s)", name, sqrt(diff),
                 sqrt(size), dsf_kernels_isa());
}

/* Layer norm or RMS norm of the rows of x, in double. */
static inline void norm_ref(const struct dsflow_tile *t, const double *x,
                            const double *w, const double *b, double *y)
{
    size_t n = (size_t)t->width;

    for (size_t r = 0; r < (size_t)t->rows; r++, x += n, y += n) {
        double mean = 0, var = 0;

        for (size_t i = 0; i < n && !t->rms; i++)
            mean += x[i] / (double)n;
        for (size_t i = 0; i < n; i++)
            var += (x[i] - mean) * (x[i] - mean) / (double)n;
        for (size_t i = 0; i < n; i++)
            y[i] = (x[i] - mean) / sqrt(var + (double)t->eps) * w[i] +
                   (b ? b[i] : 0);
    }
}

/* y[rows][out] = x[rows][in] W^T + b */
static inline void linear_ref(size_t rows, size_t in, size_t out,
                              const double *x, const double *w, const double *b,
                              double *y)
{
    for (size_t r = 0; r < rows; r++) {
        for (size_t o = 0; o < out; o++) {
            double s = b ? b[o] : 0;

            for (size_t i = 0; i < in; i++)
                s += x[r * in + i] * w[o * in + i];
            y[r * out + o] = s;
        }
    }
}

#endif
