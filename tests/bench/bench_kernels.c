/* bench_kernels.c - how close each segment comes to its products of matrices
 * alone, on one core. Times are the best of several, taken in turns, so that a
 * noisy machine disturbs both sides alike.
 *
 *   bench_kernels [ROWS [REPETITIONS [NAME]]]
 *
 * NAME: only the kinds of task whose name begins so.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "codelets/codelets.h"
#include "codelets/cast.h"
#include "kernels/kernels.h"
#include "tasks/tasks.h"
#include "tasks/tile.h"

static unsigned repetitions = 5;
static const char *wanted = "";

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static float *numbers(size_t n, float spread)
{
    size_t room = (n * sizeof(float) + 4159) / 4096 * 4096;
    float *p = aligned_alloc(4096, room);
    uint32_t s = 12345;

    if (!p) {
        fprintf(stderr, "bench_kernels: not enough memory for %zu bytes\n",
                room);
        exit(1);
    }
    for (size_t i = 0; i < n; i++) {
        s = s * 1664525 + 1013904223;
        p[i] = ((float)(s >> 8) / 8388608.0f - 1) * spread;
    }
    return p;
}

/* One product of a segment: C[m][n] of length k. */
struct shape {
    int ta, tb;
    size_t m, n, k;
    float beta;
};

struct segment {
    const struct dsflow_codelet *codelet;
    const void *args;
    unsigned nports, nshapes;
    size_t bytes[DSFLOW_TRIAL_PORTS];
    float *ports[DSFLOW_TRIAL_PORTS];
    struct shape shapes[3];
};

static void products(const struct segment *s, float *a, float *b, float *c)
{
    for (unsigned i = 0; i < s->nshapes; i++) {
        const struct shape *p = &s->shapes[i];

        dsf_gemm(p->ta, p->tb, p->m, p->n, p->k, a, p->ta ? p->m : p->k, b,
                 p->tb ? p->k : p->n, p->beta, c, p->n);
    }
}

static void segment_bench(const struct segment *s, float *a, float *b, float *c)
{
    const struct dsflow_op *op = s->codelet->op;
    struct dsflow_buf bufs[DSFLOW_TRIAL_PORTS];
    struct dsflow_shape shapes[DSFLOW_TRIAL_PORTS];
    const struct dsflow_case seen = { op, shapes, s->nports, s->args };
    double own = INFINITY, plain = INFINITY;
    struct dsflow_cost cost;
    struct dsflow_err err;
    size_t room = 64;
    void *scratch;

    if (strncmp(op->name, wanted, strlen(wanted)) != 0)
        return;
    for (unsigned i = 0; i < s->nports; i++) {
        enum dsflow_dtype dtype =
            op->ports[i].dtype != 0 ? op->ports[i].dtype : DSFLOW_FP32;

        shapes[i] = dsflow_shape_of(
            dtype, (int64_t)(s->bytes[i] / dsflow_dtype_bytes(dtype, 1)));
        bufs[i] = (struct dsflow_buf){ s->ports[i], s->bytes[i],
                                       shapes[i].elems, dtype };
    }
    if (op->check(&seen, &err) < 0) {
        fprintf(stderr, "bench_kernels: %s\n", err.msg);
        exit(1);
    }
    op->cost(&seen, &cost);
    if (op->scratch)
        room += op->scratch(&seen);
    scratch = numbers(room / sizeof(float), 1);
    for (unsigned i = 0; i <= repetitions; i++) {
        double t0 = now(), t1, t2;

        s->codelet->cpu(&(struct dsflow_call){ .bufs = bufs,
                                               .nbufs = s->nports,
                                               .args = s->args,
                                               .scratch = scratch });
        t1 = now();
        products(s, a, b, c);
        t2 = now();
        if (i > 0) {
            own = t1 - t0 < own ? t1 - t0 : own;
            plain = t2 - t1 < plain ? t2 - t1 : plain;
        }
    }
    printf("%-26s %9.3f ms %7.1f GFLOP/s", op->name, own * 1e3,
           cost.flops / own * 1e-9);
    if (s->nshapes > 0)
        printf("   sgemm alone %9.3f ms, ratio %.3f", plain * 1e3, plain / own);
    putchar('\n');
    free(scratch);
}

/* A unit of parameters large enough for any segment but the head's. */
static void blocks(struct dsflow_tile t, float *a, float *b, float *c)
{
    const size_t r = (size_t)t.rows, w = (size_t)t.width, f = (size_t)t.ffn;
    const size_t nq = dsf_tile_qwidth(&t), nkv = dsf_tile_kvwidth(&t);
    const size_t unit = 8 * w * w + 8 * w + 2 * f, ub = unit * sizeof(float);
    const size_t xb = r * w * sizeof(float), hb = r * f * sizeof(float);
    const int64_t bias = (int64_t)(8 * w * w);
    const struct dsflow_qkv_args qkv = { t, 0, bias, bias, bias };
    const struct dsflow_out_args out = { t, 0, bias };
    const struct dsflow_mlp_args mlp = { t,    0,    bias, (int64_t)(4 * w * w),
                                      bias, bias, bias };
    float *u = numbers(unit, 0.05f), *grad = numbers(unit, 0);
    float *x = numbers(r * w, 1), *q = numbers(r * nq, 1);
    float *kv = numbers(r * nkv, 1), *y = numbers(r * w, 1);
    float *h = numbers(r * f, 1), *dh = numbers(r * f, 1);
    float *dnorm = numbers(2 * w, 1), *delta = numbers(r * w, 1);
    const struct segment segments[] = {
        { &dsf_codelet_qkv_forward,
          &qkv,
          4,
          1,
          { xb, ub, xb, 2 * xb },
          { x, u, q, kv },
          { { 0, 1, r, nq + nkv, w, 0 } } },
        { &dsf_codelet_qkv_backward_input,
          &qkv,
          7,
          1,
          { xb, 2 * xb, xb, ub, xb, xb, xb },
          { q, kv, x, u, y, x, dnorm },
          { { 0, 0, r, w, nq + nkv, 0 } } },
        { &dsf_codelet_qkv_backward_weight,
          &qkv,
          6,
          1,
          { xb, 2 * xb, xb, ub, xb, ub },
          { q, kv, x, u, dnorm, grad },
          { { 1, 0, nq + nkv, w, r, 1 } } },
        { &dsf_codelet_out_forward,
          &out,
          4,
          1,
          { xb, xb, ub, xb },
          { x, q, u, y },
          { { 0, 1, r, w, nq, 0 } } },
        { &dsf_codelet_out_backward_input,
          &out,
          5,
          1,
          { xb, xb, ub, xb, xb },
          { y, q, u, x, delta },
          { { 0, 0, r, nq, w, 0 } } },
        { &dsf_codelet_out_backward_weight,
          &out,
          3,
          1,
          { xb, xb, ub },
          { y, q, grad },
          { { 1, 0, w, nq, r, 1 } } },
        { &dsf_codelet_mlp_forward,
          &mlp,
          4,
          2,
          { xb, ub, hb, xb },
          { x, u, h, y },
          { { 0, 1, r, f, w, 0 }, { 0, 1, r, w, f, 0 } } },
        { &dsf_codelet_mlp_backward_input,
          &mlp,
          7,
          2,
          { xb, xb, ub, hb, hb, xb, xb },
          { y, x, u, h, dh, x, dnorm },
          { { 0, 0, r, f, w, 0 }, { 0, 0, r, w, f, 0 } } },
        { &dsf_codelet_mlp_backward_weight,
          &mlp,
          7,
          2,
          { xb, xb, ub, hb, hb, xb, ub },
          { y, x, u, h, dh, dnorm, grad },
          { { 1, 0, w, f, r, 1 }, { 1, 0, f, w, r, 1 } } },
    };

    for (size_t i = 0; i < sizeof(segments) / sizeof(*segments); i++)
        segment_bench(&segments[i], a, b, c);
    free(u);
    free(grad);
    free(x);
    free(q);
    free(kv);
    free(y);
    free(h);
    free(dh);
    free(dnorm);
    free(delta);
}

static void attention(struct dsflow_tile t, int32_t keys)
{
    const size_t r = (size_t)t.rows, nq = dsf_tile_qwidth(&t);
    const size_t nkv = dsf_tile_kvwidth(&t), lse = 2 * r * (size_t)t.heads;
    const size_t k = keys > 0 ? (size_t)keys : r;
    const struct dsflow_attention_args a = {
        t, (int32_t)k, keys == 0, 1, 1, 1, 1
    };
    const size_t qb = r * nq * sizeof(float), kb = k * nkv * sizeof(float);
    const size_t lb = lse * sizeof(float);
    float *q = numbers(r * nq, 1), *kv = numbers(k * nkv, 1);
    float *att = numbers(r * nq, 1), *l = numbers(lse, 1);
    float *datt = numbers(r * nq, 1), *delta = numbers(lse, 1);
    float *dq = numbers(r * nq, 1), *dkv = numbers(k * nkv, 1);
    const struct segment segments[] = {
        { &dsf_codelet_attention_forward,
          &a,
          4,
          0,
          { qb, kb, qb, lb },
          { q, kv, att, l },
          { { 0 } } },
        { &dsf_codelet_attention_backward_input,
          &a,
          7,
          0,
          { qb, kb, qb, lb, lb, qb, kb },
          { q, kv, datt, l, delta, dq, dkv },
          { { 0 } } },
    };

    printf("%zu queries, %zu keys%s, %d sequences:\n", r, k,
           keys == 0 ? " (causal)" : "", (int)t.nseq);
    for (size_t i = 0; i < 2; i++)
        segment_bench(&segments[i], NULL, NULL, NULL);
    free(q);
    free(kv);
    free(att);
    free(l);
    free(datt);
    free(delta);
    free(dq);
    free(dkv);
}

static void head(struct dsflow_tile t, float *a, float *b, float *c)
{
    const size_t r = (size_t)t.rows, w = (size_t)t.width, v = (size_t)t.vocab;
    const struct dsflow_head_args args = { t, 0, 0, 0, 1.0f / 256 };
    const size_t xb = r * w * sizeof(float), wb = v * w * sizeof(float);
    const size_t lb = r * v * sizeof(float), nb = 2 * w * sizeof(float);
    float *x = numbers(r * w, 1), *weight = numbers(v * w, 0.05f);
    float *grad = numbers(v * w, 0), *logits = numbers(r * v, 1);
    float *dnorm = numbers(2 * w, 1), *batch = numbers(2 * r, 0);
    const struct segment segments[] = {
        { &dsf_codelet_head_forward,
          &args,
          6,
          1,
          { xb, nb, wb, r * 8, lb, 8 },
          { x, dnorm, weight, batch, logits, c },
          { { 0, 1, r, v, w, 0 } } },
        { &dsf_codelet_head_backward_input,
          &args,
          6,
          1,
          { lb, xb, nb, wb, xb, nb },
          { logits, x, dnorm, weight, x, dnorm },
          { { 0, 0, r, w, v, 0 } } },
        { &dsf_codelet_head_backward_weight,
          &args,
          6,
          1,
          { lb, xb, nb, nb, wb, nb },
          { logits, x, dnorm, dnorm, grad, dnorm },
          { { 1, 0, v, w, r, 1 } } },
    };

    for (size_t i = 0; i < 3; i++)
        segment_bench(&segments[i], a, b, c);
    free(x);
    free(weight);
    free(grad);
    free(logits);
    free(dnorm);
    free(batch);
}

/* The update of `n` parameters against a copy of as many bytes: it reads 16
 * and writes 16 for each. */
static void update(size_t n)
{
    const struct dsf_adam_step s = { 1, 1e-3f, 1, 0.9f, 0.95f, 1e-8f, 0, 0 };
    float *p = numbers(4 * n, 1), *copy = numbers(4 * n, 1);
    double own = INFINITY, plain = INFINITY, sum = INFINITY;

    memset(p + 3 * n, 0, n * sizeof(float));
    for (unsigned i = 0; i <= repetitions; i++) {
        double t0 = now(), t1, t2, t3;

        dsf_adam_update(&s, p, p + n, p + 2 * n, p + 3 * n, n);
        t1 = now();
        memcpy(copy, p, 4 * n * sizeof(float));
        t2 = now();
        *(volatile double *)copy = dsf_square_sum(p, 4 * n);
        t3 = now();
        own = t1 - t0 < own ? t1 - t0 : own;
        plain = t2 - t1 < plain ? t2 - t1 : plain;
        sum = t3 - t2 < sum ? t3 - t2 : sum;
    }
    printf("adam of %zu: %.3f ms, %.2f GB/s; copy %.2f GB/s, ratio %.3f; "
           "square_sum %.2f GB/s\n",
           n, own * 1e3, 32e-9 * (double)n / own, 32e-9 * (double)n / plain,
           plain / own, 16e-9 * (double)n / sum);
    free(p);
    free(copy);
}

/* The same for states in fewer bytes: what is read and what is written. */
static void pack(size_t n, enum dsflow_dtype format, const char *name)
{
    const struct dsf_rounding r = { .key = 1 };
    size_t bytes = dsflow_dtype_bytes(format, (int64_t)n);
    float *whole = numbers(n, 1);
    void *packed = numbers(n, 1), *copy = numbers(n, 1);
    double there = INFINITY, back = INFINITY, plain = INFINITY;

    for (unsigned i = 0; i <= repetitions; i++) {
        double t0 = now(), t1, t2, t3;

        dsf_pack(format, &r, whole, packed, n);
        t1 = now();
        dsf_unpack(format, packed, whole, n);
        t2 = now();
        memcpy(copy, whole, n * sizeof(float));
        t3 = now();
        there = t1 - t0 < there ? t1 - t0 : there;
        back = t2 - t1 < back ? t2 - t1 : back;
        plain = t3 - t2 < plain ? t3 - t2 : plain;
    }
    printf("pack %s of %zu: %.2f GB/s; unpack %.2f GB/s; copy %.2f GB/s\n",
           name, n, 1e-9 * (double)(bytes + 4 * n) / there,
           1e-9 * (double)(bytes + 4 * n) / back, 8e-9 * (double)n / plain);
    free(whole);
    free(packed);
    free(copy);
}

int main(int argc, char **argv)
{
    struct dsflow_tile t = { .rows = 256,
                          .nseq = 1,
                          .width = 768,
                          .heads = 12,
                          .kv_heads = 12,
                          .head_dim = 64,
                          .ffn = 3072,
                          .vocab = 50257,
                          .context = 8192,
                          .eps = 1e-5f };
    float *a, *b, *c;
    size_t most;

    if (argc > 1)
        t.rows = atoi(argv[1]);
    if (argc > 2)
        repetitions = (unsigned)atoi(argv[2]);
    if (argc > 3)
        wanted = argv[3];
    if (t.rows < 1 || t.rows > 8192 || repetitions < 1) {
        fprintf(stderr, "usage: bench_kernels [ROWS [REPETITIONS [NAME]]]\n");
        return 2;
    }
    most = (size_t)t.vocab * (size_t)(t.rows > t.width ? t.rows : t.width);
    a = numbers(most, 1);
    b = numbers(most, 0.05f);
    c = numbers(most, 0);
    printf("%s, %d rows, best of %u\n", dsf_kernels_isa(), (int)t.rows,
           repetitions);
    blocks(t, a, b, c);
    attention(t, 0);
    t.pos = 1024;
    attention(t, 256);
    t.pos = 0;
    if (t.rows % 4 == 0) {
        t.nseq = 4;
        attention(t, 0);
        t.nseq = 1;
    }
    head(t, a, b, c);
    if (strncmp("adam", wanted, strlen(wanted)) == 0)
        update(16 << 20);
    if (strncmp("pack", wanted, strlen(wanted)) == 0) {
        pack(16 << 20, DSFLOW_BF16, "bf16");
        pack(16 << 20, DSFLOW_INT8_BLOCK, "int8");
    }
    free(a);
    free(b);
    free(c);
    return 0;
}
