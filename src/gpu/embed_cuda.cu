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

enum {
    THREADS = 128,
    WARPS = THREADS / 32,
    BATCH = 4 /* rows that are read before they are added */
};
/* Tokens that a thread looks at before it waits for the others: few where they
 * are emulated, so that small tiles take several turns, too. */
enum { MOST_SCANNED = 8 };
#ifdef __CUDACC__
enum { SCANNED = MOST_SCANNED };
#else
enum { SCANNED = 2 };
#endif
enum { WINDOW = SCANNED * THREADS };

/* sum += rows at(0) .. at(n) of x, one after the other, where is_there(i). */
template <int V, class T, class At, class Is>
DEV void add_rows(float (&sum)[V], const T *x, unsigned n, At at, Is is_there)
{
    for (unsigned first = 0; first < n; first += BATCH) {
        float v[BATCH][V];

        DEV_UNROLL
        for (int k = 0; k < BATCH; k++)
            dev_load_all(x + at(first + k < n ? first + k : n - 1), v[k]);
        DEV_UNROLL
        for (int k = 0; k < BATCH; k++) {
            const bool adds = first + k < n && is_there(first + k);

            DEV_UNROLL
            for (int i = 0; i < V; i++)
                sum[i] = adds ? sum[i] + v[k][i] : sum[i];
        }
    }
}

/* Which of WINDOW tokens are one of a block's, a bit for each; and any of those
 * of a warp. There are two in turn, so that one is written while the other is
 * read. A launch has room for those of a GPU everywhere. */
struct window {
    uint32_t same[MOST_SCANNED * WARPS], any[WARPS];
};
struct scan {
    struct window of[2];
    unsigned found[MOST_SCANNED * THREADS]; /* their rows, in order */
};

DEV void look(struct window *w, const int32_t *tokens, int32_t token,
              unsigned from, unsigned rows)
{
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    uint32_t any = 0;

    DEV_UNROLL
    for (int k = 0; k < SCANNED; k++) {
        const unsigned r = from + k * THREADS + threadIdx.x;
        const uint32_t same =
            __ballot_sync(0xffffffffu, r < rows && tokens[r] == token);

        any |= same;
        if (lane == 0)
            w->same[k * WARPS + warp] = same;
    }
    if (lane == 0)
        w->any[warp] = any;
}

DEV bool is_empty(const struct window &w)
{
    uint32_t any = 0;

    DEV_UNROLL
    for (int i = 0; i < WARPS; i++)
        any |= w.any[i];
    return any == 0;
}

/* Writes down the rows of a window that begins with row `from`; how many. */
DEV unsigned list(unsigned *found, const struct window &w, unsigned from)
{
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    unsigned n = 0;

    for (unsigned i = 0; i < SCANNED * WARPS; i++) {
        const uint32_t same = w.same[i];

        if (i % WARPS == warp && (same >> lane & 1) != 0)
            found[n + (unsigned)__popc((int)(same & ((1u << lane) - 1)))] =
                from + i * 32 + lane;
        n += (unsigned)__popc((int)same);
    }
    return n;
}

/* A block for each row of the tile, and for each strip of THREADS * V columns
 * of it: the first row with a token adds what all rows with that token give, in
 * their order, and the others find that they are not the first. */
template <class T, class G, int V>
__global__ void __launch_bounds__(THREADS)
    sum_tokens(struct dsf_gpu_embed e, const T *dx, G *wte, unsigned rows)
{
    struct scan *s = dev_shared<struct scan>();
    const unsigned row = blockIdx.x;
    const size_t c = ((size_t)blockIdx.y * THREADS + threadIdx.x) * V;
    const int64_t token = token_at(e, row);
    const bool has = c < e.width;
    G *to = wte + token * (int64_t)e.width + c;
    float sum[V] = {};

    if (token < 0)
        return;
    for (unsigned from = 0, turn = 0; from < rows; from += WINDOW, turn ^= 1) {
        struct window *w = &s->of[turn];
        unsigned n;

        look(w, e.tokens, e.tokens[row], from, rows);
        __syncthreads();
        if (is_empty(*w))
            continue;
        n = list(s->found, *w, from);
        __syncthreads();
        if (s->found[0] < row)
            return; /* all threads of the block do */
        if (s->found[0] == row && has)
            dev_load_all(to, sum);
        if (has)
            add_rows(
                sum, dx + c, n,
                [&](unsigned i) { return (size_t)s->found[i] * e.width; },
                [](unsigned) { return true; });
    }
    if (has)
        dev_store_all(to, sum);
}

/* A block for each position: rows with it are `length` apart. */
template <class T, class G, int V>
__global__ void __launch_bounds__(THREADS)
    sum_positions(struct dsf_gpu_embed e, const T *dx, G *wpe, unsigned rows)
{
    const size_t c = ((size_t)blockIdx.y * THREADS + threadIdx.x) * V;
    const int64_t at = (int64_t)e.pos + blockIdx.x - e.first_pos;
    const unsigned length = (unsigned)e.length;
    const unsigned n = (rows - blockIdx.x + length - 1) / length;
    G *to = wpe + at * (int64_t)e.width + c;
    float sum[V];

    if (c >= e.width || at < 0 || at >= e.npos)
        return;
    dev_load_all(to, sum);
    add_rows(
        sum, dx + c, n,
        [&](unsigned i) { return (size_t)(blockIdx.x + i * length) * e.width; },
        [&](unsigned i) { return e.tokens[blockIdx.x + i * length] >= 0; });
    dev_store_all(to, sum);
}

template <class T, class G, int V>
void launch_backward(const struct dsf_gpu_embed *e, const void *dx, void *wte,
                     void *wpe, size_t rows, void *stream)
{
    const unsigned strips = dev_div_up(e->width, THREADS * V);

    dev_launch((sum_tokens<T, G, V>), dim3((unsigned)rows, strips), THREADS,
               sizeof(struct scan), stream, *e, (const T *)dx, (G *)wte,
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
