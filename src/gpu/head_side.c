/* head_side.c - head on a GPU: last norm, logits and cross entropy; of a part,
 * over some of the vocabulary. */
#include "gpu/side.h"

static struct dsf_gpu_projection projection(const struct dsf_gpu_work *w)
{
    const struct dsflow_tile *t =
        &((const struct dsflow_head_args *)w->call->args)->tile;

    return (struct dsf_gpu_projection){ w, (size_t)t->rows, (size_t)t->width,
                                        (size_t)t->vocab };
}

static size_t normed_bytes(const struct dsflow_head_args *a,
                           enum dsflow_dtype type)
{
    return a->norm_w < 0 ? 0 : dsf_gpu_bytes(type, dsf_tile_x(&a->tile));
}

static struct dsf_gpu_logits logits_of(const struct dsflow_call *call)
{
    const struct dsflow_head_args *a = call->args;
    const struct dsflow_buf *logits = &call->bufs[DSFLOW_HEAD_LOGITS];
    const struct dsflow_control *control = call->bufs[DSFLOW_HEAD_CONTROL].ptr;
    const int32_t *batch = call->bufs[DSFLOW_HEAD_BATCH].ptr;

    return (struct dsf_gpu_logits){
        .type = logits->dtype,
        .logits = logits->ptr,
        .ld = (size_t)a->tile.vocab,
        .rows = (size_t)a->tile.rows,
        .vocab = dsf_head_words(a),
        .first = a->first,
        .targets = batch + a->tile.rows,
        .scale = a->scale,
        .loss_scale = control == NULL ? NULL : &control->loss_scale,
    };
}

/* A loss for each row. */
static size_t losses_bytes(const struct dsflow_tile *t)
{
    return (size_t)t->rows * sizeof(double);
}

static struct dsf_gpu_room forward_room(const struct dsflow_head_args *a,
                                        enum dsflow_dtype type)
{
    return (struct dsf_gpu_room){
        .normed = normed_bytes(a, type),
        .sums = losses_bytes(&a->tile),
    };
}

/* Logits are rounded where they are stored, before their exponentials. */
static void forward(const struct dsflow_call *call, void *stream)
{
    const struct dsflow_head_args *a = call->args;
    const struct dsf_gpu_work w =
        dsf_gpu_work(call, DSFLOW_HEAD_X,
                     forward_room(a, call->bufs[DSFLOW_HEAD_X].dtype), stream);
    const struct dsf_gpu_norm norm = DSF_GPU_NORM_OF(&w, DSFLOW_HEAD_NORM, a);
    const struct dsf_gpu_projection p = projection(&w);
    const struct dsf_gpu_logits logits = logits_of(call);

    dsf_gpu_project_to(
        &p, dsf_gpu_normed(&w, &norm, dsf_gpu_port(&w, DSFLOW_HEAD_X), p.rows),
        dsf_gpu_number(call, DSFLOW_HEAD_WEIGHT, a->w), DSFLOW_HEAD_LOGITS,
        NULL, NULL);
    if (a->norm_w >= 0)
        dsf_gpu_cross_entropy(&logits, dsf_gpu_port(&w, DSFLOW_HEAD_LOSS),
                              w.sums, stream);
    else
        dsf_gpu_exponentials(&logits, dsf_gpu_port(&w, DSFLOW_HEAD_TOPS),
                             dsf_gpu_port(&w, DSFLOW_HEAD_STATS), stream);
}

DSF_GPU_SEGMENT_SIDE(head, forward, HEAD, X);

static size_t loss_scratch(const struct dsflow_case *c)
{
    return losses_bytes(&((const struct dsflow_head_args *)c->args)->tile);
}

static void loss(const struct dsflow_call *call, void *stream)
{
    const struct dsflow_head_args *a = call->args;
    const struct dsflow_buf *bufs = call->bufs;
    const struct dsf_gpu_logits logits = logits_of(call);

    dsf_gpu_logit_gradients(&logits, bufs[DSFLOW_HEAD_TOPS].ptr,
                            bufs[DSFLOW_HEAD_ALL_STATS].ptr, (unsigned)a->parts,
                            bufs[DSFLOW_HEAD_LOSS].ptr, call->scratch, stream);
}

const struct dsf_gpu_side dsf_gpu_side_head_loss = {
    .op = "head.loss",
    .run = loss,
    .scratch = loss_scratch,
};

static struct dsf_gpu_room backward_input_room(const struct dsflow_head_args *a,
                                               enum dsflow_dtype type)
{
    return (struct dsf_gpu_room){
        .normed = normed_bytes(a, type),
        .wide = dsf_tile_x(&a->tile) * sizeof(float),
        .sums =
            dsf_gpu_norm_scratch((size_t)a->tile.rows, (size_t)a->tile.width),
    };
}

static void backward_input(const struct dsflow_call *call, void *stream)
{
    const struct dsflow_head_args *a = call->args;
    const struct dsf_gpu_work w = dsf_gpu_work(
        call, DSFLOW_HEAD_LOGITS,
        backward_input_room(a, call->bufs[DSFLOW_HEAD_LOGITS].dtype), stream);
    const struct dsf_gpu_norm norm = DSF_GPU_NORM_OF(&w, DSFLOW_HEAD_NORM, a);
    const struct dsf_gpu_projection p = projection(&w);
    float *dnormed = dsf_gpu_input_at(&w, DSFLOW_HEAD_DX, a->norm_w);
    const struct dsf_gpu_product product = dsf_gpu_project_input(
        &p, dsf_gpu_port(&w, DSFLOW_HEAD_LOGITS), p.out,
        dsf_gpu_number(call, DSFLOW_HEAD_WEIGHT, a->w), dnormed, 0);

    dsf_gpu_multiply(&product, stream);
    dsf_gpu_input_gradient(&w, DSFLOW_HEAD_DX, &norm,
                           dsf_gpu_port(&w, DSFLOW_HEAD_X), dnormed, NULL,
                           dsf_gpu_port(&w, DSFLOW_HEAD_DNORM), p.rows);
}

DSF_GPU_SEGMENT_SIDE(head, backward_input, HEAD, LOGITS);

static struct dsf_gpu_room
backward_weight_room(const struct dsflow_head_args *a, enum dsflow_dtype type,
                     enum dsflow_dtype grad)
{
    return (struct dsf_gpu_room){
        .normed = normed_bytes(a, type),
        .wide = dsf_gpu_weight_wide(type, grad, (size_t)a->tile.vocab,
                                    (size_t)a->tile.width),
    };
}

static void backward_weight(const struct dsflow_call *call, void *stream)
{
    const struct dsflow_head_args *a = call->args;
    const struct dsf_gpu_work w = dsf_gpu_work(
        call, DSFLOW_HEAD_LOGITS,
        backward_weight_room(a, call->bufs[DSFLOW_HEAD_LOGITS].dtype,
                             call->bufs[DSFLOW_HEAD_GRAD].dtype),
        stream);
    const struct dsf_gpu_norm norm = DSF_GPU_NORM_OF(&w, DSFLOW_HEAD_NORM, a);
    const struct dsf_gpu_projection p = projection(&w);
    const struct dsf_gpu_extent matrix = { a->w, p.out * p.in };
    const struct dsf_gpu_gradient grad =
        dsf_gpu_gradient_but(&w, DSFLOW_HEAD_GRAD, &matrix, 1);
    struct dsf_gpu_gradient norms;

    dsf_gpu_project_weight(
        &p, dsf_gpu_port(&w, DSFLOW_HEAD_LOGITS), p.out,
        dsf_gpu_normed(&w, &norm, dsf_gpu_port(&w, DSFLOW_HEAD_X), p.rows),
        &grad, a->w);
    if (a->norm_w < 0)
        return;
    norms = dsf_gpu_gradient(call, DSFLOW_HEAD_NORM_GRAD, stream);
    dsf_gpu_norm_sums(&w, &norms, a->norm_w, a->norm_b,
                      dsf_gpu_port(&w, DSFLOW_HEAD_DNORM), p.in);
}

DSF_GPU_WEIGHT_SIDE(head, HEAD, LOGITS);
