/* loops_act.h - GELU (its tanh form, Hendrycks & Gimpel 2016), SwiGLU (Shazeer
 * 2020) and rotary positions (Su et al. 2021).
 *
 * 0.5 (1 + tanh u) is 1 / (1 + e^-2u), which keeps its precision where tanh
 * comes close to -1. */
#ifndef DSF_KERNELS_LOOPS_ACT_H
#define DSF_KERNELS_LOOPS_ACT_H

/* 2 sqrt(2/pi), and that times 0.044715. */
#define GELU_A 1.5957691216057308f
#define GELU_B 0.07135481282673776f

/* 1 / (1 + e^-2u) with 2u = A x + B x^3. */
INLINE vf gelu_gate(vf x, vf xx)
{
    return vsigmoid(x * vfma(xx, vset(GELU_B), vset(GELU_A)));
}

INLINE void gelu_at(float *h, const float *b, float *act, size_t k)
{
    vf x = vload(h, k);

    if (b) {
        x += vload(b, k);
        vstore(h, x, k);
    }
    vstore(act, x * gelu_gate(x, x * x), k);
}

static void gelu_forward(float *h, const float *b, float *act, size_t rows,
                         size_t cols)
{
    for (size_t r = 0; r < rows; r++, h += cols, act += cols) {
        size_t i = 0;

        for (; i + VW <= cols; i += VW)
            gelu_at(h + i, b ? b + i : b, act + i, VW);
        if (i < cols)
            gelu_at(h + i, b ? b + i : b, act + i, cols - i);
    }
}

/* d(x s)/dx = s + x s (1 - s) (A + 3 B x^2) */
INLINE void gelu_back_at(float *h, float *dh, size_t k)
{
    vf x = vload(h, k), xx = x * x;
    vf s = gelu_gate(x, xx);
    vf y = x * s;
    vf slope = vfma(xx, vset(3 * GELU_B), vset(GELU_A));

    vstore(h, y, k);
    vstore(dh, vload(dh, k) * vfma(y * (vset(1.0f) - s), slope, s), k);
}

/* dh, the gradient of gelu(h), becomes that of h; h becomes gelu(h). */
static void gelu_backward(float *h, float *dh, size_t n)
{
    size_t i = 0;

    for (; i + VW <= n; i += VW)
        gelu_back_at(h + i, dh + i, VW);
    if (i < n)
        gelu_back_at(h + i, dh + i, n - i);
}

INLINE void swiglu_at(float *gate, float *up, const float *bg, const float *bu,
                      float *act, size_t k)
{
    vf g = vload(gate, k), u = vload(up, k);

    if (bg) {
        g += vload(bg, k);
        u += vload(bu, k);
        vstore(gate, g, k);
        vstore(up, u, k);
    }
    vstore(act, g * vsigmoid(g) * u, k);
}

static void swiglu_forward(float *h, const float *b, float *act, size_t rows,
                           size_t cols)
{
    for (size_t r = 0; r < rows; r++, h += 2 * cols, act += cols) {
        const float *bu = b ? b + cols : b;
        size_t i = 0;

        for (; i + VW <= cols; i += VW)
            swiglu_at(h + i, h + cols + i, b ? b + i : b, bu ? bu + i : bu,
                      act + i, VW);
        if (i < cols)
            swiglu_at(h + i, h + cols + i, b ? b + i : b, bu ? bu + i : bu,
                      act + i, cols - i);
    }
}

INLINE void swiglu_back_at(const float *gate, const float *up, float *act,
                           float *dgate, float *dup, size_t k)
{
    vf g = vload(gate, k), u = vload(up, k), d = vload(dgate, k);
    vf s = vsigmoid(g);
    vf y = g * s;

    vstore(act, y * u, k);
    vstore(dup, d * y, k);
    vstore(dgate, d * u * vfma(y, vset(1.0f) - s, s), k);
}

/* dh[rows][2*cols] has the gradient of act(h) in its first halves and becomes
 * that of h; h[rows][2*cols] becomes act(h)[rows][cols], packed. A row is
 * written no further than it has been read. */
static void swiglu_backward(float *h, float *dh, size_t rows, size_t cols)
{
    float *act = h;

    for (size_t r = 0; r < rows; r++, h += 2 * cols, dh += 2 * cols) {
        size_t i = 0;

        for (; i + VW <= cols; i += VW)
            swiglu_back_at(h + i, h + cols + i, act + i, dh + i, dh + cols + i,
                           VW);
        if (i < cols)
            swiglu_back_at(h + i, h + cols + i, act + i, dh + i, dh + cols + i,
                           cols - i);
        act += cols;
    }
}

INLINE void rotate_at(float *lo, float *hi, const float *cosine,
                      const float *sine, size_t k)
{
    vf a = vload(lo, k), b = vload(hi, k);
    vf c = vload(cosine, k), s = vload(sine, k);

    vstore(lo, a * c - b * s, k);
    vstore(hi, vfma(b, c, a * s), k);
}

/* Pairs (i, i + head_dim/2) of every head, turned by the angles of the row's
 * position; row r of x is position r of the table. */
static void rotate(float *x, size_t ld, size_t rows, size_t heads,
                   size_t head_dim, const float *table, int inverse)
{
    enum { PART = 128 }; /* pairs at a time, with their table split */
    const size_t half = head_dim / 2;
    float cosine[PART], sine[PART];

    for (size_t r = 0; r < rows; r++, x += ld, table += head_dim) {
        for (size_t p = 0; p < half; p += PART) {
            size_t n = half - p < PART ? half - p : PART;

            for (size_t i = 0; i < n; i++) {
                float s = table[2 * (p + i) + 1];

                cosine[i] = table[2 * (p + i)];
                sine[i] = inverse ? -s : s;
            }
            for (size_t h = 0; h < heads; h++) {
                float *lo = x + h * head_dim + p, *hi = lo + half;
                size_t i = 0;

                for (; i + VW <= n; i += VW)
                    rotate_at(lo + i, hi + i, cosine + i, sine + i, VW);
                if (i < n)
                    rotate_at(lo + i, hi + i, cosine + i, sine + i, n - i);
            }
        }
    }
}

#endif
