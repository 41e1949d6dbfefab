/* act_cuda.cu - GELU (its tanh form, Hendrycks & Gimpel 2016) and SwiGLU (Shazeer
 * 2020), as in kernels/loops_act.h. */
#include "gpu/dev_each.h"
#include "gpu/kernels.h"

namespace {

/* No product with it is slow or lost for being denormal. A division, and expf,
 * would take longer than memory does. */
DEV float sigmoid(float z)
{
    return dev_reciprocal(1 + dev_exp2(-1.44269504f * fmaxf(-80.0f, z)));
}

/* 2 sqrt(2/pi), and that times 0.044715: 0.5 (1 + tanh u) is 1 / (1 + e^-2u). */
#define GELU_A 1.5957691216057308f
#define GELU_B 0.07135481282673776f

DEV float gelu_gate(float x)
{
    return sigmoid(x * (GELU_B * x * x + GELU_A));
}

template <int V, class T>
DEV void load_biased(const float *in, const T *b, float (&v)[V])
{
    float bias[V] = {};

    dev_load_all(in, v);
    if (b)
        dev_load_all(b, bias);
    DEV_UNROLL
    for (int i = 0; i < V; i++)
        v[i] += bias[i];
}

template <class T, int V> struct gelu_forward {
    const float *in;
    const T *b;
    T *h, *act;
    size_t cols;

    DEV void at(size_t r, size_t c) const
    {
        float v[V];

        load_biased(in + r * cols + c, b ? b + c : b, v);
        dev_store_all(h + r * cols + c, v);
        DEV_UNROLL
        for (int i = 0; i < V; i++)
            v[i] *= gelu_gate(v[i]);
        dev_store_all(act + r * cols + c, v);
    }
};

/* d(x s)/dx = s + x s (1 - s) (A + 3 B x^2) */
template <class T, int V> struct gelu_backward {
    T *h;
    const float *dact;
    T *dh;

    DEV void at(size_t r, size_t) const
    {
        float x[V], d[V];

        dev_load_all(h + r * V, x);
        dev_load_all(dact + r * V, d);
        DEV_UNROLL
        for (int i = 0; i < V; i++) {
            const float s = gelu_gate(x[i]), y = x[i] * s;

            d[i] *= y * (1 - s) * (3 * GELU_B * x[i] * x[i] + GELU_A) + s;
            x[i] = y;
        }
        dev_store_all(h + r * V, x);
        dev_store_all(dh + r * V, d);
    }
};

template <class T, int V> struct gelu_in_place {
    T *h;

    DEV void at(size_t r, size_t) const
    {
        float x[V];

        dev_load_all(h + r * V, x);
        DEV_UNROLL
        for (int i = 0; i < V; i++)
            x[i] *= gelu_gate(x[i]);
        dev_store_all(h + r * V, x);
    }
};

template <class T, int V> struct swiglu_forward {
    const float *in;
    const T *b;
    T *h, *act;
    size_t cols;

    DEV void at(size_t r, size_t c) const
    {
        const size_t from = r * 2 * cols + c;
        float g[V], u[V];

        load_biased(in + from, b ? b + c : b, g);
        load_biased(in + from + cols, b ? b + cols + c : b, u);
        dev_store_all(h + from, g);
        dev_store_all(h + from + cols, u);
        DEV_UNROLL
        for (int i = 0; i < V; i++)
            g[i] *= sigmoid(g[i]) * u[i];
        dev_store_all(act + r * cols + c, g);
    }
};

template <class T, int V> struct swiglu_backward {
    const T *h;
    const float *dact;
    T *dh, *act;
    size_t cols;

    DEV void at(size_t r, size_t c) const
    {
        const size_t from = r * 2 * cols + c;
        float g[V], u[V], d[V], y[V];

        dev_load_all(h + from, g);
        dev_load_all(h + from + cols, u);
        dev_load_all(dact + r * cols + c, d);
        DEV_UNROLL
        for (int i = 0; i < V; i++) {
            const float s = sigmoid(g[i]), up = u[i];

            y[i] = g[i] * s;
            u[i] = d[i] * y[i];
            d[i] *= up * (y[i] * (1 - s) + s);
            y[i] *= up;
        }
        dev_store_all(act + r * cols + c, y);
        dev_store_all(dh + from, d);
        dev_store_all(dh + from + cols, u);
    }
};

template <class T, int V> struct copy {
    const T *from;
    T *to;

    DEV void at(size_t r, size_t) const
    {
        float v[V];

        dev_load_all(from + r * V, v);
        dev_store_all(to + r * V, v);
    }
};

template <template <class, int> class OP, class T, class... A>
void flat(int by8, size_t n, void *stream, A... a)
{
    if (by8)
        launch_each<8>(OP<T, 8>{ a... }, n / 8, 8, stream);
    else
        launch_each<1>(OP<T, 1>{ a... }, n, 1, stream);
}

template <template <class, int> class OP, class T, class... A>
void in_rows(int by8, size_t rows, size_t cols, void *stream, A... a)
{
    if (by8)
        launch_each<8>(OP<T, 8>{ a..., cols }, rows, cols, stream);
    else
        launch_each<1>(OP<T, 1>{ a..., cols }, rows, cols, stream);
}

} // namespace

void dsf_gpu_gelu_forward(enum dsflow_dtype type, const float *in,
                          const void *bias, void *h, void *act, size_t rows,
                          size_t cols, void *stream)
{
    const int by8 = dev_is_aligned(cols, { in, bias, h, act });

    DEV_BY_TYPE(type, T,
                (in_rows<gelu_forward, T>(by8, rows, cols, stream, in,
                                          (const T *)bias, (T *)h, (T *)act)));
}

void dsf_gpu_gelu_backward(enum dsflow_dtype type, void *h, const float *dact,
                           void *dh, size_t n, void *stream)
{
    const int by8 = dev_is_aligned(n, { h, dact, dh });

    DEV_BY_TYPE(type, T,
                (flat<gelu_backward, T>(by8, n, stream, (T *)h, dact,
                                        (T *)dh)));
}

void dsf_gpu_gelu(enum dsflow_dtype type, void *h, size_t n, void *stream)
{
    DEV_BY_TYPE(type, T,
                (flat<gelu_in_place, T>(dev_is_aligned(n, { h }), n, stream,
                                        (T *)h)));
}

void dsf_gpu_swiglu_forward(enum dsflow_dtype type, const float *in,
                            const void *bias, void *h, void *act, size_t rows,
                            size_t cols, void *stream)
{
    const int by8 = dev_is_aligned(cols, { in, bias, h, act });

    DEV_BY_TYPE(type, T,
                (in_rows<swiglu_forward, T>(by8, rows, cols, stream, in,
                                            (const T *)bias, (T *)h,
                                            (T *)act)));
}

void dsf_gpu_swiglu_backward(enum dsflow_dtype type, void *h, const float *dact,
                             void *dh, void *scratch, size_t rows, size_t cols,
                             void *stream)
{
    const int by8 = dev_is_aligned(cols, { h, dact, dh, scratch });

    DEV_BY_TYPE(type, T,
                (in_rows<swiglu_backward, T>(by8, rows, cols, stream,
                                             (const T *)h, dact, (T *)dh,
                                             (T *)scratch)));
    DEV_BY_TYPE(type, T,
                (flat<copy, T>(by8, rows * cols, stream, (const T *)scratch,
                               (T *)h)));
}
