/* dev_logits.h - rows of logits: what a block reads of one before it begins,
 * numbers of it some ahead, exponentials, and what all parts of a vocabulary
 * say of it together. */
#ifndef DSF_GPU_DEV_LOGITS_H
#define DSF_GPU_DEV_LOGITS_H

#include "gpu/dev_sum.h"
#include "gpu/kernels.h"

#include <type_traits>

namespace {

enum {
    THREADS = 256,
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

inline bool is_aligned(const struct dsf_gpu_logits *l)
{
    return dev_is_aligned(l->ld, { l->logits });
}

} // namespace

#endif
