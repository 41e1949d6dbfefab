/* bench_narrow.c - products and loops of bf16 and fp16 beside those of fp32, on
 * one core: seconds of its own, the best of several taken in turns, so that a
 * noisy machine disturbs all alike.
 *
 *   bench_narrow [ROWS [REPETITIONS]]
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "kernels/narrow.h"

static unsigned repetitions = 5;

/* Zeroes. */
static void *room(size_t bytes)
{
    void *p = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);

    if (!p) {
        fprintf(stderr, "bench_narrow: not enough memory for %zu bytes\n",
                bytes);
        exit(1);
    }
    return memset(p, 0, (bytes + 4095) / 4096 * 4096);
}

static const enum dsflow_dtype types[] = { DSFLOW_FP32, DSFLOW_BF16,
                                           DSFLOW_FP16 };

static void multiply(const struct dsf_product *p)
{
    if (p->type == DSFLOW_FP32)
        dsf_gemm(p->ta, p->tb, p->m, p->n, p->k, (const float *)p->a, p->lda,
                 (const float *)p->b, p->ldb, p->beta, p->c, p->ldc);
    else
        dsf_product(p);
}

/* What the numbers are does not matter, but that they are none that make
 * arithmetic slow. */
static void product(int ta, int tb, size_t m, size_t n, size_t k, float beta)
{
    uint16_t *a = room(m * k * 4), *b = room(n * k * 4);
    struct dsf_product p = { .ta = ta,
                             .tb = tb,
                             .m = m,
                             .n = n,
                             .k = k,
                             .a = a,
                             .lda = ta ? m : k,
                             .b = b,
                             .ldb = tb ? k : n,
                             .beta = beta,
                             .c = room(m * n * sizeof(float)),
                             .ldc = n,
                             .scratch = room(dsf_product_scratch(m, n, k)) };
    double best[3] = { INFINITY, INFINITY, INFINITY };

    for (size_t i = 0; i < 2 * m * k; i++)
        a[i] = 0x3c00;
    for (size_t i = 0; i < 2 * n * k; i++)
        b[i] = 0x3c00;
    for (unsigned r = 0; r <= repetitions; r++) {
        for (size_t t = 0; t < 3; t++) {
            double start = dsf_thread_seconds(), seconds;

            p.type = types[t];
            multiply(&p);
            seconds = dsf_thread_seconds() - start;
            if (r > 0)
                best[t] = seconds < best[t] ? seconds : best[t];
        }
    }
    printf("%5zu x %5zu x %5zu %s%s%s", m, n, k, ta ? "T" : "N", tb ? "T" : "N",
           beta != 0 ? " +=" : "   ");
    for (size_t t = 0; t < 3; t++)
        printf("   %s %7.1f GFLOP/s", dsflow_dtype_str(types[t]),
               2e-9 * (double)m * (double)n * (double)k / best[t]);
    putchar('\n');
    free(a);
    free(b);
    free(p.c);
    free(p.scratch);
}

/* What the loops run on: [rows][width] each, and a row of weights. */
struct arrays {
    size_t rows, width;
    float *f, *g, *m, *v;
    uint16_t *x, *y, *z, *row;
};

static struct dsf_narrow_norm norm_of(const struct arrays *a)
{
    return (struct dsf_narrow_norm){ a->row, a->row, a->width, 1e-5f, 0 };
}

static void widen(const struct dsf_narrow_loops *l, const struct arrays *a)
{
    l->widen(a->x, a->f, a->rows * a->width);
}

static void narrow(const struct dsf_narrow_loops *l, const struct arrays *a)
{
    l->narrow(a->f, a->width, a->row, a->y, a->width, a->rows, a->width);
}

static void residual(const struct dsf_narrow_loops *l, const struct arrays *a)
{
    l->residual(a->f, a->x, a->row, a->y, a->rows, a->width);
}

static void columns(const struct dsf_narrow_loops *l, const struct arrays *a)
{
    l->column_sums(a->g, a->x, a->rows, a->width);
}

static void row(const struct dsf_narrow_loops *l, const struct arrays *a)
{
    l->row_product(a->f, a->x, a->rows, a->width, 0, a->g);
}

static void norm(const struct dsf_narrow_loops *l, const struct arrays *a)
{
    const struct dsf_narrow_norm n = norm_of(a);

    l->norm_forward(&n, a->x, a->y, a->rows);
}

static void norm_back(const struct dsf_narrow_loops *l, const struct arrays *a)
{
    const struct dsf_narrow_norm n = norm_of(a);

    l->norm_backward(&n, a->x, a->f, a->y, a->z, a->g, a->rows);
}

static void gelu(const struct dsf_narrow_loops *l, const struct arrays *a)
{
    l->gelu_forward(a->f, a->row, a->x, a->y, a->rows, a->width);
}

static void gelu_back(const struct dsf_narrow_loops *l, const struct arrays *a)
{
    l->gelu_backward(a->x, a->f, a->y, a->rows * a->width);
}

static void swiglu(const struct dsf_narrow_loops *l, const struct arrays *a)
{
    l->swiglu_forward(a->f, a->row, a->x, a->y, a->rows, a->width / 2);
}

static void swiglu_back(const struct dsf_narrow_loops *l,
                        const struct arrays *a)
{
    const size_t cols = a->width / 2;

    l->swiglu_backward(a->x, a->f, cols, a->y, a->rows, cols);
}

static void adam(const struct dsf_narrow_loops *l, const struct arrays *a)
{
    const struct dsf_adam_step s = {
        .beta1 = 0.9,
        .beta2 = 0.95,
        .scale = 1,
        .lr1 = 1e-3f,
        .root2 = 1,
        .eps = 1e-8f,
    };

    l->adam(&s, a->f, a->g, a->m, a->v, a->y, a->rows * a->width);
}

static const struct {
    const char *name;
    void (*run)(const struct dsf_narrow_loops *l, const struct arrays *a);
    double bytes; /* read and written for each number */
} loops[] = {
    { "widen", widen, 6 },
    { "narrow", narrow, 6 },
    { "residual", residual, 8 },
    { "column sums", columns, 2 },
    { "row product", row, 2 },
    { "norm", norm, 4 },
    { "norm, backward", norm_back, 10 },
    { "gelu", gelu, 8 },
    { "gelu, backward", gelu_back, 10 },
    { "swiglu", swiglu, 7 },
    { "swiglu, backward", swiglu_back, 7 },
    { "adam with a copy", adam, 30 },
};

static double best_of(size_t i, enum dsflow_dtype type, const struct arrays *a)
{
    double best = INFINITY;

    for (unsigned r = 0; r <= repetitions; r++) {
        double start = dsf_thread_seconds(), seconds;

        loops[i].run(dsf_narrow(type), a);
        seconds = dsf_thread_seconds() - start;
        if (r > 0)
            best = seconds < best ? seconds : best;
    }
    return best;
}

static void all_loops(size_t rows, size_t width)
{
    const size_t n = rows * width;
    struct arrays a = { .rows = rows,
                        .width = width,
                        .f = room(n * 4),
                        .g = room(n * 4),
                        .m = room(n * 4),
                        .v = room(n * 4),
                        .x = room(n * 2),
                        .y = room(n * 2),
                        .z = room(n * 2),
                        .row = room(width * 2) };

    printf("%zu x %zu, GB/s:\n", rows, width);
    for (size_t i = 0; i < sizeof(loops) / sizeof(*loops); i++)
        printf("  %-18s bf16 %6.2f   fp16 %6.2f\n", loops[i].name,
               1e-9 * loops[i].bytes * (double)n / best_of(i, DSFLOW_BF16, &a),
               1e-9 * loops[i].bytes * (double)n / best_of(i, DSFLOW_FP16, &a));
    free(a.f);
    free(a.g);
    free(a.m);
    free(a.v);
    free(a.x);
    free(a.y);
    free(a.z);
    free(a.row);
}

int main(int argc, char **argv)
{
    size_t rows = 256;

    if (argc > 1)
        rows = (size_t)atoi(argv[1]);
    if (argc > 2)
        repetitions = (unsigned)atoi(argv[2]);
    if (rows < 1 || rows > 8192 || repetitions < 1) {
        fprintf(stderr, "usage: bench_narrow [ROWS [REPETITIONS]]\n");
        return 2;
    }
    printf("%s, best of %u\n", dsf_kernels_isa(), repetitions);
    product(0, 1, rows, 3072, 768, 0);
    product(0, 1, rows, 768, 3072, 0);
    product(0, 0, rows, 768, 3072, 0);
    product(1, 0, 3072, 768, rows, 1);
    product(0, 1, rows, 8192, 768, 0);
    all_loops(rows, 3072);
    all_loops(8 * rows, 3072);
    return 0;
}
