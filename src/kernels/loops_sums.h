/* loops_sums.h - sums of two arrays, of columns, of the products of two heads;
 * for each type (loops_types.h). */

INLINE void OF(add_at)(NUM *y, const NUM *a, const NUM *b, size_t k)
{
    STORE(y, LOAD(a, k) + LOAD(b, k), k);
}

/* y = a + b */
static void OF(sum2)(NUM *y, const NUM *a, const NUM *b, size_t n)
{
    size_t i = 0;

    for (; i + VW <= n; i += VW)
        OF(add_at)(y + i, a + i, b + i, VW);
    if (i < n)
        OF(add_at)(y + i, a + i, b + i, n - i);
}

INLINE void OF(add_row)(float *into, const NUM *x, size_t k)
{
    vstore(into, vload(into, k) + LOAD(x, k), k);
}

INLINE void OF(add_rows8)(float *into, const NUM *x, size_t cols, size_t k)
{
    vf a = LOAD(x, k) + LOAD(x + cols, k);
    vf b = LOAD(x + 2 * cols, k) + LOAD(x + 3 * cols, k);
    vf c = LOAD(x + 4 * cols, k) + LOAD(x + 5 * cols, k);
    vf d = LOAD(x + 6 * cols, k) + LOAD(x + 7 * cols, k);

    vstore(into, vload(into, k) + ((a + b) + (c + d)), k);
}

/* into[j] += the sum of column j: eight rows at a time, then one by one. */
static void OF(column_sums)(float *into, const NUM *x, size_t rows, size_t cols)
{
    size_t r = 0;

    for (; r + 8 <= rows; r += 8) {
        const NUM *at = x + r * cols;
        size_t j = 0;

        for (; j + VW <= cols; j += VW)
            OF(add_rows8)(into + j, at + j, cols, VW);
        if (j < cols)
            OF(add_rows8)(into + j, at + j, cols, cols - j);
    }
    for (; r < rows; r++) {
        const NUM *at = x + r * cols;
        size_t j = 0;

        for (; j + VW <= cols; j += VW)
            OF(add_row)(into + j, at + j, VW);
        if (j < cols)
            OF(add_row)(into + j, at + j, cols - j);
    }
}

/* out[r][h] = the sum over head h of a b. */
static void OF(head_dots)(const float *a, const NUM *b, float *out, size_t rows,
                          size_t heads, size_t head_dim)
{
    for (size_t i = 0; i < rows * heads; i++) {
        vf s = vzero();
        size_t j = 0;

        for (; j + VW <= head_dim; j += VW)
            s = vfma(vload(a + j, VW), LOAD(b + j, VW), s);
        if (j < head_dim)
            s = vfma(vload(a + j, head_dim - j), LOAD(b + j, head_dim - j), s);
        out[i] = vsum(s);
        a += head_dim;
        b += head_dim;
    }
}
