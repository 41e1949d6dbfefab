/* loss_cuda.cu - cross entropy in place: logits become the gradients of them. A
 * block for each row; sums are of fp32 in a thread, and of fp64 beyond. What is
 * done for each logit is fp32, and few instructions, as memory is fast: what
 * needs fp64 is computed before. */
#include "gpu/dev_logits.h"

namespace {

enum {
    BLOCK = 2048, /* columns, as DSF_HEAD_COLUMNS */
    /* Of a row of the whole vocabulary: so few rows at once that most of them
     * are still in the cache when they are read again. */
    ROW_THREADS = 768
};

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

} // namespace

void dsf_gpu_sum_losses(double *loss, const double *losses, size_t rows,
                        void *stream)
{
    dev_launch(sum_losses, 1, 1024, 32 * sizeof(double), stream, loss, losses,
               (unsigned)rows);
}

void dsf_gpu_cross_entropy(const struct dsf_gpu_logits *l, double *loss,
                           double *losses, void *stream)
{
    if (is_aligned(l))
        DEV_BY_TYPE(l->type, T, (launch_entropy<T, 8>(l, losses, stream)));
    else
        DEV_BY_TYPE(l->type, T, (launch_entropy<T, 1>(l, losses, stream)));
    dsf_gpu_sum_losses(loss, losses, l->rows, stream);
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
    dsf_gpu_sum_losses(loss, losses, l->rows, stream);
}
