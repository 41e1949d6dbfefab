/* reduce_cuda.cu - what several buffers have, added up in the tree of pairs
 * (tasks/args.h): gradients of groups, and of ranks whose memory is read in
 * place; each sum of two is rounded to their type T. And the task that only waits
 * for others. */
#include "gpu/dev_bits.h"
#include "gpu/gpu.h"

#include "tasks/args.h"

namespace {

/* So many are added by one launch: a power of two, for the sums of more than that
 * are added in turn, SLICE numbers of each at a time: few where they are
 * emulated, so that small shards have several slices, too. */
enum { MOST_TERMS = 128 };
#ifdef __CUDACC__
enum { SLICE = 1 << 18 };
#else
enum { SLICE = 16 };
#endif

template <class T> struct terms {
    const T *of[MOST_TERMS];
};

/* As if it were stored between two sums. */
template <class T> DEV float rounded(float v)
{
    return dev_wide(dev_narrow<T>(v));
}

template <int V, class T> DEV void store(T *p, const float (&v)[V])
{
    if constexpr (std::is_same<T, float>::value)
        dev_store_all(p, v);
    else
        dev_store_half(p, v);
}

/* The sum of terms 0, 1, … as they come: tree[b] is that of 2^b which follow each
 * other, where bit b of the number of terms so far is set. LEVELS: with more than
 * the bits of n, all indices are known to the compiler. */
template <int V, int LEVELS, class T>
DEV void sum_at(T *out, const terms<T> &t, unsigned n, size_t i)
{
    float tree[LEVELS][V], sum[V] = {};
    bool begun = false;

    for (unsigned term = 0; term < n; term++) {
        bool done = false;

        dev_load_all(t.of[term] + i, sum);
        DEV_UNROLL
        for (int b = 0; b < LEVELS; b++) {
            const bool adds = term >> b & 1;

            DEV_UNROLL
            for (int k = 0; k < V; k++) {
                if (!done && adds)
                    sum[k] = rounded<T>(__fadd_rn(tree[b][k], sum[k]));
                else if (!done)
                    tree[b][k] = sum[k];
            }
            done = done || !adds;
        }
    }
    DEV_UNROLL
    for (int b = 0; b < LEVELS; b++) {
        const bool has = n >> b & 1;

        DEV_UNROLL
        for (int k = 0; k < V; k++)
            if (has)
                sum[k] = begun ? rounded<T>(__fadd_rn(tree[b][k], sum[k]))
                               : tree[b][k];
        begun = begun || has;
    }
    store(out + i, sum);
}

template <int V, int LEVELS, class T>
__global__ void __launch_bounds__(DEV_EACH_THREADS)
    sum_terms(T *out, terms<T> t, unsigned n, size_t elems)
{
    dev_each<V>(elems, [&](size_t i, auto width) {
        sum_at<decltype(width)::N, LEVELS>(out, t, n, i);
    });
}

template <int V, class T>
void launch(T *out, const terms<T> &t, unsigned n, size_t elems, void *stream)
{
    const unsigned grid = dev_each_grid(elems, V);

    if (n <= 3)
        dev_launch((sum_terms<V, 2, T>), grid, DEV_EACH_THREADS, 0, stream, out, t,
                   n, elems);
    else if (n <= 15)
        dev_launch((sum_terms<V, 4, T>), grid, DEV_EACH_THREADS, 0, stream, out, t,
                   n, elems);
    else
        dev_launch((sum_terms<V, 8, T>), grid, DEV_EACH_THREADS, 0, stream, out, t,
                   n, elems);
}

/* Term `i` of a call: what stands in port 0 is number `self` of them, where it has
 * contents. */
template <class T> const T *term(const struct dsflow_call *call, unsigned i)
{
    const dsf_sum_args *a = (const dsf_sum_args *)call->args;
    const bool has_own = !(call->fresh & 1);

    if (has_own && (int64_t)i == a->self)
        return (const T *)call->bufs[0].ptr + a->at;
    i += !has_own || (int64_t)i < a->self;
    /* dsf_sum_from: the module has nothing of the program. */
    return (const T *)call->bufs[i].ptr +
           (call->bufs[i].elems == a->elems ? 0 : a->from);
}

/* The sum of `n` of what of(0), of(1), … point to. */
template <class T, class Of>
void add_up(T *out, Of of, unsigned n, size_t elems, void *stream)
{
    bool aligned = dev_all_aligned({ out });
    terms<T> t = {};

    for (unsigned i = 0; i < n; i++) {
        t.of[i] = of(i);
        aligned = aligned && dev_all_aligned({ t.of[i] });
    }
    if (aligned)
        launch<8>(out, t, n, elems, stream);
    else
        launch<1>(out, t, n, elems, stream);
}

unsigned fewer(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* A slice from number `i` on. */
template <class T>
void add_slice(const struct dsflow_call *call, unsigned n, size_t i,
               size_t elems, void *stream)
{
    const dsf_sum_args *a = (const dsf_sum_args *)call->args;
    T *into = (T *)call->bufs[0].ptr + a->at + i;
    T *sums = (T *)call->scratch;
    const auto whole = [&](unsigned k) { return term<T>(call, k) + i; };
    const auto some = [&](unsigned k) { return sums + (size_t)k * SLICE; };

    if (n <= MOST_TERMS) {
        add_up(into, whole, n, elems, stream);
        return;
    }
    for (unsigned k = 0; k < n; k += MOST_TERMS)
        add_up(sums + (size_t)(k / MOST_TERMS) * SLICE,
               [&](unsigned j) { return whole(k + j); },
               fewer(n - k, MOST_TERMS), elems, stream);
    add_up(into, some, dev_div_up(n, MOST_TERMS), elems, stream);
}

void run(const struct dsflow_call *call, void *stream)
{
    const dsf_sum_args *a = (const dsf_sum_args *)call->args;
    const unsigned n = call->nbufs - 1 + !(call->fresh & 1);
    const size_t elems = (size_t)a->elems;
    const size_t step = n <= MOST_TERMS ? elems : (size_t)SLICE;

    for (size_t i = 0; i < elems; i += step)
        DEV_BY_TYPE(call->bufs[0].dtype, T,
                    (add_slice<T>(call, n, i,
                                  elems - i < step ? elems - i : step,
                                  stream)));
}

size_t scratch(const struct dsflow_case *c)
{
    return c->n <= MOST_TERMS
               ? 0
               : (size_t)dev_div_up(c->n, MOST_TERMS) * SLICE * sizeof(float);
}

} // namespace

const struct dsf_gpu_side dsf_gpu_side_add = { "add", run, scratch, 1 };
const struct dsf_gpu_side dsf_gpu_side_reduce = { "reduce", run, scratch, 1 };

/* Nothing: its data orders the tasks. */
static void wait(const struct dsflow_call *, void *)
{
}
const struct dsf_gpu_side dsf_gpu_side_wait = { "wait", wait, nullptr, 1 };
