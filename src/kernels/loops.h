/* loops.h - the fused loops, once per instruction set: the same source,
 * loops_*.h, compiled by isa_*.c. Between sets results differ in rounding (but
 * for those of loops_pack.h, loops_wire.h, loops_signs.h, loops_update.h,
 * loops_fake_quantize.h, sums of two arrays and of squares); within one they
 * depend on the inputs only: loads do not care for alignment, and sums have a
 * fixed order. */
#ifndef DSF_KERNELS_LOOPS_H
#define DSF_KERNELS_LOOPS_H

#include "kernels/fake_quantize.h"
#include "kernels/narrow.h"
#include "kernels/wire_blocks.h"

struct dsf_loops {
    const char *isa;

    void (*exp)(const float *x, float *y, size_t n); /* for tests */
    void (*sigmoid)(const float *x, float *y, size_t n);

    void (*norm_forward)(const struct dsf_norm *norm, const float *x, float *y,
                         size_t rows);
    void (*norm_backward)(const struct dsf_norm *norm, const float *x,
                          const float *dy, const float *dres, float *dx,
                          float *dnorm, size_t rows);

    void (*add_bias)(float *y, const float *b, size_t rows, size_t cols);
    void (*residual)(float *y, const float *x, const float *b, size_t rows,
                     size_t cols);
    void (*column_sums)(float *into, const float *x, size_t rows, size_t cols);
    void (*add)(float *into, const float *from, size_t n);
    void (*sum2)(float *y, const float *a, const float *b, size_t n);

    /* As those of struct dsf_narrow_loops; `in` may be h, and dact dh. */
    void (*gelu_forward)(const float *in, const float *b, float *h, float *act,
                         size_t rows, size_t cols);
    void (*gelu_backward)(float *h, const float *dact, float *dh, size_t n);
    void (*swiglu_forward)(const float *in, const float *b, float *h,
                           float *act, size_t rows, size_t cols);
    void (*swiglu_backward)(float *h, const float *dact, size_t ld, float *dh,
                            size_t rows, size_t cols);

    void (*rotate)(float *x, size_t ld, size_t rows, size_t heads,
                   size_t head_dim, const float *table, int inverse);
    void (*head_dots)(const float *a, const float *b, float *out, size_t rows,
                      size_t heads, size_t head_dim);
    void (*attention_forward)(const struct dsf_attention *a,
                              struct dsf_numbers q, struct dsf_numbers kv,
                              struct dsf_numbers att, float *lse,
                              float *scratch);
    void (*attention_backward)(const struct dsf_attention *a,
                               struct dsf_numbers q, struct dsf_numbers kv,
                               struct dsf_numbers datt, const float *lse,
                               const float *delta, struct dsf_numbers dq,
                               struct dsf_numbers dkv, float *scratch);

    void (*exp_columns)(float *x, size_t ld, size_t rows, size_t cols,
                        float *top, double *sum);
    void (*scale)(float *x, float by, size_t n);

    double (*square_sum)(const float *x, size_t n);
    double (*square_signs)(const float *x, size_t n, uint8_t *signs);
    /* `copy` of the new p may be NULL. */
    void (*adam)(const struct dsf_adam_step *s, float *p, const float *g,
                 float *m, float *v, float *copy, size_t n);
    void (*sgd)(const struct dsf_sgd_step *s, float *p, const float *g,
                float *m, float *copy, size_t n);
    void (*lion)(const struct dsf_lion_step *s, float *p, const float *g,
                 float *m, float *copy, size_t n);
    void (*adagrad)(const struct dsf_adagrad_step *s, float *p, const float *g,
                    float *sum, float *copy, size_t n);
    void (*lamb_moments)(const struct dsf_lamb_step *s, const float *p,
                         const float *g, float *m, float *v, float *u,
                         size_t n);
    void (*lamb)(const struct dsf_lamb_step *s, float *p, const float *m,
                 const float *v, float *copy, size_t n);

    void (*pack16)(const struct dsf_rounding *r, const float *in, uint16_t *out,
                   size_t n);
    void (*pack8)(const struct dsf_rounding *r, const float *in,
                  uint16_t *heads, uint8_t *codes, size_t n);
    void (*unpack8)(const uint16_t *heads, const uint8_t *codes, float *out,
                    size_t n);

    void (*wire8_encode)(size_t block, const float *in, uint8_t *out, size_t n);
    void (*wire8_decode)(size_t block, const uint8_t *in, float *out, size_t n);
    void (*wire4_encode)(size_t block, const float *in, uint8_t *out, size_t n);
    void (*wire4_decode)(size_t block, const uint8_t *in, float *out, size_t n);
    void (*fake_quantize)(const struct dsf_fake_quantizer *q, const float *in,
                          float *out, size_t n);
    void (*see_extremes)(const float *in, size_t n, struct dsf_extremes *e);
    void (*quantize_between)(const struct dsf_fake_quantizer *q,
                             const struct dsf_extremes *e, const float *in,
                             float *out, size_t n);

    void (*wire1_encode)(size_t block, float scale, const float *in,
                         uint8_t *out, size_t n);
    void (*wire1_decode)(size_t block, const uint8_t *in, float *out, size_t n);
    void (*error_add)(const struct dsf_error_step *s, const float *error,
                      float *x, size_t n);
    void (*error_keep)(const struct dsf_error_step *s, const float *x,
                       const float *sent, float *error, size_t n);
    void (*momentum_mean)(const struct dsf_momentum_step *s, const float *m,
                          float *x, size_t n);
    void (*wire1_serve)(float scale, const float *x, float *server, float *m,
                        size_t n);
    void (*wire1_send)(float scale, float *x, float *error, size_t n);
    void (*lamb_refresh)(const struct dsf_refresh_step *s, const float *x,
                         float *m, float *fresh, size_t n);
    void (*lamb_weigh)(const struct dsf_lamb_step *s,
                       const struct dsf_lamb_weighed *of, size_t n);

    void (*held_update)(const struct dsf_held_step *s, const float *g,
                        const float *v, float *p, float *m, size_t n);
    void (*local_update)(const struct dsf_held_step *s, const float *g,
                         const float *v, const float *p, const float *was,
                         float *m, float *local, size_t n);
    void (*local_share)(float eps, float share, const float *local,
                        const float *v, float *x, size_t n);
    void (*local_settle)(float eps, float rates, const float *mean,
                         const float *v, float *p, float *m, size_t n);

    void (*row_product)(const float *x, const float *w, size_t n, size_t k,
                        float beta, float *y);

    const struct dsf_narrow_loops *narrow[2]; /* bf16, fp16 */
};

extern const struct dsf_loops dsf_loops_avx512_bf16, dsf_loops_avx512,
    dsf_loops_avx2, dsf_loops_portable;

/* The set called `isa`; NULL where this processor or this build lacks it. */
const struct dsf_loops *dsf_loops_find(const char *isa);

/* What every kernel uses. `dsf_loops_use` is for tests: not while one runs. */
const struct dsf_loops *dsf_loops(void);
void dsf_loops_use(const struct dsf_loops *loops);

#endif
