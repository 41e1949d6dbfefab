/* bench_kernels.c - how close each segment comes to its products of matrices
 * alone, on one core. Times are the best of several, taken in turns, so that a
 * noisy machine disturbs all sides alike. Those that take bf16 and fp16 are
 * timed in these, too.
 *
 *   bench_kernels [ROWS [REPETITIONS [NAME]]]
 *
 * NAME: only the kinds of task whose name begins so.
 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/half.h"
#include "codelets/codelets.h"
#include "codelets/cast.h"
#include "kernels/kernels.h"
#include "kernels/narrow.h"
#include "kernels/wire_blocks.h"
#include "tasks/coding.h"
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
    dsflow_needs_fn *needs;
    const void *args;
    unsigned nshapes;
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

/* A task in one type of floats. */
struct attempt {
    struct dsflow_buf bufs[DSFLOW_SEGMENT_PORTS];
    struct dsflow_shape shapes[DSFLOW_SEGMENT_PORTS];
    void *scratch;
    double best;
};

static enum dsflow_dtype type_of(const struct dsflow_port *port,
                                 const struct dsflow_need *need,
                                 enum dsflow_dtype type)
{
    return port->floats == DSFLOW_FP32_ONLY ? need->dtype : type;
}

/* Small numbers; of what is no float, zeroes. */
static void *contents(enum dsflow_dtype type, int64_t elems)
{
    float *wide =
        numbers((size_t)elems * (type == DSFLOW_FP64 ? 2 : 1),
                type == DSFLOW_FP32 || dsf_is_narrow(type) ? 0.05f : 0);
    uint16_t *narrow = (void *)wide;

    for (int64_t i = 0; i < elems && dsf_is_narrow(type); i++)
        narrow[i] =
            type == DSFLOW_BF16 ? dsf_to_bf16(wide[i]) : dsf_to_fp16(wide[i]);
    return wide;
}

static void fail(const char *why)
{
    fprintf(stderr, "bench_kernels: %s\n", why);
    exit(1);
}

/* The data on the ports of a task with these arguments; tokens are all 0. */
static void attempt_init(struct attempt *t, const struct segment *s,
                         enum dsflow_dtype type)
{
    const struct dsflow_op *op = s->codelet->op;
    const struct dsflow_case seen = { op, t->shapes, op->nports, s->args };
    struct dsflow_need needs[DSFLOW_SEGMENT_PORTS] = { 0 };
    struct dsflow_err err;
    size_t room = 64;

    *t = (struct attempt){ .best = INFINITY };
    if (s->needs(op, s->args, needs, &err) < 0)
        fail(err.msg);
    for (unsigned i = 0; i < op->nports; i++) {
        int64_t elems = needs[i].rows * needs[i].cols;
        enum dsflow_dtype own = type_of(&op->ports[i], &needs[i], type);

        if (op->ports[i].name == NULL || elems == 0)
            continue;
        t->shapes[i] = dsflow_shape_of(own, elems);
        t->bufs[i] = (struct dsflow_buf){ contents(own, elems),
                                          t->shapes[i].bytes, elems, own };
    }
    if (op->check(&seen, &err) < 0)
        fail(err.msg);
    if (op->scratch)
        room += op->scratch(&seen);
    t->scratch = numbers(room / sizeof(float), 1);
}

static void attempt_run(struct attempt *t, const struct segment *s)
{
    double begin = now(), seconds;

    s->codelet->cpu(&(struct dsflow_call){ .bufs = t->bufs,
                                           .nbufs = s->codelet->op->nports,
                                           .args = s->args,
                                           .scratch = t->scratch });
    seconds = now() - begin;
    t->best = seconds < t->best ? seconds : t->best;
}

static void attempt_print(const struct attempt *t, const struct segment *s,
                          enum dsflow_dtype type, double plain)
{
    const struct dsflow_op *op = s->codelet->op;
    struct dsflow_cost cost;

    op->cost(&(struct dsflow_case){ op, t->shapes, op->nports, s->args },
             &cost);
    printf("%-26s %s %9.3f ms %7.1f GFLOP/s", op->name, dsflow_dtype_str(type),
           t->best * 1e3, cost.flops / t->best * 1e-9);
    if (s->nshapes > 0)
        printf("   sgemm alone %9.3f ms, ratio %.3f", plain * 1e3,
               plain / t->best);
    putchar('\n');
}

static bool takes_narrow(const struct dsflow_op *op)
{
    for (unsigned i = 0; i < op->nports; i++)
        if (op->ports[i].floats == DSFLOW_NARROW)
            return true;
    return false;
}

/* In every type that it takes, and its products in fp32 alone. */
static void segment_bench(const struct segment *s, float *a, float *b, float *c)
{
    static const enum dsflow_dtype types[] = { DSFLOW_FP32, DSFLOW_BF16,
                                               DSFLOW_FP16 };
    const struct dsflow_op *op = s->codelet->op;
    const unsigned n = takes_narrow(op) ? 3 : 1;
    struct attempt t[3];
    double plain = INFINITY;

    if (strncmp(op->name, wanted, strlen(wanted)) != 0)
        return;
    for (unsigned i = 0; i < n; i++)
        attempt_init(&t[i], s, types[i]);
    for (unsigned i = 0; i <= repetitions; i++) {
        double begin, seconds;

        for (unsigned k = 0; k < n; k++)
            attempt_run(&t[k], s);
        begin = now();
        products(s, a, b, c);
        seconds = now() - begin;
        plain = seconds < plain ? seconds : plain;
    }
    for (unsigned i = 0; i < n; i++) {
        attempt_print(&t[i], s, types[i], plain);
        for (unsigned p = 0; p < op->nports; p++)
            free(t[i].bufs[p].ptr);
        free(t[i].scratch);
    }
}

/* Units are laid out with the matrices first. */
static void blocks(struct dsflow_tile t, float *a, float *b, float *c)
{
    const size_t r = (size_t)t.rows, w = (size_t)t.width, f = (size_t)t.ffn;
    const size_t nq = dsf_tile_qwidth(&t), nkv = dsf_tile_kvwidth(&t);
    const int64_t end = (int64_t)(8 * w * w);
    const struct dsflow_qkv_args qkv = { .tile = t,
                                         .b = end,
                                         .norm_w = end,
                                         .norm_b = end,
                                         .k = -1,
                                         .v = -1,
                                         .kb = -1,
                                         .vb = -1 };
    const struct dsflow_out_args out = { .tile = t, .b = end, .residual = 1 };
    const struct dsflow_mlp_args mlp = { .tile = t,
                                         .b1 = end,
                                         .w2 = (int64_t)(4 * w * w),
                                         .b2 = end,
                                         .norm_w = end,
                                         .norm_b = end };
    const struct segment segments[] = {
        { &dsf_codelet_qkv_forward,
          dsf_qkv_needs,
          &qkv,
          1,
          { { 0, 1, r, nq + nkv, w, 0 } } },
        { &dsf_codelet_qkv_backward_input,
          dsf_qkv_needs,
          &qkv,
          1,
          { { 0, 0, r, w, nq + nkv, 0 } } },
        { &dsf_codelet_qkv_backward_weight,
          dsf_qkv_needs,
          &qkv,
          1,
          { { 1, 0, nq + nkv, w, r, 1 } } },
        { &dsf_codelet_out_forward,
          dsf_out_needs,
          &out,
          1,
          { { 0, 1, r, w, nq, 0 } } },
        { &dsf_codelet_out_backward_input,
          dsf_out_needs,
          &out,
          1,
          { { 0, 0, r, nq, w, 0 } } },
        { &dsf_codelet_out_backward_weight,
          dsf_out_needs,
          &out,
          1,
          { { 1, 0, w, nq, r, 1 } } },
        { &dsf_codelet_mlp_forward,
          dsf_mlp_needs,
          &mlp,
          2,
          { { 0, 1, r, f, w, 0 }, { 0, 1, r, w, f, 0 } } },
        { &dsf_codelet_mlp_backward_input,
          dsf_mlp_needs,
          &mlp,
          2,
          { { 0, 0, r, f, w, 0 }, { 0, 0, r, w, f, 0 } } },
        { &dsf_codelet_mlp_backward_weight,
          dsf_mlp_needs,
          &mlp,
          2,
          { { 1, 0, w, f, r, 1 }, { 1, 0, f, w, r, 1 } } },
    };

    for (size_t i = 0; i < sizeof(segments) / sizeof(*segments); i++)
        segment_bench(&segments[i], a, b, c);
}

static void attention(struct dsflow_tile t, int32_t keys)
{
    const struct dsflow_attention_args a = { .tile = t,
                                             .keys = keys > 0 ? keys : t.rows,
                                             .diagonal = keys == 0,
                                             .first = 1,
                                             .last = 1,
                                             .first_q = 1,
                                             .first_kv = 1 };
    const struct segment segments[] = {
        { &dsf_codelet_attention_forward,
          dsf_attention_needs,
          &a,
          0,
          { { 0 } } },
        { &dsf_codelet_attention_backward_input,
          dsf_attention_needs,
          &a,
          0,
          { { 0 } } },
    };

    printf("%d queries, %d keys%s, %d sequences:\n", (int)t.rows, (int)a.keys,
           keys == 0 ? " (causal)" : "", (int)t.nseq);
    for (size_t i = 0; i < 2; i++)
        segment_bench(&segments[i], NULL, NULL, NULL);
}

static void head(struct dsflow_tile t, float *a, float *b, float *c)
{
    const size_t r = (size_t)t.rows, w = (size_t)t.width, v = (size_t)t.vocab;
    const struct dsflow_head_args args = { .tile = t,
                                           .norm_b = (int64_t)w,
                                           .whole = t.vocab,
                                           .parts = 1,
                                           .scale = 1.0f / 256 };
    const struct segment segments[] = {
        { &dsf_codelet_head_forward,
          dsf_head_needs,
          &args,
          1,
          { { 0, 1, r, v, w, 0 } } },
        { &dsf_codelet_head_backward_input,
          dsf_head_needs,
          &args,
          1,
          { { 0, 0, r, w, v, 0 } } },
        { &dsf_codelet_head_backward_weight,
          dsf_head_needs,
          &args,
          1,
          { { 1, 0, v, w, r, 1 } } },
    };

    for (size_t i = 0; i < 3; i++)
        segment_bench(&segments[i], a, b, c);
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

/* What ranks send each other, in blocks of 8, 4 or 1 bits, against a copy of
 * the numbers that it is made of; as signs also with the scale of all of them.
 */
static void wire(size_t n, size_t block, int bits, bool whole_tensor)
{
    const struct dsf_coding coding = { .format = "sign",
                                       .block = (int64_t)block,
                                       .coded = (int64_t)n,
                                       .ntensors = 1,
                                       .tensors = { { 0, (int64_t)n } } };
    float *whole = numbers(n, 1), *copy = numbers(n, 1);
    uint8_t *packed = (void *)numbers(n, 1);
    double there = INFINITY, back = INFINITY, plain = INFINITY;

    for (unsigned i = 0; i <= repetitions; i++) {
        double t0 = now(), t1, t2, t3;

        if (whole_tensor)
            dsf_coding_encode_whole(&coding, (int64_t)n, whole, packed);
        else
            (bits == 8   ? dsf_wire8_encode
             : bits == 4 ? dsf_wire4_encode
                         : dsf_wire1_encode)(block, whole, packed, n / block);
        t1 = now();
        (bits == 8   ? dsf_wire8_decode
         : bits == 4 ? dsf_wire4_decode
                     : dsf_wire1_decode)(block, packed, whole, n / block);
        t2 = now();
        memcpy(copy, whole, n * sizeof(float));
        t3 = now();
        there = t1 - t0 < there ? t1 - t0 : there;
        back = t2 - t1 < back ? t2 - t1 : back;
        plain = t3 - t2 < plain ? t3 - t2 : plain;
    }
    printf("wire int%d of %zu in blocks of %zu%s: encode %.2f GB/s of numbers, "
           "decode %.2f; copy %.2f; encode/copy %.2f, decode/copy %.2f\n",
           bits, n, block, whole_tensor ? ", one scale" : "",
           4e-9 * (double)n / there, 4e-9 * (double)n / back,
           4e-9 * (double)n / plain, plain / there, plain / back);
    free(whole);
    free(copy);
    free(packed);
}

/* LAMB's two passes over `n` parameters, against a copy of four arrays: the
 * first reads p, g, m, v and writes m, v, u; the second reads p, m, v and
 * writes p. */
static void lamb(size_t n)
{
    const struct dsf_lamb_step s = { .beta1 = 0.9,
                                     .beta2 = 0.999,
                                     .scale = 1,
                                     .rate1 = 1,
                                     .root2 = 1,
                                     .eps = 1e-6f,
                                     .decay = 0.01f,
                                     .lr = 1e-3f };
    float *p = numbers(4 * n, 1), *u = numbers(n, 1), *copy = numbers(4 * n, 1);
    double first = INFINITY, second = INFINITY, plain = INFINITY;

    memset(p + 3 * n, 0, n * sizeof(float));
    for (unsigned i = 0; i <= repetitions; i++) {
        double t0 = now(), t1, t2, t3;

        dsf_lamb_moments(&s, p, p + n, p + 2 * n, p + 3 * n, u, n);
        t1 = now();
        dsf_lamb_update(&s, p, p + 2 * n, p + 3 * n, n);
        t2 = now();
        memcpy(copy, p, 4 * n * sizeof(float));
        t3 = now();
        first = t1 - t0 < first ? t1 - t0 : first;
        second = t2 - t1 < second ? t2 - t1 : second;
        plain = t3 - t2 < plain ? t3 - t2 : plain;
    }
    printf("lamb of %zu: moments %.3f ms, %.2f GB/s; update %.3f ms, "
           "%.2f GB/s; copy %.2f GB/s, ratio %.3f\n",
           n, first * 1e3, 28e-9 * (double)n / first, second * 1e3,
           16e-9 * (double)n / second, 32e-9 * (double)n / plain,
           44.0 / 32 * plain / (first + second));
    free(p);
    free(u);
    free(copy);
}

/* Muon's update of a matrix, against products of matrices alone: five times
 * X X^T, its square and a product with X. */
static void muon(int64_t rows, int64_t cols)
{
    const int64_t n = rows * cols, small = rows < cols ? rows : cols;
    const double flops =
        5 * (4.0 * (double)(small * n) + 2.0 * pow((double)small, 3));
    struct dsf_update_args a = { .at = { .elems = n, .ntensors = 1 },
                                 .momentum = 0.95f,
                                 .nesterov = 1,
                                 .decoupled = 1,
                                 .adam_rate = 1,
                                 .steps = 5 };
    struct dsflow_control c = {
        .step = 1, .lr = 1e-3, .scale = 1, .correction1 = 1, .correction2 = 1
    };
    float *x = numbers((size_t)(4 * n), 1), *y = numbers((size_t)n, 1), *room;
    struct dsflow_buf bufs[5] = { { &c, sizeof(c), sizeof(c), DSFLOW_BYTES } };
    struct dsflow_shape shapes[5];
    const struct dsflow_case seen = { &dsf_op_muon, shapes, 5, &a };
    double own = INFINITY, plain = INFINITY;

    a.at.tensors[0] =
        (struct dsflow_tensor){ .rows = rows, .cols = cols, .decays = 1 };
    for (int i = 0; i < 4; i++)
        bufs[i + 1] =
            (struct dsflow_buf){ x + i * n, (size_t)n * 4, n, DSFLOW_FP32 };
    for (int i = 0; i < 5; i++)
        shapes[i] = dsflow_shape_of(bufs[i].dtype, bufs[i].elems);
    room = numbers(dsf_op_muon.scratch(&seen) / sizeof(*room), 1);
    for (unsigned i = 0; i <= repetitions; i++) {
        double t0 = now(), t1, t2;

        dsf_codelet_muon.cpu(&(struct dsflow_call){
            .bufs = bufs, .nbufs = 5, .args = &a, .scratch = room });
        t1 = now();
        dsf_gemm(false, false, (size_t)small, (size_t)(n / small),
                 (size_t)small, x, (size_t)small, x + n, (size_t)(n / small), 0,
                 y, (size_t)(n / small));
        t2 = now();
        own = t1 - t0 < own ? t1 - t0 : own;
        plain = t2 - t1 < plain ? t2 - t1 : plain;
    }
    plain = 2.0 * (double)(small * n) / plain;
    printf(
        "muon of %lld x %lld: %.3f ms, %.2f GFLOP/s; sgemm alone %.2f, ratio "
        "%.3f\n",
        (long long)rows, (long long)cols, own * 1e3, 1e-9 * flops / own,
        1e-9 * plain, flops / own / plain);
    free(x);
    free(y);
    free(room);
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
    if (strncmp("lamb", wanted, strlen(wanted)) == 0)
        lamb(16 << 20);
    if (strncmp("muon", wanted, strlen(wanted)) == 0) {
        muon(768, 768);
        muon(768, 3072);
    }
    if (strncmp("pack", wanted, strlen(wanted)) == 0) {
        pack(16 << 20, DSFLOW_BF16, "bf16");
        pack(16 << 20, DSFLOW_INT8_BLOCK, "int8");
    }
    if (strncmp("wire", wanted, strlen(wanted)) == 0) {
        wire(16 << 20, 2048, 8, false);
        wire(16 << 20, 256, 4, false);
        wire(16 << 20, 4096, 1, false);
        wire(16 << 20, 1024, 1, true);
    }
    free(a);
    free(b);
    free(c);
    return 0;
}
