/* loops_row.h - the product of one row with a matrix: as fast as the matrix is
 * read. For each type of the matrix (loops_types.h). */

/* `streams` rows of W, `apart` numbers from each other: the same order of sums
 * for each, whatever stands beside it. */
INLINE void OF(row_at)(const float *x, const NUM *w, size_t apart, size_t k,
                       size_t streams, float *out)
{
    vf s[ROW_STREAMS];
    size_t i = 0;

    UNROLL
    for (size_t r = 0; r < streams; r++)
        s[r] = vzero();
    for (; i + VW <= k; i += VW) {
        vf at = vload(x + i, VW);

        UNROLL
        for (size_t r = 0; r < streams; r++)
            s[r] = vfma(LOAD(w + r * apart + i, VW), at, s[r]);
    }
    if (i < k) {
        vf at = vload(x + i, k - i);

        UNROLL
        for (size_t r = 0; r < streams; r++)
            s[r] = vfma(LOAD(w + r * apart + i, k - i), at, s[r]);
    }
    UNROLL
    for (size_t r = 0; r < streams; r++)
        out[r] = vsum(s[r]);
}

static void OF(row_product)(const float *x, const NUM *w, size_t n, size_t k,
                            float beta, float *y)
{
    const size_t far = n / ROW_STREAMS;
    float out[ROW_STREAMS];

    for (size_t j = 0; j < far; j++) {
        OF(row_at)(x, w + j * k, far * k, k, ROW_STREAMS, out);
        for (size_t r = 0; r < ROW_STREAMS; r++)
            y[j + r * far] =
                beta == 0 ? out[r] : out[r] + beta * y[j + r * far];
    }
    for (size_t j = far * ROW_STREAMS; j < n; j++) {
        OF(row_at)(x, w + j * k, 0, k, 1, out);
        y[j] = beta == 0 ? out[0] : out[0] + beta * y[j];
    }
}
