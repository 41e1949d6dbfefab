/* loss_columns_cuda.cu - the head in columns: what some columns of logits say
 * of each row, their gradients, and the losses of rows. */
#include "gpu/dev_logits.h"

namespace {

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
                v[i] =
                    (float)((exp(logit - all.top) / all.sum - 1) * facts.scale);
        }
        dev_store_all(to + c, v);
    }
    clear(to, words_end<V>(l.vocab), cols);
}

/* The loss of each row, a thread for each; sums: what all parts say of it,
 * which for one part may be that itself. */
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
    dsf_gpu_sum_losses(loss, losses, rows, stream);
}
