/* loss_cuda.cu - cross entropy in place: logits become the gradients of them. A
 * block for each row; sums are of fp32 in a thread, and of fp64 beyond. What is
 * done for each logit is fp32, and few instructions, as memory is fast: what
 * needs fp64 is computed before. */
#include "gpu/dev_sum.h"
#include "gpu/kernels.h"

#include <type_traits>

namespace {

enum {
    THREADS = 256,
    BLOCK = 2048, /* columns, as DSF_HEAD_COLUMNS */
    /* Of a row of the whole vocabulary: so few rows at once that most of them
     * are still in the cache when they are read again. */
    ROW_THREADS = 768,
    AHEAD = 2 /* pieces that a thread reads before it works on them */
};

/* What a block reads in main memory, once: the target of its row, and the scale
 * of the gradient. */
struct facts {
    double scale;
    int64_t column; /* of the target, if this part has it, or -1 */
    bool counts;    /* does it have a target? */
};

/* `s`: shared memory of its own. */
DEV struct facts facts_of(const struct dsf_gpu_logits &l, struct facts *s)
{
    if (threadIdx.x == 0) {
        const int32_t target = l.targets[blockIdx.x];
        const int64_t column = (int64_t)target - l.first;
        const bool own =
            target >= 0 && column >= 0 && column < (int64_t)l.vocab;

        s->scale = (double)l.scale * (l.loss_scale ? *l.loss_scale : 1);
        s->column = own ? column : -1;
        s->counts = target >= 0;
    }
    __syncthreads();
    return *s;
}

/* V logits of a row from column c on, of which n are words. */
template <int V, class T>
DEV void load_words(const T *row, unsigned c, unsigned n, float (&v)[V])
{
    dev_load_all(row + c, v);
    DEV_UNROLL
    for (int i = 1; i < V; i++)
        if (c + i >= n)
            v[i] = -INFINITY;
}

/* AHEAD pieces of V, `apart` columns from each other. Where not ALL of them are
 * words, the others are -infinity. */
template <bool ALL, int V, class T>
DEV void load_ahead(const T *row, unsigned c, unsigned apart, unsigned n,
                    float (&v)[AHEAD][V])
{
    DEV_UNROLL
    for (int k = 0; k < AHEAD; k++, c += apart) {
        if (ALL)
            dev_load_all(row + c, v[k]);
        else if (c < n)
            load_words(row, c, n, v[k]);
        DEV_UNROLL
        for (int i = 0; !ALL && c >= n && i < V; i++)
            v[k][i] = -INFINITY;
    }
}

/* Calls f(c, all) for the columns that this thread has of a row of n words:
 * AHEAD pieces of V numbers from column c on, which are all words where `all`.
 */
template <int V, class F> DEV void each_ahead(unsigned apart, unsigned n, F f)
{
    unsigned c = threadIdx.x * V;

    for (; c + (AHEAD - 1) * apart + V <= n; c += AHEAD * apart)
        f(c, std::true_type());
    if (c < n)
        f(c, std::false_type());
}

/* e^x of what is 0 or less, within a few units in the last place that the
 * largest, e^0, has. */
DEV float exp_of(float x)
{
    return dev_exp2(x * 1.44269504f);
}

/* Is column c + i that of the target? */
DEV bool is_at(int64_t column, unsigned c, int i)
{
    return (unsigned)column - c == (unsigned)i;
}

/* The first column that load_words does not reach. */
template <int V> DEV size_t words_end(size_t n)
{
    return (n + V - 1) / V * V;
}

/* Zeroes from a column on, to where the next row begins. */
template <class T> DEV void clear(T *row, size_t from, size_t to)
{
    for (size_t c = from + threadIdx.x; c < to; c += blockDim.x)
        dev_store(row + c, 0);
}

/* The largest number that this thread has of a row, and the sum of e^(x - it).
 */
template <int V, class T>
DEV void own_sum(const T *row, unsigned n, float *top, float *sum)
{
    const unsigned apart = blockDim.x * V;

    *top = -INFINITY;
    *sum = 0;
    each_ahead<V>(apart, n, [&](unsigned c, auto all) {
        float v[AHEAD][V], most = *top;

        load_ahead<decltype(all)::value>(row, c, apart, n, v);
        DEV_UNROLL
        for (int i = 0; i < AHEAD * V; i++)
            most = fmaxf(most, v[i / V][i % V]);
        *sum *= exp_of(*top - most);
        *top = most;
        DEV_UNROLL
        for (int i = 0; i < AHEAD * V; i++)
            *sum += exp_of(v[i / V][i % V] - most);
    });
}

/* The whole vocabulary at once. */
template <class T, int V>
__global__ void __launch_bounds__(ROW_THREADS)
    cross_entropy(struct dsf_gpu_logits l, double *losses)
{
    struct facts *shared = dev_shared<struct facts>();
    double *s = (double *)(shared + 1);
    float *tops = (float *)(s + ROW_THREADS / 32);
    T *row = (T *)l.logits + blockIdx.x * l.ld;
    const struct facts facts = facts_of(l, shared);
    const int64_t column = facts.column;
    const double scale = facts.scale;
    const unsigned apart = ROW_THREADS * V, n = (unsigned)l.vocab;
    float top, sum, target, factor, at_target;
    double all;

    if (column < 0) {
        clear(row, 0, l.ld);
        if (threadIdx.x == 0)
            losses[blockIdx.x] = 0;
        return;
    }
    target = dev_load(row + column);
    own_sum<V>(row, n, &top, &sum);
    const float most = dev_row_max(top, tops);
    all = dev_row_sum((double)(sum * exp_of(top - most)), s);
    factor = (float)(scale / all);
    at_target = (float)((exp((double)target - most) / all - 1) * scale);
    each_ahead<V>(apart, n, [&](unsigned c, auto all_words) {
        constexpr bool ALL = decltype(all_words)::value;
        float v[AHEAD][V];

        load_ahead<ALL>(row, c, apart, n, v);
        DEV_UNROLL
        for (int k = 0; k < AHEAD; k++, c += apart) {
            DEV_UNROLL
            for (int i = 0; i < V; i++)
                v[k][i] = is_at(column, c, i) ? at_target
                                              : exp_of(v[k][i] - most) * factor;
            if (ALL || c < n)
                dev_store_all(row + c, v[k]);
        }
    });
    clear(row, words_end<V>(l.vocab), l.ld);
    if (threadIdx.x == 0)
        losses[blockIdx.x] = (double)most + log(all) - target;
}

/* The sum of n numbers, by one block. */
__global__ void __launch_bounds__(1024)
    sum_losses(double *loss, const double *losses, unsigned n)
{
    double sum = 0;

    for (unsigned i = threadIdx.x; i < n; i += 1024)
        sum += losses[i];
    sum = dev_row_sum(sum, dev_shared<double>());
    if (threadIdx.x == 0)
        *loss = sum;
}

/* V columns of BLOCK at a time for each thread: piece k of them begins at. */
template <int V> DEV unsigned piece_at(unsigned block, int k)
{
    return block * BLOCK + (k * THREADS + threadIdx.x) * V;
}

/* Of a part: e^(logit - top of its block of columns), the tops, and what it
 * says of each row to the other parts. */
template <class T, int V>
__global__ void __launch_bounds__(THREADS)
    exponentials(struct dsf_gpu_logits l, float *tops,
                 struct dsflow_head_stats *stats, unsigned blocks)
{
    enum { PIECES = BLOCK / THREADS / V };
    struct facts *shared = dev_shared<struct facts>();
    float *s = (float *)(shared + 1);
    T *row = (T *)l.logits + blockIdx.x * l.ld;
    const int64_t column = facts_of(l, shared).column;
    /* Read before the barriers of the first sum, which others write behind. */
    const double target = column < 0 ? 0 : dev_load(row + column);
    float most = -INFINITY;
    const unsigned n = (unsigned)l.vocab;
    double all = 0;

    for (unsigned b = 0; b < blocks; b++) {
        float v[PIECES][V], top = -INFINITY, sum = 0, next;

        DEV_UNROLL
        for (int k = 0; k < PIECES; k++)
            if (piece_at<V>(b, k) < n) {
                load_words(row, piece_at<V>(b, k), n, v[k]);
                DEV_UNROLL
                for (int i = 0; i < V; i++)
                    top = fmaxf(top, v[k][i]);
            }
        top = dev_row_max(top, s);
        DEV_UNROLL
        for (int k = 0; k < PIECES; k++)
            if (piece_at<V>(b, k) < n) {
                DEV_UNROLL
                for (int i = 0; i < V; i++)
                    sum += v[k][i] = exp_of(v[k][i] - top);
                dev_store_all(row + piece_at<V>(b, k), v[k]);
            }
        sum = dev_row_sum(sum, s + THREADS / 32);
        next = fmaxf(most, top);
        all = all * exp((double)most - next) + sum * exp((double)top - next);
        most = next;
        if (threadIdx.x == 0)
            tops[(size_t)blockIdx.x * blocks + b] = top;
    }
    clear(row, words_end<V>(l.vocab), l.ld);
    if (threadIdx.x == 0)
        stats[blockIdx.x] = { most, all, target };
}

/* Row r of the whole vocabulary, from what all parts say, in their order. */
DEV struct dsflow_head_stats whole_row(const struct dsflow_head_stats *stats,
                                       size_t rows, size_t r, unsigned parts)
{
    struct dsflow_head_stats all = { stats[r].top, 0, 0 };

    for (unsigned p = 1; p < parts; p++)
        all.top = fmax(all.top, stats[p * rows + r].top);
    for (unsigned p = 0; p < parts; p++) {
        const struct dsflow_head_stats part = stats[p * rows + r];

        all.sum += part.sum * exp(part.top - all.top);
        all.target += part.target; /* all but one are 0 */
    }
    return all;
}

/* The exponentials of a part become gradients; `by`: shared, what they are
 * multiplied with, of each block of columns. */
template <class T, int V>
__global__ void __launch_bounds__(THREADS)
    gradients(struct dsf_gpu_logits l, const float *tops,
              const struct dsflow_head_stats *stats, unsigned parts,
              unsigned blocks, double *losses)
{
    enum { PIECES = BLOCK / THREADS / V };
    struct facts *shared = dev_shared<struct facts>();
    float *by = (float *)(shared + 1);
    T *row = (T *)l.logits + blockIdx.x * l.ld;
    const struct facts facts = facts_of(l, shared);
    const unsigned n = (unsigned)l.vocab;

    if (!facts.counts) {
        clear(row, 0, l.ld);
        if (threadIdx.x == 0)
            losses[blockIdx.x] = 0;
        return;
    }
    const struct dsflow_head_stats all =
        whole_row(stats, gridDim.x, blockIdx.x, parts);
    const double inverse = facts.scale / all.sum;
    const float at_target =
        (float)(exp(all.target - all.top) * inverse - facts.scale);

    for (unsigned b = threadIdx.x; b < blocks; b += THREADS)
        by[b] = (float)(exp((double)tops[(size_t)blockIdx.x * blocks + b] -
                            all.top) *
                        inverse);
    __syncthreads();
    for (unsigned b = 0; b < blocks; b += AHEAD) {
        float v[AHEAD][PIECES][V];

        DEV_UNROLL
        for (int k = 0; k < AHEAD * PIECES; k++)
            if (piece_at<V>(b, k) < n)
                dev_load_all(row + piece_at<V>(b, k),
                             v[k / PIECES][k % PIECES]);
        DEV_UNROLL
        for (int k = 0; k < AHEAD * PIECES; k++) {
            float(&own)[V] = v[k / PIECES][k % PIECES];
            const unsigned c = piece_at<V>(b, k);

            if (c >= n)
                break;
            DEV_UNROLL
            for (int i = 0; i < V; i++)
                own[i] = is_at(facts.column, c, i)
                             ? at_target
                             : own[i] * by[b + k / PIECES];
            dev_store_all(row + c, own);
        }
    }
    if (threadIdx.x == 0)
        losses[blockIdx.x] = all.top + log(all.sum) - all.target;
}

/* What these columns say of a row, together with what others said before, or
 * as the first to say something. */
template <int V>
__global__ void __launch_bounds__(THREADS)
    column_stats(struct dsf_gpu_logits l, struct dsflow_head_stats *stats,
                 int first)
{
    struct facts *shared = dev_shared<struct facts>();
    double *s = (double *)(shared + 1);
    float *tops = (float *)(s + THREADS / 32);
    const float *row = (const float *)l.logits + blockIdx.x * l.ld;
    const int64_t column = facts_of(l, shared).column;
    float top, sum;
    double all;

    own_sum<V>(row, l.vocab, &top, &sum);
    const float most = dev_row_max(top, tops);
    all = dev_row_sum((double)(sum * expf(top - most)), s);
    if (threadIdx.x > 0)
        return;
    struct dsflow_head_stats now = { most, all, 0 };

    if (!first) {
        const struct dsflow_head_stats before = stats[blockIdx.x];

        now.top = fmax(before.top, (double)most);
        now.sum = before.sum * exp(before.top - now.top) +
                  all * exp((double)most - now.top);
        now.target = before.target;
    }
    if (column >= 0)
        now.target = row[column];
    stats[blockIdx.x] = now;
}

/* Gradients of these columns, which may take the place of their logits in fp32,
 * and zeroes for those of `cols` columns that are no words. */
template <class T, int V>
__global__ void __launch_bounds__(THREADS)
    column_gradients(struct dsf_gpu_logits l,
                     const struct dsflow_head_stats *sums, T *out, size_t ld,
                     size_t cols)
{
    const float *row = (const float *)l.logits + blockIdx.x * l.ld;
    T *to = out + blockIdx.x * ld;
    const struct facts facts = facts_of(l, dev_shared<struct facts>());
    const struct dsflow_head_stats all = sums[blockIdx.x];
    const float top = (float)all.top; /* it was a logit */
    const float by = (float)(facts.scale / all.sum);

    if (!facts.counts) {
        clear(to, 0, cols);
        return;
    }
    for (size_t c = threadIdx.x * V; c < l.vocab; c += THREADS * V) {
        float v[V];

        load_words(row, c, l.vocab, v);
        DEV_UNROLL
        for (int i = 0; i < V; i++) {
            const double logit = v[i];

            v[i] = expf(v[i] - top) * by;
            if ((int64_t)c + i == facts.column)
                v[i] = (float)((exp(logit - all.top) / all.sum - 1) *
                               facts.scale);
        }
        dev_store_all(to + c, v);
    }
    clear(to, words_end<V>(l.vocab), cols);
}

/* The loss of each row, a thread for each; sums: what all parts say of it, which
 * for one part may be that itself. */
__global__ void __launch_bounds__(THREADS)
    row_losses(const int32_t *targets, const struct dsflow_head_stats *stats,
               unsigned parts, struct dsflow_head_stats *sums, double *losses,
               unsigned rows)
{
    const unsigned r = blockIdx.x * THREADS + threadIdx.x;

    if (r >= rows)
        return;
    const struct dsflow_head_stats all = whole_row(stats, rows, r, parts);

    losses[r] = targets[r] < 0 ? 0 : all.top + log(all.sum) - all.target;
    sums[r] = all;
}

bool is_aligned(const struct dsf_gpu_logits *l)
{
    return dev_is_aligned(l->ld, { l->logits });
}

void add_up(double *loss, const double *losses, size_t rows, void *stream)
{
    dev_launch(sum_losses, 1, 1024, 32 * sizeof(double), stream, loss, losses,
               (unsigned)rows);
}

template <class T, int V>
void launch_entropy(const struct dsf_gpu_logits *l, double *losses,
                    void *stream)
{
    dev_launch((cross_entropy<T, V>), (unsigned)l->rows, ROW_THREADS,
               sizeof(struct facts) +
                   ROW_THREADS / 32 * (sizeof(double) + sizeof(float)),
               stream, *l, losses);
}

template <class T, int V>
void launch_exponentials(const struct dsf_gpu_logits *l, float *tops,
                         struct dsflow_head_stats *stats, void *stream)
{
    dev_launch((exponentials<T, V>), (unsigned)l->rows, THREADS,
               sizeof(struct facts) + 2 * THREADS / 32 * sizeof(float), stream,
               *l, tops, stats, dev_div_up(l->vocab, BLOCK));
}

template <class T, int V>
void launch_gradients(const struct dsf_gpu_logits *l, const float *tops,
                      const struct dsflow_head_stats *stats, unsigned parts,
                      double *losses, void *stream)
{
    const unsigned blocks = dev_div_up(l->vocab, BLOCK);

    dev_launch((gradients<T, V>), (unsigned)l->rows, THREADS,
               sizeof(struct facts) + blocks * sizeof(float), stream, *l, tops,
               stats, parts, blocks, losses);
}

template <int V>
void launch_stats(const struct dsf_gpu_logits *l,
                  struct dsflow_head_stats *stats, int first, void *stream)
{
    dev_launch((column_stats<V>), (unsigned)l->rows, THREADS,
               sizeof(struct facts) +
                   THREADS / 32 * (sizeof(double) + sizeof(float)),
               stream, *l, stats, first);
}

template <class T, int V>
void launch_columns(const struct dsf_gpu_logits *l,
                    const struct dsflow_head_stats *sums, void *to, size_t ld,
                    size_t cols, void *stream)
{
    dev_launch((column_gradients<T, V>), (unsigned)l->rows, THREADS,
               sizeof(struct facts), stream, *l, sums, (T *)to, ld, cols);
}

} // namespace

void dsf_gpu_cross_entropy(const struct dsf_gpu_logits *l, double *loss,
                           double *losses, void *stream)
{
    if (is_aligned(l))
        DEV_BY_TYPE(l->type, T, (launch_entropy<T, 8>(l, losses, stream)));
    else
        DEV_BY_TYPE(l->type, T, (launch_entropy<T, 1>(l, losses, stream)));
    add_up(loss, losses, l->rows, stream);
}

void dsf_gpu_exponentials(const struct dsf_gpu_logits *l, float *tops,
                          struct dsflow_head_stats *stats, void *stream)
{
    if (is_aligned(l))
        DEV_BY_TYPE(l->type, T,
                    (launch_exponentials<T, 8>(l, tops, stats, stream)));
    else
        DEV_BY_TYPE(l->type, T,
                    (launch_exponentials<T, 1>(l, tops, stats, stream)));
}

void dsf_gpu_logit_gradients(const struct dsf_gpu_logits *l, const float *tops,
                             const struct dsflow_head_stats *stats,
                             unsigned parts, double *loss, double *losses,
                             void *stream)
{
    if (is_aligned(l))
        DEV_BY_TYPE(
            l->type, T,
            (launch_gradients<T, 8>(l, tops, stats, parts, losses, stream)));
    else
        DEV_BY_TYPE(
            l->type, T,
            (launch_gradients<T, 1>(l, tops, stats, parts, losses, stream)));
    add_up(loss, losses, l->rows, stream);
}

void dsf_gpu_column_stats(const struct dsf_gpu_logits *l,
                          struct dsflow_head_stats *stats, int first,
                          void *stream)
{
    if (is_aligned(l))
        launch_stats<8>(l, stats, first, stream);
    else
        launch_stats<1>(l, stats, first, stream);
}

void dsf_gpu_column_gradients(const struct dsf_gpu_logits *l,
                              const struct dsflow_head_stats *sums,
                              enum dsflow_dtype type, void *to, size_t ld,
                              size_t cols, void *stream)
{
    if (is_aligned(l) && dev_is_aligned(ld, { to }))
        DEV_BY_TYPE(type, T,
                    (launch_columns<T, 8>(l, sums, to, ld, cols, stream)));
    else
        DEV_BY_TYPE(type, T,
                    (launch_columns<T, 1>(l, sums, to, ld, cols, stream)));
}

void dsf_gpu_row_losses(const int32_t *targets,
                        const struct dsflow_head_stats *stats, unsigned parts,
                        struct dsflow_head_stats *sums, size_t rows,
                        double *loss, double *losses, void *stream)
{
    dev_launch(row_losses, dev_div_up(rows, THREADS), THREADS, 0, stream,
               targets, stats, parts, sums, losses, (unsigned)rows);
    add_up(loss, losses, rows, stream);
}
