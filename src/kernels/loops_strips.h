/* loops_strips.h - rows of a head as attention multiplies them: fp32, or pairs
 * of bf16 (loops_mm.h). In the data they are far apart, and by powers of two.
 */
#ifndef DSF_KERNELS_LOOPS_STRIPS_H
#define DSF_KERNELS_LOOPS_STRIPS_H

/* Numbers i .. i + k of a type, a constant. */
INLINE vf load_as(enum dsflow_dtype type, const void *p, size_t i, size_t k)
{
    if (type == DSFLOW_BF16)
        return vload_bf16((const uint16_t *)p + i, k);
    if (type == DSFLOW_FP16)
        return vload_fp16((const uint16_t *)p + i, k);
    return vload((const float *)p + i, k);
}

INLINE void store_as(enum dsflow_dtype type, void *p, size_t i, vf a, size_t k)
{
    if (type == DSFLOW_BF16)
        vstore_bf16((uint16_t *)p + i, a, k);
    else if (type == DSFLOW_FP16)
        vstore_fp16((uint16_t *)p + i, a, k);
    else
        vstore((float *)p + i, a, k);
}

/* Those from the i-th on. */
INLINE struct dsf_numbers from(struct dsf_numbers a, size_t i)
{
    a.p = (char *)a.p + i * (a.type == DSFLOW_FP32 ? sizeof(float) : 2);
    return a;
}

INLINE struct dsf_numbers floats(float *p)
{
    return (struct dsf_numbers){ p, DSFLOW_FP32 };
}

INLINE void copy_as(enum dsflow_dtype to_type, enum dsflow_dtype from_type,
                    void *to, size_t ldt, const void *in, size_t ldf,
                    size_t rows, size_t n, float by)
{
    const vf f = vset(by);

    for (size_t r = 0; r < rows; r++) {
        size_t i = 0, t = r * ldt, s = r * ldf;

        for (; i + VW <= n; i += VW)
            store_as(to_type, to, t + i, load_as(from_type, in, s + i, VW) * f,
                     VW);
        if (i < n)
            store_as(to_type, to, t + i,
                     load_as(from_type, in, s + i, n - i) * f, n - i);
    }
}

/* to[n] = from[n] * by, over rows. One of the two may be narrow. */
static void copy_rows(struct dsf_numbers to, size_t ldt, struct dsf_numbers in,
                      size_t ldf, size_t rows, size_t n, float by)
{
    const enum dsflow_dtype wide = DSFLOW_FP32;

    if (in.type == DSFLOW_BF16)
        copy_as(wide, DSFLOW_BF16, to.p, ldt, in.p, ldf, rows, n, by);
    else if (in.type == DSFLOW_FP16)
        copy_as(wide, DSFLOW_FP16, to.p, ldt, in.p, ldf, rows, n, by);
    else if (to.type == DSFLOW_BF16)
        copy_as(DSFLOW_BF16, wide, to.p, ldt, in.p, ldf, rows, n, by);
    else if (to.type == DSFLOW_FP16)
        copy_as(DSFLOW_FP16, wide, to.p, ldt, in.p, ldf, rows, n, by);
    else
        copy_as(wide, wide, to.p, ldt, in.p, ldf, rows, n, by);
}

/* to[n] = 0, over rows. */
static void clear_rows(struct dsf_numbers to, size_t ldt, size_t rows, size_t n)
{
    const size_t bytes = n * (to.type == DSFLOW_FP32 ? sizeof(float) : 2);

    for (size_t r = 0; r < rows; r++)
        memset(from(to, r * ldt).p, 0, bytes);
}

#if defined(DSF_VEC_AVX512)
#if defined(__clang__)
#define UNROLL16
#else
#define UNROLL16 _Pragma("GCC unroll 16")
#endif

/* to[j][i] = from[i][j], of 16 rows and columns. */
static void transpose_16(float *to, size_t ldt, const float *from, size_t ldf)
{
    __m512 r[16], t[16];

    UNROLL16
    for (int i = 0; i < 16; i++)
        r[i] = _mm512_loadu_ps(from + (size_t)i * ldf);
    UNROLL16
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
    UNROLL16
    for (int i = 0; i < 16; i++) {
        const int at = i / 4 * 4 + i % 4 / 2;
        const __m512d a = _mm512_castps_pd(t[at]);
        const __m512d b = _mm512_castps_pd(t[at + 2]);

        r[i] = _mm512_castpd_ps(i % 2 == 0 ? _mm512_unpacklo_pd(a, b)
                                           : _mm512_unpackhi_pd(a, b));
    }
    /* Each quarter of r[4 q + j] has four rows of the columns j, 4 + j … */
    UNROLL16
    for (int j = 0; j < 4; j++) {
        const __m512 a = _mm512_shuffle_f32x4(r[j], r[4 + j], 0x88);
        const __m512 b = _mm512_shuffle_f32x4(r[8 + j], r[12 + j], 0x88);
        const __m512 c = _mm512_shuffle_f32x4(r[j], r[4 + j], 0xdd);
        const __m512 d = _mm512_shuffle_f32x4(r[8 + j], r[12 + j], 0xdd);
        float *p = to + (size_t)j * ldt;

        _mm512_storeu_ps(p, _mm512_shuffle_f32x4(a, b, 0x88));
        _mm512_storeu_ps(p + 4 * ldt, _mm512_shuffle_f32x4(c, d, 0x88));
        _mm512_storeu_ps(p + 8 * ldt, _mm512_shuffle_f32x4(a, b, 0xdd));
        _mm512_storeu_ps(p + 12 * ldt, _mm512_shuffle_f32x4(c, d, 0xdd));
    }
}
#endif

/* to[j][i] = from[i][j], eight rows at a time: whole cache lines of `to` would
 * be better, but its rows are many. */
static void transpose(float *to, size_t ldt, const float *from, size_t ldf,
                      size_t rows, size_t n)
{
    size_t i = 0;

#if defined(DSF_VEC_AVX512)
    for (; i + 16 <= rows; i += 16) {
        size_t j = 0;

        for (; j + 16 <= n; j += 16)
            transpose_16(to + j * ldt + i, ldt, from + i * ldf + j, ldf);
        for (; j < n; j++)
            for (size_t r = 0; r < 16; r++)
                to[j * ldt + i + r] = from[(i + r) * ldf + j];
    }
#endif
    for (; i + 8 <= rows; i += 8) {
        const float *f = from + i * ldf;

        for (size_t j = 0; j < n; j++) {
            float *t = to + j * ldt + i;

            t[0] = f[j];
            t[1] = f[ldf + j];
            t[2] = f[2 * ldf + j];
            t[3] = f[3 * ldf + j];
            t[4] = f[4 * ldf + j];
            t[5] = f[5 * ldf + j];
            t[6] = f[6 * ldf + j];
            t[7] = f[7 * ldf + j];
        }
    }
    for (; i < rows; i++) {
        for (size_t j = 0; j < n; j++)
            to[j * ldt + i] = from[i * ldf + j];
    }
}

/* The same of keys or values of any type; `wide` has room for eight rows. */
static void transpose_rows(float *to, size_t ldt, struct dsf_numbers in,
                           size_t ldf, size_t rows, size_t n, float *wide,
                           size_t ldw)
{
    if (in.type == DSFLOW_FP32) {
        transpose(to, ldt, in.p, ldf, rows, n);
        return;
    }
    for (size_t i = 0; i < rows; i += 8) {
        size_t m = rows - i < 8 ? rows - i : 8;

        copy_rows(floats(wide), ldw, from(in, i * ldf), ldf, m, n, 1);
        transpose(to + i, ldt, wide, ldw, m, n);
    }
}

/* to = or += from, over rows; narrow numbers are only set. */
static void put_rows(struct dsf_numbers to, size_t ldt, float *in, size_t ldf,
                     size_t rows, size_t n, int set)
{
    float *sum = to.p;

    assert(set || to.type == DSFLOW_FP32);
    if (set)
        copy_rows(to, ldt, floats(in), ldf, rows, n, 1);
    else
        for (size_t r = 0; r < rows; r++)
            sum2(sum + r * ldt, sum + r * ldt, in + r * ldf, n);
}

/* The pairs that n numbers make; the last one has a 0 where n is odd. */
INLINE size_t pairs_of(size_t n)
{
    return (n + 1) / 2;
}

/* to[r] = the pairs of row r, whose last ones are 0; rows of `to` are ldt
 * apart, at least as long as n rounded up to whole vectors. */
static void pair_rows(float *to, size_t ldt, const uint16_t *in, size_t ldf,
                      size_t rows, size_t n)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < n; i += VW)
            vstore16((uint16_t *)(to + r * ldt) + i,
                     vload16(in + r * ldf + i, n - i < VW ? n - i : VW), VW);
}

/* A row of n numbers becomes that of its pairs. */
static void pair_row(float *x, size_t n)
{
    for (size_t i = 0; i < n; i += VW)
        vstore_factor((uint16_t *)x + i,
                      vload(x + i, n - i < VW ? n - i : VW));
}

/* to[r / 2][i] = the pair of in[r][i] and in[r + 1][i]. */
static void pair_columns(float *to, size_t ldt, const uint16_t *in, size_t ldf,
                         size_t rows, size_t n)
{
    for (size_t r = 0; r < rows; r += 2) {
        const uint16_t *f = in + r * ldf;

        for (size_t i = 0; i < n; i += VW) {
            size_t k = n - i < VW ? n - i : VW;
            vu a = extend(vload16(f + i, k)), b = { 0 };

            if (r + 1 < rows)
                b = extend(vload16(f + ldf + i, k));
            vstore(to + r / 2 * ldt + i, (vf)(a | b << 16), k);
        }
    }
}

/* to[j][i] = the j-th pair of row i. */
static void transpose_pairs(float *to, size_t ldt, const uint16_t *in,
                            size_t ldf, size_t rows, size_t n)
{
    for (size_t i = 0; i < rows; i += 8) {
        const size_t m = rows - i < 8 ? rows - i : 8;

        for (size_t j = 0; j < n / 2; j++)
            for (size_t r = 0; r < m; r++)
                memcpy(to + j * ldt + i + r, in + (i + r) * ldf + 2 * j,
                       sizeof(float));
        for (size_t r = 0; n % 2 && r < m; r++) {
            const uint16_t last[2] = { in[(i + r) * ldf + n - 1], 0 };

            memcpy(to + n / 2 * ldt + i + r, last, sizeof(last));
        }
    }
}

#endif
