/* attention.c - queries of one tile against keys of one or several, one tile
 * after the other: what each of them adds is rounded as if it had a task of its
 * own. */
#include "codelets/codelets.h"

#include "codelets/call.h"
#include "codelets/trials.h"
#include "kernels/kernels.h"
#include "kernels/narrow.h"
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

/* Rows of each tile of keys, and how many tiles there are. */
static size_t tile_rows(const struct dsflow_attention_args *a)
{
    return (size_t)(a->key_tile > 0 ? a->key_tile : a->keys);
}

static size_t ntiles(const struct dsflow_attention_args *a)
{
    return ((size_t)a->keys + tile_rows(a) - 1) / tile_rows(a);
}

/* One of several tiles of keys. */
static struct dsf_attention tile_of(const struct dsf_attention *whole,
                                    const struct dsflow_attention_args *args,
                                    size_t i)
{
    const size_t at = i * tile_rows(args), left = whole->keys - at;
    struct dsf_attention a = *whole;

    if (args->key_tile == 0)
        return a;
    a.keys = left < tile_rows(args) ? left : tile_rows(args);
    a.key_pos += at;
    a.diagonal = whole->diagonal && i + 1 == ntiles(args);
    a.last = whole->last && i + 1 == ntiles(args);
    return a;
}

/* Does the window hide all keys from all queries? */
static int is_hidden(const struct dsf_attention *a)
{
    return a->window > 0 && a->pos + 1 >= a->window + a->key_pos + a->keys;
}

/* The rows from `row` on, of `width` numbers. */
static struct dsf_numbers rows_from(struct dsf_numbers all, size_t row,
                                    size_t width)
{
    all.p =
        (char *)all.p + dsflow_dtype_bytes(all.type, (int64_t)(row * width));
    return all;
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
    const struct dsflow_attention_args *args = call->args;
    const struct dsf_attention whole = shape(call, DSF_STRIP_FORWARD);
    const struct sums att = begin_sums(call, DSFLOW_ATTENTION_ATT);
    const size_t nkv = dsf_tile_kvwidth(&args->tile);
    int first = whole.first;

    for (size_t i = 0; i < ntiles(args); i++) {
        struct dsf_attention a = tile_of(&whole, args, i);

        if (is_hidden(&a))
            continue;
        a.first = first;
        first = 0;
        dsf_attention_forward(&a, numbers(call, DSFLOW_ATTENTION_Q),
                              rows_from(numbers(call, DSFLOW_ATTENTION_KV),
                                        i * tile_rows(args), nkv),
                              att.to, dsf_floats(call, DSFLOW_ATTENTION_LSE),
                              att.scratch);
    }
    end_sums(args, &att);
}

DSF_SEGMENT_CODELET(attention_forward, forward_cpu);

/* Gradients of keys that no query sees are 0. */
static void clear_keys(struct dsf_numbers dkv, size_t rows, size_t width)
{
    memset(dkv.p, 0, dsflow_dtype_bytes(dkv.type, (int64_t)(rows * width)));
}

static void backward_input_cpu(const struct dsflow_call *call)
{
    const struct dsflow_attention_args *args = call->args;
    const struct dsf_attention whole = shape(call, DSF_STRIP_BACKWARD);
    const struct sums dq = begin_sums(call, DSFLOW_ATTENTION_DQ);
    const size_t nkv = dsf_tile_kvwidth(&args->tile);
    int first = whole.first_q;

    for (size_t i = ntiles(args); i-- > 0;) {
        const size_t at = i * tile_rows(args);
        const struct dsf_numbers kv =
            rows_from(numbers(call, DSFLOW_ATTENTION_KV), at, nkv);
        const struct dsf_numbers dkv =
            rows_from(numbers(call, DSFLOW_ATTENTION_DKV), at, nkv);
        struct dsf_attention a = tile_of(&whole, args, i);

        if (is_hidden(&a)) {
            if (a.first_kv)
                clear_keys(dkv, a.keys, nkv);
            continue;
        }
        a.first_q = first;
        first = 0;
        dsf_attention_backward(&a, numbers(call, DSFLOW_ATTENTION_Q), kv,
                               numbers(call, DSFLOW_ATTENTION_DATT),
                               dsf_floats(call, DSFLOW_ATTENTION_LSE),
                               dsf_floats(call, DSFLOW_ATTENTION_DELTA), dq.to,
                               dkv, dq.scratch);
    }
    end_sums(args, &dq);
}

DSF_SEGMENT_CODELET(attention_backward_input, backward_input_cpu);
