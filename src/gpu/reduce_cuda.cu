/* reduce_cuda.cu - what several buffers have, added up in the tree of pairs
 * (tasks/args.h): gradients of groups, and of ranks whose memory is read in
 * place. And the task that only waits for others. */
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

struct terms {
    const float *of[MOST_TERMS];
};

/* The sum of terms 0, 1, … as they come: tree[b] is that of 2^b which follow each
 * other, where bit b of the number of terms so far is set. LEVELS: with more than
 * the bits of n, all indices are known to the compiler. */
template <int V, int LEVELS>
DEV void sum_at(float *out, const terms &t, unsigned n, size_t i)
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
                    sum[k] = __fadd_rn(tree[b][k], sum[k]);
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
                sum[k] = begun ? __fadd_rn(tree[b][k], sum[k]) : tree[b][k];
        begun = begun || has;
    }
    dev_store_all(out + i, sum);
}

template <int V, int LEVELS>
__global__ void __launch_bounds__(DEV_EACH_THREADS)
    sum_terms(float *out, terms t, unsigned n, size_t elems)
{
    dev_each<V>(elems, [&](size_t i, auto width) {
        sum_at<decltype(width)::N, LEVELS>(out, t, n, i);
    });
}

template <int V>
void launch(float *out, const terms &t, unsigned n, size_t elems, void *stream)
{
    const unsigned grid = dev_each_grid(elems, V);

    if (n <= 3)
        dev_launch((sum_terms<V, 2>), grid, DEV_EACH_THREADS, 0, stream, out, t,
                   n, elems);
    else if (n <= 15)
        dev_launch((sum_terms<V, 4>), grid, DEV_EACH_THREADS, 0, stream, out, t,
                   n, elems);
    else
        dev_launch((sum_terms<V, 8>), grid, DEV_EACH_THREADS, 0, stream, out, t,
                   n, elems);
}

/* Term `i` of a call: what stands in port 0 is number `self` of them, where it has
 * contents. */
const float *term(const struct dsflow_call *call, unsigned i)
{
    const dsf_sum_args *a = (const dsf_sum_args *)call->args;
    const bool has_own = !(call->fresh & 1);

    if (has_own && (int64_t)i == a->self)
        return (const float *)call->bufs[0].ptr + a->at;
    i += !has_own || (int64_t)i < a->self;
    return (const float *)call->bufs[i].ptr + a->from;
}

/* The sum of `n` of what of(0), of(1), … point to. */
template <class Of>
void add_up(float *out, Of of, unsigned n, size_t elems, void *stream)
{
    bool aligned = dev_all_aligned({ out });
    terms t = {};

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
void add_slice(const struct dsflow_call *call, unsigned n, size_t i,
               size_t elems, void *stream)
{
    const dsf_sum_args *a = (const dsf_sum_args *)call->args;
    float *into = (float *)call->bufs[0].ptr + a->at + i;
    float *sums = (float *)call->scratch;
    const auto whole = [&](unsigned k) { return term(call, k) + i; };
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
        add_slice(call, n, i, elems - i < step ? elems - i : step, stream);
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
