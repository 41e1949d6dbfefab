/* norm_cuda.cu - LayerNorm and RMSNorm. A row is read from memory once: what a
 * thread has of it stays in registers, as it is in memory, up to KEPT pieces of V
 * numbers; the rest of very long rows is read again. */
#include "gpu/dev_sum.h"
#include "gpu/kernels.h"

namespace {

template <class T> struct norm {
    const T *w, *b;
    unsigned width;
    float part; /* one of so many */
    float eps;
    int rms;
};

enum { MAX_THREADS = 512 }; /* of a row */

/* V numbers of a row as they are in memory: narrow ones take half the registers
 * that they would in fp32. */
template <class T, int V> struct piece {
    uint4 words[V * sizeof(T) / 16];

    DEV void load(const T *p)
    {
        DEV_UNROLL
        for (unsigned i = 0; i < V * sizeof(T) / 16; i++)
            words[i] = dev_load16(p + i * (16 / sizeof(T)));
    }
    DEV void widen(float (&v)[V]) const
    {
        T n[V];

        memcpy((void *)n, words, sizeof(n));
        DEV_UNROLL
        for (int i = 0; i < V; i++)
            v[i] = dev_wide(n[i]);
    }
    /* What was made of it before is not kept, but made again. */
    DEV void anew()
    {
        DEV_UNROLL
        for (unsigned i = 0; i < V * sizeof(T) / 16; i++)
            words[i] = make_uint4(dev_anew(words[i].x), dev_anew(words[i].y),
                                  dev_anew(words[i].z), dev_anew(words[i].w));
    }
};
template <class T> struct piece<T, 1> {
    float n;

    DEV void load(const T *p)
    {
        n = dev_load(p);
    }
    DEV void widen(float (&v)[1]) const
    {
        v[0] = n;
    }
    DEV void anew()
    {
    }
};

/* Calls f(k, at) for each piece of a row that this thread has: V numbers from
 * `at` on. The first are 0 .. KEPT; of all others k is KEPT. Where one is kept,
 * there are no others. */
template <int V, int KEPT, class F> DEV void each_piece(unsigned width, F f)
{
    unsigned at = threadIdx.x * V;

    DEV_UNROLL
    for (int k = 0; k < KEPT; k++, at += blockDim.x * V)
        if (at < width)
            f(k, at);
    if constexpr (KEPT > 1)
        for (; at < width; at += blockDim.x * V)
            f((int)KEPT, at);
}

template <int V, int KEPT, class T>
DEV void keep(const T *x, unsigned width, piece<T, V> (&kept)[KEPT])
{
    unsigned at = threadIdx.x * V;

    DEV_UNROLL
    for (int k = 0; k < KEPT; k++, at += blockDim.x * V)
        if (at < width)
            kept[k].load(x + at);
}

/* Piece k of a row that was kept, or what begins at p. */
template <int V, int KEPT, class T>
DEV void take(const T *p, int k, piece<T, V> (&kept)[KEPT], float (&v)[V])
{
    if (k == KEPT) {
        dev_load_all(p, v);
        return;
    }
    kept[k].anew();
    kept[k].widen(v);
}

/* *mean (0 for RMSNorm) and one over the deviation of a row. `s`: two numbers for
 * each warp of the block. */
template <int V, int KEPT, class T>
DEV float row_statistics(const norm<T> &n, const T *x,
                         piece<T, V> (&kept)[KEPT], float *mean, float *s)
{
    const unsigned warps = blockDim.x * blockDim.y / 32;
    float sum = 0, mu = 0;

    if (!n.rms) {
        each_piece<V, KEPT>(n.width, [&](int k, unsigned at) {
            float v[V];

            take(x + at, k, kept, v);
            DEV_UNROLL
            for (int i = 0; i < V; i++)
                sum += v[i];
        });
        mu = dev_row_sum(sum, s) * n.part;
    }
    sum = 0;
    each_piece<V, KEPT>(n.width, [&](int k, unsigned at) {
        float v[V];

        take(x + at, k, kept, v);
        DEV_UNROLL
        for (int i = 0; i < V; i++)
            sum += (v[i] - mu) * (v[i] - mu);
    });
    *mean = mu;
    return 1 / sqrtf(dev_row_sum(sum, s + warps) * n.part + n.eps);
}

/* A team (threadIdx.y) for each row: one warp, up to 32 KEPT pieces. */
template <class T, int V, int KEPT>
__global__ void __launch_bounds__(MAX_THREADS, 2)
    norm_forward(norm<T> n, const T *x, T *y, unsigned rows)
{
    const unsigned row = blockIdx.x * blockDim.y + threadIdx.y;
    const bool there = row < rows; /* all threads reach barriers */
    const size_t from = (size_t)(there ? row : rows - 1) * n.width;
    piece<T, V> kept[KEPT];
    float mean, rstd;

    keep(x + from, n.width, kept);
    rstd = row_statistics(n, x + from, kept, &mean, dev_shared<float>());
    each_piece<V, KEPT>(n.width, [&](int k, unsigned at) {
        float v[V], w[V], b[V] = {};

        take(x + from + at, k, kept, v);
        dev_load_all(n.w + at, w);
        if (n.b)
            dev_load_all(n.b + at, b);
        DEV_UNROLL
        for (int i = 0; i < V; i++)
            v[i] = (v[i] - mean) * rstd * w[i] + b[i];
        if (there)
            dev_store_all(y + from + at, v);
    });
}

/* Threads that share a row, in whole warps: KEPT pieces for each. */
unsigned row_threads(size_t width, int v, int kept)
{
    const size_t threads = (dev_div_up(width, (size_t)(v * kept)) + 31) / 32 * 32;

    return (unsigned)dev_least(threads, MAX_THREADS);
}

unsigned teams_of(unsigned threads, unsigned block)
{
    return threads < block ? block / threads : 1;
}

template <class T> norm<T> norm_of(const struct dsf_gpu_norm *n)
{
    return { (const T *)n->w,        (const T *)n->b, (unsigned)n->width,
             1 / (float)n->width, n->eps,          n->rms };
}

template <class T, int V, int KEPT>
void launch_forward_kept(const struct dsf_gpu_norm *n, const void *x, void *y,
                         size_t rows, void *stream)
{
    const unsigned threads = row_threads(n->width, V, KEPT);
    const unsigned teams = teams_of(threads, 64);

    dev_launch((norm_forward<T, V, KEPT>), dev_div_up(rows, teams),
               dim3(threads, teams), 2 * threads * teams / 32 * sizeof(float),
               stream, norm_of<T>(n), (const T *)x, (T *)y, (unsigned)rows);
}

template <class T, int V>
void launch_forward(const struct dsf_gpu_norm *n, const void *x, void *y,
                    size_t rows, void *stream)
{
    enum { MANY = V == 8 && sizeof(T) == 4 ? 4 : 8 };

    if (n->width <= 4 * 32 * V)
        launch_forward_kept<T, V, 4>(n, x, y, rows, stream);
    else
        launch_forward_kept<T, V, MANY>(n, x, y, rows, stream);
}

/* The backward pass. Rows are dealt out to at most CHUNKS blocks, and to the
 * teams (threadIdx.y) of a block, each of which sums what its rows give to dnorm;
 * the sums of teams, then those of blocks, are added in their order. A thread has
 * the same columns of all rows, and of one row it waits twice for what the others
 * sum. Meanwhile the next row is on its way. CHUNKS: three blocks for each
 * processor of GPUs that have some 130. */
enum {
    CHUNKS = 384,
    BACK_THREADS = 256, /* of a block with several teams */
    SUMS = 4 * MAX_THREADS / 32
};

template <class T> struct back {
    norm<T> n;
    const T *x, *dres;
    const float *dy;
    T *dx;
    float *parts;
    unsigned rows, chunk;
};

/* What a thread reads of a row before it waits for any of it. */
template <class T, int V, int KEPT> struct back_row {
    /* Of several pieces in fp32, what is added would not fit in registers beside
     * the others. */
    enum { EARLY = V == 1 || KEPT == 1 || sizeof(T) < sizeof(float) };
    piece<T, V> x[KEPT], res[KEPT];
    piece<float, V> dy[KEPT];

    DEV void load(const back<T> &b, size_t from)
    {
        keep(b.x + from, b.n.width, x);
        keep(b.dy + from, b.n.width, dy);
        if (EARLY && b.dres)
            keep(b.dres + from, b.n.width, res);
    }
};

/* What the rows of a thread give to the gradients of w and b: of its first
 * columns. Those of the rest are summed in memory. */
template <int V, int KEPT> struct sums {
    float dw[KEPT][V], db[KEPT][V];
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
template <int V, int KEPT>
DEV void sum_teams(const sums<V, KEPT> &own, float *s, float *part,
                   unsigned width)
{
    for (unsigned team = 0; team < blockDim.y; team++) {
        const bool last = team + 1 == blockDim.y;

        DEV_UNROLL
        for (int k = 0; k < KEPT; k++) {
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

/* Of a row: the mean and one over the deviation of x; the means of dy w and of
 * dy w xhat. */
struct back_means {
    float mean, rstd, g, gx;
};

/* `s`: four numbers for each warp of the block, of which each turn of RMSNorm,
 * where only the second sum is needed, takes others than the one before. */
template <int V, int KEPT, class T>
DEV back_means means_of(const back<T> &b, back_row<T, V, KEPT> &row,
                        size_t from, float *s, bool odd)
{
    const unsigned warps = blockDim.x * blockDim.y / 32, width = b.n.width;
    float one[2] = {}, two[2] = {};
    back_means m = {};

    if (!b.n.rms) {
        each_piece<V, KEPT>(width, [&](int k, unsigned at) {
            float x[V], d[V], by[V];

            take(b.x + from + at, k, row.x, x);
            take(b.dy + from + at, k, row.dy, d);
            dev_load_all(b.n.w + at, by);
            DEV_UNROLL
            for (int i = 0; i < V; i++) {
                one[0] += x[i];
                one[1] += d[i] * by[i];
            }
        });
        dev_row_sums(one, s);
        m.mean = one[0] * b.n.part;
        m.g = one[1] * b.n.part;
    }
    each_piece<V, KEPT>(width, [&](int k, unsigned at) {
        float x[V], d[V], by[V];

        take(b.x + from + at, k, row.x, x);
        take(b.dy + from + at, k, row.dy, d);
        dev_load_all(b.n.w + at, by);
        DEV_UNROLL
        for (int i = 0; i < V; i++) {
            two[0] += (x[i] - m.mean) * (x[i] - m.mean);
            two[1] += d[i] * by[i] * (x[i] - m.mean);
        }
    });
    dev_row_sums(two, b.n.rms && odd ? s : s + 2 * warps);
    m.rstd = 1 / sqrtf(two[0] * b.n.part + b.n.eps);
    m.gx = two[1] * b.n.part * m.rstd;
    return m;
}

/* So many threads have registers: three blocks of 224, where they suffice. */
template <class T, int KEPT> constexpr int back_threads()
{
    return KEPT == 1 && sizeof(T) < sizeof(float) ? 3 * 224 : MAX_THREADS;
}

template <class T, int V, int KEPT>
__global__ void __launch_bounds__((back_threads<T, KEPT>()))
    norm_backward(back<T> b)
{
    typedef back_row<T, V, KEPT> row_pieces;
    enum { AHEAD = KEPT == 1 }; /* or registers spill */
    const unsigned width = b.n.width;
    const unsigned first = blockIdx.x * b.chunk;
    const unsigned end =
        first + b.chunk < b.rows ? first + b.chunk : b.rows;
    float *s = dev_shared<float>();
    float *part = b.parts + (size_t)blockIdx.x * 2 * width;
    sums<V, KEPT> own = {};
    row_pieces next = {};
    bool odd = false;

    if (AHEAD)
        next.load(b, (size_t)(first + threadIdx.y < end ? first + threadIdx.y
                                                        : first) *
                         width);
    /* All teams go round as often: they meet at barriers. */
    for (unsigned top = first; top < end; top += blockDim.y, odd = !odd) {
        const bool there = top + threadIdx.y < end;
        const size_t from = (size_t)(there ? top + threadIdx.y : top) * width;
        row_pieces row = {};
        back_means m;

        if (AHEAD)
            row = next;
        else
            row.load(b, from);
        if (AHEAD && top + blockDim.y + threadIdx.y < end)
            next.load(b, from + (size_t)blockDim.y * width);
        m = means_of(b, row, from, s, odd);
        each_piece<V, KEPT>(there ? width : 0, [&](int k, unsigned at) {
            float x[V], d[V], by[V], dw[V], out[V] = {};

            take(b.x + from + at, k, row.x, x);
            take(b.dy + from + at, k, row.dy, d);
            dev_load_all(b.n.w + at, by);
            if (row_pieces::EARLY && k < KEPT) /* zeroes, if there are none */
                take(b.dres, k, row.res, out);
            else if (b.dres)
                dev_load_all(b.dres + from + at, out);
            DEV_UNROLL
            for (int i = 0; i < V; i++) {
                const float xhat = (x[i] - m.mean) * m.rstd;

                out[i] += m.rstd * (d[i] * by[i] - m.g - xhat * m.gx);
                dw[i] = d[i] * xhat;
                if (k < KEPT) {
                    own.dw[k][i] += dw[i];
                    own.db[k][i] += d[i];
                }
            }
            dev_store_all(b.dx + from + at, out);
            if (k == KEPT) { /* there is one team */
                add_to(part + at, dw, top == first);
                add_to(part + width + at, d, top == first);
            }
        });
    }
    sum_teams(own, s + SUMS, part, width);
}

template <class T, int V, int KEPT>
unsigned launch_backward_kept(back<T> b, void *stream)
{
    const unsigned threads = row_threads(b.n.width, V, KEPT);
    const unsigned teams = teams_of(threads, BACK_THREADS);
    const size_t shared = SUMS + (teams > 1 ? 2 * b.n.width : 0);
    unsigned blocks;

    b.chunk = dev_div_up(b.rows, CHUNKS * teams) * teams;
    blocks = dev_div_up(b.rows, b.chunk);
    dev_launch((norm_backward<T, V, KEPT>), blocks, dim3(threads, teams),
               shared * sizeof(float), stream, b);
    return blocks;
}

template <class T, int V>
void launch_backward(const struct dsf_gpu_norm *n, const void *x,
                     const float *dy, const void *dres, void *dx, float *dnorm,
                     size_t rows, float *parts, void *stream)
{
    const back<T> b = { norm_of<T>(n), (const T *)x,   (const T *)dres, dy,
                        (T *)dx,       parts, (unsigned)rows, 0 };
    const unsigned blocks = n->width <= (size_t)MAX_THREADS * V
                                ? launch_backward_kept<T, V, 1>(b, stream)
                                : launch_backward_kept<T, V, 2>(b, stream);

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
