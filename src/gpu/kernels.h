/* kernels.h - what the CUDA sides of tasks launch: each function enqueues on a
 * stream and returns. Pointers are to memory that the GPU reaches; `type` is
 * fp32, bf16 or fp16, and void * points to numbers of it. The meaning is that of
 * the kernels of cores (kernels/kernels.h, kernels/narrow.h). The same inputs
 * give the same bits: orders of sums follow from the shapes. Rows are read 16
 * bytes at a time where they begin at multiples of 16 bytes and have multiples of
 * 8 numbers. Nothing is launched for 0 numbers. */
#ifndef DSF_GPU_KERNELS_H
#define DSF_GPU_KERNELS_H

#include <stddef.h>
#include <stdint.h>
#include <dsflow/segments.h>

#ifdef __cplusplus
extern "C" {
#endif

/* norm_cuda.cu: LayerNorm, or RMSNorm (rms). b may be NULL. */
struct dsf_gpu_norm {
    const void *w, *b;
    size_t width;
    float eps;
    int rms;
};
void dsf_gpu_norm_forward(const struct dsf_gpu_norm *norm,
                          enum dsflow_dtype type, const void *x, void *y,
                          size_t rows, void *stream);
/* dx = dres (NULL: 0) + the gradient that `dy` gives to x; dx may be dres.
 * dnorm[2][width] is set. */
void dsf_gpu_norm_backward(const struct dsf_gpu_norm *norm,
                           enum dsflow_dtype type, const void *x,
                           const float *dy, const void *dres, void *dx,
                           float *dnorm, size_t rows, void *scratch,
                           void *stream);
size_t dsf_gpu_norm_scratch(size_t rows, size_t width); /* bytes */

/* sums_cuda.cu. Bytes become 0: of whole numbers of 2 or 4. */
void dsf_gpu_zero(void *x, size_t bytes, void *stream);
/* dnorm[2][width] of a norm is added to gradients of its w, and of b (NULL:
 * none), which are of type `grad`. */
void dsf_gpu_norm_gradient(enum dsflow_dtype grad, void *w, void *b,
                           const float *dnorm, size_t width, void *stream);
/* into[cols] += the sums of `cols` columns of x, whose rows are `ld` apart;
 * `into` is of type `grad`. */
void dsf_gpu_column_sums(enum dsflow_dtype type, enum dsflow_dtype grad,
                         void *into, const void *x, size_t ld, size_t rows,
                         size_t cols, void *scratch, void *stream);
size_t dsf_gpu_column_scratch(size_t rows, size_t cols); /* bytes */
/* into[n] (= or +=) the sums of the rows of parts[nparts][n], in their order. */
void dsf_gpu_fold(enum dsflow_dtype type, void *into, const float *parts,
                  size_t nparts, size_t n, int add, void *stream);
/* out[row][head] = the sum over head_dim of a b; `rounded`: a in this type, too
 * (NULL: nobody asks). */
void dsf_gpu_head_dots(enum dsflow_dtype type, const float *a, const void *b,
                       float *out, void *rounded, size_t rows, size_t heads,
                       size_t head_dim, void *stream);

/* act_cuda.cu. h = in + bias (NULL: 0) and act = gelu(in + bias), all
 * [rows][cols]; in fp32 `in` may be h. */
void dsf_gpu_gelu_forward(enum dsflow_dtype type, const float *in,
                          const void *bias, void *h, void *act, size_t rows,
                          size_t cols, void *stream);
/* dh = the gradient of h, for `dact` of gelu(h); h becomes gelu(h). In fp32 dact
 * may be dh. */
void dsf_gpu_gelu_backward(enum dsflow_dtype type, void *h, const float *dact,
                           void *dh, size_t n, void *stream);
void dsf_gpu_gelu(enum dsflow_dtype type, void *h, size_t n,
                  void *stream); /* h becomes gelu(h) */
/* in, h[rows][2*cols], gate then up: h = in + bias and act[rows][cols] =
 * silu(gate) up, of what is not rounded yet; in fp32 `in` may be h. */
void dsf_gpu_swiglu_forward(enum dsflow_dtype type, const float *in,
                            const void *bias, void *h, void *act, size_t rows,
                            size_t cols, void *stream);
/* dh[rows][2*cols] = the gradient of h, for dact[rows][cols]; h becomes
 * act[rows][cols], packed at its start. scratch: rows * cols numbers of `type`.
 */
void dsf_gpu_swiglu_backward(enum dsflow_dtype type, void *h, const float *dact,
                             void *dh, void *scratch, size_t rows, size_t cols,
                             void *stream);

/* inputs_cuda.cu. Rows of `cols` inputs of a product as the tile says that they
 * are rounded; `out` may be `in`. */
void dsf_gpu_round_inputs(const struct dsflow_tile *tile,
                          enum dsflow_dtype type, const void *in, void *out,
                          size_t rows, size_t cols, void *stream);

/* rows_cuda.cu. out[rows][ld_out] = in[rows][ld_in] + bias (NULL: 0), of `cols`
 * columns; in fp32 it may be in place. */
void dsf_gpu_narrow(enum dsflow_dtype type, const float *in, size_t ld_in,
                    const void *bias, void *out, size_t ld_out, size_t rows,
                    size_t cols, void *stream);
/* y[rows][cols] = x + bias, or, with `add`, y + x + bias; each may be NULL: 0. */
void dsf_gpu_widen(enum dsflow_dtype type, const void *x, const void *bias,
                   float *y, int add, size_t rows, size_t cols, void *stream);
/* y = x + bias + in, all [rows][cols]; y may be x, or in fp32 `in`. */
void dsf_gpu_residual(enum dsflow_dtype type, const float *in, const void *x,
                      const void *bias, void *y, size_t rows, size_t cols,
                      void *stream);
/* Turn the pairs (i, i + head_dim/2) of each head of each row, or back: row r by
 * the angles of table[r % length][head_dim/2] (cos, sin). */
void dsf_gpu_rotate(enum dsflow_dtype type, void *x, size_t ld, size_t rows,
                    size_t length, size_t heads, size_t head_dim,
                    const float *table, int inverse, void *stream);

/* embed_cuda.cu. Row r has token tokens[r] (below 0: none) at position pos + r %
 * length. The tables have tokens first .. first + vocab and positions first_pos
 * .. first_pos + npos; of others, rows are zeroes, and gradients go nowhere. */
struct dsf_gpu_embed {
    const int32_t *tokens;
    int32_t first, vocab, pos, first_pos, npos;
    size_t length, width;
};
/* The n tokens at `from`, in main memory, go to the device. */
void dsf_gpu_fetch_tokens(int32_t *to, const int32_t *from, size_t n,
                          void *stream);
/* x = wte[token] + wpe[position]; the tables are of type `unit`. */
void dsf_gpu_embed_forward(const struct dsf_gpu_embed *e,
                           enum dsflow_dtype unit, const void *wte,
                           const void *wpe, enum dsflow_dtype type, void *x,
                           size_t rows, void *stream);
/* wte[token] += dx, row after row, and wpe[position] += dx; both are of type
 * `grad`, and rounded when all rows are added. */
void dsf_gpu_embed_backward(const struct dsf_gpu_embed *e,
                            enum dsflow_dtype type, const void *dx,
                            enum dsflow_dtype grad, void *wte, void *wpe,
                            size_t rows, void *scratch, void *stream);
size_t dsf_gpu_embed_scratch(size_t rows); /* bytes */

/* loss_cuda.cu and, of the head in columns, loss_columns_cuda.cu. Logits of
 * `vocab` columns, first .. first + vocab of those that targets count; rows are
 * `ld` apart, and what is between them becomes 0. Gradients are multiplied by
 * scale and *loss_scale (NULL: 1). Rows whose target is below 0 count for
 * nothing. */
struct dsf_gpu_logits {
    enum dsflow_dtype type;
    void *logits;
    size_t rows, vocab, ld;
    const int32_t *targets;
    int32_t first;
    float scale;
    const double *loss_scale;
};
/* *loss = the sum of those of so many rows. */
void dsf_gpu_sum_losses(double *loss, const double *losses, size_t rows,
                        void *stream);
/* Logits of the whole vocabulary become their gradients, and *loss the sum over
 * rows of -log softmax[target]. losses: rows numbers of scratch. */
void dsf_gpu_cross_entropy(const struct dsf_gpu_logits *l, double *loss,
                           double *losses, void *stream);
/* head.forward of a part, and head.loss: see dsflow/segments.h. */
void dsf_gpu_exponentials(const struct dsf_gpu_logits *l, float *tops,
                          struct dsflow_head_stats *stats, void *stream);
void dsf_gpu_logit_gradients(const struct dsf_gpu_logits *l, const float *tops,
                             const struct dsflow_head_stats *stats,
                             unsigned parts, double *loss, double *losses,
                             void *stream);
/* Of the head in columns, whose logits are in fp32: stats[rows] is what these
 * say of each row, or, unless `first`, is put together with what it says of
 * columns before. */
void dsf_gpu_column_stats(const struct dsf_gpu_logits *l,
                          struct dsflow_head_stats *stats, int first,
                          void *stream);
/* to[rows][ld], of `type`: the gradients of `cols` columns of such logits, by
 * what all columns say of each row; those that are no words are 0. In fp32 it
 * may be in place. */
void dsf_gpu_column_gradients(const struct dsf_gpu_logits *l,
                              const struct dsflow_head_stats *sums,
                              enum dsflow_dtype type, void *to, size_t ld,
                              size_t cols, void *stream);
/* sums[rows]: what all parts say of each row, which may be `stats` of one part;
 * *loss as above. losses: rows numbers of scratch. */
void dsf_gpu_row_losses(const int32_t *targets,
                        const struct dsflow_head_stats *stats, unsigned parts,
                        struct dsflow_head_stats *sums, size_t rows,
                        double *loss, double *losses, void *stream);

#ifdef __cplusplus
}
#endif

#endif
