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

#endif
