/* loops_act.h - GELU (its tanh form, Hendrycks & Gimpel 2016) and SwiGLU
 * (Shazeer 2020), for each type (loops_types.h). With fp32, `in` is h, and the
 * gradient of the activation stands in dh. */

/* h = in + b; what is returned is not rounded. */
INLINE vf OF(biased)(const float *in, const NUM *b, NUM *h, size_t k)
{
    vf x = vload(in, k);

    if (b)
        x += LOAD(b, k);
    if (b || (const void *)h != in)
        STORE(h, x, k);
    return x;
}

INLINE void OF(gelu_at)(const float *in, const NUM *b, NUM *h, NUM *act,
                        size_t k)
{
    vf x = OF(biased)(in, b, h, k);

    STORE(act, x * gelu_gate(x, x * x), k);
}

static void OF(gelu_forward)(const float *in, const NUM *b, NUM *h, NUM *act,
                             size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++, in += cols, h += cols, act += cols) {
        size_t i = 0;

        for (; i + VW <= cols; i += VW)
            OF(gelu_at)(in + i, b ? b + i : b, h + i, act + i, VW);
        if (i < cols)
            OF(gelu_at)(in + i, b ? b + i : b, h + i, act + i, cols - i);
    }
}

/* d(x s)/dx = s + x s (1 - s) (A + 3 B x^2) */
INLINE void OF(gelu_back_at)(NUM *h, const float *dact, NUM *dh, size_t k)
{
    vf x = LOAD(h, k), xx = x * x;
    vf s = gelu_gate(x, xx);
    vf y = x * s;
    vf slope = vfma(xx, vset(3 * GELU_B), vset(GELU_A));

    STORE(h, y, k);
    STORE(dh, vload(dact, k) * vfma(y * (vset(1.0f) - s), slope, s), k);
}

/* dh = the gradient of h, for dact of gelu(h); h becomes gelu(h). */
static void OF(gelu_backward)(NUM *h, const float *dact, NUM *dh, size_t n)
{
    size_t i = 0;

    for (; i + VW <= n; i += VW)
        OF(gelu_back_at)(h + i, dact + i, dh + i, VW);
    if (i < n)
        OF(gelu_back_at)(h + i, dact + i, dh + i, n - i);
}

INLINE void OF(swiglu_at)(const float *in, const NUM *b, NUM *h, NUM *act,
                          size_t cols, size_t k)
{
    vf g = OF(biased)(in, b, h, k);
    vf u = OF(biased)(in + cols, b ? b + cols : b, h + cols, k);

    STORE(act, g * vsigmoid(g) * u, k);
}

static void OF(swiglu_forward)(const float *in, const NUM *b, NUM *h, NUM *act,
                               size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++) {
        size_t i = 0;

        for (; i + VW <= cols; i += VW)
            OF(swiglu_at)(in + i, b ? b + i : b, h + i, act + i, cols, VW);
        if (i < cols)
            OF(swiglu_at)
            (in + i, b ? b + i : b, h + i, act + i, cols, cols - i);
        in += 2 * cols;
        h += 2 * cols;
        act += cols;
    }
}

INLINE void OF(swiglu_back_at)(const NUM *h, const float *dact, NUM *act,
                               NUM *dh, size_t cols, size_t k)
{
    vf g = LOAD(h, k), u = LOAD(h + cols, k), d = vload(dact, k);
    vf s = vsigmoid(g);
    vf y = g * s;

    STORE(act, y * u, k);
    STORE(dh + cols, d * y, k);
    STORE(dh, d * u * vfma(y, vset(1.0f) - s, s), k);
}

/* dh[rows][2*cols] = the gradient of h, for dact of act(h), whose rows are `ld`
 * apart; h[rows][2*cols] becomes act(h)[rows][cols], packed. A row is written
 * no further than it has been read. */
static void OF(swiglu_backward)(NUM *h, const float *dact, size_t ld, NUM *dh,
                                size_t rows, size_t cols)
{
    NUM *act = h;

    for (size_t r = 0; r < rows; r++) {
        size_t i = 0;

        for (; i + VW <= cols; i += VW)
            OF(swiglu_back_at)(h + i, dact + i, act + i, dh + i, cols, VW);
        if (i < cols)
            OF(swiglu_back_at)
            (h + i, dact + i, act + i, dh + i, cols, cols - i);
        h += 2 * cols;
        act += cols;
        dact += ld;
        dh += 2 * cols;
    }
}
