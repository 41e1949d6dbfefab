/* onebit_cuda.cu - 1-bit Adam, and what 1-bit LAMB and 0/1 Adam have of it
 * (codelets/onebit.c): gradients of groups, clipped; what is sent of a
 * momentum, the scales of chunks, and what comes of them. */
#include "gpu/dev_numbers.h"
#include "gpu/dev_onebit.h"
#include "gpu/dev_terms.h"
#include "gpu/gpu.h"
#include "gpu/wire.h"

#include "tasks/args.h"

namespace {

/* --- clip_group ----------------------------------------------------------- */

struct clip_group {
    const struct dsflow_control *control;
    const double *norm2;
    float *x;
    double groups, limit;

    struct facts {
        float by;
        int clips;
    };
    DEV facts find() const
    {
        const double norm = __ddiv_rn(__dmul_rn(groups, __dsqrt_rn(*norm2)),
                                      control->loss_scale);
        const double ratio = norm < INFINITY
                                 ? __ddiv_rn(limit, __dadd_rn(norm, 1e-6))
                                 : (double)__uint_as_float(WIRE_NAN);

        return { __double2float_rn(ratio), !(ratio >= 1) };
    }
    template <int N> DEV void at(const facts &f, size_t i) const
    {
        float v[N];

        if (!f.clips)
            return;
        dev_load_all(x + i, v);
        DEV_UNROLL
        for (int k = 0; k < N; k++)
            v[k] = __fmul_rn(v[k], f.by);
        dev_store_all(x + i, v);
    }
};

void clip_run(const struct dsflow_call *call, void *stream)
{
    const dsf_clip_group_args *a = (const dsf_clip_group_args *)call->args;
    const clip_group op = { control_of(call), (const double *)call->bufs[2].ptr,
                            floats(call, 1, a->at), (double)a->groups,
                            a->limit };

    launch_numbers(op, (size_t)a->elems, { op.x }, stream);
}

/* --- feed_momentum -------------------------------------------------------- */

enum { GRAD = 1, M, ERROR, LAMB };

/* x = beta m + rest x, by what follows from the loss scale. */
struct mean {
    double beta1, rest1, groups;

    DEV float beta(double scale) const
    {
        return __double2float_rn(__ddiv_rn(__dmul_rn(scale, beta1), groups));
    }
    DEV float rest(double scale, double loss_scale) const
    {
        return __double2float_rn(
            __ddiv_rn(__dmul_rn(scale, rest1), loss_scale));
    }
};
DEV float mean_of(float beta, float rest, float m, float x)
{
    return __fmaf_rn(beta, m, __fmul_rn(rest, x));
}

/* Where nothing is coded. */
template <int V>
__global__ void __launch_bounds__(DEV_EACH_THREADS)
    momentum_each(mean by, const struct dsflow_control *control, const float *m,
                  float *x, size_t n)
{
    float *shared = dev_shared<float>();

    if (threadIdx.x == 0) {
        shared[0] = by.beta(1);
        shared[1] = by.rest(1, control->loss_scale);
    }
    __syncthreads();
    dev_each<V>(n, [&](size_t i, auto width) {
        enum { N = decltype(width)::N };
        float was[N], now[N];

        dev_load_all(m + i, was);
        dev_load_all(x + i, now);
        DEV_UNROLL
        for (int k = 0; k < N; k++)
            now[k] = mean_of(shared[0], shared[1], was[k], now[k]);
        dev_store_all(x + i, now);
    });
}

/* x, and the error to it, in the place of the gradient. */
struct momentum : wire_op {
    enum { FRONT = 16 };
    const struct dsflow_control *control;
    mean by;
    const float *m;
    float *x;
    error_data error;
    const struct dsf_lamb *lamb; /* NULL: momenta are as large as they are */

    /* A block of threads reads the control once: it is in main memory. */
    DEV void begin() const
    {
        if (threadIdx.x == 0 && threadIdx.y == 0)
            *dev_shared<double>() = control->loss_scale;
        __syncthreads();
    }
    DEV void block(wire_team &, int64_t at) const
    {
        const int64_t tensor = wire_tensor(c, at);
        const double scale = lamb == nullptr || tensor < 0
                                 ? 1
                                 : lamb[c.tensors[tensor].number].scale;
        const float beta = by.beta(scale);
        const float rest = by.rest(scale, *dev_shared<double>());
        const wire_place of(c);
        float was[WIRE_OWN], v[WIRE_OWN], e[WIRE_OWN] = {};

        wire_load(m + at, of, was);
        wire_load(x + at, of, v);
        error.load(at, of, e);
        DEV_UNROLL
        for (int k = 0; k < WIRE_OWN; k++)
            v[k] = __fadd_rn(mean_of(beta, rest, was[k], v[k]), e[k]);
        wire_store(x + at, of, v);
    }
};

const dsf_momentum_args *momentum_args(const struct dsflow_call *call)
{
    return (const dsf_momentum_args *)call->args;
}

const float *momentum_unit(const struct dsflow_call *call, unsigned)
{
    return floats(call, GRAD, momentum_args(call)->grad_at);
}

void launch_coded(const struct dsflow_call *call, const mean &by,
                  const float *m, float *x, void *stream)
{
    const dsf_momentum_args *a = momentum_args(call);
    const error_data error = errors_of(call, ERROR, a->error_at);
    const bool united = has(call, LAMB);
    const wire_op all = { a->coding, { 0, a->elems } };
    const momentum add = { all,
                           control_of(call),
                           by,
                           m,
                           x,
                           error,
                           united
                               ? (const struct dsf_lamb *)call->bufs[LAMB].ptr
                               : nullptr };
    keep_error keep = { all, control_of(call), a->last, x, nullptr, error };

    wire_launch<wire_sign>(add, a->elems, 1, 0, stream);
    if (united) /* send_signs keeps them */
        return;
    keep.scales = dsf_gpu_wire_scales(&a->coding, call, momentum_unit, 1,
                                      call->scratch, stream);
    wire_launch<wire_sign>(keep, a->elems, 1, 0, stream);
}

void momentum_run(const struct dsflow_call *call, void *stream)
{
    const dsf_momentum_args *a = momentum_args(call);
    const mean by = { a->beta1, 1 - a->beta1, (double)a->groups };
    float *x = floats(call, GRAD, a->grad_at);
    const float *m = has(call, M) ? floats(call, M, 0) : x;
    const size_t n = (size_t)a->elems;

    if (has(call, ERROR))
        launch_coded(call, by, m, x, stream);
    else if (n > 0 && dev_all_aligned({ m, x }))
        dev_launch(momentum_each<8>, dev_each_grid(n, 8), DEV_EACH_THREADS,
                   2 * sizeof(float), stream, by, control_of(call), m, x, n);
    else if (n > 0)
        dev_launch(momentum_each<1>, dev_each_grid(n, 1), DEV_EACH_THREADS,
                   2 * sizeof(float), stream, by, control_of(call), m, x, n);
}

size_t momentum_scratch(const struct dsflow_case *c)
{
    const dsf_momentum_args *a = (const dsf_momentum_args *)c->args;
    const bool coded = c->n > ERROR && c->shapes[ERROR].bytes > 0;

    return coded ? dsf_gpu_wire_scratch(&a->coding, 1) : 0;
}

/* --- chunks --------------------------------------------------------------- */

/* grad + server, of a block. */
struct chunk_squares : wire_op {
    enum { SOME = 2048 }; /* as in codelets/onebit.c */
    const float *x, *server;
    double *sums;

    DEV void block(wire_team &team, int64_t at) const
    {
        const wire_place of(c);
        const int64_t i = at - range.at;
        float v[WIRE_OWN], s[WIRE_OWN];
        double sum = 0;

        if (wire_tensor(c, at) >= 0) {
            wire_load(x + i, of, v);
            if (server != nullptr) {
                wire_load(server + i, of, s);
                DEV_UNROLL
                for (int k = 0; k < WIRE_OWN; k++)
                    v[k] = __fadd_rn(v[k], s[k]);
            }
            sum = team.squares(of, v, SOME);
        }
        if (threadIdx.x == 0)
            sums[i / c.block] = sum;
    }
};

void squares_run(const struct dsflow_call *call, void *stream)
{
    enum { SERVER = 1, SUMS };
    const dsf_chunk_args *a = (const dsf_chunk_args *)call->args;
    const chunk_squares op = { { a->coding, { a->at, a->elems } },
                               floats(call, 0, a->grad_at),
                               has(call, SERVER)
                                   ? floats(call, SERVER, a->server_at)
                                   : nullptr,
                               (double *)call->bufs[SUMS].ptr };

    wire_launch<wire_sign>(op, a->elems, 1, 0, stream);
}

/* The blocks of a chunk, from number `first` of the unit's on. */
DEV_BOTH int64_t chunk_first(const dsf_coding &c, int64_t groups, int64_t chunk)
{
    const struct dsf_coded_tensor &t = c.tensors[chunk / groups];

    return t.at / c.block + t.elems / c.block * (chunk % groups) / groups;
}
DEV_BOTH int64_t chunk_end(const dsf_coding &c, int64_t groups, int64_t chunk)
{
    const struct dsf_coded_tensor &t = c.tensors[chunk / groups];

    return t.at / c.block + t.elems / c.block * (chunk % groups + 1) / groups;
}

enum { SUMS = 64 };

/* A block of threads has a chunk, and adds what is in from .. to of it; one
 * thread does, in the order of cores. `last`: that was all. */
__global__ void __launch_bounds__(SUMS)
    chunk_scales(const dsf_coding c, const terms s, double *scales,
                 int64_t groups, int64_t from, int64_t to, bool last)
{
    const int64_t chunk = blockIdx.x;
    const int64_t first = chunk_first(c, groups, chunk);
    const int64_t end = chunk_end(c, groups, chunk);
    const int64_t stop = end < to ? end : to;
    double *some = dev_shared<double>();
    double sum = from > 0 && threadIdx.x == 0 ? scales[chunk] : 0;

    for (int64_t i = first > from ? first : from; i < stop; i += SUMS) {
        const int64_t n = stop - i < SUMS ? stop - i : (int64_t)SUMS;

        if ((int64_t)threadIdx.x < n)
            some[threadIdx.x] = s.at(i + threadIdx.x - from);
        __syncthreads();
        for (int64_t k = 0; k < n && threadIdx.x == 0; k++)
            sum = __dadd_rn(sum, some[k]);
        __syncthreads();
    }
    if (threadIdx.x != 0)
        return;
    if (last && end > first)
        sum = (double)wire_sign_scale(sum, (double)((end - first) * c.block));
    scales[chunk] = sum;
}

void scales_run(const struct dsflow_call *call, void *stream)
{
    const dsf_chunk_scales_args *a = (const dsf_chunk_scales_args *)call->args;
    const unsigned n = (unsigned)(a->coding.ntensors * a->groups);

    by_terms(call, [&](const terms &s, int64_t from, bool last) {
        if (n > 0)
            dev_launch(chunk_scales, n, SUMS, SUMS * sizeof(double), stream,
                       a->coding, s, (double *)call->bufs[0].ptr, a->groups,
                       from, from + s.elems(), last);
    });
}

/* --- serve ---------------------------------------------------------------- */

enum { SUM = 1, SCALES, SERVER, MOMENTUM };

template <int V>
__global__ void __launch_bounds__(DEV_EACH_THREADS)
    serve_each(const struct dsflow_control *control, const float *x, float *m,
               size_t n)
{
    if (skips(control))
        return;
    dev_each<V>(n, [&](size_t i, auto width) {
        float v[decltype(width)::N];

        dev_load_all(x + i, v);
        dev_store_all(m + i, v);
    });
}

struct serve : wire_op {
    enum { FRONT = 16 };
    const struct dsflow_control *control;
    const double *scales;
    const float *x;
    float *server, *m;
    int64_t groups;

    DEV void begin() const
    {
        skips(control);
    }
    DEV void block(wire_team &, int64_t at) const
    {
        const int64_t chunk = chunk_of(c, groups, at), i = at - range.at;
        const wire_place of(c);
        float v[WIRE_OWN], s[WIRE_OWN];

        if (*dev_shared<int>() != 0)
            return;
        wire_load(x + i, of, v);
        if (chunk >= 0) {
            const float scale = __double2float_rn(scales[chunk]);

            wire_load(server + i, of, s);
            serve_numbers(scale, v, s);
            wire_store(server + i, of, s);
        }
        wire_store(m + i, of, v);
    }
};

void serve_run(const struct dsflow_call *call, void *stream)
{
    const dsf_chunk_args *a = (const dsf_chunk_args *)call->args;
    const float *x = floats(call, SUM, a->grad_at);
    float *m = floats(call, MOMENTUM, a->m_at);
    const size_t n = (size_t)a->elems;

    if (has(call, SERVER))
        wire_launch<wire_sign>(serve{ { a->coding, { a->at, a->elems } },
                                      control_of(call),
                                      (const double *)call->bufs[SCALES].ptr,
                                      x,
                                      floats(call, SERVER, a->server_at),
                                      m,
                                      a->groups },
                               a->elems, 1, 0, stream);
    else if (n > 0 && dev_all_aligned({ x, m }))
        dev_launch(serve_each<8>, dev_each_grid(n, 8), DEV_EACH_THREADS,
                   sizeof(int), stream, control_of(call), x, m, n);
    else if (n > 0)
        dev_launch(serve_each<1>, dev_each_grid(n, 1), DEV_EACH_THREADS,
                   sizeof(int), stream, control_of(call), x, m, n);
}

} // namespace

const struct dsf_gpu_side dsf_gpu_side_clip_group = { "clip_group", clip_run,
                                                      nullptr, 1 };
const struct dsf_gpu_side dsf_gpu_side_feed_momentum = {
    "feed_momentum", momentum_run, momentum_scratch, 1, lacks
};
const struct dsf_gpu_side dsf_gpu_side_chunk_squares = { "chunk_squares",
                                                         squares_run, nullptr,
                                                         1, lacks };
const struct dsf_gpu_side dsf_gpu_side_chunk_scales = { "chunk_scales",
                                                        scales_run, nullptr, 1,
                                                        lacks };
const struct dsf_gpu_side dsf_gpu_side_serve = { "serve", serve_run, nullptr, 1,
                                                 lacks };
