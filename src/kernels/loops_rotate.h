/* loops_rotate.h - rotary positions (Su et al. 2021). */
#ifndef DSF_KERNELS_LOOPS_ROTATE_H
#define DSF_KERNELS_LOOPS_ROTATE_H

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
