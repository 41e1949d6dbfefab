/* loops_update.h - one pass over a shard of parameters, for these loops are
 * bound by memory. Rules: Adam (Kingma & Ba 2015), torch.optim.SGD, Lion (Chen
 * et al. 2023, algorithm 2), AdaGrad (Duchi et al. 2011), LAMB (You et al.
 * 2020; its moments are in loops_basic.h). Parameters and states are fp32; the
 * copy of the parameters, which may be NULL, is of the type (loops_types.h).
 *
 * All sets of instructions and GPUs (gpu/update_cuda.cu) give the same bits, so
 * which product is rounded before it is added is written, and not left to the
 * compiler: there is no sum with a product of the operator *. */

INLINE void OF(adam_at)(const struct adam_lanes *s, float *p, const float *g,
                        float *m, float *v, NUM *copy, size_t k)
{
    vf param = vload(p, k);
    vf grad = vfma_exact(param, s->l2, vload(g, k) * s->scale);
    vf m1 = vfma_exact(s->beta1, vload(m, k), s->rest1 * grad);
    vf v1 = vfma_exact(s->beta2, vload(v, k), s->rest2 * grad * grad);
    vf step = m1 / (vsqrt(v1) / s->root2 + s->eps);

    param = vfma_exact(param, s->keep, -(s->lr1 * step));
    vstore(p, param, k);
    vstore(m, m1, k);
    vstore(v, v1, k);
    if (copy)
        STORE(copy, param, k);
}

static void OF(adam)(const struct dsf_adam_step *s, float *p, const float *g,
                     float *m, float *v, NUM *copy, size_t n)
{
    const struct adam_lanes lanes = {
        .scale = vset(s->scale),
        .lr1 = vset(s->lr1),
        .root2 = vset(s->root2),
        .beta1 = vset((float)s->beta1),
        .beta2 = vset((float)s->beta2),
        .rest1 = vset((float)(1 - s->beta1)),
        .rest2 = vset((float)(1 - s->beta2)),
        .eps = vset(s->eps),
        .keep = vset((float)(1 - (double)s->decay)),
        .l2 = vset(s->l2),
    };
    size_t i = 0;

    for (; i + VW <= n; i += VW)
        OF(adam_at)
        (&lanes, p + i, g + i, m + i, v + i, copy ? copy + i : copy, VW);
    if (i < n)
        OF(adam_at)
        (&lanes, p + i, g + i, m + i, v + i, copy ? copy + i : copy, n - i);
}

INLINE void OF(sgd_at)(const struct dsf_sgd_step *s, float *p, const float *g,
                       float *m, NUM *copy, size_t k)
{
    vf param = vload(p, k);
    vf grad = vfma_exact(param, vset(s->l2), vload(g, k) * vset(s->scale));

    if (m) {
        const vf momentum = vset(s->momentum);
        vf m1 = s->first ? grad : vfma_exact(momentum, vload(m, k), grad);

        vstore(m, m1, k);
        grad = s->nesterov ? vfma_exact(momentum, m1, grad) : m1;
    }
    param = vfma_exact(vset(-s->lr), grad, param);
    vstore(p, param, k);
    if (copy)
        STORE(copy, param, k);
}

static void OF(sgd)(const struct dsf_sgd_step *s, float *p, const float *g,
                    float *m, NUM *copy, size_t n)
{
    size_t i = 0;

    for (; i + VW <= n; i += VW)
        OF(sgd_at)(s, p + i, g + i, m ? m + i : m, copy ? copy + i : copy, VW);
    if (i < n)
        OF(sgd_at)
        (s, p + i, g + i, m ? m + i : m, copy ? copy + i : copy, n - i);
}

INLINE void OF(lion_at)(const struct lion_lanes *s, float *p, const float *g,
                        float *m, NUM *copy, size_t k)
{
    vf grad = vload(g, k) * s->scale, m0 = vload(m, k);
    vf c = vfma_exact(s->beta1, m0, s->rest1 * grad);
    vf param = vfma_exact(vload(p, k), s->keep, -(s->lr * vsign(c)));

    vstore(p, param, k);
    vstore(m, vfma_exact(s->beta2, m0, s->rest2 * grad), k);
    if (copy)
        STORE(copy, param, k);
}

static void OF(lion)(const struct dsf_lion_step *s, float *p, const float *g,
                     float *m, NUM *copy, size_t n)
{
    const struct lion_lanes lanes = {
        .scale = vset(s->scale),
        .lr = vset(s->lr),
        .beta1 = vset((float)s->beta1),
        .beta2 = vset((float)s->beta2),
        .rest1 = vset((float)(1 - s->beta1)),
        .rest2 = vset((float)(1 - s->beta2)),
        .keep = vset((float)(1 - (double)s->decay)),
    };
    size_t i = 0;

    for (; i + VW <= n; i += VW)
        OF(lion_at)(&lanes, p + i, g + i, m + i, copy ? copy + i : copy, VW);
    if (i < n)
        OF(lion_at)(&lanes, p + i, g + i, m + i, copy ? copy + i : copy, n - i);
}

INLINE void OF(adagrad_at)(const struct dsf_adagrad_step *s, float *p,
                           const float *g, float *sum, NUM *copy, size_t k)
{
    vf param = vload(p, k);
    vf grad = vfma_exact(param, vset(s->l2), vload(g, k) * vset(s->scale));
    vf sum1 = vfma_exact(grad, grad, vload(sum, k));

    param =
        vfma_exact(vset(-s->lr), grad / (vsqrt(sum1) + vset(s->eps)), param);
    vstore(p, param, k);
    vstore(sum, sum1, k);
    if (copy)
        STORE(copy, param, k);
}

static void OF(adagrad)(const struct dsf_adagrad_step *s, float *p,
                        const float *g, float *sum, NUM *copy, size_t n)
{
    size_t i = 0;

    for (; i + VW <= n; i += VW)
        OF(adagrad_at)
    (s, p + i, g + i, sum + i, copy ? copy + i : copy, VW);
    if (i < n)
        OF(adagrad_at)
    (s, p + i, g + i, sum + i, copy ? copy + i : copy, n - i);
}

INLINE void OF(lamb_at)(const struct lamb_lanes *s, float *p, const float *m,
                        const float *v, NUM *copy, size_t k)
{
    vf param = vload(p, k);

    param =
        vfma_exact(s->lr, lamb_step(s, param, vload(m, k), vload(v, k)), param);
    vstore(p, param, k);
    if (copy)
        STORE(copy, param, k);
}

static void OF(lamb)(const struct dsf_lamb_step *s, float *p, const float *m,
                     const float *v, NUM *copy, size_t n)
{
    const struct lamb_lanes lanes = lamb_lanes(s);
    size_t i = 0;

    for (; i + VW <= n; i += VW)
        OF(lamb_at)(&lanes, p + i, m + i, v + i, copy ? copy + i : copy, VW);
    if (i < n)
        OF(lamb_at)(&lanes, p + i, m + i, v + i, copy ? copy + i : copy, n - i);
}
