/* projection.c - y = x W^T and its gradients, of numbers in bf16 or fp16: sums
 * in fp32, over blocks of what leaves it. */
#include "codelets/projection.h"

#include "kernels/kernels.h"

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

/* dw[n][in] = n columns of dy^T x + beta dw. */
static void weight_rows(const struct dsf_projection *p, const uint16_t *dy,
                        size_t ld, size_t n, const uint16_t *x, float beta,
                        float *dw)
{
    dsf_product(&(struct dsf_product){
        .type = p->call->type,
        .ta = 1,
        .m = n,
        .n = p->in,
        .k = p->rows,
        .a = dy,
        .lda = ld,
        .b = x,
        .ldb = p->in,
        .beta = beta,
        .c = dw,
        .ldc = p->in,
        .scratch = p->call->product,
    });
}

void dsf_projection_weight(const struct dsf_projection *p, const uint16_t *dy,
                           size_t ld, const uint16_t *x,
                           const struct dsf_gradient *g, int64_t at)
{
    const size_t block =
        g->wide != NULL ? DSF_PROJECTION_BLOCK : DSF_GRADIENT_ROWS;

    for (size_t r = 0; r < p->out; r += block) {
        const size_t n = dsf_least(p->out - r, block);
        const int64_t to = at + (int64_t)(r * p->in);

        if (g->wide != NULL) {
            weight_rows(p, dy + r, ld, n, x, g->beta, g->wide + to);
            continue;
        }
        weight_rows(p, dy + r, ld, n, x, 0, p->call->rows);
        dsf_gradient_product(g, to, p->call->rows, n * p->in);
    }
}

/* y += x + b, in fp32; the scratch of y's product is free. */
static void add_widened(const struct dsf_narrow_call *c, float *y,
                        const uint16_t *x, const uint16_t *b, size_t rows,
                        size_t width)
{
    float *row = c->wide;

    for (size_t r = 0; r < rows; r++) {
        c->loops->widen(x + r * width, row, width);
        dsf_add(y + r * width, row, width);
    }
    if (b == NULL)
        return;
    c->loops->widen(b, row, width);
    dsf_add_bias(y, row, rows, width);
}

void dsf_product_leaves(const struct dsf_narrow_call *c,
                        const struct dsflow_call *call, unsigned port,
                        const uint16_t *x, const uint16_t *b, size_t rows,
                        size_t width)
{
    void *y = call->bufs[port].ptr;

    if (!dsf_has_narrow(call, port) && x != NULL)
        add_widened(c, y, x, b, rows, width);
    else if (dsf_has_narrow(call, port) && x != NULL)
        c->loops->residual(c->wide, x, b, y, rows, width);
    else if (dsf_has_narrow(call, port))
        c->loops->narrow(c->wide, width, NULL, y, width, rows, width);
}

void dsf_normed_leaves(const struct dsf_narrow_call *c,
                       const struct dsflow_call *call, unsigned port,
                       const struct dsf_narrow_norm *norm, const uint16_t *x,
                       const uint16_t *dres, float *dnorm, size_t rows)
{
    void *dx = call->bufs[port].ptr;

    if (dsf_has_narrow(call, port)) {
        c->loops->norm_backward(norm, x, c->wide, dres, dx, dnorm, rows);
        return;
    }
    c->loops->norm_backward(norm, x, c->wide, dres, c->narrow, dnorm, rows);
    c->loops->widen(c->narrow, dx, rows * norm->width);
}
