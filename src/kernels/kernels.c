/* kernels.c - the choice of instructions, and the kernels by name. */
#include "kernels/loops.h"
#include "kernels/wire_blocks.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

static const struct dsf_loops *chosen;
static pthread_once_t once = PTHREAD_ONCE_INIT;

#if defined(__x86_64__)
/* Clang's __builtin_cpu_supports does not know it. */
static int has_f16c(void)
{
    unsigned a, b, c, d;

    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

static int has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}

/* Processors with tiles (AMX) do pairs of bf16 in one place of two: no faster
 * than as many numbers of fp32, and packing them costs. */
static int has_tiles(void)
{
    const unsigned amx_tile = 1u << 24;
    unsigned a, b, c, d;

    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & amx_tile);
}
#endif

const struct dsf_loops *dsf_loops_find(const char *isa)
{
#if defined(__x86_64__)
    if (strcmp(isa, "avx512_bf16") == 0 && has_avx512() &&
        __builtin_cpu_supports("avx512bf16"))
        return &dsf_loops_avx512_bf16;
    if (strcmp(isa, "avx512") == 0 && has_avx512())
        return &dsf_loops_avx512;
    if (strcmp(isa, "avx2") == 0 && __builtin_cpu_supports("avx2") &&
        __builtin_cpu_supports("fma") && has_f16c())
        return &dsf_loops_avx2;
#endif
    if (strcmp(isa, "portable") == 0)
        return &dsf_loops_portable;
    return NULL;
}

/* The best there is, or what DSFLOW_ISA names, if this processor has it. */
static void choose(void)
{
    const char *wanted = getenv("DSFLOW_ISA");

    if (wanted)
        chosen = dsf_loops_find(wanted);
#if defined(__x86_64__)
    if (!chosen && !has_tiles())
        chosen = dsf_loops_find("avx512_bf16");
#endif
    if (!chosen)
        chosen = dsf_loops_find("avx512");
    if (!chosen)
        chosen = dsf_loops_find("avx2");
    if (!chosen)
        chosen = &dsf_loops_portable;
}

int dsf_kernels_said(struct dsflow_err *err)
{
    static const char *const names[] = { "portable", "avx2", "avx512",
                                         "avx512_bf16" };
    const char *said = getenv("DSFLOW_ISA");
    char known[64] = "";

    if (said == NULL || dsf_loops_find(said) != NULL)
        return DSFLOW_OK;
    for (unsigned i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (dsf_loops_find(names[i]) != NULL) {
            size_t n = strlen(known);

            snprintf(known + n, sizeof(known) - n, "%s%s", n > 0 ? ", " : "",
                     names[i]);
        }
    return dsflow_fail(err, DSFLOW_EINVAL,
                       "DSFLOW_ISA: \"%s\": expected what this processor has, "
                       "of %s",
                       said, known);
}

const struct dsf_loops *dsf_loops(void)
{
    pthread_once(&once, choose);
    return chosen;
}

void dsf_loops_use(const struct dsf_loops *loops)
{
    pthread_once(&once, choose);
    chosen = loops;
}

const struct dsf_narrow_loops *dsf_narrow(enum dsflow_dtype type)
{
    return dsf_loops()->narrow[type == DSFLOW_FP16];
}

const char *dsf_kernels_isa(void)
{
    return dsf_loops()->isa;
}

void dsf_row_product(const float *x, const float *w, size_t n, size_t k,
                     float beta, float *y)
{
    dsf_loops()->row_product(x, w, n, k, beta, y);
}

void dsf_norm_forward(const struct dsf_norm *norm, const float *x, float *y,
                      size_t rows)
{
    dsf_loops()->norm_forward(norm, x, y, rows);
}

void dsf_norm_backward(const struct dsf_norm *norm, const float *x,
                       const float *dy, const float *dres, float *dx,
                       float *dnorm, size_t rows)
{
    dsf_loops()->norm_backward(norm, x, dy, dres, dx, dnorm, rows);
}

void dsf_add_bias(float *y, const float *b, size_t rows, size_t cols)
{
    dsf_loops()->add_bias(y, b, rows, cols);
}

void dsf_residual(float *y, const float *x, const float *b, size_t rows,
                  size_t cols)
{
    dsf_loops()->residual(y, x, b, rows, cols);
}

void dsf_column_sums(float *into, const float *x, size_t rows, size_t cols)
{
    dsf_loops()->column_sums(into, x, rows, cols);
}

void dsf_add(float *into, const float *from, size_t n)
{
    dsf_loops()->add(into, from, n);
}

void dsf_sum(float *y, const float *a, const float *b, size_t n)
{
    dsf_loops()->sum2(y, a, b, n);
}

void dsf_scale(float *x, float by, size_t n)
{
    dsf_loops()->scale(x, by, n);
}

void dsf_gelu_forward(float *h, const float *b, float *act, size_t rows,
                      size_t cols)
{
    dsf_loops()->gelu_forward(h, b, h, act, rows, cols);
}

void dsf_gelu_backward(float *h, float *dh, size_t n)
{
    dsf_loops()->gelu_backward(h, dh, dh, n);
}

void dsf_swiglu_forward(float *h, const float *b, float *act, size_t rows,
                        size_t cols)
{
    dsf_loops()->swiglu_forward(h, b, h, act, rows, cols);
}

void dsf_swiglu_backward(float *h, float *dh, size_t rows, size_t cols)
{
    dsf_loops()->swiglu_backward(h, dh, 2 * cols, dh, rows, cols);
}

void dsf_rotate(float *x, size_t ld, size_t rows, size_t heads, size_t head_dim,
                const float *table, int inverse)
{
    dsf_loops()->rotate(x, ld, rows, heads, head_dim, table, inverse);
}

void dsf_head_dots(const float *a, const float *b, float *out, size_t rows,
                   size_t heads, size_t head_dim)
{
    dsf_loops()->head_dots(a, b, out, rows, heads, head_dim);
}

void dsf_attention_forward(const struct dsf_attention *a, struct dsf_numbers q,
                           struct dsf_numbers kv, struct dsf_numbers att,
                           float *lse, float *scratch)
{
    dsf_loops()->attention_forward(a, q, kv, att, lse, scratch);
}

void dsf_attention_backward(const struct dsf_attention *a, struct dsf_numbers q,
                            struct dsf_numbers kv, struct dsf_numbers datt,
                            const float *lse, const float *delta,
                            struct dsf_numbers dq, struct dsf_numbers dkv,
                            float *scratch)
{
    dsf_loops()->attention_backward(a, q, kv, datt, lse, delta, dq, dkv,
                                    scratch);
}

void dsf_exp_columns(float *x, size_t ld, size_t rows, size_t cols, float *top,
                     double *sum)
{
    dsf_loops()->exp_columns(x, ld, rows, cols, top, sum);
}

double dsf_square_sum(const float *x, size_t n)
{
    return dsf_loops()->square_sum(x, n);
}

void dsf_adam_update(const struct dsf_adam_step *s, float *p, const float *g,
                     float *m, float *v, size_t n)
{
    dsf_loops()->adam(s, p, g, m, v, NULL, n);
}

void dsf_sgd_update(const struct dsf_sgd_step *s, float *p, const float *g,
                    float *m, size_t n)
{
    dsf_loops()->sgd(s, p, g, m, NULL, n);
}

void dsf_lion_update(const struct dsf_lion_step *s, float *p, const float *g,
                     float *m, size_t n)
{
    dsf_loops()->lion(s, p, g, m, NULL, n);
}

void dsf_adagrad_update(const struct dsf_adagrad_step *s, float *p,
                        const float *g, float *sum, size_t n)
{
    dsf_loops()->adagrad(s, p, g, sum, NULL, n);
}

void dsf_lamb_moments(const struct dsf_lamb_step *s, const float *p,
                      const float *g, float *m, float *v, float *u, size_t n)
{
    dsf_loops()->lamb_moments(s, p, g, m, v, u, n);
}

void dsf_lamb_weigh(const struct dsf_lamb_step *s,
                    const struct dsf_lamb_weighed *of, size_t n)
{
    dsf_loops()->lamb_weigh(s, of, n);
}

void dsf_lamb_update(const struct dsf_lamb_step *s, float *p, const float *m,
                     const float *v, size_t n)
{
    dsf_loops()->lamb(s, p, m, v, NULL, n);
}

void dsf_pack16(const struct dsf_rounding *r, const float *in, uint16_t *out,
                size_t n)
{
    dsf_loops()->pack16(r, in, out, n);
}

void dsf_unpack16(const uint16_t *in, float *out, size_t n)
{
    dsf_narrow(DSFLOW_BF16)->widen(in, out, n);
}

void dsf_pack8(const struct dsf_rounding *r, const float *in, uint16_t *heads,
               uint8_t *codes, size_t n)
{
    dsf_loops()->pack8(r, in, heads, codes, n);
}

void dsf_unpack8(const uint16_t *heads, const uint8_t *codes, float *out,
                 size_t n)
{
    dsf_loops()->unpack8(heads, codes, out, n);
}

void dsf_wire8_encode(size_t block, const float *in, uint8_t *out, size_t n)
{
    dsf_loops()->wire8_encode(block, in, out, n);
}

void dsf_wire8_decode(size_t block, const uint8_t *in, float *out, size_t n)
{
    dsf_loops()->wire8_decode(block, in, out, n);
}

void dsf_wire4_encode(size_t block, const float *in, uint8_t *out, size_t n)
{
    dsf_loops()->wire4_encode(block, in, out, n);
}

void dsf_wire4_decode(size_t block, const uint8_t *in, float *out, size_t n)
{
    dsf_loops()->wire4_decode(block, in, out, n);
}

void dsf_fake_quantize(const struct dsf_fake_quantizer *q, const float *in,
                       float *out, size_t n)
{
    dsf_loops()->fake_quantize(q, in, out, n);
}

void dsf_see_extremes(const float *in, size_t n, struct dsf_extremes *e)
{
    dsf_loops()->see_extremes(in, n, e);
}

void dsf_quantize_between(const struct dsf_fake_quantizer *q,
                          const struct dsf_extremes *e, const float *in,
                          float *out, size_t n)
{
    dsf_loops()->quantize_between(q, e, in, out, n);
}

float dsf_wire1_scale(double squares, size_t n)
{
    float scale = (float)sqrt(squares / (double)n);

    return isfinite(scale) ? scale : NAN;
}

void dsf_wire1_encode_by(size_t block, float scale, const float *in,
                         uint8_t *out, size_t n)
{
    dsf_loops()->wire1_encode(block, scale, in, out, n);
}

double dsf_square_signs(const float *x, size_t n, uint8_t *signs)
{
    return dsf_loops()->square_signs(x, n, signs);
}

void dsf_wire1_encode(size_t block, const float *in, uint8_t *out, size_t n)
{
    for (; n > 0; n--, in += block, out += dsf_wire1_bytes(block)) {
        double squares = dsf_square_signs(in, block, out + DSF_WIRE_SCALE);
        float scale = dsf_wire1_scale(squares, block);

        memcpy(out, &scale, sizeof(scale));
    }
}

void dsf_wire1_decode(size_t block, const uint8_t *in, float *out, size_t n)
{
    dsf_loops()->wire1_decode(block, in, out, n);
}

void dsf_error_add(const struct dsf_error_step *s, const float *error, float *x,
                   size_t n)
{
    dsf_loops()->error_add(s, error, x, n);
}

void dsf_error_keep(const struct dsf_error_step *s, const float *x,
                    const float *sent, float *error, size_t n)
{
    dsf_loops()->error_keep(s, x, sent, error, n);
}

void dsf_momentum_mean(const struct dsf_momentum_step *s, const float *m,
                       float *x, size_t n)
{
    dsf_loops()->momentum_mean(s, m, x, n);
}

void dsf_wire1_serve(float scale, const float *x, float *server, float *m,
                     size_t n)
{
    dsf_loops()->wire1_serve(scale, x, server, m, n);
}

void dsf_wire1_send(float scale, float *x, float *error, size_t n)
{
    dsf_loops()->wire1_send(scale, x, error, n);
}

void dsf_lamb_refresh(const struct dsf_refresh_step *s, const float *x,
                      float *m, float *fresh, size_t n)
{
    dsf_loops()->lamb_refresh(s, x, m, fresh, n);
}

void dsf_held_update(const struct dsf_held_step *s, const float *g,
                     const float *v, float *p, float *m, size_t n)
{
    dsf_loops()->held_update(s, g, v, p, m, n);
}

void dsf_local_update(const struct dsf_held_step *s, const float *g,
                      const float *v, const float *p, const float *was,
                      float *m, float *local, size_t n)
{
    dsf_loops()->local_update(s, g, v, p, was, m, local, n);
}

void dsf_local_share(float eps, float share, const float *local, const float *v,
                     float *x, size_t n)
{
    dsf_loops()->local_share(eps, share, local, v, x, n);
}

void dsf_local_settle(float eps, float rates, const float *mean, const float *v,
                      float *p, float *m, size_t n)
{
    dsf_loops()->local_settle(eps, rates, mean, v, p, m, n);
}
