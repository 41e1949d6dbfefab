/* projection.c - y = x W^T and its gradients, of numbers in bf16 or fp16: sums
 * in fp32, over blocks of what leaves it. */
#include "codelets/projection.h"

void dsf_projection(const struct dsf_projection *p, const uint16_t *x,
                    const uint16_t *w, float *y, size_t ld)
{
    dsf_product(&(struct dsf_product){
        .type = p->call->type,
        .tb = 1,
        .m = p->rows,
        .n = p->out,
        .k = p->in,
        .a = x,
        .lda = p->in,
        .b = w,
        .ldb = p->in,
        .c = y,
        .ldc = ld,
        .scratch = p->call->product,
    });
}

void dsf_projection_input(const struct dsf_projection *p, const uint16_t *dy,
                          size_t ld, const uint16_t *w, float beta, float *dx)
{
    for (size_t at = 0; at < p->out; at += DSF_PROJECTION_BLOCK)
        dsf_product(&(struct dsf_product){
            .type = p->call->type,
            .m = p->rows,
            .n = p->in,
            .k = dsf_least(p->out - at, DSF_PROJECTION_BLOCK),
            .a = dy + at,
            .lda = ld,
            .b = w + at * p->in,
            .ldb = p->in,
            .beta = at > 0 ? 1 : beta,
            .c = dx,
            .ldc = p->in,
            .scratch = p->call->product,
        });
}

void dsf_projection_weight(const struct dsf_projection *p, const uint16_t *dy,
                           size_t ld, const uint16_t *x, float beta, float *dw)
{
    for (size_t at = 0; at < p->out; at += DSF_PROJECTION_BLOCK)
        dsf_product(&(struct dsf_product){
            .type = p->call->type,
            .ta = 1,
            .m = dsf_least(p->out - at, DSF_PROJECTION_BLOCK),
            .n = p->in,
            .k = p->rows,
            .a = dy + at,
            .lda = ld,
            .b = x,
            .ldb = p->in,
            .beta = beta,
            .c = dw + at * p->in,
            .ldc = p->in,
            .scratch = p->call->product,
        });
}
