/* segment.h - run one codelet as the executor would, and compare with double
 * precision. */
#ifndef DSF_UNIT_CODELETS_SEGMENT_H
#define DSF_UNIT_CODELETS_SEGMENT_H

#include "unit/kernels/numeric.h"

#include "base/half.h"
#include "codelets/codelets.h"
#include "tasks/tasks.h"
#include "tasks/tile.h"

/* `elems` elements of the type that a port has. */
static inline struct dsflow_shape shape_of(const struct dsflow_op *op,
                                           unsigned port, size_t elems)
{
    const struct dsflow_port *p =
        &op->ports[port < op->nports ? port : op->nports - 1];
    enum dsflow_dtype dtype = p->dtype;

    if (strcmp(p->name, "control") == 0)
        return dsflow_shape_of(DSFLOW_BYTES, (int64_t)elems);
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

/* A tensor on a port. `as`: the codelet sees it as bf16 or fp16. */
struct on {
    unsigned port;
    struct tensor *t;
    enum dsflow_dtype as;
};

static inline int is_narrow(enum dsflow_dtype type)
{
    return type == DSFLOW_BF16 || type == DSFLOW_FP16;
}

static inline uint16_t narrow_of(enum dsflow_dtype type, float x)
{
    return type == DSFLOW_BF16 ? dsf_to_bf16(x) : dsf_to_fp16(x);
}

static inline float wide_of(enum dsflow_dtype type, uint16_t x)
{
    return type == DSFLOW_BF16 ? dsf_from_bf16(x) : dsf_from_fp16(x);
}

/* To the nearest numbers that bf16 or fp16 has. */
static inline void tensor_round(struct tensor *t, enum dsflow_dtype type)
{
    for (size_t i = 0; i < t->n; i++)
        t->f[i] = wide_of(type, narrow_of(type, t->f[i]));
    tensor_from_floats(t);
}

/* What the codelet sees of a tensor, and what it has left there. A number that
 * is not set stays none. */
static inline struct guarded narrow_in(const struct on *on)
{
    struct guarded g = guarded_new(on->t->n * sizeof(uint16_t));
    uint16_t *v = (uint16_t *)(void *)g.p;

    for (size_t i = 0; i < on->t->n; i++)
        v[i] = isnan(on->t->f[i]) ? 0xffff : narrow_of(on->as, on->t->f[i]);
    return g;
}

static inline void narrow_out(const struct on *on, struct guarded *g)
{
    const uint16_t *v = (const uint16_t *)(const void *)g->p;

    for (size_t i = 0; i < on->t->n; i++)
        on->t->f[i] = wide_of(on->as, v[i]);
    guarded_free(g);
}

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
    struct guarded scratch, narrow[DSFLOW_TRIAL_PORTS];

    for (unsigned i = 0; i < n; i++) {
        size_t bytes = ports[i].t->n * sizeof(float);
        void *v = ports[i].t->f;
        unsigned p = ports[i].port;

        assert_true(p < op->nports && op->ports[p].name != NULL);
        shapes[p] = shape_of(op, p, 1);
        shapes[p] = shape_of(op, p, bytes / shapes[p].bytes);
        if (is_narrow(ports[i].as)) {
            narrow[i] = narrow_in(&ports[i]);
            shapes[p] = dsflow_shape_of(ports[i].as, (int64_t)ports[i].t->n);
            v = narrow[i].p;
        }
        bufs[p] = (struct dsflow_buf){ v, shapes[p].bytes, shapes[p].elems,
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
    for (unsigned i = 0; i < n; i++)
        if (is_narrow(ports[i].as))
            narrow_out(&ports[i], &narrow[i]);
}

/* RUN(codelet, args, { PORT, tensor }, …) */
#define RUN(codelet, args, ...) RUN_FRESH(0, codelet, args, __VA_ARGS__)
#define RUN_FRESH(fresh, codelet, args, ...)                                   \
    run(codelet, args, fresh,                                                  \
        sizeof((struct on[]){ __VA_ARGS__ }) / sizeof(struct on),              \
        (struct on[]){ __VA_ARGS__ })

/* What the control of a step says, for a task that scales losses. */
static inline struct tensor control_of(double loss_scale)
{
    const struct dsflow_control c = { .loss_scale = loss_scale };
    struct tensor t = tensor_unset(sizeof(c) / sizeof(float));

    memcpy(t.f, &c, sizeof(c));
    return t;
}

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
