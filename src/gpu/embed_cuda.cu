/* embed_cuda.cu - tokens to vectors, and the gradients of the tables. */
#include "gpu/dev_each.h"
#include "gpu/kernels.h"

namespace {

/* The token of row r in the table, and its position; -1: it has none. */
DEV int64_t token_at(const struct dsf_gpu_embed &e, size_t r)
{
    const int64_t token = (int64_t)e.tokens[r] - e.first;

    return e.tokens[r] >= 0 && token >= 0 && token < e.vocab ? token : -1;
}

DEV int64_t position_at(const struct dsf_gpu_embed &e, size_t r)
{
    const int64_t at = (int64_t)e.pos + (int64_t)(r % e.length) - e.first_pos;

    return e.tokens[r] >= 0 && at >= 0 && at < e.npos ? at : -1;
}

template <class U, class X, int V> struct embed {
    struct dsf_gpu_embed e;
    const U *wte, *wpe;
    X *x;

    DEV void at(size_t r, size_t c) const
    {
        const int64_t token = token_at(e, r), position = position_at(e, r);
        float v[V] = {}, p[V] = {};

        if (token >= 0)
            dev_load_all(wte + token * (int64_t)e.width + c, v);
        if (position >= 0)
            dev_load_all(wpe + position * (int64_t)e.width + c, p);
        DEV_UNROLL
        for (int i = 0; i < V; i++)
            v[i] += p[i];
        dev_store_all(x + r * e.width + c, v);
    }
};

template <class U, class X>
void launch_forward(const struct dsf_gpu_embed *e, const void *wte,
                    const void *wpe, void *x, size_t rows, void *stream)
{
    const U *t = (const U *)wte, *p = (const U *)wpe;

    if (dev_is_aligned(e->width, { wte, wpe, x }))
        launch_each<8>(embed<U, X, 8>{ *e, t, p, (X *)x }, rows, e->width,
                       stream);
    else
        launch_each<1>(embed<U, X, 1>{ *e, t, p, (X *)x }, rows, e->width,
                       stream);
}

enum { THREADS = 128, WARPS = THREADS / 32 };

template <int V, class T> DEV void add(float (&sum)[V], const T *x)
{
    float v[V];

    dev_load_all(x, v);
    DEV_UNROLL
    for (int i = 0; i < V; i++)
        sum[i] += v[i];
}

/* A block for each row of the tile, and for each strip of THREADS * V columns of
 * it: the first row with a token adds what all rows with that token give, in their
 * order, and the others find that they are not the first. Each thread looks at one
 * of THREADS tokens at a time; `s` has a bit for each. */
template <class T, class G, int V>
__global__ void __launch_bounds__(THREADS)
    sum_tokens(struct dsf_gpu_embed e, const T *dx, G *wte, unsigned rows)
{
    uint32_t *s = dev_shared<uint32_t>();
    const unsigned row = blockIdx.x;
    const size_t c = ((size_t)blockIdx.y * THREADS + threadIdx.x) * V;
    const int64_t token = token_at(e, row);
    G *to = wte + token * (int64_t)e.width + c;
    float sum[V] = {};

    if (token < 0)
        return;
    for (unsigned from = 0; from < rows; from += THREADS) {
        const unsigned r = from + threadIdx.x;
        const bool is_same = r < rows && e.tokens[r] == e.tokens[row];
        const uint32_t same = __ballot_sync(0xffffffffu, is_same);

        if (threadIdx.x % 32 == 0)
            s[threadIdx.x / 32] = same;
        __syncthreads();
        for (unsigned w = 0; w < WARPS; w++)
            for (uint32_t left = s[w]; left != 0; left &= left - 1) {
                const unsigned found =
                    from + w * 32 + (unsigned)__ffs((int)left) - 1;

                if (found < row)
                    return; /* all threads of the block do */
                if (found == row && c < e.width)
                    dev_load_all(to, sum);
                if (c < e.width)
                    add(sum, dx + found * e.width + c);
            }
        __syncthreads();
    }
    if (c < e.width)
        dev_store_all(to, sum);
}

/* A block for each position: rows with it are `length` apart. */
template <class T, class G, int V>
__global__ void __launch_bounds__(THREADS)
    sum_positions(struct dsf_gpu_embed e, const T *dx, G *wpe, unsigned rows)
{
    const size_t c = ((size_t)blockIdx.y * THREADS + threadIdx.x) * V;
    const int64_t at = (int64_t)e.pos + blockIdx.x - e.first_pos;
    G *to = wpe + at * (int64_t)e.width + c;
    float sum[V];

    if (c >= e.width || at < 0 || at >= e.npos)
        return;
    dev_load_all(to, sum);
    for (size_t r = blockIdx.x; r < rows; r += e.length)
        if (e.tokens[r] >= 0)
            add(sum, dx + r * e.width + c);
    dev_store_all(to, sum);
}

template <class T, class G, int V>
void launch_backward(const struct dsf_gpu_embed *e, const void *dx, void *wte,
                     void *wpe, size_t rows, void *stream)
{
    const unsigned strips = dev_div_up(e->width, THREADS * V);

    dev_launch((sum_tokens<T, G, V>), dim3((unsigned)rows, strips), THREADS,
               WARPS * sizeof(uint32_t), stream, *e, (const T *)dx, (G *)wte,
               (unsigned)rows);
    if (e->npos > 0)
        dev_launch((sum_positions<T, G, V>), dim3((unsigned)e->length, strips),
                   THREADS, 0, stream, *e, (const T *)dx, (G *)wpe,
                   (unsigned)rows);
}

template <class T, class G>
void backward(const struct dsf_gpu_embed *e, const void *dx, void *wte,
              void *wpe, size_t rows, void *stream)
{
    if (dev_is_aligned(e->width, { dx, wte, wpe }))
        launch_backward<T, G, 8>(e, dx, wte, wpe, rows, stream);
    else
        launch_backward<T, G, 1>(e, dx, wte, wpe, rows, stream);
}

struct fetch {
    int32_t *to;
    const int32_t *from;

    DEV void at(size_t, size_t i) const { to[i] = from[i]; }
};

} // namespace

void dsf_gpu_fetch_tokens(int32_t *to, const int32_t *from, size_t n,
                          void *stream)
{
    launch_each<1>(fetch{ to, from }, 1, n, stream);
}

void dsf_gpu_embed_forward(const struct dsf_gpu_embed *e,
                           enum dsflow_dtype unit, const void *wte,
                           const void *wpe, enum dsflow_dtype type, void *x,
                           size_t rows, void *stream)
{
    DEV_BY_TYPE(unit, U,
                DEV_BY_TYPE(type, X,
                            (launch_forward<U, X>(e, wte, wpe, x, rows,
                                                  stream))));
}

void dsf_gpu_embed_backward(const struct dsf_gpu_embed *e,
                            enum dsflow_dtype type, const void *dx,
                            enum dsflow_dtype grad, void *wte, void *wpe,
                            size_t rows, void *stream)
{
    if (rows == 0 || e->width == 0)
        return;
    DEV_BY_TYPE(type, T,
                DEV_BY_TYPE(grad, G,
                            (backward<T, G>(e, dx, wte, wpe, rows, stream))));
}
