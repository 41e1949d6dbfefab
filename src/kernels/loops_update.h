/* loops_update.h - one pass over a shard of parameters, for these loops are
 * bound by memory. Rules: Adam (Kingma & Ba 2015), torch.optim.SGD, Lion (Chen et al. 2023,
 * algorithm 2). */
#ifndef DSF_KERNELS_LOOPS_UPDATE_H
#define DSF_KERNELS_LOOPS_UPDATE_H

typedef double vd __attribute__((vector_size(4 * VW)));
typedef float vh __attribute__((vector_size(2 * VW)));

INLINE vd square_half(const float *x, vd sum)
{
    vh h;
    vd d;

    memcpy(&h, x, sizeof(h));
    d = __builtin_convertvector(h, vd);
    return d * d + sum;
}

static double square_sum(const float *x, size_t n)
{
    vd a = { 0 }, b = a, c = a, d = a;
    double sum = 0;
    size_t i = 0;

    for (; i + 2 * VW <= n; i += 2 * VW) {
        a = square_half(x + i, a);
        b = square_half(x + i + VW / 2, b);
        c = square_half(x + i + VW, c);
        d = square_half(x + i + VW + VW / 2, d);
    }
    a = (a + b) + (c + d);
    for (size_t j = 0; j < VW / 2; j++)
        sum += a[j];
    for (; i < n; i++)
        sum += (double)x[i] * x[i];
    return sum;
}

/* The numbers of a step, in every lane. `keep` is 1 - decay. */
struct adam_lanes {
    vf scale, lr1, root2, beta1, beta2, rest1, rest2, eps, keep, l2;
};

INLINE void adam_at(const struct adam_lanes *s, float *p, const float *g,
                    float *m, float *v, size_t k)
{
    vf param = vload(p, k);
    vf grad = vfma(param, s->l2, vload(g, k) * s->scale);
    vf m1 = vfma(s->beta1, vload(m, k), s->rest1 * grad);
    vf v1 = vfma(s->beta2, vload(v, k), s->rest2 * grad * grad);
    vf step = m1 / (vsqrt(v1) / s->root2 + s->eps);

    vstore(p, param * s->keep - s->lr1 * step, k);
    vstore(m, m1, k);
    vstore(v, v1, k);
}

static void adam(const struct dsf_adam_step *s, float *p, const float *g,
                 float *m, float *v, size_t n)
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
        adam_at(&lanes, p + i, g + i, m + i, v + i, VW);
    if (i < n)
        adam_at(&lanes, p + i, g + i, m + i, v + i, n - i);
}

INLINE void sgd_at(const struct dsf_sgd_step *s, float *p, const float *g,
                   float *m, size_t k)
{
    vf param = vload(p, k);
    vf grad = vfma(param, vset(s->l2), vload(g, k) * vset(s->scale));

    if (m) {
        const vf momentum = vset(s->momentum);
        vf m1 = s->first ? grad : vfma(momentum, vload(m, k), grad);

        vstore(m, m1, k);
        grad = s->nesterov ? vfma(momentum, m1, grad) : m1;
    }
    vstore(p, param - vset(s->lr) * grad, k);
}

static void sgd(const struct dsf_sgd_step *s, float *p, const float *g,
                float *m, size_t n)
{
    size_t i = 0;

    for (; i + VW <= n; i += VW)
        sgd_at(s, p + i, g + i, m ? m + i : m, VW);
    if (i < n)
        sgd_at(s, p + i, g + i, m ? m + i : m, n - i);
}

/* 1, -1, or 0 where x is 0; not a number stays so. */
INLINE vf vsign(vf x)
{
    const vf one = vset(1.0f), zero = vzero();
    vf s = vbelow(zero, x, one, x);

    return vbelow(x, zero, -one, s);
}

struct lion_lanes {
    vf scale, lr, beta1, beta2, rest1, rest2, keep;
};

INLINE void lion_at(const struct lion_lanes *s, float *p, const float *g,
                    float *m, size_t k)
{
    vf grad = vload(g, k) * s->scale, m0 = vload(m, k);
    vf c = vfma(s->beta1, m0, s->rest1 * grad);

    vstore(p, vload(p, k) * s->keep - s->lr * vsign(c), k);
    vstore(m, vfma(s->beta2, m0, s->rest2 * grad), k);
}

static void lion(const struct dsf_lion_step *s, float *p, const float *g,
                 float *m, size_t n)
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
        lion_at(&lanes, p + i, g + i, m + i, VW);
    if (i < n)
        lion_at(&lanes, p + i, g + i, m + i, n - i);
}

#endif
