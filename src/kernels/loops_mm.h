/* loops_mm.h - products of small matrices that stay in the first caches, of
 * fp32 numbers or of pairs of bf16: two numbers that are next to each other in
 * the dimension that is summed over, in the 32 bits of one. */
#ifndef DSF_KERNELS_LOOPS_MM_H
#define DSF_KERNELS_LOOPS_MM_H

/* A tile of the product that fits in registers: MM_ROWS x MM_VECS vectors. */
#if defined(DSF_VEC_AVX512)
enum { MM_ROWS = 6, MM_VECS = 4 };
#elif defined(DSF_VEC_AVX2)
enum { MM_ROWS = 6, MM_VECS = 2 };
#else
enum { MM_ROWS = 4, MM_VECS = 2 };
#endif

/* Of one vector: as many rows as hide how long an addition takes. */
enum { MM_THIN = 8 };

/* C[m][n] = or += A B. A(i, k) is a[i * ai + k * ak], so A may be transposed;
 * rows of B and C are consecutive numbers. Of pairs, k counts pairs, A and B
 * are of pairs, and C = by A B. */
struct product {
    size_t m, n, k;
    const float *a;
    size_t ai, ak;
    const float *b;
    size_t ldb;
    float *c;
    size_t ldc;
    int add;
    int pairs;
    float by;
    /* NULL, or where each 16 columns of B are; `b` is then the first of all. */
    const size_t *at;
};

/* Columns of B from j on. */
INLINE const float *mm_columns(const struct product *p, size_t j)
{
    return p->b + p->at[j / 16] + j % 16;
}

/* rows, vecs, pairs, apart (columns of B are where p->at says) and, but for the
 * last vector, lanes are constants. */
INLINE void mm_tile(const struct product *p, size_t i, size_t j, size_t rows,
                    size_t vecs, size_t lanes, int pairs, int apart)
{
    const float *a = p->a + i * p->ai, *b = apart ? NULL : p->b + j;
    const float *of[MM_VECS];
    const size_t ai = p->ai, ak = p->ak, ldb = p->ldb;
    float *c = p->c + i * p->ldc + j;
    vf t[MM_THIN][MM_VECS];

    UNROLL
    for (size_t r = 0; r < rows; r++) {
        UNROLL
        for (size_t v = 0; v < vecs; v++)
            t[r][v] = p->add ? vload(c + r * p->ldc + v * VW, lanes) : vzero();
    }
    if (apart) {
        UNROLL
        for (size_t v = 0; v < vecs; v++)
            of[v] = mm_columns(p, j + v * VW);
    }
    for (size_t k = p->k; k > 0; k--, a += ak) {
        vf x[MM_VECS];

        UNROLL
        for (size_t v = 0; v < vecs; v++) {
            x[v] = vload(apart ? of[v] : b + v * VW, lanes);
            if (apart)
                of[v] += ldb;
        }
        if (!apart)
            b += ldb;
        UNROLL
        for (size_t r = 0; r < rows; r++) {
            vf y = vset(a[r * ai]);

            UNROLL
            for (size_t v = 0; v < vecs; v++)
                t[r][v] =
                    pairs ? vdot(y, x[v], t[r][v]) : vfma(y, x[v], t[r][v]);
        }
    }
    UNROLL
    for (size_t r = 0; r < rows; r++) {
        UNROLL
        for (size_t v = 0; v < vecs; v++) {
            if (pairs && !p->add)
                t[r][v] *= vset(p->by);
            vstore(c + r * p->ldc + v * VW, t[r][v], lanes);
        }
    }
}

INLINE void mm_panel(const struct product *p, size_t j, size_t vecs,
                     size_t lanes, int pairs, int apart)
{
    const size_t rows = vecs == 1 ? MM_THIN : MM_ROWS;
    size_t i = 0;

    for (; i + rows <= p->m; i += rows)
        mm_tile(p, i, j, rows, vecs, lanes, pairs, apart);
    if (rows > 4 && i + 4 <= p->m) {
        mm_tile(p, i, j, 4, vecs, lanes, pairs, apart);
        i += 4;
    }
    for (; i + 2 <= p->m; i += 2)
        mm_tile(p, i, j, 2, vecs, lanes, pairs, apart);
    if (i < p->m)
        mm_tile(p, i, j, 1, vecs, lanes, pairs, apart);
}

INLINE void mm_all(const struct product *p, int pairs, int apart)
{
    size_t j = 0;

    for (; j + MM_VECS * VW <= p->n; j += MM_VECS * VW)
        mm_panel(p, j, MM_VECS, VW, pairs, apart);
    if (MM_VECS > 2 && j + 2 * VW <= p->n) {
        mm_panel(p, j, 2, VW, pairs, apart);
        j += 2 * VW;
    }
    for (; j + VW <= p->n; j += VW)
        mm_panel(p, j, 1, VW, pairs, apart);
    if (j < p->n)
        mm_panel(p, j, 1, p->n - j, pairs, apart);
}

static void mm(const struct product *p)
{
    if (PAIRS && p->pairs)
        mm_all(p, 1, 0);
    else
        mm_all(p, 0, 0);
}

/* The same of columns that are where p->at says. */
static void mm_apart(const struct product *p)
{
    if (PAIRS && p->pairs)
        mm_all(p, 1, 1);
    else
        mm_all(p, 0, 1);
}

#endif
