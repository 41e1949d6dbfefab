/* kernels.h - the arithmetic of the codelets: math on pointers, one thread, no
 * allocation. The same inputs give the same bits on the same processor; which
 * instructions are used is chosen once, at the first call. */
#ifndef DSF_KERNELS_KERNELS_H
#define DSF_KERNELS_KERNELS_H

#include <stddef.h>
#include <stdint.h>
#include <dsflow/dtype.h>
#include <dsflow/error.h>

#include "kernels/layout.h"

/* What the fused loops use here: "avx512_bf16", "avx512", "avx2" or
 * "portable". The environment variable DSFLOW_ISA may ask for a lesser one (for
 * tests). */
const char *dsf_kernels_isa(void);

/* Does DSFLOW_ISA name one that this processor has? */
int dsf_kernels_said(struct dsflow_err *err);

/* y[n] = W x + beta y, of W[n][k]: a product of one row. Each number of y has
 * the same bits whichever rows of W are asked for with it. */
void dsf_row_product(const float *x, const float *w, size_t n, size_t k,
                     float beta, float *y);

/* C[m][n] = A B + beta C, row-major with leading dimensions. `ta`: A is stored
 * [k][m]; `tb`: B is stored [n][k]. oneDNN's sgemm on the calling thread. */
void dsf_gemm(int ta, int tb, size_t m, size_t n, size_t k, const float *a,
              size_t lda, const float *b, size_t ldb, float beta, float *c,
              size_t ldc);

/* Was there memory for all products of this thread since it last asked? Where
 * not, what they computed means nothing: DSFLOW_ENOMEM. */
int dsf_kernels_failed(struct dsflow_err *err);

/* LayerNorm, or RMSNorm (rms; no mean, no b): y = (x - mean) / sqrt(var + eps)
 * w + b. `b` may be NULL. */
struct dsf_norm {
    const float *w, *b;
    size_t width;
    float eps;
    int rms;
};
void dsf_norm_forward(const struct dsf_norm *norm, const float *x, float *y,
                      size_t rows);
/* dx = dres (NULL: 0) + the gradient that `dy` gives to x; dnorm[2][width]: the
 * gradients of w and b, summed over the rows (b's are 0 for RMSNorm). */
void dsf_norm_backward(const struct dsf_norm *norm, const float *x,
                       const float *dy, const float *dres, float *dx,
                       float *dnorm, size_t rows);

/* y += b, on every row. */
void dsf_add_bias(float *y, const float *b, size_t rows, size_t cols);
/* y = x + b; b may be NULL. */
void dsf_residual(float *y, const float *x, const float *b, size_t rows,
                  size_t cols);
/* into[cols] += the sums of the columns of x. */
void dsf_column_sums(float *into, const float *x, size_t rows, size_t cols);
void dsf_add(float *into, const float *from, size_t n);
void dsf_sum(float *y, const float *a, const float *b,
             size_t n); /* y = a + b */
void dsf_scale(float *x, float by, size_t n);

/* h += b (NULL: 0); act = gelu(h), its tanh form. Backward: dh, the gradient of
 * gelu(h), becomes that of h, and h becomes gelu(h). */
void dsf_gelu_forward(float *h, const float *b, float *act, size_t rows,
                      size_t cols);
void dsf_gelu_backward(float *h, float *dh, size_t n);

/* The same for h[rows][2*cols], gate then up: act[rows][cols] = silu(gate) up.
 * Backward: dh[rows][2*cols] has the gradient of act in the first half of each
 * row; h becomes act[rows][cols], packed at its start. */
void dsf_swiglu_forward(float *h, const float *b, float *act, size_t rows,
                        size_t cols);
void dsf_swiglu_backward(float *h, float *dh, size_t rows, size_t cols);

/* Turn the pairs (i, i + head_dim/2) of each head of each row by the angles of
 * table[row][head_dim/2] (cos, sin), or back. Rows of x are `ld` apart. */
void dsf_rotate(float *x, size_t ld, size_t rows, size_t heads, size_t head_dim,
                const float *table, int inverse);

/* out[row][head] = the sum over head_dim of a b. */
void dsf_head_dots(const float *a, const float *b, float *out, size_t rows,
                   size_t heads, size_t head_dim);

/* Numbers of fp32, bf16 or fp16. Those that are written are rounded to the
 * nearest, ties to even. */
struct dsf_numbers {
    void *p;
    enum dsflow_dtype type;
};

/* Attention of nseq sequences of `queries` rows to as many of `keys` rows; the
 * layouts are in dsflow/segments.h. Scores are computed for `strip` queries and
 * `block` keys at a time, in fp32; with avx512_bf16, where q, kv and datt are
 * bf16, P = e^(S - lse) and dS are rounded to bf16 before they are multiplied,
 * as values and keys are. `strip` is then even for the backward pass. `scratch`
 * has what scratch of the op says.
 * att is fp32 where first or last is 0, dq and dkv where they are added to. */
#define DSF_MAX_STRIP 64
/* Where keys are used in place, whatever `strip` says. */
#define DSF_STRIP_IN_PLACE 32
struct dsf_attention {
    size_t nseq, queries, keys, heads, kv_heads, head_dim;
    size_t strip, block; /* 8 to DSF_MAX_STRIP; a multiple of 16 */
    float scale;         /* of the scores */
    int diagonal, first, last, first_q, first_kv;
    /* A query sees `window` tokens, itself included (0: all before it); the
     * first query and the first key stand at these places of a sequence. */
    size_t window, pos, key_pos;
    /* The blocks that it sees: those of head `head` of the layout are the first
     * head's. Of a head of keys at most `packed` keys are packed, as
     * dsf_layout_pack says; strips end where rows of blocks do. */
    struct dsf_layout layout;
    size_t head, packed;
    int in_place; /* with a layout, of fp32: keys are not packed; same bits */
    /* Keys are taken so many at a time (0: all), where nseq is 1: what those
     * add is rounded as if they were all there are. */
    size_t key_tile;
};
void dsf_attention_forward(const struct dsf_attention *a, struct dsf_numbers q,
                           struct dsf_numbers kv, struct dsf_numbers att,
                           float *lse, float *scratch);
void dsf_attention_backward(const struct dsf_attention *a, struct dsf_numbers q,
                            struct dsf_numbers kv, struct dsf_numbers datt,
                            const float *lse, const float *delta,
                            struct dsf_numbers dq, struct dsf_numbers dkv,
                            float *scratch);

/* For each row of a block of columns of x (rows `ld` apart): top = its maximum,
 * x = e^(x - top), sum = the sum of those. */
void dsf_exp_columns(float *x, size_t ld, size_t rows, size_t cols, float *top,
                     double *sum);

/* Sum of squares, in double, with the same bits from every set of instructions
 * and on GPUs. The numbers are cut into parts of whole rows of 16, of which the
 * last ones may be shorter or empty. Each of the 16 lanes of a part is summed in
 * order; then the lanes are added by halves (0 and 8, 1 and 9 …; 0 and 4 …), and
 * so are the parts. */
enum { DSF_SQUARE_LANES = 16, DSF_SQUARE_PARTS = 8 };
static inline size_t dsf_square_part(size_t n)
{
    const size_t round = (size_t)DSF_SQUARE_LANES * DSF_SQUARE_PARTS;

    return (n + round - 1) / round * DSF_SQUARE_LANES;
}
double dsf_square_sum(const float *x, size_t n);

/* One pass each: g is scaled and used. Every set of instructions and GPUs give
 * the same bits, but for which NaN it is. lr1 = lr / correction1 and
 * root2 = sqrt(correction2), Kingma & Ba 2015, section 2; `decay` is lr * wd
 * for the decoupled rule (p *= 1 - decay), `l2` is wd for the other. */
struct dsf_adam_step {
    double beta1, beta2;
    float scale, lr1, root2, eps, decay, l2;
};
void dsf_adam_update(const struct dsf_adam_step *s, float *p, const float *g,
                     float *m, float *v, size_t n);
struct dsf_sgd_step {
    float scale, lr, momentum, l2;
    int nesterov, first; /* first: m = g (torch.optim.SGD) */
};
void dsf_sgd_update(const struct dsf_sgd_step *s, float *p, const float *g,
                    float *m, size_t n); /* m NULL: no momentum */
struct dsf_lion_step {
    double beta1, beta2;
    float scale, lr, decay;
};
void dsf_lion_update(const struct dsf_lion_step *s, float *p, const float *g,
                     float *m, size_t n);
struct dsf_adagrad_step {
    float scale, lr, eps, l2;
};
/* sum: of the squares of all gradients. */
void dsf_adagrad_update(const struct dsf_adagrad_step *s, float *p,
                        const float *g, float *sum, size_t n);
/* LAMB's u = rate1 m / (sqrt(v) / root2 + eps) + decay p, of means that are new
 * (moments), or are there already. rate1 = 1 / correction1. Where v is 0, u is
 * decay p. */
struct dsf_lamb_step {
    double beta1, beta2;
    float scale, rate1, root2, eps, decay;
    float lr; /* of the tensor: lr ratio */
};
void dsf_lamb_moments(const struct dsf_lamb_step *s, const float *p,
                      const float *g, float *m, float *v, float *u, size_t n);
/* Of numbers of a tensor that stay: their steps without and with the decay, u,
 * and how much smaller a root of v is than that of another one of them:
 * (sqrt(v) + eps) / (sqrt(fresh) + eps), which is the `factor`. */
struct dsf_lamb_weighed {
    const float *p, *m, *v, *fresh;
    float *bare, *u, *factor;
};
void dsf_lamb_weigh(const struct dsf_lamb_step *s,
                    const struct dsf_lamb_weighed *of, size_t n);
/* p -= lr u. */
void dsf_lamb_update(const struct dsf_lamb_step *s, float *p, const float *m,
                     const float *v, size_t n);

/* Numbers in fewer bits, rounded up or down at random so that the mean is right
 * (stochastic rounding), or to the nearest. All sets of instructions give the
 * same bits. Numbers are taken in blocks; the random number of element i of
 * block b is a hash of `key`, b and i. Unpacking is exact, and packing what was
 * unpacked gives the same bytes, whatever the random numbers. */
#define DSF_PACK_BLOCK 256
struct dsf_rounding {
    uint64_t key, block; /* the block that `in` begins with */
    int nearest;         /* key and block do not count; half goes up */
};

/* bf16. The error of a normal number x is below 2^-7 |x| (to the nearest: at
 * most half of that), that of a smaller one below 2^-133. Infinities stay; each
 * NaN becomes one, 0x7fc0, as which of them an operation leaves is the
 * processor's; what is beyond the largest bf16, 3.39e38, becomes that. */
void dsf_pack16(const struct dsf_rounding *r, const float *in, uint16_t *out,
                size_t n);
void dsf_unpack16(const uint16_t *in, float *out, size_t n);

/* 8 bits, and 16 for each block: t, the power of two of its largest number once
 * that is rounded (2^t <= |x| < 2^(t + 1); at least -95), and whether one of the
 * 8 is a sign. Errors of x:
 *
 *   a block with negative numbers          without (a second moment)
 *   below 2^-4 |x| for |x| >= 2^(t - 3)    below 2^-4 x for x >= 2^(t - 7)
 *         2^-3 |x|            2^(t - 10)         2^-3 x        2^(t - 22)
 *         2^(t - 13) otherwise                   2^(t - 25) otherwise
 *
 * The mean is right, but for this: in a block without negative numbers those
 * below 2^(t - 25) become 2^(t - 25), so that no second moment that is not zero
 * becomes zero. A block with an infinity or a NaN becomes NaNs. Bytes of zeroes
 * are zeroes.
 *
 * A scale for each block, and codes that cover many powers of ten, are those of
 * Dettmers et al. 2022 (8-bit optimizers via block-wise quantization). Their
 * code has 64 steps (128 without a sign) in the highest power of ten and half as
 * many in each one below: in the lowest, the next number is ten times as large.
 * Here steps are relative, as a number that is rounded at random goes to either
 * neighbour; and whole numbers do it, without a table. */
void dsf_pack8(const struct dsf_rounding *r, const float *in, uint16_t *heads,
               uint8_t *codes, size_t n);
void dsf_unpack8(const uint16_t *heads, const uint8_t *codes, float *out,
                 size_t n);

#endif
