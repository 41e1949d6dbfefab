/* rows_cuda.cu - rows of numbers: rounded, widened, added, rotated. */
#include "gpu/dev_each.h"
#include "gpu/kernels.h"

namespace {

template <int V, class T> DEV void add(float (&v)[V], const T *b)
{
    float w[V];

    if (!b)
        return;
    dev_load_all(b, w);
    DEV_UNROLL
    for (int i = 0; i < V; i++)
        v[i] += w[i];
}

template <class T, int V> struct narrow {
    const float *in;
    size_t ld_in;
    const T *b;
    T *out;
    size_t ld_out;

    DEV void at(size_t r, size_t c) const
    {
        float v[V];

        dev_load_all(in + r * ld_in + c, v);
        add(v, b ? b + c : b);
        dev_store_all(out + r * ld_out + c, v);
    }
};

template <class T, int V> struct widen {
    const T *x, *b;
    float *y;
    int into;
    size_t cols;

    DEV void at(size_t r, size_t c) const
    {
        float v[V] = {};

        if (into)
            dev_load_all(y + r * cols + c, v);
        add(v, x ? x + r * cols + c : x);
        add(v, b ? b + c : b);
        dev_store_all(y + r * cols + c, v);
    }
};

/* (x + b) + in */
template <class T, int V> struct residual {
    const float *in;
    const T *x, *b;
    T *y;
    size_t cols;

    DEV void at(size_t r, size_t c) const
    {
        float v[V];

        dev_load_all(x + r * cols + c, v);
        add(v, b ? b + c : b);
        add(v, in + r * cols + c);
        dev_store_all(y + r * cols + c, v);
    }
};

/* Rotary positions (Su et al. 2021): pairs (i, i + half) of each head; c counts
 * the first ones of them. */
template <class T, int V> struct rotate {
    T *x;
    size_t ld, length;
    unsigned half;
    const float *table;
    int inverse;

    DEV void at(size_t r, size_t c) const
    {
        const unsigned head = (unsigned)c / half, i = (unsigned)c % half;
        T *lo = x + r * ld + (size_t)head * 2 * half + i, *hi = lo + half;
        const float *angles = table + (r % length * half + i) * 2;
        float a[V], b[V];

        dev_load_all(lo, a);
        dev_load_all(hi, b);
        DEV_UNROLL
        for (int k = 0; k < V; k++) {
            const float cosine = angles[2 * k];
            const float sine = inverse ? -angles[2 * k + 1] : angles[2 * k + 1];
            const float before = a[k];

            a[k] = before * cosine - b[k] * sine;
            b[k] = b[k] * cosine + before * sine;
        }
        dev_store_all(lo, a);
        dev_store_all(hi, b);
    }
};

template <template <class, int> class OP, class T, class... A>
void in_rows(int by8, size_t rows, size_t cols, void *stream, A... a)
{
    if (by8)
        launch_each<8>(OP<T, 8>{ a... }, rows, cols, stream);
    else
        launch_each<1>(OP<T, 1>{ a... }, rows, cols, stream);
}

} // namespace

void dsf_gpu_narrow(enum dsflow_dtype type, const float *in, size_t ld_in,
                    const void *bias, void *out, size_t ld_out, size_t rows,
                    size_t cols, void *stream)
{
    const int by8 = dev_is_aligned(ld_in | ld_out | cols, { in, bias, out });

    DEV_BY_TYPE(type, T,
                (in_rows<narrow, T>(by8, rows, cols, stream, in, ld_in,
                                    (const T *)bias, (T *)out, ld_out)));
}

void dsf_gpu_widen(enum dsflow_dtype type, const void *x, const void *bias,
                   float *y, int add, size_t rows, size_t cols, void *stream)
{
    const int by8 = dev_is_aligned(cols, { x, bias, y });

    DEV_BY_TYPE(type, T,
                (in_rows<widen, T>(by8, rows, cols, stream, (const T *)x,
                                   (const T *)bias, y, add, cols)));
}

void dsf_gpu_residual(enum dsflow_dtype type, const float *in, const void *x,
                      const void *bias, void *y, size_t rows, size_t cols,
                      void *stream)
{
    const int by8 = dev_is_aligned(cols, { in, x, bias, y });

    DEV_BY_TYPE(type, T,
                (in_rows<residual, T>(by8, rows, cols, stream, in,
                                      (const T *)x, (const T *)bias, (T *)y,
                                      cols)));
}

void dsf_gpu_rotate(enum dsflow_dtype type, void *x, size_t ld, size_t rows,
                    size_t length, size_t heads, size_t head_dim,
                    const float *table, int inverse, void *stream)
{
    const size_t half = head_dim / 2;
    const int by8 = dev_is_aligned(half | ld, { x });

    DEV_BY_TYPE(type, T,
                (in_rows<rotate, T>(by8, rows, heads * half, stream, (T *)x,
                                    ld, length, (unsigned)half, table,
                                    inverse)));
}
