/* attention.c - queries of one tile against keys of one or several. */
#include "codelets/codelets.h"

#include "codelets/call.h"
#include "codelets/trials.h"
#include "kernels/kernels.h"
#include "kernels/narrow.h"
#include "tasks/attention_layout.h"
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
        .in_place = dsf_attention_in_place(a),
        .key_tile = (size_t)a->key_tile,
    };
}

static struct dsf_numbers numbers(const struct dsflow_call *call, unsigned port)
{
    return (struct dsf_numbers){ call->bufs[port].ptr, call->bufs[port].dtype };
}

/* What several tiles add to is fp32: in scratch where the port is narrow. */
struct sums {
    struct dsf_numbers to, port;
    float *scratch; /* what is left of it */
};

static struct sums begin_sums(const struct dsflow_call *call, unsigned port)
{
    const struct dsflow_attention_args *a = call->args;
    struct sums s = { numbers(call, port), numbers(call, port), call->scratch };

    if (a->key_tile == 0 || !dsf_is_narrow(s.port.type))
        return s;
    s.to = (struct dsf_numbers){ s.scratch, DSFLOW_FP32 };
    s.scratch += dsf_round16((size_t)a->tile.rows * dsf_tile_qwidth(&a->tile));
    return s;
}

static void end_sums(const struct dsflow_attention_args *a,
                     const struct sums *s)
{
    const size_t n = dsf_tile_qwidth(&a->tile);

    if (s->to.p != s->port.p)
        dsf_narrow(s->port.type)
            ->narrow(s->to.p, n, NULL, s->port.p, n, (size_t)a->tile.rows, n);
}

static void forward_cpu(const struct dsflow_call *call)
{
    const struct dsf_attention whole = shape(call, DSF_STRIP_FORWARD);
    const struct sums att = begin_sums(call, DSFLOW_ATTENTION_ATT);

    dsf_attention_forward(&whole, numbers(call, DSFLOW_ATTENTION_Q),
                          numbers(call, DSFLOW_ATTENTION_KV), att.to,
                          dsf_floats(call, DSFLOW_ATTENTION_LSE), att.scratch);
    end_sums(call->args, &att);
}

DSF_SEGMENT_CODELET(attention_forward, forward_cpu);

static void backward_input_cpu(const struct dsflow_call *call)
{
    const struct dsf_attention whole = shape(call, DSF_STRIP_BACKWARD);
    const struct sums dq = begin_sums(call, DSFLOW_ATTENTION_DQ);

    dsf_attention_backward(&whole, numbers(call, DSFLOW_ATTENTION_Q),
                           numbers(call, DSFLOW_ATTENTION_KV),
                           numbers(call, DSFLOW_ATTENTION_DATT),
                           dsf_floats(call, DSFLOW_ATTENTION_LSE),
                           dsf_floats(call, DSFLOW_ATTENTION_DELTA), dq.to,
                           numbers(call, DSFLOW_ATTENTION_DKV), dq.scratch);
    end_sums(call->args, &dq);
}

DSF_SEGMENT_CODELET(attention_backward_input, backward_input_cpu);
