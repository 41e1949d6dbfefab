/* update_cuda.cu - the optimizers: one pass over a shard of parameters, with
 * the bits of kernels/loops_update.h. Each product is rounded where that file
 * says so: the functions that are called for it are those that nvcc does not
 * join. */
#include "gpu/dev_bits.h"
#include "gpu/gpu.h"
#include "gpu/muon_kernels.h"

#include "tasks/args.h"

namespace {

/* What a shard is of: gradients of G, a copy of T. States that the rule does not
 * keep are NULL; so is the copy, where there is none. */
template <class T, class G> struct shard {
    float *p;
    const G *g;
    float *m, *v;
    T *copy;
    size_t decay, n; /* weight decay is for the first `decay` */
};

/* A rule is filled from the arguments of the task, then by `begin` from the
 * control of the step. `number` is what becomes of one number; `decays`: with
 * decay. */
struct adam {
    enum { STATES = 2 };
    float beta1, beta2, rest1, rest2, eps, weight_decay;
    int decoupled, uncorrected;
    float scale, lr1, root2, keep, l2;

    DEV void begin(const struct dsflow_control &c)
    {
        const float decay = (float)(c.lr * (double)weight_decay);

        scale = (float)c.scale;
        lr1 = (float)(uncorrected ? c.lr : c.lr / c.correction1);
        root2 = uncorrected ? 1 : (float)__dsqrt_rn(c.correction2);
        keep = decoupled ? __fsub_rn(1, decay) : 1;
        l2 = decoupled ? 0 : weight_decay;
    }
    DEV void number(bool decays, float &p, float g, float &m, float &v) const
    {
        const float grad = __fmaf_rn(p, decays ? l2 : 0, __fmul_rn(g, scale));
        float root;

        m = __fmaf_rn(beta1, m, __fmul_rn(rest1, grad));
        v = __fmaf_rn(beta2, v, __fmul_rn(__fmul_rn(rest2, grad), grad));
        root = __fadd_rn(__fdiv_rn(__fsqrt_rn(v), root2), eps);
        p = __fmaf_rn(p, decays ? keep : 1,
                      -__fmul_rn(lr1, __fdiv_rn(m, root)));
    }
};

/* What is no matrix of a layer, in a task of muon: AdamW, with a rate of its own.
 */
struct muon_others : adam {
    double rate;

    DEV void begin(const struct dsflow_control &c)
    {
        struct dsflow_control own = c;

        own.lr = __dmul_rn(c.lr, rate);
        adam::begin(own);
    }
};

template <bool MOMENTUM> struct sgd {
    enum { STATES = MOMENTUM ? 1 : 0 };
    float momentum, weight_decay;
    int nesterov;
    float scale, lr;
    int first;

    DEV void begin(const struct dsflow_control &c)
    {
        scale = (float)c.scale;
        lr = (float)c.lr;
        first = c.step == 1;
    }
    DEV void number(bool decays, float &p, float g, float &m, float &) const
    {
        float grad =
            __fmaf_rn(p, decays ? weight_decay : 0, __fmul_rn(g, scale));

        if (MOMENTUM) {
            m = first ? grad : __fmaf_rn(momentum, m, grad);
            grad = nesterov ? __fmaf_rn(momentum, m, grad) : m;
        }
        p = __fmaf_rn(-lr, grad, p);
    }
};

struct lion {
    enum { STATES = 1 };
    float beta1, beta2, rest1, rest2, weight_decay;
    float scale, lr, keep;

    DEV void begin(const struct dsflow_control &c)
    {
        scale = (float)c.scale;
        lr = (float)c.lr;
        keep = __fsub_rn(1, (float)(c.lr * (double)weight_decay));
    }
    DEV void number(bool decays, float &p, float g, float &m, float &) const
    {
        const float grad = __fmul_rn(g, scale);
        const float c = __fmaf_rn(beta1, m, __fmul_rn(rest1, grad));
        const float sign = c > 0 ? 1 : c < 0 ? -1 : c; /* 0 and NaN stay */

        p = __fmaf_rn(p, decays ? keep : 1, -__fmul_rn(lr, sign));
        m = __fmaf_rn(beta2, m, __fmul_rn(rest2, grad));
    }
};

struct adagrad {
    enum { STATES = 1 };
    float eps, weight_decay;
    float scale, lr;

    DEV void begin(const struct dsflow_control &c)
    {
        scale = (float)c.scale;
        lr = (float)c.lr;
    }
    DEV void number(bool decays, float &p, float g, float &sum, float &) const
    {
        const float grad =
            __fmaf_rn(p, decays ? weight_decay : 0, __fmul_rn(g, scale));

        sum = __fmaf_rn(grad, grad, sum);
        p = __fmaf_rn(-lr, __fdiv_rn(grad, __fadd_rn(__fsqrt_rn(sum), eps)), p);
    }
};

template <int V, class Rule, class T, class G>
DEV void update_at(const Rule &rule, const shard<T, G> &s, size_t i)
{
    float p[V], g[V], m[V] = {}, v[V] = {};

    dev_load_all(s.p + i, p);
    dev_load_all(s.g + i, g);
    if (Rule::STATES > 0)
        dev_load_all(s.m + i, m);
    if (Rule::STATES > 1)
        dev_load_all(s.v + i, v);
    DEV_UNROLL
    for (int k = 0; k < V; k++)
        rule.number(i + k < s.decay, p[k], g[k], m[k], v[k]);
    dev_store_all(s.p + i, p);
    if (Rule::STATES > 0)
        dev_store_all(s.m + i, m);
    if (Rule::STATES > 1)
        dev_store_all(s.v + i, v);
    if constexpr (!std::is_same<T, float>::value)
        dev_store_half(s.copy + i, p);
}

/* A block reads the control once: it is in main memory. */
template <int V, class Rule, class T, class G>
__global__ void __launch_bounds__(DEV_EACH_THREADS)
    update(Rule rule, const struct dsflow_control *control, shard<T, G> s)
{
    struct begun {
        Rule rule;
        bool skip;
    };
    begun *shared = dev_shared<begun>();

    if (threadIdx.x == 0) {
        rule.begin(*control);
        shared->rule = rule;
        shared->skip = control->skip != 0;
    }
    __syncthreads();
    if (shared->skip)
        return;
    rule = shared->rule;
    dev_each<V>(s.n, [&](size_t i, auto width) {
        update_at<decltype(width)::N>(rule, s, i);
    });
}

enum { CONTROL, GRAD, PARAM, M, V };

template <class T, class G>
shard<T, G> shard_of(const struct dsflow_call *call)
{
    const dsf_update_args *a = (const dsf_update_args *)call->args;
    const unsigned states = call->nbufs - (a->copies ? 1 : 0);
    const auto floats = [&](unsigned port) {
        return port < states ? (float *)call->bufs[port].ptr : nullptr;
    };
    T *copy = (T *)call->bufs[call->nbufs - 1].ptr + a->copy_at;

    return { floats(PARAM) + a->at.param_at,
             (const G *)call->bufs[GRAD].ptr + a->at.grad_at,
             floats(M) + a->m_at,
             floats(V),
             a->copies ? copy : nullptr,
             (size_t)a->at.decay,
             (size_t)a->at.elems };
}

template <class Rule, class T, class G>
void launch_on(const shard<T, G> &s, const struct dsflow_call *call,
               const Rule &rule, void *stream)
{
    const auto *control =
        (const struct dsflow_control *)call->bufs[CONTROL].ptr;
    const size_t shared = sizeof(Rule) + sizeof(float);

    if (s.n == 0)
        return;
    if (dev_all_aligned({ s.p, s.g, s.m, s.v, s.copy }))
        dev_launch((update<8, Rule, T, G>), dev_each_grid(s.n, 8),
                   DEV_EACH_THREADS, shared, stream, rule, control, s);
    else
        dev_launch((update<1, Rule, T, G>), dev_each_grid(s.n, 1),
                   DEV_EACH_THREADS, shared, stream, rule, control, s);
}

template <class Rule, class T, class G>
void launch(const struct dsflow_call *call, const Rule &rule, void *stream)
{
    launch_on(shard_of<T, G>(call), call, rule, stream);
}

/* The type of the copy, if there is one. */
enum dsflow_dtype copy_of(const struct dsflow_call *call)
{
    const dsf_update_args *a = (const dsf_update_args *)call->args;

    return a->copies ? call->bufs[call->nbufs - 1].dtype : DSFLOW_FP32;
}

template <class Rule>
void run(const struct dsflow_call *call, const Rule &rule, void *stream)
{
    DEV_BY_TYPE(copy_of(call), T,
                DEV_BY_TYPE(call->bufs[GRAD].dtype, G,
                            (launch<Rule, T, G>(call, rule, stream))));
}

template <class Rule> Rule adam_of(const struct dsflow_call *call)
{
    const dsf_update_args *a = (const dsf_update_args *)call->args;
    Rule rule = {};

    rule.beta1 = (float)a->beta1;
    rule.beta2 = (float)a->beta2;
    rule.rest1 = (float)(1 - a->beta1);
    rule.rest2 = (float)(1 - a->beta2);
    rule.eps = a->eps;
    rule.weight_decay = a->weight_decay;
    rule.decoupled = a->decoupled;
    rule.uncorrected = a->uncorrected;
    return rule;
}

void adam_run(const struct dsflow_call *call, void *stream)
{
    run(call, adam_of<adam>(call), stream);
}

/* Numbers from `at` on. */
template <class T, class G>
void others_launch(const struct dsflow_call *call, size_t at, size_t n,
                   bool decays, const muon_others &rule, void *stream)
{
    shard<T, G> s = shard_of<T, G>(call);

    s.p += at;
    s.g += at;
    s.m += at;
    s.v += (int64_t)at - ((const dsf_update_args *)call->args)->v_at;
    s.copy += s.copy != nullptr ? at : 0;
    s.decay = decays ? n : 0;
    s.n = n;
    launch_on(s, call, rule, stream);
}

template <bool MOMENTUM>
void sgd_launch(const struct dsflow_call *call, void *stream)
{
    const dsf_update_args *a = (const dsf_update_args *)call->args;
    sgd<MOMENTUM> rule = {};

    rule.momentum = a->momentum;
    rule.weight_decay = a->weight_decay;
    rule.nesterov = a->nesterov;
    run(call, rule, stream);
}

/* Without momentum the task leaves the state out. */
void sgd_run(const struct dsflow_call *call, void *stream)
{
    const dsf_update_args *a = (const dsf_update_args *)call->args;

    if (call->nbufs - (a->copies ? 1 : 0) > M && call->bufs[M].ptr != nullptr)
        sgd_launch<true>(call, stream);
    else
        sgd_launch<false>(call, stream);
}

void lion_run(const struct dsflow_call *call, void *stream)
{
    const dsf_update_args *a = (const dsf_update_args *)call->args;
    lion rule = {};

    rule.beta1 = (float)a->beta1;
    rule.beta2 = (float)a->beta2;
    rule.rest1 = (float)(1 - a->beta1);
    rule.rest2 = (float)(1 - a->beta2);
    rule.weight_decay = a->weight_decay;
    run(call, rule, stream);
}

void adagrad_run(const struct dsflow_call *call, void *stream)
{
    const dsf_update_args *a = (const dsf_update_args *)call->args;
    adagrad rule = {};

    rule.eps = a->eps;
    rule.weight_decay = a->weight_decay;
    run(call, rule, stream);
}

} // namespace

void dsf_gpu_muon_others(const struct dsflow_call *call, int64_t at, int64_t n,
                         int decays, void *stream)
{
    const dsf_update_args *a = (const dsf_update_args *)call->args;
    muon_others rule = adam_of<muon_others>(call);

    rule.decoupled = 1;
    rule.rate = a->adam_rate;
    DEV_BY_TYPE(copy_of(call), T,
                DEV_BY_TYPE(call->bufs[GRAD].dtype, G,
                            (others_launch<T, G>(call, (size_t)at, (size_t)n,
                                                 decays != 0, rule, stream))));
}

const struct dsf_gpu_side dsf_gpu_side_adam = { "adam", adam_run, nullptr, 1 };
const struct dsf_gpu_side dsf_gpu_side_sgd = { "sgd", sgd_run, nullptr, 1 };
const struct dsf_gpu_side dsf_gpu_side_lion = { "lion", lion_run, nullptr, 1 };
const struct dsf_gpu_side dsf_gpu_side_adagrad = { "adagrad", adagrad_run,
                                                   nullptr, 1 };
