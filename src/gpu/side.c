/* side.c - what the CUDA sides of the segments that multiply matrices share. */
#include "gpu/side.h"

/* Where the library wants its workspace, and kernels 16 bytes. */
enum { PART = 256 };

static size_t whole_parts(size_t bytes)
{
    return (bytes + PART - 1) / PART * PART;
}

size_t dsf_gpu_room_bytes(struct dsf_gpu_room room)
{
    return PART + DSF_GPU_WORKSPACE + whole_parts(room.normed) +
           whole_parts(room.inner) + whole_parts(room.wide) +
           whole_parts(room.sums);
}

static void *take(char **at, size_t bytes)
{
    void *here = bytes > 0 ? *at : NULL;

    *at += whole_parts(bytes);
    return here;
}

struct dsf_gpu_work dsf_gpu_work(const struct dsflow_call *call, unsigned port,
                                 struct dsf_gpu_room room, void *stream)
{
    char *at = call->scratch;
    struct dsf_gpu_work w = { .call = call,
                              .type = call->bufs[port].dtype,
                              .stream = stream };

    at += (PART - (uintptr_t)at % PART) % PART;
    w.workspace = take(&at, DSF_GPU_WORKSPACE);
    w.normed = take(&at, room.normed);
    w.inner = take(&at, room.inner);
    w.wide = take(&at, room.wide);
    w.sums = take(&at, room.sums);
    return w;
}

const void *dsf_gpu_normed(const struct dsf_gpu_work *w,
                           const struct dsf_gpu_norm *norm, const void *x,
                           size_t rows)
{
    if (norm->w == NULL)
        return x;
    dsf_gpu_norm_forward(norm, w->type, x, w->normed, rows, w->stream);
    return w->normed;
}

const void *dsf_gpu_inputs(const struct dsf_gpu_work *w,
                           const struct dsflow_tile *tile, const void *in,
                           size_t rows, size_t cols)
{
    if (!dsf_tile_rounds(tile))
        return in;
    dsf_gpu_round_inputs(tile, w->type, in, w->normed, rows, cols, w->stream);
    return w->normed;
}

void dsf_gpu_inputs_in_place(const struct dsf_gpu_work *w,
                             const struct dsflow_tile *tile, void *x,
                             size_t rows, size_t cols)
{
    if (dsf_tile_rounds(tile))
        dsf_gpu_round_inputs(tile, w->type, x, x, rows, cols, w->stream);
}

const void *dsf_gpu_normed_inputs(const struct dsf_gpu_work *w,
                                  const struct dsflow_tile *tile,
                                  const struct dsf_gpu_norm *norm,
                                  const void *x, size_t rows)
{
    const void *xn = dsf_gpu_normed(w, norm, x, rows);

    if (norm->w != NULL)
        dsf_gpu_inputs_in_place(w, tile, w->normed, rows, norm->width);
    return xn;
}

struct dsf_gpu_product dsf_gpu_project(const struct dsf_gpu_projection *p,
                                       const void *x, const void *w, void *y,
                                       size_t ld)
{
    return (struct dsf_gpu_product){
        .type = p->work->type,
        .out = p->work->type,
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
        .wide = p->work->wide,
        .workspace = p->work->workspace,
    };
}

struct dsf_gpu_product dsf_gpu_project_input(const struct dsf_gpu_projection *p,
                                             const void *dy, size_t ld,
                                             const void *w, float *dx, int add)
{
    return (struct dsf_gpu_product){
        .type = p->work->type,
        .out = DSFLOW_FP32,
        .m = p->rows,
        .n = p->in,
        .k = p->out,
        .a = dy,
        .lda = ld,
        .b = w,
        .ldb = p->in,
        .c = dx,
        .ldc = p->in,
        .add = add ? dx : NULL,
        .wide = p->work->wide,
        .workspace = p->work->workspace,
    };
}

void dsf_gpu_project_weight(const struct dsf_gpu_projection *p, const void *dy,
                            size_t ld, const void *x,
                            const struct dsf_gpu_gradient *grad, int64_t at)
{
    void *dw = dsf_gpu_gradient_at(grad, at);

    dsf_gpu_multiply(
        &(struct dsf_gpu_product){
            .type = p->work->type,
            .out = grad->type,
            .ta = 1,
            .m = p->out,
            .n = p->in,
            .k = p->rows,
            .a = dy,
            .lda = ld,
            .b = x,
            .ldb = p->in,
            .c = dw,
            .ldc = p->in,
            .add = grad->add ? dw : NULL,
            .wide = p->work->wide,
            .workspace = p->work->workspace,
        },
        p->work->stream);
}

void dsf_gpu_bias_gradient(const struct dsf_gpu_projection *p, const void *dy,
                           size_t ld, const struct dsf_gpu_gradient *grad,
                           int64_t b)
{
    const struct dsf_gpu_work *w = p->work;

    if (b >= 0)
        dsf_gpu_column_sums(w->type, grad->type, dsf_gpu_gradient_at(grad, b),
                            dy, ld, p->rows, p->out, w->sums, w->stream);
}

void dsf_gpu_project_to(const struct dsf_gpu_projection *p, const void *x,
                        const void *w, unsigned port, const void *add,
                        const void *bias)
{
    const struct dsf_gpu_work *work = p->work;
    void *y = dsf_gpu_port(work, port);
    struct dsf_gpu_product product = dsf_gpu_project(p, x, w, y, p->out);
    const int same = work->call->bufs[port].dtype == work->type;

    product.out = work->call->bufs[port].dtype;
    product.add = same ? add : NULL;
    product.bias = same ? bias : NULL;
    dsf_gpu_multiply(&product, work->stream);
    if (!same && add != NULL)
        dsf_gpu_widen(work->type, add, bias, y, 1, p->rows, p->out,
                      work->stream);
}

float *dsf_gpu_input_at(const struct dsf_gpu_work *w, unsigned port,
                        int64_t norm_w)
{
    const int narrow = dsf_gpu_is_narrow(w->call->bufs[port].dtype);

    return norm_w >= 0 || narrow ? w->wide : dsf_gpu_port(w, port);
}

void dsf_gpu_input_gradient(const struct dsf_gpu_work *w, unsigned port,
                            const struct dsf_gpu_norm *norm, const void *x,
                            const float *dnormed, const void *dres,
                            float *dnorm, size_t rows)
{
    void *dx = dsf_gpu_port(w, port);
    const int same = w->call->bufs[port].dtype == w->type;
    const size_t width = norm->width;

    if (norm->w == NULL && dx != dnormed)
        dsf_gpu_narrow(w->type, dnormed, width, NULL, dx, width, rows, width,
                       w->stream);
    if (norm->w == NULL)
        return;
    dsf_gpu_norm_backward(norm, w->type, x, dnormed, dres,
                          same ? dx : w->normed, dnorm, rows, w->sums,
                          w->stream);
    if (!same)
        dsf_gpu_widen(w->type, w->normed, NULL, dx, 0, rows, width, w->stream);
}

void dsf_gpu_norm_sums(const struct dsf_gpu_work *w,
                       const struct dsf_gpu_gradient *grad, int64_t at,
                       int64_t b, const float *dnorm, size_t width)
{
    if (at >= 0)
        dsf_gpu_norm_gradient(grad->type, dsf_gpu_gradient_at(grad, at),
                              dsf_gpu_gradient_at(grad, b), dnorm, width,
                              w->stream);
}

struct dsf_gpu_gradient dsf_gpu_gradient_but(const struct dsf_gpu_work *w,
                                             unsigned port,
                                             const struct dsf_gpu_extent *set,
                                             unsigned n)
{
    const struct dsflow_buf *b = &w->call->bufs[port];
    const struct dsf_gpu_gradient grad = { b->ptr, b->dtype,
                                           !(w->call->fresh >> port & 1) };
    size_t from = 0;

    for (unsigned i = 0; i <= n && !grad.add; i++) {
        const size_t end = i < n ? (size_t)set[i].at : (size_t)b->elems;

        dsf_gpu_zero(dsf_gpu_gradient_at(&grad, (int64_t)from),
                     dsf_gpu_bytes(grad.type, end - from), w->stream);
        from = i < n ? end + set[i].n : end;
    }
    return grad;
}

size_t dsf_gpu_weight_wide(enum dsflow_dtype type, enum dsflow_dtype grad,
                           size_t rows, size_t cols)
{
    return grad == DSFLOW_FP32 || grad == type
               ? 0
               : dsf_gpu_product_few(rows, cols) * sizeof(float);
}
