/* loops_basic.h - what there is in fp32 alone: biases, residuals, cross
 * entropy, sums of squares. */
#ifndef DSF_KERNELS_LOOPS_BASIC_H
#define DSF_KERNELS_LOOPS_BASIC_H

static void exp_loop(const float *x, float *y, size_t n)
{
    size_t i = 0;

    for (; i + VW <= n; i += VW)
        vstore(y + i, vexp(vload(x + i, VW)), VW);
    if (i < n)
        vstore(y + i, vexp(vload(x + i, n - i)), n - i);
}

static void sigmoid_loop(const float *x, float *y, size_t n)
{
    size_t i = 0;

    for (; i + VW <= n; i += VW)
        vstore(y + i, vsigmoid(vload(x + i, VW)), VW);
    if (i < n)
        vstore(y + i, vsigmoid(vload(x + i, n - i)), n - i);
}

static void add(float *into, const float *from, size_t n)
{
    sum2(into, into, from, n);
}

static void add_bias(float *y, const float *b, size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++)
        sum2(y + r * cols, y + r * cols, b, cols);
}

/* y = x + b, what a GEMM then adds to. */
static void residual(float *y, const float *x, const float *b, size_t rows,
                     size_t cols)
{
    if (!b) {
        memcpy(y, x, rows * cols * sizeof(float));
        return;
    }
    for (size_t r = 0; r < rows; r++)
        sum2(y + r * cols, x + r * cols, b, cols);
}

static void scale(float *x, float by, size_t n)
{
    const vf f = vset(by);
    size_t i = 0;

    for (; i + VW <= n; i += VW)
        vstore(x + i, vload(x + i, VW) * f, VW);
    if (i < n)
        vstore(x + i, vload(x + i, n - i) * f, n - i);
}

static float row_top(const float *x, size_t n)
{
    const vf low = vset(-INFINITY);
    vf a = low, b = low;
    size_t i = 0;

    for (; i + 2 * VW <= n; i += 2 * VW) {
        a = vmax(a, vload(x + i, VW));
        b = vmax(b, vload(x + i + VW, VW));
    }
    for (; i + VW <= n; i += VW)
        a = vmax(a, vload(x + i, VW));
    if (i < n)
        b = vmax(b, vpick(vload(x + i, n - i), low, n - i));
    return vtop(vmax(a, b));
}

/* x = e^(x - top); returns the sum, which is of n numbers at most 1. */
static float row_exp(float *x, float top, size_t n)
{
    const vf t = vset(top);
    vf a = vzero(), b = vzero();
    size_t i = 0;

    for (; i + 2 * VW <= n; i += 2 * VW) {
        vf e = vexp(vload(x + i, VW) - t);
        vf f = vexp(vload(x + i + VW, VW) - t);

        vstore(x + i, e, VW);
        vstore(x + i + VW, f, VW);
        a += e;
        b += f;
    }
    for (; i < n; i += VW) {
        size_t k = n - i < VW ? n - i : VW;
        vf e = vexp(vload(x + i, k) - t);

        vstore(x + i, e, k);
        a += vpick(e, vzero(), k);
    }
    return vsum(a + b);
}

/* For each row of a block of columns: top[r] = its maximum, x = e^(x - top),
 * sum[r] = the sum of those. */
static void exp_columns(float *x, size_t ld, size_t rows, size_t cols,
                        float *top, double *sum)
{
    for (size_t r = 0; r < rows; r++) {
        top[r] = row_top(x + r * ld, cols);
        sum[r] = row_exp(x + r * ld, top[r], cols);
    }
}

typedef double vd __attribute__((vector_size(4 * VW)));
typedef float vh __attribute__((vector_size(2 * VW)));

enum { SQUARE_VECTORS = 2 * DSF_SQUARE_LANES / VW };

/* Products of floats are exact in double. */
INLINE void square_lanes(const float *x, vd *lanes)
{
    UNROLL
    for (size_t k = 0; k < SQUARE_VECTORS; k++) {
        vh h;
        vd d;

        memcpy(&h, x + k * (VW / 2), sizeof(h));
        d = __builtin_convertvector(h, vd);
        lanes[k] = d * d + lanes[k];
    }
}

/* Numbers two pages further on, which may be beyond the last: processors do not
 * look for them behind the end of a page, and where a block is read twice,
 * memory would have nothing to do the second time. */
INLINE void ask_for(const float *in)
{
    __builtin_prefetch((const char *)in + 8192);
}

/* Bit i of byte j: is number 8 j + i below 0? Of 16 numbers. */
INLINE void store_signs(uint8_t *signs, const float *x)
{
    uint32_t lanes = vnegative16(x);

    signs[0] = (uint8_t)lanes;
    signs[1] = (uint8_t)(lanes >> 8);
}

/* The sum of a part: of its lanes by halves. `signs`, where it is wanted, takes
 * those of whole rows. */
INLINE double square_part(const float *x, size_t n, uint8_t *signs)
{
    float rest[DSF_SQUARE_LANES] = { 0 };
    vd lanes[SQUARE_VECTORS] = { { 0 } };
    double v[VW / 2];
    size_t i = 0;

    for (; i + DSF_SQUARE_LANES <= n; i += DSF_SQUARE_LANES) {
        square_lanes(x + i, lanes);
        if (signs != NULL) {
            store_signs(signs + i / 8, x + i);
            ask_for(x + i);
        }
    }
    if (i < n) {
        memcpy(rest, x + i, (n - i) * sizeof(*x));
        square_lanes(rest, lanes);
    }
    UNROLL
    for (size_t half = SQUARE_VECTORS / 2; half > 0; half /= 2)
        for (size_t k = 0; k < half; k++)
            lanes[k] += lanes[k + half];
    memcpy(v, lanes, sizeof(v));
    for (size_t half = VW / 4; half > 0; half /= 2)
        for (size_t k = 0; k < half; k++)
            v[k] += v[k + half];
    return v[0];
}

INLINE double square_parts(const float *x, size_t n, uint8_t *signs)
{
    const size_t part = dsf_square_part(n);
    double sums[DSF_SQUARE_PARTS];

    for (size_t i = 0; i < DSF_SQUARE_PARTS; i++) {
        size_t len = n < part ? n : part;

        sums[i] = square_part(x, len, signs);
        x += len;
        n -= len;
        if (signs != NULL)
            signs += len / 8;
    }
    for (size_t half = DSF_SQUARE_PARTS / 2; half > 0; half /= 2)
        for (size_t i = 0; i < half; i++)
            sums[i] += sums[i + half];
    return sums[0];
}

static double square_sum(const float *x, size_t n)
{
    return square_parts(x, n, NULL);
}

static double square_signs(const float *x, size_t n, uint8_t *signs)
{
    return square_parts(x, n, signs);
}

/* The numbers of a step of LAMB, and those of its moments. */
struct moments_lanes {
    struct lamb_lanes step;
    vf scale, beta1, beta2, rest1, rest2;
};

INLINE void moments_at(const struct moments_lanes *s, const float *p,
                       const float *g, float *m, float *v, float *u, size_t k)
{
    vf grad = vload(g, k) * s->scale;
    vf m1 = vfma_exact(s->beta1, vload(m, k), s->rest1 * grad);
    vf v1 = vfma_exact(s->beta2, vload(v, k), s->rest2 * grad * grad);

    vstore(m, m1, k);
    vstore(v, v1, k);
    vstore(u, lamb_step(&s->step, vload(p, k), m1, v1), k);
}

static void lamb_moments(const struct dsf_lamb_step *s, const float *p,
                         const float *g, float *m, float *v, float *u, size_t n)
{
    const struct moments_lanes lanes = {
        .step = lamb_lanes(s),
        .scale = vset(s->scale),
        .beta1 = vset((float)s->beta1),
        .beta2 = vset((float)s->beta2),
        .rest1 = vset((float)(1 - s->beta1)),
        .rest2 = vset((float)(1 - s->beta2)),
    };
    size_t i = 0;

    for (; i + VW <= n; i += VW)
        moments_at(&lanes, p + i, g + i, m + i, v + i, u + i, VW);
    if (i < n)
        moments_at(&lanes, p + i, g + i, m + i, v + i, u + i, n - i);
}

/* The step without the decay, the whole one, and the ratio of the roots. */
static void lamb_weigh(const struct dsf_lamb_step *s,
                       const struct dsf_lamb_weighed *of, size_t n)
{
    const struct lamb_lanes lanes = lamb_lanes(s);
    struct lamb_lanes bare = lanes;

    bare.decay = vzero();
    for (size_t i = 0; i < n; i += VW) {
        size_t k = n - i < VW ? n - i : VW;
        vf p = vload(of->p + i, k), m = vload(of->m + i, k);
        vf v = vload(of->v + i, k);
        vf root = vsqrt(v) + lanes.eps;

        vstore(of->bare + i, lamb_step(&bare, p, m, v), k);
        vstore(of->u + i, lamb_step(&lanes, p, m, v), k);
        vstore(of->factor + i,
               root / (vsqrt(vload(of->fresh + i, k)) + lanes.eps), k);
    }
}

#endif
