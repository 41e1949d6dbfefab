/* sums_cuda.cu - sums of columns, of parts, of the products of two heads. Each
 * number is summed by the threads of one block in the order of the rows, which
 * are dealt out by the shape. */
#include "gpu/dev_sum.h"
#include "gpu/kernels.h"

namespace {

enum {
    THREADS = 256,
    LANES = 32, /* threadIdx.x: columns */
    TEAMS = 8,  /* threadIdx.y: rows */
    CHUNKS = 128
};

template <class N> __global__ void zero(N *x, size_t n)
{
    const size_t at = (size_t)blockIdx.x * blockDim.x + threadIdx.x;

    if (at < n)
        x[at] = 0;
}

__global__ void zero16(char *x, size_t bytes)
{
    const size_t at = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) * 16;

    if (at < bytes)
        dev_store16(x + at, make_uint4(0, 0, 0, 0));
}

/* dnorm[2][width], of which b takes the second half. */
template <class G>
__global__ void norm_gradient(G *w, G *b, const float *dnorm, unsigned width)
{
    const unsigned at = blockIdx.x * blockDim.x + threadIdx.x;

    if (at >= width)
        return;
    dev_store(w + at, dev_load(w + at) + dnorm[at]);
    if (b)
        dev_store(b + at, dev_load(b + at) + dnorm[width + at]);
}

/* The sums of all teams, in their order: in `v` of the first. */
template <int V> DEV void sum_teams(float (&v)[V], float *s)
{
    float *own = s + ((size_t)threadIdx.y * LANES + threadIdx.x) * V;

    for (int i = 0; i < V; i++)
        own[i] = v[i];
    __syncthreads();
    if (threadIdx.y > 0)
        return;
    for (int t = 1; t < TEAMS; t++)
        for (int i = 0; i < V; i++)
            v[i] += own[t * LANES * V + i];
}

/* parts[blockIdx.y][cols]: the sums of a chunk of rows. */
template <class T, int V>
__global__ void __launch_bounds__(THREADS)
    column_sums(const T *x, size_t ld, float *parts, unsigned rows,
                unsigned cols, unsigned chunk)
{
    const unsigned at = (blockIdx.x * LANES + threadIdx.x) * V;
    const unsigned first = blockIdx.y * chunk;
    const unsigned end = first + chunk < rows ? first + chunk : rows;
    float sum[V] = {};

    for (unsigned r = first + threadIdx.y; r < end && at < cols; r += TEAMS) {
        float v[V];

        dev_load_all(x + r * ld + at, v);
        DEV_UNROLL
        for (int i = 0; i < V; i++)
            sum[i] += v[i];
    }
    sum_teams(sum, dev_shared<float>());
    if (threadIdx.y == 0 && at < cols)
        for (int i = 0; i < V; i++)
            parts[(size_t)blockIdx.y * cols + at + i] = sum[i];
}

/* Of parts[nparts][n]: each team has as many, which follow each other. */
template <class G>
__global__ void __launch_bounds__(THREADS)
    fold(G *into, const float *parts, unsigned nparts, size_t n, int add)
{
    const size_t at = (size_t)blockIdx.x * LANES + threadIdx.x;
    const unsigned each = (nparts + TEAMS - 1) / TEAMS;
    const unsigned first = threadIdx.y * each;
    const unsigned end = first + each < nparts ? first + each : nparts;
    float sum[1] = { 0 };

    /* Several are on their way at once; they are added one after the other. */
    DEV_UNROLL_BY(16)
    for (unsigned p = first; p < (at < n ? end : first); p++)
        sum[0] += parts[p * n + at];
    sum_teams(sum, dev_shared<float>());
    if (threadIdx.y == 0 && at < n)
        dev_store(into + at, add ? dev_load(into + at) + sum[0] : sum[0]);
}

/* Eight lanes for each head of each row. */
template <class T, int V>
__global__ void __launch_bounds__(THREADS)
    head_dots(const float *a, const T *b, float *out, T *rounded, size_t n,
              unsigned head_dim)
{
    const size_t head = (size_t)blockIdx.x * (THREADS / 8) + threadIdx.x / 8;
    const size_t from = (head < n ? head : n - 1) * head_dim;
    float sum = 0;

    for (unsigned at = threadIdx.x % 8 * V; at < head_dim; at += 8 * V) {
        float x[V], y[V];

        dev_load_all(a + from + at, x);
        dev_load_all(b + from + at, y);
        DEV_UNROLL
        for (int i = 0; i < V; i++)
            sum += x[i] * y[i];
        if (rounded != nullptr && head < n)
            dev_store_all(rounded + from + at, x);
    }
    for (int k = 4; k > 0; k /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, k);
    if (threadIdx.x % 8 == 0 && head < n)
        out[head] = sum;
}

unsigned chunk_of(size_t rows)
{
    const unsigned least = 8 * TEAMS, even = dev_div_up(rows, CHUNKS);

    return even > least ? even : least;
}

template <class T, int V>
void launch_columns(float *parts, const void *x, size_t ld, size_t rows,
                    size_t cols, void *stream)
{
    const unsigned chunk = chunk_of(rows);

    dev_launch((column_sums<T, V>),
               dim3(dev_div_up(cols, LANES * V), dev_div_up(rows, chunk)),
               dim3(LANES, TEAMS), THREADS * V * sizeof(float), stream,
               (const T *)x, ld, parts, (unsigned)rows, (unsigned)cols, chunk);
}

template <class T, int V>
void launch_dots(const float *a, const void *b, float *out, void *rounded,
                 size_t n, size_t head_dim, void *stream)
{
    dev_launch((head_dots<T, V>), dev_div_up(n, THREADS / 8), THREADS, 0,
               stream, a, (const T *)b, out, (T *)rounded, n,
               (unsigned)head_dim);
}

} // namespace

void dsf_gpu_zero(void *x, size_t bytes, void *stream)
{
    if (bytes == 0)
        return;
    if (dev_is_aligned(bytes / 2, { x }) && bytes % 2 == 0)
        dev_launch(zero16, dev_div_up(bytes / 16, THREADS), THREADS, 0, stream,
                   (char *)x, bytes);
    else if ((uintptr_t)x % 4 == 0 && bytes % 4 == 0)
        dev_launch((zero<uint32_t>), dev_div_up(bytes / 4, THREADS), THREADS, 0,
                   stream, (uint32_t *)x, bytes / 4);
    else
        dev_launch((zero<uint16_t>), dev_div_up(bytes / 2, THREADS), THREADS, 0,
                   stream, (uint16_t *)x, bytes / 2);
}

void dsf_gpu_norm_gradient(enum dsflow_dtype grad, void *w, void *b,
                           const float *dnorm, size_t width, void *stream)
{
    if (width > 0)
        DEV_BY_TYPE(grad, G,
                    dev_launch((norm_gradient<G>), dev_div_up(width, THREADS),
                               THREADS, 0, stream, (G *)w, (G *)b, dnorm,
                               (unsigned)width));
}

void dsf_gpu_column_sums(enum dsflow_dtype type, enum dsflow_dtype grad,
                         void *into, const void *x, size_t ld, size_t rows,
                         size_t cols, void *scratch, void *stream)
{
    float *parts = (float *)scratch;

    if (rows == 0 || cols == 0)
        return;
    if (dev_is_aligned(ld | cols, { x }))
        DEV_BY_TYPE(type, T,
                    (launch_columns<T, 8>(parts, x, ld, rows, cols, stream)));
    else
        DEV_BY_TYPE(type, T,
                    (launch_columns<T, 1>(parts, x, ld, rows, cols, stream)));
    dsf_gpu_fold(grad, into, parts, dev_div_up(rows, chunk_of(rows)), cols, 1,
                 stream);
}

size_t dsf_gpu_column_scratch(size_t rows, size_t cols)
{
    /* Fewer rows may have more parts, but not more than these. */
    return dev_least(dev_div_up(rows, 8 * TEAMS), CHUNKS) * cols * sizeof(float);
}

void dsf_gpu_fold(enum dsflow_dtype type, void *into, const float *parts,
                  size_t nparts, size_t n, int add, void *stream)
{
    if (n > 0)
        DEV_BY_TYPE(type, G,
                    dev_launch((fold<G>), dev_div_up(n, LANES),
                               dim3(LANES, TEAMS), THREADS * sizeof(float),
                               stream, (G *)into, parts, (unsigned)nparts, n,
                               add));
}

void dsf_gpu_head_dots(enum dsflow_dtype type, const float *a, const void *b,
                       float *out, void *rounded, size_t rows, size_t heads,
                       size_t head_dim, void *stream)
{
    const size_t n = rows * heads;

    if (n == 0)
        return;
    if (dev_is_aligned(head_dim, { a, b, rounded }))
        DEV_BY_TYPE(
            type, T,
            (launch_dots<T, 8>(a, b, out, rounded, n, head_dim, stream)));
    else
        DEV_BY_TYPE(
            type, T,
            (launch_dots<T, 1>(a, b, out, rounded, n, head_dim, stream)));
}
