/* loops_norm.h - LayerNorm (Ba et al. 2016) and RMSNorm (Zhang & Sennrich
 * 2019). Nothing is kept between forward and backward: a row is in the first
 * cache, so its mean and deviation cost less than the memory they would take.
 * For each type (loops_types.h). */

static float OF(row_sum)(const NUM *x, size_t n)
{
    vf a = vzero(), b = a, c = a, d = a;
    size_t i = 0;

    for (; i + 4 * VW <= n; i += 4 * VW) {
        a += LOAD(x + i, VW);
        b += LOAD(x + i + VW, VW);
        c += LOAD(x + i + 2 * VW, VW);
        d += LOAD(x + i + 3 * VW, VW);
    }
    for (; i + VW <= n; i += VW)
        a += LOAD(x + i, VW);
    if (i < n)
        b += LOAD(x + i, n - i);
    return vsum((a + b) + (c + d));
}

INLINE vf OF(square_at)(const NUM *x, vf mean, vf sum)
{
    vf t = LOAD(x, VW) - mean;

    return vfma(t, t, sum);
}

/* The sum of (x - mean)^2. */
static float OF(row_squares)(const NUM *x, float mean, size_t n)
{
    const vf mu = vset(mean);
    vf a = vzero(), b = a, c = a, d = a;
    size_t i = 0;

    for (; i + 4 * VW <= n; i += 4 * VW) {
        a = OF(square_at)(x + i, mu, a);
        b = OF(square_at)(x + i + VW, mu, b);
        c = OF(square_at)(x + i + 2 * VW, mu, c);
        d = OF(square_at)(x + i + 3 * VW, mu, d);
    }
    for (; i + VW <= n; i += VW)
        a = OF(square_at)(x + i, mu, a);
    if (i < n) {
        vf t = vpick(LOAD(x + i, n - i) - mu, vzero(), n - i);

        b = vfma(t, t, b);
    }
    return vsum((a + b) + (c + d));
}

/* *mean (0 for RMSNorm) and one over the deviation. */
static float OF(row_statistics)(const struct NORM *norm, const NUM *x,
                                float *mean)
{
    const float n = (float)norm->width;

    *mean = norm->rms ? 0 : OF(row_sum)(x, norm->width) / n;
    return 1 / sqrtf(OF(row_squares)(x, *mean, norm->width) / n + norm->eps);
}

INLINE void OF(norm_at)(const NUM *x, vf mean, vf rstd, const NUM *w,
                        const NUM *b, NUM *y, size_t k)
{
    vf t = (LOAD(x, k) - mean) * rstd;

    if (b)
        t = vfma(t, LOAD(w, k), LOAD(b, k));
    else
        t = t * LOAD(w, k);
    STORE(y, t, k);
}

static void OF(norm_forward)(const struct NORM *norm, const NUM *x, NUM *y,
                             size_t rows)
{
    const size_t n = norm->width;

    for (size_t r = 0; r < rows; r++, x += n, y += n) {
        float mean, rstd = OF(row_statistics)(norm, x, &mean);
        const NUM *b = norm->b;
        size_t i = 0;

        for (; i + VW <= n; i += VW)
            OF(norm_at)
            (x + i, vset(mean), vset(rstd), norm->w + i, b ? b + i : b, y + i,
             VW);
        if (i < n)
            OF(norm_at)
            (x + i, vset(mean), vset(rstd), norm->w + i, b ? b + i : b, y + i,
             n - i);
    }
}

INLINE void OF(norm_sums_at)(struct norm_sums *s, const NUM *x, const float *dy,
                             vf mean, vf rstd, const NUM *w, float *dw,
                             float *db, size_t k)
{
    vf xhat = (LOAD(x, k) - mean) * rstd;
    vf d = vload(dy, k);
    vf g = d * LOAD(w, k);

    s->g += g; /* lanes past k read as zero in dy, so in g */
    s->gx = vfma(g, xhat, s->gx);
    vstore(dw, vfma(d, xhat, vload(dw, k)), k);
    vstore(db, vload(db, k) + d, k);
}

INLINE void OF(norm_dx_at)(const NUM *x, const float *dy, const NUM *dres,
                           vf mean, vf rstd, vf mg, vf mgx, const NUM *w,
                           NUM *dx, size_t k)
{
    vf xhat = (LOAD(x, k) - mean) * rstd;
    vf g = vload(dy, k) * LOAD(w, k);
    vf t = rstd * ((g - mg) - xhat * mgx);

    if (dres)
        t += LOAD(dres, k);
    STORE(dx, t, k);
}

/* With xhat = (x - mean) rstd and g = dy w:
 *   dx = dres + rstd (g - mean(g) - xhat mean(g xhat)),
 * the mean(g) being LayerNorm's only; dw = sum of dy xhat, db = sum of dy. */
static void OF(norm_backward)(const struct NORM *norm, const NUM *x,
                              const float *dy, const NUM *dres, NUM *dx,
                              float *dnorm, size_t rows)
{
    const size_t n = norm->width;
    const NUM *w = norm->w;
    float *dw = dnorm, *db = dnorm + n;

    memset(dnorm, 0, 2 * n * sizeof(float));
    for (size_t r = 0; r < rows; r++) {
        float mean, rstd = OF(row_statistics)(norm, x, &mean);
        const vf mu = vset(mean), rs = vset(rstd);
        struct norm_sums a = { vzero(), vzero() }, b = a;
        vf mg, mgx;
        size_t i = 0;

        for (; i + 2 * VW <= n; i += 2 * VW) {
            OF(norm_sums_at)
            (&a, x + i, dy + i, mu, rs, w + i, dw + i, db + i, VW);
            OF(norm_sums_at)
            (&b, x + i + VW, dy + i + VW, mu, rs, w + i + VW, dw + i + VW,
             db + i + VW, VW);
        }
        for (; i + VW <= n; i += VW)
            OF(norm_sums_at)
            (&a, x + i, dy + i, mu, rs, w + i, dw + i, db + i, VW);
        if (i < n)
            OF(norm_sums_at)
            (&b, x + i, dy + i, mu, rs, w + i, dw + i, db + i, n - i);
        mg = norm->rms ? vzero() : vset(vsum(a.g + b.g) / (float)n);
        mgx = vset(vsum(a.gx + b.gx) / (float)n);

        for (i = 0; i + VW <= n; i += VW)
            OF(norm_dx_at)
            (x + i, dy + i, dres ? dres + i : dres, mu, rs, mg, mgx, w + i,
             dx + i, VW);
        if (i < n)
            OF(norm_dx_at)
            (x + i, dy + i, dres ? dres + i : dres, mu, rs, mg, mgx, w + i,
             dx + i, n - i);
        x += n;
        dy += n;
        dx += n;
        dres = dres ? dres + n : dres;
    }
    if (norm->rms)
        memset(db, 0, n * sizeof(float));
}
