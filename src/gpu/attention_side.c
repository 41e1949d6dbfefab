/* attention_side.c - attention on a GPU. */
#include "gpu/attention.h"
#include "gpu/gpu.h"
#include "kernels/layout.h"

#include <math.h>
#include <dsflow/segments.h>

static int is_narrow(enum dsflow_dtype type)
{
    return type == DSFLOW_BF16 || type == DSFLOW_FP16;
}

/* Tensor cores copy rows 16 bytes at a time, and accumulators of wider heads
 * would not fit in registers. */
static int is_for_mma(const struct dsf_gpu_attention *a)
{
    return is_narrow(a->type) && a->head_dim % 8 == 0 && a->head_dim <= 256;
}

static struct dsf_gpu_sum sum_of(const struct dsflow_call *call, unsigned port,
                                 int fresh)
{
    const struct dsflow_buf *b = &call->bufs[port];

    return (struct dsf_gpu_sum){ b->ptr, is_narrow(b->dtype), fresh };
}

/* What both directions have. */
static struct dsf_gpu_attention attention_of(const struct dsflow_call *call)
{
    const struct dsflow_attention_args *args = call->args;
    const struct dsflow_tile *t = &args->tile;
    const struct dsflow_buf *bufs = call->bufs;

    return (struct dsf_gpu_attention){
        .type = bufs[DSFLOW_ATTENTION_Q].dtype,
        .nseq = (unsigned)t->nseq,
        .queries = (unsigned)(t->rows / t->nseq),
        .keys = (unsigned)(args->keys / t->nseq),
        .heads = (unsigned)t->heads,
        .kv_heads = (unsigned)t->kv_heads,
        .head_dim = (unsigned)t->head_dim,
        .diagonal = args->diagonal,
        .last = args->last,
        .scale = 1 / sqrtf((float)t->head_dim),
        .q = bufs[DSFLOW_ATTENTION_Q].ptr,
        .kv = bufs[DSFLOW_ATTENTION_KV].ptr,
        .lse = bufs[DSFLOW_ATTENTION_LSE].ptr,
    };
}

/* Where queries do not see all keys that are not behind them. NULL: they do. */
static const struct dsf_gpu_sight *sight_of(const struct dsflow_call *call,
                                            struct dsf_gpu_sight *sight)
{
    const struct dsflow_attention_args *a = call->args;
    const size_t words = dsf_layout_words((size_t)a->blocks);
    const size_t apart = a->layouts > 1 ? words * (size_t)a->blocks : 0;

    if (a->window == 0 && a->block == 0 && a->before == 0)
        return NULL;
    *sight = (struct dsf_gpu_sight){
        .before =
            (unsigned)(a->diagonal ? a->before : a->tile.pos - a->key_pos),
        .window = a->window > 0 ? (unsigned)a->window : DSF_GPU_ANY_WINDOW,
        .pos = (unsigned)a->tile.pos,
        .key_pos = (unsigned)a->key_pos,
        .block = (unsigned)a->block,
        .words = (unsigned)words,
        .apart = apart,
    };
    if (a->block > 0)
        sight->layout =
            (const uint64_t *)call->bufs[DSFLOW_ATTENTION_LAYOUT].ptr +
            (size_t)a->head * apart;
    return sight;
}

static void forward(const struct dsflow_call *call, void *stream)
{
    const struct dsflow_attention_args *args = call->args;
    struct dsf_gpu_attention a = attention_of(call);
    struct dsf_gpu_sight sight;

    a.att = sum_of(call, DSFLOW_ATTENTION_ATT, args->first);
    if (is_for_mma(&a))
        dsf_gpu_attention_forward_mma(&a, sight_of(call, &sight), stream);
    else
        dsf_gpu_attention_forward_plain(&a, sight_of(call, &sight), stream);
}

const struct dsf_gpu_side dsf_gpu_side_attention_forward = {
    .op = "attention.forward",
    .run = forward,
};

static void backward_input(const struct dsflow_call *call, void *stream)
{
    const struct dsflow_attention_args *args = call->args;
    struct dsf_gpu_attention a = attention_of(call);
    struct dsf_gpu_sight sight;

    a.datt = call->bufs[DSFLOW_ATTENTION_DATT].ptr;
    a.delta = call->bufs[DSFLOW_ATTENTION_DELTA].ptr;
    a.dq = sum_of(call, DSFLOW_ATTENTION_DQ, args->first_q);
    a.dkv = sum_of(call, DSFLOW_ATTENTION_DKV, args->first_kv);
    if (is_for_mma(&a))
        dsf_gpu_attention_backward_mma(&a, sight_of(call, &sight), stream);
    else
        dsf_gpu_attention_backward_plain(&a, sight_of(call, &sight), stream);
}

const struct dsf_gpu_side dsf_gpu_side_attention_backward_input = {
    .op = "attention.backward_input",
    .run = backward_input,
};
