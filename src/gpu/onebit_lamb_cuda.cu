/* onebit_lamb_cuda.cu - 1-bit LAMB (codelets/onebit_lamb.c): what a worker
 * sends with one scale for all tensors, and what comes of it. few_cuda.cu has
 * what follows from few numbers. */
#include "gpu/dev_onebit.h"
#include "gpu/gpu.h"

namespace {

/* --- send_signs ----------------------------------------------------------- */

struct send_signs : wire_op {
    enum { FRONT = 16 };
    float *x;
    error_data error;
    const double *squares;
    double all;

    /* A block of threads reads them once: they are in main memory. */
    DEV void begin() const
    {
        if (threadIdx.x == 0 && threadIdx.y == 0)
            *dev_shared<float>() = wire_sign_scale(*squares, all);
        __syncthreads();
    }
    DEV void block(wire_team &, int64_t at) const
    {
        const float scale = *dev_shared<float>();
        const bool coded = wire_tensor(c, at) >= 0;
        const wire_place of(c);
        float v[WIRE_OWN], e[WIRE_OWN] = {};

        if (coded) {
            wire_load(x + at, of, v);
            error.load(at, of, e);
            DEV_UNROLL
            for (int k = 0; k < WIRE_OWN; k++) {
                const float sent = wire_sign::as_sent(v[k], scale);

                e[k] = wire_finite_or(__fsub_rn(v[k], sent), e[k]);
                v[k] = sent;
            }
            wire_store(x + at, of, v);
        }
        error.store(at, of, e);
    }
};

void send_run(const struct dsflow_call *call, void *stream)
{
    enum { GRAD, ERROR, SQUARES };
    const dsf_send_args *a = (const dsf_send_args *)call->args;

    wire_launch<wire_sign>(send_signs{ { a->coding, { 0, a->elems } },
                                       floats(call, GRAD, a->grad_at),
                                       errors_of(call, ERROR, a->error_at),
                                       (const double *)call->bufs[SQUARES].ptr,
                                       (double)a->all },
                           a->elems, 1, 0, stream);
}

/* --- serve_lamb ----------------------------------------------------------- */

enum { SUM = 1, CHUNKS, LAMB, SERVER, MOMENTUM, FRESH };

/* Of x, `by` times as large as the new momentum: kernels/loops_signs.h,
 * lamb_refresh. */
struct refresh {
    float beta1, rest1, beta2, rest2;

    DEV void number(float by, float x, float &m, float &fresh) const
    {
        const float now = __fdiv_rn(x, by);
        const float g = __fdiv_rn(__fmaf_rn(-beta1, m, now), rest1);

        m = now;
        fresh = __fmaf_rn(beta2, fresh, __fmul_rn(rest2, __fmul_rn(g, g)));
    }
};

template <int V>
__global__ void __launch_bounds__(DEV_EACH_THREADS)
    refresh_each(refresh by, const struct dsflow_control *control,
                 const float *x, float *m, float *fresh, size_t n)
{
    if (skips(control))
        return;
    dev_each<V>(n, [&](size_t i, auto width) {
        enum { N = decltype(width)::N };
        float v[N], m1[N], f[N];

        dev_load_all(x + i, v);
        dev_load_all(m + i, m1);
        dev_load_all(fresh + i, f);
        DEV_UNROLL
        for (int k = 0; k < N; k++)
            by.number(1, v[k], m1[k], f[k]);
        dev_store_all(m + i, m1);
        dev_store_all(fresh + i, f);
    });
}

struct serve_lamb : wire_op {
    enum { FRONT = 16 };
    const struct dsflow_control *control;
    const double *chunks;
    const struct dsf_lamb *lamb;
    const float *x;
    float *server, *m, *fresh;
    refresh by;
    united chunks_of;

    DEV void begin() const
    {
        skips(control);
    }
    /* Of a chunk, which is in main memory: one thread of the team reads it. */
    DEV float scale_of(const wire_team &team, int64_t chunk) const
    {
        float *scale = (float *)team.room;

        team.sync();
        if (threadIdx.x == 0)
            *scale = wire_sign_scale(chunks[2 * chunk],
                                     (double)(int64_t)chunks[2 * chunk + 1]);
        team.sync();
        return *scale;
    }
    DEV void block(wire_team &team, int64_t at) const
    {
        const int64_t tensor = wire_tensor(c, at), i = at - range.at;
        const wire_place of(c);
        float v[WIRE_OWN], s[WIRE_OWN], m1[WIRE_OWN], scale = 1;

        if (*dev_shared<int>() != 0)
            return;
        wire_load(x + i, of, v);
        if (tensor >= 0) {
            wire_load(server + i, of, s);
            serve_numbers(scale_of(team, chunks_of.chunk(c, tensor, at)), v, s);
            wire_store(server + i, of, s);
            scale = __double2float_rn(lamb[c.tensors[tensor].number].scale);
        }
        wire_load(m + i, of, m1);
        wire_load(fresh + i, of, s);
        DEV_UNROLL
        for (int k = 0; k < WIRE_OWN; k++)
            by.number(scale, v[k], m1[k], s[k]);
        wire_store(m + i, of, m1);
        wire_store(fresh + i, of, s);
    }
};

void serve_run(const struct dsflow_call *call, void *stream)
{
    const dsf_united_args *a = (const dsf_united_args *)call->args;
    const refresh by = { (float)a->beta1, (float)(1 - a->beta1),
                         (float)a->beta2, (float)(1 - a->beta2) };
    const float *x = floats(call, SUM, a->at.grad_at);
    float *m = floats(call, MOMENTUM, a->at.m_at);
    float *fresh = floats(call, FRESH, a->fresh_at);
    const size_t n = (size_t)a->at.elems;

    if (has(call, SERVER))
        wire_launch<wire_sign>(
            serve_lamb{ { a->at.coding, { a->at.at, a->at.elems } },
                        control_of(call),
                        (const double *)call->bufs[CHUNKS].ptr,
                        (const struct dsf_lamb *)call->bufs[LAMB].ptr,
                        x,
                        floats(call, SERVER, a->at.server_at),
                        m,
                        fresh,
                        by,
                        united_of(a) },
            a->at.elems, 1, 0, stream);
    else if (n > 0 && dev_all_aligned({ x, m, fresh }))
        dev_launch(refresh_each<8>, dev_each_grid(n, 8), DEV_EACH_THREADS,
                   sizeof(int), stream, by, control_of(call), x, m, fresh, n);
    else if (n > 0)
        dev_launch(refresh_each<1>, dev_each_grid(n, 1), DEV_EACH_THREADS,
                   sizeof(int), stream, by, control_of(call), x, m, fresh, n);
}

} // namespace

const struct dsf_gpu_side dsf_gpu_side_send_signs = { "send_signs", send_run,
                                                      nullptr, 1, lacks };
const struct dsf_gpu_side dsf_gpu_side_serve_lamb = { "serve_lamb", serve_run,
                                                      nullptr, 1, lacks };
