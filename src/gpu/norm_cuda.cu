/* norm_cuda.cu - LayerNorm and RMSNorm. A row is read from memory once: what a
 * thread has of it stays in registers, up to KEPT pieces of V numbers; the rest
 * of very long rows is read again. */
#include "gpu/dev_sum.h"
#include "gpu/kernels.h"

namespace {

template <class T> struct norm {
    const T *w, *b;
    unsigned width;
    float eps;
    int rms;
};

enum { MAX_THREADS = 512 }; /* of a row */

/* Calls f(k, at, v) for each piece of a row that this thread has: V numbers from
 * `at` on. Piece k < KEPT is in kept[k]; of all others k is KEPT. */
template <int V, int KEPT, class T, class F>
DEV void each_piece(const T *x, unsigned width, float (&kept)[KEPT][V], F f)
{
    unsigned at = threadIdx.x * V;

    DEV_UNROLL
    for (int k = 0; k < KEPT; k++, at += blockDim.x * V)
        if (at < width)
            f(k, at, kept[k]);
    for (; at < width; at += blockDim.x * V) {
        float v[V];

        dev_load_all(x + at, v);
        f((int)KEPT, at, v);
    }
}

template <int V, int KEPT, class T>
DEV void keep(const T *x, unsigned width, float (&kept)[KEPT][V])
{
    unsigned at = threadIdx.x * V;

    DEV_UNROLL
    for (int k = 0; k < KEPT; k++, at += blockDim.x * V)
        if (at < width)
            dev_load_all(x + at, kept[k]);
}

/* Piece k of another row that was kept, or what begins at p. */
template <int V, int KEPT, class T>
DEV void take(const T *p, int k, const float (&kept)[KEPT][V], float (&v)[V])
{
    if (k == KEPT) {
        dev_load_all(p, v);
        return;
    }
    DEV_UNROLL
    for (int i = 0; i < V; i++)
        v[i] = kept[k][i];
}

/* *mean (0 for RMSNorm) and one over the deviation of a row. `s`: two numbers for
 * each warp of the block. */
template <int V, int KEPT, class T>
DEV float row_statistics(const norm<T> &n, const T *x, float (&kept)[KEPT][V],
                         float *mean, float *s)
{
    const unsigned warps = blockDim.x * blockDim.y / 32;
    float sum = 0, mu = 0;

    if (!n.rms) {
        each_piece(x, n.width, kept, [&](int, unsigned, const float(&v)[V]) {
            DEV_UNROLL
            for (int i = 0; i < V; i++)
                sum += v[i];
        });
        mu = dev_row_sum(sum, s) / (float)n.width;
    }
    sum = 0;
    each_piece(x, n.width, kept, [&](int, unsigned, const float(&v)[V]) {
        DEV_UNROLL
        for (int i = 0; i < V; i++)
            sum += (v[i] - mu) * (v[i] - mu);
    });
    *mean = mu;
    return 1 / sqrtf(dev_row_sum(sum, s + warps) / (float)n.width + n.eps);
}

/* A block for each row. */
template <class T, int V>
__global__ void __launch_bounds__(MAX_THREADS)
    norm_forward(norm<T> n, const T *x, T *y)
{
    enum { KEPT = 4 };
    float kept[KEPT][V], mean, rstd;

    x += (size_t)blockIdx.x * n.width;
    y += (size_t)blockIdx.x * n.width;
    keep(x, n.width, kept);
    rstd = row_statistics(n, x, kept, &mean, dev_shared<float>());
    each_piece(x, n.width, kept, [&](int k, unsigned at, const float(&v)[V]) {
        float w[V], b[V] = {}, out[V];

        dev_load_all(n.w + at, w);
        if (n.b)
            dev_load_all(n.b + at, b);
        DEV_UNROLL
        for (int i = 0; i < V; i++)
            out[i] = (v[i] - mean) * rstd * w[i] + b[i];
        dev_store_all(y + at, out);
    });
}

/* Threads that share a row, in whole warps: KEPT pieces for each. */
unsigned row_threads(size_t width, int v, int kept)
{
    const size_t threads = (dev_div_up(width, (size_t)(v * kept)) + 31) / 32 * 32;

    return (unsigned)dev_least(threads, MAX_THREADS);
}

template <class T> norm<T> norm_of(const struct dsf_gpu_norm *n)
{
    return { (const T *)n->w, (const T *)n->b, (unsigned)n->width, n->eps,
             n->rms };
}

template <class T, int V>
void launch_forward(const struct dsf_gpu_norm *n, const void *x, void *y,
                    size_t rows, void *stream)
{
    const unsigned threads = row_threads(n->width, V, 4);

    dev_launch((norm_forward<T, V>), (unsigned)rows, threads,
               2 * threads / 32 * sizeof(float), stream, norm_of<T>(n),
               (const T *)x, (T *)y);
}

/* The backward pass. Rows are dealt out to at most CHUNKS blocks, and to the
 * teams (threadIdx.y) of a block, each of which sums what its rows give to dnorm;
 * the sums of teams, then those of blocks, are added in their order. */
enum {
    CHUNKS = 256,
    BACK_KEPT = 2,
    BACK_THREADS = 256, /* of a block with several teams */
    SUMS = 4 * MAX_THREADS / 32
};

/* What the rows of a thread give to the gradients of w and b: of its first
 * columns. Those of the rest are summed in memory. */
template <int V> struct sums {
    float dw[BACK_KEPT][V], db[BACK_KEPT][V];
};

template <int V> DEV void add_to(float *to, const float (&v)[V], bool first)
{
    float sum[V] = {};

    if (!first)
        dev_load_all(to, sum);
    DEV_UNROLL
    for (int i = 0; i < V; i++)
        sum[i] += v[i];
    dev_store_all(to, sum);
}

/* Those of all teams, one after the other, in shared memory; then in `part`. */
template <int V>
DEV void sum_teams(const sums<V> &own, float *s, float *part, unsigned width)
{
    for (unsigned team = 0; team < blockDim.y; team++) {
        const bool last = team + 1 == blockDim.y;

        DEV_UNROLL
        for (int k = 0; k < BACK_KEPT; k++) {
            const unsigned at = (k * blockDim.x + threadIdx.x) * V;
            float sum[2][V];

            if (at >= width || threadIdx.y != team)
                continue;
            DEV_UNROLL
            for (int i = 0; i < V; i++) {
                sum[0][i] = own.dw[k][i] + (team > 0 ? s[at + i] : 0);
                sum[1][i] = own.db[k][i] + (team > 0 ? s[width + at + i] : 0);
            }
            dev_store_all((last ? part : s) + at, sum[0]);
            dev_store_all((last ? part : s) + width + at, sum[1]);
        }
        __syncthreads();
    }
}

template <class T, int V>
__global__ void __launch_bounds__(MAX_THREADS)
    norm_backward(norm<T> n, const T *x, const float *dy, const T *dres, T *dx,
                  float *parts, unsigned rows, unsigned chunk)
{
    /* Eight numbers in fp32 would not fit in registers beside the others. */
    enum { EARLY = V == 1 || sizeof(T) < sizeof(float) };
    const unsigned warps = blockDim.x * blockDim.y / 32;
    const unsigned first = blockIdx.x * chunk;
    const unsigned end = first + chunk < rows ? first + chunk : rows;
    float *s = dev_shared<float>();
    float *part = parts + (size_t)blockIdx.x * 2 * n.width;
    sums<V> own = {};

    /* All teams go round as often: they meet at barriers. */
    for (unsigned top = first; top < end; top += blockDim.y) {
        const bool there = top + threadIdx.y < end;
        const size_t from = (size_t)(there ? top + threadIdx.y : top) * n.width;
        float kept[BACK_KEPT][V], grad[BACK_KEPT][V], res[BACK_KEPT][V];
        float g = 0, gx = 0, mean, rstd;

        /* All is asked for before any of it is waited for: no branch stands
         * between. */
        keep(x + from, n.width, kept);
        keep(dy + from, n.width, grad);
        if (EARLY)
            keep((dres ? dres : x) + from, n.width, res);
        rstd = row_statistics(n, x + from, kept, &mean, s);
        each_piece(x + from, n.width, kept, [&](int k, unsigned at,
                                                const float(&v)[V]) {
            float d[V], w[V], dw[V];

            take(dy + from + at, k, grad, d);
            dev_load_all(n.w + at, w);
            DEV_UNROLL
            for (int i = 0; i < V; i++) {
                const float xhat = (v[i] - mean) * rstd;

                g += d[i] * w[i];
                gx += d[i] * w[i] * xhat;
                d[i] = there ? d[i] : 0;
                dw[i] = d[i] * xhat;
                if (k < BACK_KEPT) {
                    own.dw[k][i] += dw[i];
                    own.db[k][i] += d[i];
                }
            }
            if (k == BACK_KEPT) { /* there is one team */
                add_to(part + at, dw, top == first);
                add_to(part + n.width + at, d, top == first);
            }
        });
        g = n.rms ? 0 : dev_row_sum(g, s + 2 * warps) / (float)n.width;
        gx = dev_row_sum(gx, s + 3 * warps) / (float)n.width;
        each_piece(x + from, n.width, kept, [&](int k, unsigned at,
                                                const float(&v)[V]) {
            float d[V], w[V], out[V] = {};

            take(dy + from + at, k, grad, d);
            dev_load_all(n.w + at, w);
            if (dres)
                take(dres + from + at, EARLY ? k : (int)BACK_KEPT, res, out);
            DEV_UNROLL
            for (int i = 0; i < V; i++) {
                const float xhat = (v[i] - mean) * rstd;

                out[i] += rstd * (d[i] * w[i] - g - xhat * gx);
            }
            if (there)
                dev_store_all(dx + from + at, out);
        });
    }
    sum_teams(own, s + SUMS, part, n.width);
}

template <class T, int V>
void launch_backward(const struct dsf_gpu_norm *n, const void *x,
                     const float *dy, const void *dres, void *dx, float *dnorm,
                     size_t rows, float *parts, void *stream)
{
    const unsigned threads = row_threads(n->width, V, BACK_KEPT);
    const unsigned teams = threads < BACK_THREADS ? BACK_THREADS / threads : 1;
    const unsigned chunk = dev_div_up(rows, CHUNKS * teams) * teams;
    const unsigned blocks = dev_div_up(rows, chunk);
    const size_t shared = SUMS + (teams > 1 ? 2 * n->width : 0);

    dev_launch((norm_backward<T, V>), blocks, dim3(threads, teams),
               shared * sizeof(float), stream, norm_of<T>(n), (const T *)x, dy,
               (const T *)dres, (T *)dx, parts, (unsigned)rows, chunk);
    dsf_gpu_fold(DSFLOW_FP32, dnorm, parts, blocks, 2 * n->width, 0, stream);
    if (n->rms)
        dsf_gpu_zero(dnorm + n->width, n->width * sizeof(float), stream);
}

} // namespace

void dsf_gpu_norm_forward(const struct dsf_gpu_norm *n, enum dsflow_dtype type,
                          const void *x, void *y, size_t rows, void *stream)
{
    if (rows == 0 || n->width == 0)
        return;
    if (dev_is_aligned(n->width, { n->w, n->b, x, y }))
        DEV_BY_TYPE(type, T, (launch_forward<T, 8>(n, x, y, rows, stream)));
    else
        DEV_BY_TYPE(type, T, (launch_forward<T, 1>(n, x, y, rows, stream)));
}

void dsf_gpu_norm_backward(const struct dsf_gpu_norm *n, enum dsflow_dtype type,
                           const void *x, const float *dy, const void *dres,
                           void *dx, float *dnorm, size_t rows, void *scratch,
                           void *stream)
{
    float *parts = (float *)scratch;

    if (rows == 0 || n->width == 0)
        return;
    if (dev_is_aligned(n->width, { n->w, x, dy, dres, dx, scratch }))
        DEV_BY_TYPE(type, T,
                    (launch_backward<T, 8>(n, x, dy, dres, dx, dnorm, rows,
                                           parts, stream)));
    else
        DEV_BY_TYPE(type, T,
                    (launch_backward<T, 1>(n, x, dy, dres, dx, dnorm, rows,
                                           parts, stream)));
}

size_t dsf_gpu_norm_scratch(size_t rows, size_t width)
{
    return dev_least(rows, CHUNKS) * 2 * width * sizeof(float);
}
