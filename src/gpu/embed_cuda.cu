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
    BATCH = 4, /* rows that are read before they are added */
    SHARE = 16, /* places in the order of tokens that a warp has */
    SORTERS = 256
};
/* Tokens that are sorted in shared memory: few where launches are emulated, so
 * that small tiles have several windows, too. */
#ifdef __CUDACC__
enum { WINDOW = 1024 };
#else
enum { WINDOW = 64 };
#endif
/* In the place of the token of a row that has none: behind all others. */
const uint32_t NONE = 0xfffffffe;

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

/* Tokens and their rows: of each window, in order, and of all. */
struct sorted {
    uint32_t *tokens, *rows, *all_tokens, *all_rows;
    unsigned window; /* WINDOW, which kernels do not know */
};

/* A block for each window: a row's place is the number of those before it. */
__global__ void __launch_bounds__(SORTERS)
    sort_windows(struct dsf_gpu_embed e, struct sorted to, unsigned rows)
{
    uint32_t *s = dev_shared<uint32_t>();
    const unsigned window = to.window, first = blockIdx.x * window;
    const unsigned n = rows - first < window ? rows - first : window;

    for (unsigned i = threadIdx.x; i < window; i += blockDim.x) {
        const int64_t token = i < n ? token_at(e, first + i) : -1;

        s[i] = token < 0 ? NONE : (uint32_t)token;
    }
    __syncthreads();
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x) {
        const uint32_t own = s[i];
        unsigned place = first;

        DEV_UNROLL_BY(16)
        for (unsigned k = 0; k < window; k++)
            place += s[k] < own + (k < i);
        to.tokens[place] = own;
        to.rows[place] = first + i;
    }
}

/* How many of n sorted tokens are below one. */
DEV unsigned count_below(const uint32_t *tokens, unsigned n, uint32_t one)
{
    unsigned below = 0;

    for (unsigned left = n; left > 0;) {
        const unsigned half = left / 2;
        const bool more = tokens[below + half] < one;

        below += more ? half + 1 : 0;
        left = more ? left - half - 1 : half;
    }
    return below;
}

/* A thread for each place in a window: before it are tokens of all windows that
 * are below its own, and those of windows before that are the same. */
__global__ void __launch_bounds__(THREADS)
    sort_all(struct sorted s, unsigned rows)
{
    const unsigned at = blockIdx.x * THREADS + threadIdx.x;
    const unsigned window = at / s.window;
    unsigned place = at % s.window;
    uint32_t own;

    if (at >= rows)
        return;
    own = s.tokens[at];
    for (unsigned w = 0; w * s.window < rows; w++) {
        const unsigned first = w * s.window, left = rows - first;

        if (w != window)
            place += count_below(s.tokens + first,
                                 left < s.window ? left : s.window,
                                 own + (w < window));
    }
    s.all_tokens[place] = own;
    s.all_rows[place] = s.rows[at];
}

/* Of a place in the order, each lane's own: is there a row of the token, and
 * which? */
struct place {
    bool there;
    uint32_t row;

    DEV void look(const struct sorted &s, size_t at, unsigned rows,
                  uint32_t token)
    {
        there = at < rows && s.all_tokens[at] == token;
        row = at < rows ? s.all_rows[at] : 0;
    }
};

/* V columns of a row: one, or two narrow ones, which stay a word. */
template <class T, int V> struct columns {
    T n;

    DEV void load(const T *p)
    {
        n = *p;
    }
    DEV void widen(float (&v)[V]) const
    {
        v[0] = dev_wide(n);
    }
};
template <class T> struct columns<T, 2> {
    uint32_t word;

    DEV void load(const T *p)
    {
        word = dev_load_word<uint32_t>(p);
    }
    DEV void widen(float (&v)[2]) const
    {
        const uint32_t own = dev_anew(word);
        T n[2];

        memcpy((void *)n, &own, sizeof(n));
        v[0] = dev_wide(n[0]);
        v[1] = dev_wide(n[1]);
    }
};

/* sum += N rows, which are those of lanes first, first + 1, … below n. */
template <int N, bool ALL, int V, class T>
DEV void add_lanes(float (&sum)[V], uint32_t row, unsigned first, unsigned n,
                   const T *dx, size_t width)
{
    columns<T, V> v[N];

    DEV_UNROLL
    for (unsigned k = 0; k < N; k++) {
        const unsigned lane = ALL || first + k < n ? first + k : n - 1;

        v[k].load(dx + __shfl_sync(0xffffffffu, row, lane) * width);
    }
    /* Never: but nvcc adds none before all are asked for. */
    if (dev_anew(n) == 0)
        return;
    DEV_UNROLL
    for (unsigned k = 0; k < N; k++) {
        float own[V];

        v[k].widen(own);
        DEV_UNROLL
        for (int i = 0; i < V; i++)
            sum[i] = ALL || first + k < n ? sum[i] + own[i] : sum[i];
    }
}

/* What the rows of a token from place `at` on give to columns is added to `sum`,
 * one after the other. Those of 32 places are on their way at once, and which
 * the next are is asked for before. */
template <int V, class T>
DEV void add_token(float (&sum)[V], const struct sorted &s, size_t at,
                   unsigned rows, uint32_t token, const T *dx, size_t width)
{
    struct place now, next;
    uint32_t there;
    unsigned n = rows;

    at += threadIdx.x % 32;
    now.look(s, at, rows, token);
    while ((there = __ballot_sync(0xffffffffu, now.there)) == 0xffffffffu) {
        at += 32;
        next.look(s, at, rows, token);
        add_lanes<32, true>(sum, now.row, 0, n, dx, width);
        now = next;
    }
    n = (unsigned)__popc((int)there);
    for (unsigned first = 0; first < n; first += BATCH)
        add_lanes<BATCH, false>(sum, now.row, first, n, dx, width);
}

/* A warp for 32 V columns of the tokens whose first place is one of its SHARE. */
template <class T, class G, int V>
__global__ void __launch_bounds__(THREADS)
    sum_tokens(struct sorted s, const T *dx, G *wte, unsigned rows,
               size_t width)
{
    const unsigned lane = threadIdx.x % 32;
    const size_t c = ((size_t)blockIdx.y * 32 + lane) * V;
    const bool has = c < width;
    const unsigned at = (blockIdx.x * WARPS + threadIdx.x / 32) * SHARE + lane;
    const bool there = lane < SHARE && at < rows;
    const uint32_t own = there ? s.all_tokens[at] : (uint32_t)NONE;
    const uint32_t before = there && at > 0 ? s.all_tokens[at - 1] : NONE;
    uint32_t firsts = __ballot_sync(0xffffffffu, own != before);

    for (unsigned k = 0; k < SHARE; k++) {
        const uint32_t token = __shfl_sync(0xffffffffu, own, k);
        G *to = wte + token * width + (has ? c : 0);
        float sum[V];

        if ((firsts >> k & 1) == 0 || token == NONE)
            continue;
        DEV_UNROLL
        for (int i = 0; i < V; i++)
            sum[i] = dev_load(to + i);
        add_token(sum, s, at - lane + k, rows, token, dx + (has ? c : 0),
                  width);
        DEV_UNROLL
        for (int i = 0; i < V && has; i++)
            dev_store(to + i, sum[i]);
    }
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
void launch_tokens(const struct dsf_gpu_embed *e, const void *dx, void *wte,
                   size_t rows, void *scratch, void *stream)
{
    const unsigned n = (unsigned)rows;
    uint32_t *const at = (uint32_t *)scratch;
    const struct sorted s = { at, at + rows, at + 2 * rows, at + 3 * rows,
                              WINDOW };
    const unsigned windows = dev_div_up(rows, WINDOW);

    dev_launch(sort_windows, windows, (unsigned)dev_least(SORTERS, WINDOW),
               WINDOW * sizeof(uint32_t), stream, *e, s, n);
    dev_launch(sort_all, dev_div_up(rows, THREADS), THREADS, 0, stream, s, n);
    dev_launch((sum_tokens<T, G, V>),
               dim3(dev_div_up(rows, WARPS * SHARE),
                    dev_div_up(e->width, 32 * V)),
               THREADS, 0, stream, s, (const T *)dx, (G *)wte, n, e->width);
}

template <class T, class G, int V>
void launch_positions(const struct dsf_gpu_embed *e, const void *dx, void *wpe,
                      size_t rows, void *stream)
{
    const unsigned strips = dev_div_up(e->width, THREADS * V);

    dev_launch((sum_positions<T, G, V>), dim3((unsigned)e->length, strips),
               THREADS, 0, stream, *e, (const T *)dx, (G *)wpe,
               (unsigned)rows);
}

template <class T, class G>
void backward(const struct dsf_gpu_embed *e, const void *dx, void *wte,
              void *wpe, size_t rows, void *scratch, void *stream)
{
    enum { PAIR = sizeof(T) == 2 ? 2 : 1 };

    if (dev_is_aligned(e->width, { dx }))
        launch_tokens<T, G, PAIR>(e, dx, wte, rows, scratch, stream);
    else
        launch_tokens<T, G, 1>(e, dx, wte, rows, scratch, stream);
    if (e->npos == 0)
        return;
    if (dev_is_aligned(e->width, { dx, wpe }))
        launch_positions<T, G, 8>(e, dx, wpe, rows, stream);
    else
        launch_positions<T, G, 1>(e, dx, wpe, rows, stream);
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
                            size_t rows, void *scratch, void *stream)
{
    if (rows == 0 || e->width == 0)
        return;
    DEV_BY_TYPE(type, T,
                DEV_BY_TYPE(grad, G,
                            (backward<T, G>(e, dx, wte, wpe, rows, scratch,
                                            stream))));
}

size_t dsf_gpu_embed_scratch(size_t rows)
{
    return 4 * rows * sizeof(uint32_t);
}
