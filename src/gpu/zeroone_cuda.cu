/* zeroone_cuda.cu - 0/1 Adam (codelets/zeroone.c): updates with second moments
 * that are held, steps that workers take by themselves, and what comes of them;
 * with the bits of kernels/loops_signs.h. What follows from the number of a
 * step is computed on cores (local_step). */
#include "gpu/dev_numbers.h"
#include "gpu/dev_onebit.h"
#include "gpu/gpu.h"
#include "gpu/wire.h"

namespace {

const struct dsf_zeroone_step *step_of(const struct dsflow_call *call)
{
    return (const struct dsf_zeroone_step *)call->bufs[0].ptr;
}

/* How many of `elems` numbers decay. */
size_t decaying(int64_t decay, int64_t elems)
{
    return (size_t)(decay < 0 ? 0 : decay < elems ? decay : elems);
}

/* sqrt(v) + eps. */
DEV float root_of(float v, float eps)
{
    return __fadd_rn(__fsqrt_rn(v), eps);
}

/* by m / (sqrt(v) + eps); 0 where v is 0. */
DEV float step_by(float by, float m, float v, float eps)
{
    return v == 0 ? 0 : __fmul_rn(by, __fdiv_rn(m, root_of(v, eps)));
}

/* --- held_update ---------------------------------------------------------- */

struct held_update {
    const struct dsflow_control *control;
    const float *g, *v;
    float *p, *m;
    size_t decay;
    float beta1, rest1, eps, weight_decay;

    struct facts {
        float lr, keep;
    };
    DEV facts find() const
    {
        const float lr = __double2float_rn(control->lr);

        return { lr, __fsub_rn(1, __fmul_rn(lr, weight_decay)) };
    }
    template <int N> DEV void at(const facts &f, size_t i) const
    {
        float grad[N], held[N], p1[N], m1[N];

        dev_load_all(g + i, grad);
        dev_load_all(v + i, held);
        dev_load_all(p + i, p1);
        dev_load_all(m + i, m1);
        DEV_UNROLL
        for (int k = 0; k < N; k++) {
            m1[k] = __fmaf_rn(beta1, m1[k], __fmul_rn(rest1, grad[k]));
            p1[k] = __fmaf_rn(i + k < decay ? f.keep : 1, p1[k],
                              step_by(-f.lr, m1[k], held[k], eps));
        }
        dev_store_all(m + i, m1);
        dev_store_all(p + i, p1);
    }
};

void held_run(const struct dsflow_call *call, void *stream)
{
    enum { GRAD = 1, PARAM, M, V };
    const dsf_held_args *a = (const dsf_held_args *)call->args;
    const held_update op = { control_of(call),
                             floats(call, GRAD, a->grad_at),
                             floats(call, V, a->v_at),
                             floats(call, PARAM, a->param_at),
                             floats(call, M, a->m_at),
                             decaying(a->decay, a->elems),
                             (float)a->beta1,
                             (float)(1 - a->beta1),
                             a->eps,
                             a->weight_decay };

    launch_numbers(op, (size_t)a->elems, { op.g, op.v, op.p, op.m }, stream);
}

/* --- local_weights -------------------------------------------------------- */

struct local_weights {
    const struct dsf_zeroone_step *step;
    const float *p, *local;
    float *weights;

    struct facts {
        int fresh;
    };
    DEV facts find() const
    {
        return { step->fresh != 0 };
    }
    template <int N> DEV void at(const facts &f, size_t i) const
    {
        float w[N], u[N];

        dev_load_all(p + i, w);
        if (!f.fresh) {
            dev_load_all(local + i, u);
            DEV_UNROLL
            for (int k = 0; k < N; k++)
                w[k] = __fadd_rn(w[k], u[k]);
        }
        dev_store_all(weights + i, w);
    }
};

void weights_run(const struct dsflow_call *call, void *stream)
{
    enum { PARAM = 1, LOCAL, WEIGHTS };
    const dsf_local_args *a = (const dsf_local_args *)call->args;
    const local_weights op = { step_of(call), floats(call, PARAM, a->at),
                               floats(call, LOCAL, a->local_at),
                               floats(call, WEIGHTS, a->weights_at) };

    launch_numbers(op, (size_t)a->elems, { op.p, op.local, op.weights },
                   stream);
}

/* --- local_update --------------------------------------------------------- */

struct local_update {
    const struct dsf_zeroone_step *step;
    const float *g, *v, *p, *m;
    float *own, *local;
    size_t decay;
    float beta1, rest1, eps, weight_decay;

    struct facts {
        float lr, decay;
        int fresh;
    };
    DEV facts find() const
    {
        const float lr = -__double2float_rn(step->lr);

        return { lr, __fmul_rn(lr, weight_decay), step->fresh != 0 };
    }
    template <int N> DEV void at(const facts &f, size_t i) const
    {
        float grad[N], held[N], w[N], m1[N], u[N] = {};

        dev_load_all(g + i, grad);
        dev_load_all(v + i, held);
        dev_load_all(p + i, w);
        dev_load_all((f.fresh ? m : own) + i, m1);
        if (!f.fresh)
            dev_load_all(local + i, u);
        DEV_UNROLL
        for (int k = 0; k < N; k++) {
            const float by = i + k < decay ? f.decay : __fmul_rn(f.lr, 0);

            m1[k] = __fmaf_rn(beta1, m1[k], __fmul_rn(rest1, grad[k]));
            u[k] =
                __fadd_rn(u[k], __fmaf_rn(by, __fadd_rn(w[k], u[k]),
                                          step_by(f.lr, m1[k], held[k], eps)));
        }
        dev_store_all(own + i, m1);
        dev_store_all(local + i, u);
    }
};

void update_run(const struct dsflow_call *call, void *stream)
{
    enum { GRAD = 1, PARAM, V, M, OWN, LOCAL };
    const dsf_local_args *a = (const dsf_local_args *)call->args;
    const local_update op = { step_of(call),
                              floats(call, GRAD, a->grad_at),
                              floats(call, V, a->at),
                              floats(call, PARAM, a->at),
                              floats(call, M, a->at),
                              floats(call, OWN, a->own_at),
                              floats(call, LOCAL, a->local_at),
                              decaying(a->decay, a->elems),
                              (float)a->beta1,
                              (float)((1 - a->beta1) * (double)a->groups),
                              a->eps,
                              a->weight_decay };

    launch_numbers(op, (size_t)a->elems,
                   { op.g, op.v, op.p, op.m, op.own, op.local }, stream);
}

/* --- feed_local ----------------------------------------------------------- */

enum { LOCAL = 1, SECOND, GRAD, ERROR };

/* share local (sqrt(v) + eps). */
struct share {
    float eps, by;

    DEV float of(float local, float v) const
    {
        return __fmul_rn(__fmul_rn(local, root_of(v, eps)), by);
    }
};

/* Where nothing is coded. */
struct share_each {
    share made;
    const float *local, *v;
    float *x;

    struct facts {};
    DEV facts find() const
    {
        return {};
    }
    template <int N> DEV void at(const facts &, size_t i) const
    {
        float u[N], held[N];

        dev_load_all(local + i, u);
        dev_load_all(v + i, held);
        DEV_UNROLL
        for (int k = 0; k < N; k++)
            u[k] = made.of(u[k], held[k]);
        dev_store_all(x + i, u);
    }
};

/* With the error. */
struct share_blocks : wire_op {
    share made;
    const float *local, *v;
    float *x;
    error_data error;

    DEV void block(wire_team &, int64_t at) const
    {
        const wire_place of(c);
        float u[WIRE_OWN], held[WIRE_OWN], e[WIRE_OWN] = {};

        wire_load(local + at, of, u);
        wire_load(v + at, of, held);
        error.load(at, of, e);
        DEV_UNROLL
        for (int k = 0; k < WIRE_OWN; k++)
            u[k] = __fadd_rn(made.of(u[k], held[k]), e[k]);
        wire_store(x + at, of, u);
    }
};

const dsf_feed_local_args *feed_args(const struct dsflow_call *call)
{
    return (const dsf_feed_local_args *)call->args;
}

const float *fed_unit(const struct dsflow_call *call, unsigned)
{
    return floats(call, GRAD, feed_args(call)->grad_at);
}

void feed_run(const struct dsflow_call *call, void *stream)
{
    const dsf_feed_local_args *a = feed_args(call);
    const share made = { (float)a->eps, (float)(1 / (double)a->groups) };
    const float *local = floats(call, LOCAL, a->local_at);
    const float *v = floats(call, SECOND, a->at);
    float *x = floats(call, GRAD, a->grad_at);
    const wire_op all = { a->coding, { 0, a->elems } };

    if (!has(call, ERROR)) {
        launch_numbers(share_each{ made, local, v, x }, (size_t)a->elems,
                       { local, v, x }, stream);
        return;
    }
    const error_data error = errors_of(call, ERROR, a->error_at);
    const float *scales;

    wire_launch<wire_sign>(share_blocks{ all, made, local, v, x, error },
                           a->elems, 1, 0, stream);
    scales = dsf_gpu_wire_scales(&a->coding, call, fed_unit, 1, call->scratch,
                                 stream);
    wire_launch<wire_sign>(
        keep_error{ all, control_of(call), 0, x, scales, error }, a->elems, 1,
        0, stream);
}

size_t feed_scratch(const struct dsflow_case *c)
{
    const dsf_feed_local_args *a = (const dsf_feed_local_args *)c->args;
    const bool coded = c->n > ERROR && c->shapes[ERROR].bytes > 0;

    return coded ? dsf_gpu_wire_scratch(&a->coding, 1) : 0;
}

/* --- serve_mean ----------------------------------------------------------- */

struct serve_mean : wire_op {
    enum { FRONT = 16 };
    const struct dsflow_control *control;
    int64_t last; /* the step in which `server` becomes 0 */
    const double *scales;
    float *x, *server;
    int64_t groups;

    DEV void begin() const
    {
        find_last(control, last);
    }
    DEV void block(wire_team &, int64_t at) const
    {
        const int64_t chunk = chunk_of(c, groups, at), i = at - range.at;
        const wire_place of(c);
        float v[WIRE_OWN], s[WIRE_OWN];

        if (chunk >= 0) {
            wire_load(x + i, of, v);
            wire_load(server + i, of, s);
            serve_numbers(__double2float_rn(scales[chunk]), v, s);
            wire_store(x + i, of, v);
        }
        DEV_UNROLL
        for (int k = 0; k < WIRE_OWN && is_last(); k++)
            s[k] = 0;
        if (chunk >= 0 || is_last())
            wire_store(server + i, of, s);
    }
};

void serve_run(const struct dsflow_call *call, void *stream)
{
    enum { MEAN = 1, SCALES, SERVER };
    const dsf_chunk_args *a = (const dsf_chunk_args *)call->args;

    wire_launch<wire_sign>(serve_mean{ { a->coding, { a->at, a->elems } },
                                       control_of(call),
                                       a->last,
                                       (const double *)call->bufs[SCALES].ptr,
                                       floats(call, MEAN, a->grad_at),
                                       floats(call, SERVER, a->server_at),
                                       a->groups },
                           a->elems, 1, 0, stream);
}

/* --- local_settle --------------------------------------------------------- */

struct local_settle {
    const struct dsf_zeroone_step *step;
    const float *mean, *v;
    float *p, *m;
    double eps;

    struct facts {
        float by, eps;
    };
    DEV facts find() const
    {
        const double rates = step->rates;

        return { rates > 0 ? -__double2float_rn(rates) : -INFINITY,
                 __double2float_rn(eps) };
    }
    template <int N> DEV void at(const facts &f, size_t i) const
    {
        float u[N], held[N], p1[N];

        dev_load_all(mean + i, u);
        dev_load_all(v + i, held);
        dev_load_all(p + i, p1);
        DEV_UNROLL
        for (int k = 0; k < N; k++) {
            p1[k] = __fadd_rn(p1[k], step_by(1, u[k], held[k], f.eps));
            u[k] = __fdiv_rn(u[k], f.by);
        }
        dev_store_all(p + i, p1);
        dev_store_all(m + i, u);
    }
};

void settle_run(const struct dsflow_call *call, void *stream)
{
    enum { MEAN = 1, PARAM, M, V };
    const dsf_settle_args *a = (const dsf_settle_args *)call->args;
    const local_settle op = { step_of(call),
                              floats(call, MEAN, a->mean_at),
                              floats(call, V, a->v_at),
                              floats(call, PARAM, a->param_at),
                              floats(call, M, a->m_at),
                              a->eps };

    launch_numbers(op, (size_t)a->elems, { op.mean, op.v, op.p, op.m }, stream);
}

} // namespace

const struct dsf_gpu_side dsf_gpu_side_held_update = { "held_update", held_run,
                                                       nullptr, 1 };
const struct dsf_gpu_side dsf_gpu_side_local_weights = { "local_weights",
                                                         weights_run, nullptr,
                                                         1 };
const struct dsf_gpu_side dsf_gpu_side_local_update = { "local_update",
                                                        update_run, nullptr,
                                                        1 };
const struct dsf_gpu_side dsf_gpu_side_feed_local = { "feed_local", feed_run,
                                                      feed_scratch, 1, lacks };
const struct dsf_gpu_side dsf_gpu_side_serve_mean = { "serve_mean", serve_run,
                                                      nullptr, 1, lacks };
const struct dsf_gpu_side dsf_gpu_side_local_settle = { "local_settle",
                                                        settle_run, nullptr,
                                                        1 };
