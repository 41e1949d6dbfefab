/* lamb_cuda.cu - LAMB: moments and what each block adds to the norms of
 * tensors, then parameters, with the bits of codelets/lamb.c; and such norms of
 * 1-bit LAMB. few_cuda.cu has the ratios. */
#include "gpu/dev_squares.h"
#include "gpu/gpu.h"

#include "tasks/args.h"

namespace {

enum { CONTROL, GRAD, RATIO = GRAD, PARAM, M, V, SUMS, COPY = SUMS };
enum {
    WARPS = 8, /* of a block of threads; each has a block of the unit */
    OWN = SQUARES_OWN
};
const int64_t AT_ONCE = 2048; /* as in codelets/lamb.c */

struct tensor {
    int64_t at, end;
    int number;
    float decay;
};
struct tensors {
    tensor v[DSFLOW_MAX_TENSORS];
    int n;
};

tensors tensors_of(const dsf_update_args *a)
{
    tensors t = {};

    t.n = a->at.ntensors;
    for (int i = 0; i < t.n; i++) {
        const struct dsflow_tensor &from = a->at.tensors[i];

        t.v[i] = { from.at, from.at + from.rows * from.cols, from.number,
                   from.decays ? a->weight_decay : 0 };
    }
    return t;
}

/* Filled from the arguments, then by `begin` from the control of the step. */
struct lamb {
    float beta1, beta2, rest1, rest2, eps;
    int uncorrected;
    float scale, rate1, root2;

    DEV void begin(const struct dsflow_control &c)
    {
        scale = (float)c.scale;
        rate1 = uncorrected ? 1 : (float)(1 / c.correction1);
        root2 = uncorrected ? 1 : (float)__dsqrt_rn(c.correction2);
    }
    DEV void moments(float g, float &m, float &v) const
    {
        const float grad = __fmul_rn(g, scale);

        m = __fmaf_rn(beta1, m, __fmul_rn(rest1, grad));
        v = __fmaf_rn(beta2, v, __fmul_rn(__fmul_rn(rest2, grad), grad));
    }
    DEV float step(float decay, float p, float m, float v) const
    {
        const float root = __fadd_rn(__fdiv_rn(__fsqrt_rn(v), root2), eps);

        return __fmaf_rn(p, decay,
                         v == 0 ? 0 : __fmul_rn(__fdiv_rn(m, root), rate1));
    }
};

lamb rule_of(const dsf_update_args *a)
{
    lamb rule = {};

    rule.beta1 = (float)a->beta1;
    rule.beta2 = (float)a->beta2;
    rule.rest1 = (float)(1 - a->beta1);
    rule.rest2 = (float)(1 - a->beta2);
    rule.eps = a->eps;
    rule.uncorrected = a->uncorrected;
    return rule;
}

/* A block of threads reads the control once: it is in main memory. */
struct begun {
    lamb rule;
    bool skip;
    float lr[DSFLOW_MAX_TENSORS]; /* of each tensor, where there are ratios */
};
DEV const begun &begin(lamb rule, const struct dsflow_control *control,
                       const double *ratio, const tensors &all)
{
    begun *shared = dev_shared<begun>();

    if (threadIdx.x == 0) {
        rule.begin(*control);
        shared->rule = rule;
        shared->skip = control->skip != 0;
        for (int i = 0; i < all.n; i++)
            shared->lr[i] = (float)__dmul_rn(
                control->lr, ratio == nullptr ? 1 : ratio[all.v[i].number]);
    }
    __syncthreads();
    return *shared;
}

/* --- blocks --------------------------------------------------------------- */

/* What a warp finds out of a block of the unit: KIND has PER_TENSOR sums for
 * each tensor, among `width` for the block. Those of a tensor are of a type
 * `sums`, which begins as `begin` says, gets what `piece` adds of some numbers
 * that follow each other, and is put where it belongs by `end`. */
struct blocks {
    double *out;
    int64_t block, blocks, width;
    tensors of;
};

blocks blocks_of(const struct dsflow_call *call, const dsf_update_args *a)
{
    return { (double *)call->bufs[SUMS].ptr, a->at.block,
             a->at.elems / a->at.block, a->width, tensors_of(a) };
}

template <class KIND>
DEV void block_of(const KIND &kind, const lamb &rule, int64_t b)
{
    const blocks &all = kind.all;
    double *out = all.out + b * all.width;

    if (threadIdx.x % 32 == 0)
        for (int64_t i = 0; i < all.width; i++)
            out[i] = 0;
    for (int i = 0; i < all.of.n; i++) {
        const tensor &t = all.of.v[i];
        const int64_t last = (b + 1) * all.block;
        const int64_t end = t.end < last ? t.end : last;
        double *own = out + (int64_t)KIND::PER_TENSOR * t.number;
        typename KIND::sums s = kind.begin(own);

        for (int64_t from = t.at > b * all.block ? t.at : b * all.block;
             from < end; from += AT_ONCE)
            kind.piece(rule, t.decay, from,
                       end - from < AT_ONCE ? end - from : AT_ONCE, s);
        kind.end(own, s);
    }
}

/* --- moments -------------------------------------------------------------- */

template <class G> struct unit {
    enum { PER_TENSOR = 2 };
    blocks all;
    const float *p;
    const G *g;
    float *m, *v;

    struct sums {
        double p2, u2;
    };
    DEV sums begin(const double *) const
    {
        return { 0, 0 };
    }

    /* The four numbers of this lane from `i` on, of which there are `n`. */
    DEV void moments_at(const lamb &rule, float decay, int64_t i, int64_t n,
                        double (&p2)[OWN], double (&u2)[OWN]) const
    {
        float param[OWN] = {}, u[OWN] = {};

        DEV_UNROLL
        for (int k = 0; k < OWN; k++)
            if (k < n) {
                param[k] = p[i + k];
                rule.moments(dev_load(g + i + k), m[i + k], v[i + k]);
                u[k] = rule.step(decay, param[k], m[i + k], v[i + k]);
            }
        dev_squares_add(param, p2);
        dev_squares_add(u, u2);
    }

    /* Numbers from .. from + n, by one warp. */
    DEV void piece(const lamb &rule, float decay, int64_t from, int64_t n,
                   sums &s) const
    {
        const int64_t part = (int64_t)dev_squares_part((size_t)n);
        const int64_t at = (int64_t)dev_squares_from((size_t)part);
        const int64_t end = at + part < n ? at + part : n;
        double ps[OWN] = {}, us[OWN] = {};

        for (int64_t i = at + threadIdx.x % 4 * OWN; i < end; i += SQUARES_ROW)
            moments_at(rule, decay, from + i, end - i, ps, us);
        s.p2 = __dadd_rn(s.p2, dev_squares_all(ps));
        s.u2 = __dadd_rn(s.u2, dev_squares_all(us));
    }

    DEV void end(double *own, const sums &s) const
    {
        if (threadIdx.x % 32 != 0)
            return;
        own[0] = __dadd_rn(own[0], s.p2);
        own[1] = __dadd_rn(own[1], s.u2);
    }
};

template <class G>
__global__ void __launch_bounds__(32 * WARPS)
    moments(lamb rule, const struct dsflow_control *control, unit<G> u)
{
    const int64_t b = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    const begun &shared = begin(rule, control, nullptr, u.all.of);

    if (!shared.skip && b < u.all.blocks) /* a whole warp */
        block_of(u, shared.rule, b);
}

template <class G>
void launch_moments(const struct dsflow_call *call, void *stream)
{
    const dsf_update_args *a = (const dsf_update_args *)call->args;
    const unit<G> u = { blocks_of(call, a),
                        (const float *)call->bufs[PARAM].ptr + a->at.param_at,
                        (const G *)call->bufs[GRAD].ptr + a->at.grad_at,
                        (float *)call->bufs[M].ptr + a->m_at,
                        (float *)call->bufs[V].ptr };

    if (u.all.blocks > 0)
        dev_launch((moments<G>), dev_div_up((size_t)u.all.blocks, WARPS),
                   32 * WARPS, sizeof(begun), stream, rule_of(a),
                   (const struct dsflow_control *)call->bufs[CONTROL].ptr, u);
}

void moments_run(const struct dsflow_call *call, void *stream)
{
    DEV_BY_TYPE(call->bufs[GRAD].dtype, G, (launch_moments<G>(call, stream)));
}

/* --- norms of 1-bit LAMB -------------------------------------------------- */

/* codelets/onebit_lamb.c, lamb_norms: of each block and tensor the squares of
 * the step without its decay and with it, and the largest ratio of two roots.
 */
struct weighed {
    enum { BARE, WHOLE, FACTOR, PER_TENSOR = 4 };
    blocks all;
    const float *p, *m, *v, *fresh;
    float eps;

    struct sums {
        double bare, whole;
        float most;
    };
    DEV sums begin(const double *own) const
    {
        const bool adds = threadIdx.x % 32 == 0;

        return { adds ? own[BARE] : 0, adds ? own[WHOLE] : 0, 0 };
    }

    /* What is no number stays so. */
    static DEV float larger(float a, float b)
    {
        return a != a || a > b ? a : b;
    }
    static DEV float largest(float a)
    {
        for (unsigned apart = 16; apart > 0; apart /= 2)
            a = larger(a, __shfl_xor_sync(~0u, a, apart));
        return a;
    }

    /* The four numbers of this lane from `i` on, of which there are `n`. */
    DEV void numbers(const lamb &rule, float decay, int64_t i, int64_t n,
                     double (&b2)[OWN], double (&u2)[OWN], float &most) const
    {
        float bare[OWN] = {}, u[OWN] = {};

        DEV_UNROLL
        for (int k = 0; k < OWN; k++)
            if (k < n) {
                const float root = __fadd_rn(__fsqrt_rn(v[i + k]), eps);

                bare[k] = rule.step(0, p[i + k], m[i + k], v[i + k]);
                u[k] = rule.step(decay, p[i + k], m[i + k], v[i + k]);
                most = larger(
                    most,
                    __fdiv_rn(root, __fadd_rn(__fsqrt_rn(fresh[i + k]), eps)));
            }
        dev_squares_add(bare, b2);
        dev_squares_add(u, u2);
    }

    /* Numbers from .. from + n, by one warp. */
    DEV void piece(const lamb &rule, float decay, int64_t from, int64_t n,
                   sums &s) const
    {
        const int64_t part = (int64_t)dev_squares_part((size_t)n);
        const int64_t at = (int64_t)dev_squares_from((size_t)part);
        const int64_t end = at + part < n ? at + part : n;
        double bs[OWN] = {}, us[OWN] = {};

        for (int64_t i = at + threadIdx.x % 4 * OWN; i < end; i += SQUARES_ROW)
            numbers(rule, decay, from + i, end - i, bs, us, s.most);
        s.bare = __dadd_rn(s.bare, dev_squares_all(bs));
        s.whole = __dadd_rn(s.whole, dev_squares_all(us));
    }

    DEV void end(double *own, const sums &s) const
    {
        const float most = largest(s.most);

        if (threadIdx.x % 32 != 0)
            return;
        own[BARE] = s.bare;
        own[WHOLE] = s.whole;
        own[FACTOR] = (double)larger((float)own[FACTOR], most);
    }
};

__global__ void __launch_bounds__(32 * WARPS)
    weigh(lamb rule, const struct dsflow_control *control, weighed w)
{
    const int64_t b = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    int *skip = dev_shared<int>();

    if (threadIdx.x == 0)
        *skip = control->skip != 0;
    __syncthreads();
    if (*skip == 0 && b < w.all.blocks) /* a whole warp */
        block_of(w, rule, b);
}

void norms_run(const struct dsflow_call *call, void *stream)
{
    enum { FRESH = 1 };
    const dsf_weigh_args *a = (const dsf_weigh_args *)call->args;
    lamb rule = {};
    weighed w = {};

    rule.eps = a->of.eps;
    rule.rate1 = rule.root2 = 1;
    w.p = (const float *)call->bufs[PARAM].ptr + a->of.at.param_at;
    w.m = (const float *)call->bufs[M].ptr + a->of.m_at;
    w.v = (const float *)call->bufs[V].ptr + a->v_at;
    w.fresh = (const float *)call->bufs[FRESH].ptr + a->of.at.grad_at;
    w.eps = a->of.eps;
    w.all = blocks_of(call, &a->of);
    if (w.all.blocks > 0)
        dev_launch(weigh, dev_div_up((size_t)w.all.blocks, WARPS), 32 * WARPS,
                   sizeof(int), stream, rule,
                   (const struct dsflow_control *)call->bufs[CONTROL].ptr, w);
}

/* --- parameters ----------------------------------------------------------- */

template <class T> struct shard {
    float *p;
    const float *m, *v;
    T *copy;
    size_t n;
    tensors of;

    DEV int tensor_at(int64_t i) const
    {
        int t = 0;

        while (t < of.n && of.v[t].end <= i)
            t++;
        return t < of.n && of.v[t].at <= i ? t : -1;
    }

    template <int V_> DEV void numbers(const begun &with, int t, size_t i) const
    {
        float param[V_], m1[V_], v1[V_];

        dev_load_all(p + i, param);
        dev_load_all(m + i, m1);
        dev_load_all(v + i, v1);
        DEV_UNROLL
        for (int k = 0; k < V_; k++)
            param[k] =
                __fmaf_rn(-with.lr[t],
                          with.rule.step(of.v[t].decay, param[k], m1[k], v1[k]),
                          param[k]);
        dev_store_all(p + i, param);
        if constexpr (!std::is_same<T, float>::value)
            dev_store_half(copy + i, param);
    }

    /* V_ numbers, which may be of several tensors, or of none. */
    template <int V_> DEV void update_at(const begun &with, size_t i) const
    {
        const int first = tensor_at((int64_t)i);

        if (first >= 0 && (int64_t)i + V_ <= of.v[first].end) {
            numbers<V_>(with, first, i);
            return;
        }
        if constexpr (V_ > 1)
            for (int k = 0; k < V_; k++)
                update_at<1>(with, i + k);
    }
};

template <int V_, class T>
__global__ void __launch_bounds__(DEV_EACH_THREADS)
    update(lamb rule, const struct dsflow_control *control, const double *ratio,
           shard<T> s)
{
    const begun &shared = begin(rule, control, ratio, s.of);

    if (shared.skip)
        return;
    dev_each<V_>(s.n, [&](size_t i, auto width) {
        s.template update_at<decltype(width)::N>(shared, i);
    });
}

template <class T>
void launch_update(const struct dsflow_call *call, void *stream)
{
    const dsf_update_args *a = (const dsf_update_args *)call->args;
    const auto *control =
        (const struct dsflow_control *)call->bufs[CONTROL].ptr;
    const double *ratio = (const double *)call->bufs[RATIO].ptr;
    const shard<T> s = { (float *)call->bufs[PARAM].ptr + a->at.param_at,
                         (const float *)call->bufs[M].ptr + a->m_at,
                         (const float *)call->bufs[V].ptr,
                         a->copies ? (T *)call->bufs[COPY].ptr + a->copy_at
                                   : nullptr,
                         (size_t)a->at.elems,
                         tensors_of(a) };

    if (s.n == 0)
        return;
    if (dev_all_aligned({ s.p, s.m, s.v, s.copy }))
        dev_launch((update<8, T>), dev_each_grid(s.n, 8), DEV_EACH_THREADS,
                   sizeof(begun), stream, rule_of(a), control, ratio, s);
    else
        dev_launch((update<1, T>), dev_each_grid(s.n, 1), DEV_EACH_THREADS,
                   sizeof(begun), stream, rule_of(a), control, ratio, s);
}

void update_run(const struct dsflow_call *call, void *stream)
{
    const dsf_update_args *a = (const dsf_update_args *)call->args;
    const enum dsflow_dtype copy =
        a->copies ? call->bufs[COPY].dtype : DSFLOW_FP32;

    DEV_BY_TYPE(copy, T, (launch_update<T>(call, stream)));
}

} // namespace

const struct dsf_gpu_side dsf_gpu_side_lamb = { "lamb", update_run, nullptr,
                                                1 };
const struct dsf_gpu_side dsf_gpu_side_lamb_moments = { "lamb_moments",
                                                        moments_run, nullptr,
                                                        1 };
const struct dsf_gpu_side dsf_gpu_side_lamb_norms = { "lamb_norms", norms_run,
                                                      nullptr, 1 };
