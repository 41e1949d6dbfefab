/* loops_lanes.h - what loops of every type compute with. */
#ifndef DSF_KERNELS_LOOPS_LANES_H
#define DSF_KERNELS_LOOPS_LANES_H

/* The sums over a row of g = dy w and of g xhat. */
struct norm_sums {
    vf g, gx;
};

/* 0.5 (1 + tanh u) is 1 / (1 + e^-2u), which keeps its precision where tanh
 * comes close to -1. */

/* 2 sqrt(2/pi), and that times 0.044715. */
#define GELU_A 1.5957691216057308f
#define GELU_B 0.07135481282673776f

/* 1 / (1 + e^-2u) with 2u = A x + B x^3. */
INLINE vf gelu_gate(vf x, vf xx)
{
    return vsigmoid(x * vfma(xx, vset(GELU_B), vset(GELU_A)));
}

/* The numbers of a step, in every lane. `keep` is 1 - decay. */
struct adam_lanes {
    vf scale, lr1, root2, beta1, beta2, rest1, rest2, eps, keep, l2;
};

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

struct lamb_lanes {
    vf rate1, root2, eps, decay, lr;
};

INLINE struct lamb_lanes lamb_lanes(const struct dsf_lamb_step *s)
{
    return (struct lamb_lanes){ .rate1 = vset(s->rate1),
                                .root2 = vset(s->root2),
                                .eps = vset(s->eps),
                                .decay = vset(s->decay),
                                .lr = vset(-s->lr) };
}

/* A number without a second moment is moved by its decay alone: where means are
 * what was sent in 1 bit, it has one as large as all others. A NaN is
 * no 0. */
INLINE vf lamb_step(const struct lamb_lanes *s, vf p, vf m, vf v)
{
    const vf none = { 0 };
    vf step = m / (vsqrt(v) / s->root2 + s->eps) * s->rate1;

    return vfma_exact(p, s->decay,
                      (vf)choose((vu)(v != none), (vu)step, (vu)none));
}

/* Rows of W that are read side by side, from all over it: a core gets half as
 * much again of its memory by four streams than by one. */
enum { ROW_STREAMS = 4 };

#endif
