/* muon_cuda.cu - what Muon does number by number before and behind the products
 * that make a matrix orthogonal (codelets/muon.c). */
#include "gpu/dev_bits.h"
#include "gpu/dev_each.h"
#include "gpu/dev_sum.h"
#include "gpu/muon_kernels.h"

#include "tasks/args.h"

namespace {

enum { CONTROL, GRAD, PARAM, M, V, COPY };
enum {
    WIDE = 8,     /* numbers at a time */
    BLOCKS = 256, /* of partial sums, at most */
    LEAST = 4096  /* numbers of each, if there are as many */
};
static_assert((int)BLOCKS <= (int)DEV_EACH_THREADS, "a thread for each part");
static_assert(LEAST % WIDE == 0, "parts begin at 16 bytes");

/* What a block reads of the control in main memory, once. `s`: shared. */
struct facts {
    double lr;
    float scale;
    bool skip;
};
DEV struct facts facts_of(const struct dsflow_control *control, facts *s)
{
    if (threadIdx.x == 0)
        *s = { control->lr, (float)control->scale, control->skip != 0 };
    __syncthreads();
    return *s;
}

/* m = the mean of gradients, of which `keep` stays; x = what is to become
 * orthogonal. */
template <class G> struct mixing {
    const G *g;
    float *m, *x;
    float keep, rest;
    bool nesterov, skip;

    template <int N> DEV void at(size_t i) const
    {
        float grad[N], mean[N], mixed[N];

        dev_load_all(g + i, grad);
        dev_load_all(m + i, mean);
        DEV_UNROLL
        for (int k = 0; k < N; k++) {
            const float own = __fmul_rn(rest, grad[k]);

            mean[k] = __fmaf_rn(keep, mean[k], own);
            mixed[k] = nesterov ? __fmaf_rn(keep, mean[k], own) : mean[k];
        }
        dev_store_all(x + i, mixed);
        if (!skip)
            dev_store_all(m + i, mean);
    }
};

template <int N, class G>
__global__ void __launch_bounds__(DEV_EACH_THREADS)
    mix(const struct dsflow_control *control, mixing<G> op, size_t n)
{
    const facts facts = facts_of(control, dev_shared<struct facts>());

    op.rest = __fmul_rn(__fsub_rn(1, op.keep), facts.scale);
    op.skip = facts.skip;
    dev_each<N>(n, [&](size_t i, auto width) {
        op.template at<decltype(width)::N>(i);
    });
}

/* parts[block]: the sum of the squares of its numbers, `each` of them. */
__global__ void __launch_bounds__(DEV_EACH_THREADS)
    squares(const float *x, size_t n, size_t each, double *parts)
{
    const size_t first = blockIdx.x * each;
    const size_t end = first + each < n ? first + each : n;
    size_t i = first + (size_t)threadIdx.x * WIDE;
    double sum = 0;

    for (; i + WIDE <= end; i += (size_t)DEV_EACH_THREADS * WIDE) {
        float v[WIDE];

        dev_load_all(x + i, v);
        DEV_UNROLL
        for (int k = 0; k < WIDE; k++)
            sum = __fma_rn((double)v[k], (double)v[k], sum);
    }
    for (; i < end; i++)
        sum = __fma_rn((double)x[i], (double)x[i], sum);
    sum = dev_row_sum(sum, dev_shared<double>());
    if (threadIdx.x == 0)
        parts[blockIdx.x] = sum;
}

/* Each block adds the parts once more: they are few. */
__global__ void __launch_bounds__(DEV_EACH_THREADS)
    divide(float *x, size_t n, const double *parts, unsigned nparts)
{
    const double part = threadIdx.x < nparts ? parts[threadIdx.x] : 0;
    const double sum = dev_row_sum(part, dev_shared<double>());
    const float by = __fdiv_rn(1, (float)(sqrt(sum) + 1e-7));

    dev_each<WIDE>(n, [&](size_t i, auto width) {
        float v[decltype(width)::N];

        dev_load_all(x + i, v);
        DEV_UNROLL
        for (int k = 0; k < decltype(width)::N; k++)
            v[k] = __fmul_rn(v[k], by);
        dev_store_all(x + i, v);
    });
}

/* poly = a I + b square + c poly, of n x n numbers. */
template <int N> struct polynomial {
    float *poly;
    const float *square;
    unsigned n;
    float a, b, c;

    DEV void at(size_t row, size_t col) const
    {
        const size_t i = row * n + col;
        float p[N], s[N];

        dev_load_all(poly + i, p);
        dev_load_all(square + i, s);
        DEV_UNROLL
        for (int k = 0; k < N; k++)
            p[k] =
                __fmaf_rn(b, s[k], __fmaf_rn(c, p[k], col + k == row ? a : 0));
        dev_store_all(poly + i, p);
    }
};

/* A matrix whose copy is of T, or that has none. */
template <class T> struct moving {
    float *p;
    const float *x;
    T *copy;
    double length;
    float weight_decay, rate, decay;

    template <int N> DEV void at(size_t i) const
    {
        float v[N], by[N];

        dev_load_all(p + i, v);
        dev_load_all(x + i, by);
        DEV_UNROLL
        for (int k = 0; k < N; k++)
            v[k] =
                __fsub_rn(v[k], __fmaf_rn(rate, by[k], __fmul_rn(decay, v[k])));
        dev_store_all(p + i, v);
        if constexpr (!std::is_same<T, float>::value)
            dev_store_half(copy + i, v);
    }
};

template <int N, class T>
__global__ void __launch_bounds__(DEV_EACH_THREADS)
    move(const struct dsflow_control *control, moving<T> op, size_t n)
{
    const facts facts = facts_of(control, dev_shared<struct facts>());

    if (facts.skip)
        return;
    op.rate = (float)__dmul_rn(facts.lr, op.length);
    op.decay = (float)__dmul_rn(facts.lr, (double)op.weight_decay);
    dev_each<N>(n, [&](size_t i, auto width) {
        op.template at<decltype(width)::N>(i);
    });
}

const struct dsflow_control *control_of(const struct dsf_gpu_matrix *of)
{
    return (const struct dsflow_control *)of->call->bufs[CONTROL].ptr;
}

const dsf_update_args *args_of(const struct dsf_gpu_matrix *of)
{
    return (const dsf_update_args *)of->call->args;
}

template <class G>
void launch_mix(const struct dsf_gpu_matrix *of, float *x, void *stream)
{
    const dsf_update_args *a = args_of(of);
    mixing<G> op = {};

    op.g = (const G *)of->call->bufs[GRAD].ptr + a->at.grad_at + of->at;
    op.m = (float *)of->call->bufs[M].ptr + of->at;
    op.x = x;
    op.keep = a->momentum;
    op.nesterov = a->nesterov;
    if (dev_all_aligned({ op.g, op.m }))
        dev_launch((mix<WIDE, G>), dev_each_grid(of->numbers, WIDE),
                   DEV_EACH_THREADS, sizeof(facts), stream, control_of(of), op,
                   of->numbers);
    else
        dev_launch((mix<1, G>), dev_each_grid(of->numbers, 1), DEV_EACH_THREADS,
                   sizeof(facts), stream, control_of(of), op, of->numbers);
}

template <class T>
void launch_move(const struct dsf_gpu_matrix *of, const float *x, void *stream)
{
    const dsf_update_args *a = args_of(of);
    moving<T> op = {};

    op.p = (float *)of->call->bufs[PARAM].ptr + a->at.param_at + of->at;
    op.x = x;
    if (a->copies)
        op.copy = (T *)of->call->bufs[COPY].ptr + a->copy_at + of->at;
    op.length = of->length;
    op.weight_decay = of->decays ? a->weight_decay : 0;
    if (dev_all_aligned({ op.p, op.copy }))
        dev_launch((move<WIDE, T>), dev_each_grid(of->numbers, WIDE),
                   DEV_EACH_THREADS, sizeof(facts), stream, control_of(of), op,
                   of->numbers);
    else
        dev_launch((move<1, T>), dev_each_grid(of->numbers, 1),
                   DEV_EACH_THREADS, sizeof(facts), stream, control_of(of), op,
                   of->numbers);
}

template <int N>
void launch_polynomial(float *poly, const float *square, size_t n, float a,
                       float b, float c, void *stream)
{
    const polynomial<N> op = { poly, square, (unsigned)n, a, b, c };

    launch_each<N>(op, n, n, stream);
}

/* Numbers of each partial sum. */
size_t each_of(size_t n)
{
    const size_t even = dev_div_up(dev_div_up(n, BLOCKS), WIDE) * (size_t)WIDE;
    const size_t least = LEAST;

    return even > least ? even : least;
}

} // namespace

void dsf_gpu_muon_mix(const struct dsf_gpu_matrix *of, float *x, void *stream)
{
    DEV_BY_TYPE(of->call->bufs[GRAD].dtype, G, (launch_mix<G>(of, x, stream)));
}

size_t dsf_gpu_muon_sums(size_t n)
{
    return dev_div_up(n, each_of(n)) * sizeof(double);
}

void dsf_gpu_muon_normalize(float *x, size_t n, void *sums, void *stream)
{
    const unsigned parts = dev_div_up(n, each_of(n));
    const size_t shared = DEV_EACH_THREADS / 32 * sizeof(double);

    dev_launch(squares, parts, DEV_EACH_THREADS, shared, stream, x, n,
               each_of(n), (double *)sums);
    dev_launch(divide, dev_each_grid(n, WIDE), DEV_EACH_THREADS, shared, stream,
               x, n, (const double *)sums, parts);
}

void dsf_gpu_muon_polynomial(float *poly, const float *square, size_t n,
                             float a, float b, float c, void *stream)
{
    if (n % WIDE == 0)
        launch_polynomial<WIDE>(poly, square, n, a, b, c, stream);
    else
        launch_polynomial<1>(poly, square, n, a, b, c, stream);
}

void dsf_gpu_muon_move(const struct dsf_gpu_matrix *of, const float *x,
                       void *stream)
{
    const enum dsflow_dtype copy =
        args_of(of)->copies ? of->call->bufs[COPY].dtype : DSFLOW_FP32;

    DEV_BY_TYPE(copy, T, (launch_move<T>(of, x, stream)));
}
