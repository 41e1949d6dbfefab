/* attention.c - queries of one tile against keys of one tile. */
#include "codelets/codelets.h"

#include "codelets/call.h"
#include "codelets/trials.h"
#include "kernels/kernels.h"
#include "tasks/tile.h"

#include <math.h>

static struct dsf_layout layout(const struct dsflow_call *call)
{
    const struct dsflow_attention_args *a = call->args;
    const size_t words = dsf_layout_words((size_t)a->blocks);

    if (a->block == 0)
        return (struct dsf_layout){ .bits = NULL };
    return (struct dsf_layout){
        .bits = call->bufs[DSFLOW_ATTENTION_LAYOUT].ptr,
        .block = (size_t)a->block,
        .words = words,
        .apart = a->layouts > 1 ? words * (size_t)a->blocks : 0,
    };
}

static struct dsf_attention shape(const struct dsflow_call *call, size_t strip)
{
    const struct dsflow_attention_args *a = call->args;
    const struct dsflow_tile *t = &a->tile;

    return (struct dsf_attention){
        .nseq = (size_t)t->nseq,
        .queries = dsf_tile_length(t),
        .keys = (size_t)a->keys / (size_t)t->nseq,
        .heads = (size_t)t->heads,
        .kv_heads = (size_t)t->kv_heads,
        .head_dim = (size_t)t->head_dim,
        .strip = strip,
        .block = DSF_KEY_BLOCK,
        .scale = 1 / sqrtf((float)t->head_dim),
        .diagonal = a->diagonal,
        .first = a->first,
        .last = a->last,
        .first_q = a->first_q,
        .first_kv = a->first_kv,
        .window = (size_t)a->window,
        .pos = (size_t)t->pos,
        .key_pos = (size_t)a->key_pos,
        .layout = layout(call),
        .head = (size_t)a->head,
        .packed = (size_t)a->packed,
    };
}

static struct dsf_numbers numbers(const struct dsflow_call *call, unsigned port)
{
    return (struct dsf_numbers){ call->bufs[port].ptr, call->bufs[port].dtype };
}

static void forward_cpu(const struct dsflow_call *call)
{
    const struct dsf_attention a = shape(call, DSF_STRIP_FORWARD);

    dsf_attention_forward(
        &a, numbers(call, DSFLOW_ATTENTION_Q),
        numbers(call, DSFLOW_ATTENTION_KV), numbers(call, DSFLOW_ATTENTION_ATT),
        dsf_floats(call, DSFLOW_ATTENTION_LSE), call->scratch);
}

DSF_SEGMENT_CODELET(attention_forward, forward_cpu);

static void backward_input_cpu(const struct dsflow_call *call)
{
    const struct dsf_attention a = shape(call, DSF_STRIP_BACKWARD);

    dsf_attention_backward(&a, numbers(call, DSFLOW_ATTENTION_Q),
                           numbers(call, DSFLOW_ATTENTION_KV),
                           numbers(call, DSFLOW_ATTENTION_DATT),
                           dsf_floats(call, DSFLOW_ATTENTION_LSE),
                           dsf_floats(call, DSFLOW_ATTENTION_DELTA),
                           numbers(call, DSFLOW_ATTENTION_DQ),
                           numbers(call, DSFLOW_ATTENTION_DKV), call->scratch);
}

DSF_SEGMENT_CODELET(attention_backward_input, backward_input_cpu);
