/* compress.c - numbers of a unit that ranks send each other in fewer bytes. */
#include "codelets/codelets.h"

#include "codelets/trials.h"
#include "kernels/narrow.h"

#include <string.h>

static const float *floats(const struct dsflow_buf *buf, int64_t at)
{
    return (const float *)buf->ptr + at;
}

/* Numbers for data that may be narrow: where they are to be made. */
static float *made_in(const struct dsflow_buf *out, int64_t at, float *room)
{
    return dsf_is_narrow(out->dtype) ? room : (float *)out->ptr + at;
}

static void store(const struct dsflow_buf *out, int64_t at, const float *made,
                  size_t n)
{
    if (dsf_is_narrow(out->dtype))
        dsf_narrow(out->dtype)
            ->narrow(made, n, NULL, (uint16_t *)out->ptr + at, n, 1, n);
}

static void recode_cpu(const struct dsflow_call *call)
{
    const struct dsf_recode_args *a = call->args;
    const int64_t n = a->coding.block;
    float *room = call->scratch;
    uint8_t *coded = (uint8_t *)(room + n);

    for (int64_t i = 0; i < a->elems; i += n) {
        float *made = made_in(&call->bufs[1], a->out_at + i, room);

        dsf_coding_encode(&a->coding, NULL, a->at + i, n,
                          floats(&call->bufs[0], a->in_at + i), coded);
        dsf_coding_decode(&a->coding, a->at + i, n, coded, made);
        store(&call->bufs[1], a->out_at + i, made, (size_t)n);
    }
}

DSF_CODELET(recode, .cpu = recode_cpu, .trials = &dsf_trials_compress);

/* --- sums ----------------------------------------------------------------- */

/* What is added up, block by block. */
struct terms {
    const struct dsflow_call *call;
    size_t len;     /* numbers of the block */
    uint8_t *coded; /* room for them */
    const struct dsf_scales *scales; /* of tensors, by port */
    float *room;    /* for the trees of the terms */
    /* Term `k` from number `i` of those that are summed on. */
    void (*get)(const struct terms *t, unsigned k, int64_t i, float *out);
};

/* As `add` does it (move.c): the first 2^k of terms first .. first+n, and the
 * rest, which is made in `room`. */
static void tree(const struct terms *t, unsigned first, unsigned n, int64_t i,
                 float *out, float *room)
{
    unsigned half = 1;

    if (n == 1) {
        t->get(t, first, i, out);
        return;
    }
    while (2 * half < n)
        half *= 2;
    tree(t, first, half, i, out, room);
    tree(t, first + half, n - half, i, room, room + t->len);
    dsf_add(out, room, t->len);
}

static void get_recoded(const struct terms *t, unsigned k, int64_t i,
                        float *out)
{
    const struct dsf_add_recoded_args *a = t->call->args;
    const int64_t n = (int64_t)t->len;
    const unsigned port =
        (int64_t)k == a->self ? 0 : k + ((int64_t)k < a->self);

    dsf_coding_encode(
        &a->coding, &t->scales[port], a->at + i, n,
        floats(&t->call->bufs[port], (port == 0 ? a->into_at : a->from_at) + i),
        t->coded);
    dsf_coding_decode(&a->coding, a->at + i, n, t->coded, out);
}

/* The sum of the `k`-th node, as it is when it has been sent. */
static void get_node(const struct terms *t, unsigned k, int64_t i, float *out)
{
    const struct dsf_add_recoded_args *a = t->call->args;
    const unsigned node = (unsigned)a->node;
    struct terms groups = *t;

    groups.get = get_recoded;
    tree(&groups, k * node, node, i, out, t->room);
    dsf_coding_encode(&a->coding, NULL, a->at + i, (int64_t)t->len, out,
                      t->coded);
    dsf_coding_decode(&a->coding, a->at + i, (int64_t)t->len, t->coded, out);
}

static void add_recoded_cpu(const struct dsflow_call *call)
{
    const struct dsf_add_recoded_args *a = call->args;
    const size_t n = (size_t)a->coding.block;
    const unsigned terms = call->nbufs / (a->node > 0 ? (unsigned)a->node : 1);
    struct dsf_scales *scales = call->scratch;
    float *sum = (float *)(scales + call->nbufs), *coded = sum + n;
    float *room = coded + n;
    const struct terms t = { .call = call,
                             .len = n,
                             .coded = (uint8_t *)coded,
                             .scales = scales,
                             .room = room + n * dsf_tree_levels(terms),
                             .get = a->node > 0 ? get_node : get_recoded };

    for (unsigned i = 0; i < call->nbufs; i++)
        scales[i] = dsf_coding_scales(
            &a->coding,
            floats(&call->bufs[i], i == 0 ? a->into_at : a->from_at));
    for (int64_t i = 0; i < a->elems; i += a->coding.block) {
        tree(&t, 0, terms, i, sum, room);
        memcpy((float *)call->bufs[0].ptr + a->into_at + i, sum,
               n * sizeof(*sum));
    }
}

DSF_CODELET(add_recoded, .cpu = add_recoded_cpu,
            .trials = &dsf_trials_compress);

static void get_compressed(const struct terms *t, unsigned k, int64_t i,
                           float *out)
{
    const struct dsf_compressed_args *a = t->call->args;
    const struct dsflow_buf *in = &t->call->bufs[k + 1];
    int64_t from = dsf_compressed_move(a, in->elems).from +
                   dsf_coding_bytes(&a->coding, a->at, i);

    dsf_coding_decode(&a->coding, a->at + i, (int64_t)t->len,
                      (const uint8_t *)in->ptr + from, out);
}

static void add_compressed_cpu(const struct dsflow_call *call)
{
    const struct dsf_compressed_args *a = call->args;
    const struct terms t = { .call = call,
                             .len = (size_t)a->coding.block,
                             .get = get_compressed };

    for (int64_t i = 0; i < a->elems; i += a->coding.block)
        tree(&t, 0, call->nbufs - 1, i,
             (float *)call->bufs[0].ptr + a->into_at + i, call->scratch);
}

DSF_CODELET(add_compressed, .cpu = add_compressed_cpu,
            .trials = &dsf_trials_compress);

/* --- there and back ------------------------------------------------------- */

static void compress_cpu(const struct dsflow_call *call)
{
    const struct dsf_compress_args *a = call->args;
    const float *in = floats(&call->bufs[0], a->from);
    uint8_t *out = (uint8_t *)call->bufs[1].ptr +
                   dsf_coding_bytes(&a->coding, a->out_at, a->at - a->out_at);

    if (a->by_block || a->coding.ntensors == 0)
        dsf_coding_encode(&a->coding, NULL, a->at, a->elems, in, out);
    else
        dsf_coding_encode_whole(&a->coding, a->elems, in, out);
}

DSF_CODELET(compress, .cpu = compress_cpu, .trials = &dsf_trials_compress);

static void decompress_cpu(const struct dsflow_call *call)
{
    const struct dsf_decompress_args *a = call->args;
    const struct dsflow_buf *out = &call->bufs[0];
    const struct dsflow_control *control = call->bufs[1].ptr;
    const int64_t n = a->coding.block;

    if (a->guarded && control->skip)
        return;
    for (unsigned p = 1 + (unsigned)a->guarded; p < call->nbufs; p++) {
        const struct dsf_range move = dsf_decompress_move(a, p);
        const uint8_t *in = call->bufs[p].ptr;

        for (int64_t i = 0; i < move.elems; i += n) {
            float *made = made_in(out, move.at + i, call->scratch);

            dsf_coding_decode(&a->coding, move.at + i, n,
                              in + dsf_coding_bytes(&a->coding, move.at, i),
                              made);
            store(out, move.at + i, made, (size_t)n);
        }
    }
}

DSF_CODELET(decompress, .cpu = decompress_cpu, .trials = &dsf_trials_compress);

static void gather_coded_cpu(const struct dsflow_call *call)
{
    for (unsigned i = 1; i < call->nbufs; i++) {
        const struct dsf_range move = dsf_gather_coded_move(call->args, i);

        memcpy((uint8_t *)call->bufs[0].ptr + move.at, call->bufs[i].ptr,
               (size_t)move.elems);
    }
}

DSF_CODELET(gather_coded, .cpu = gather_coded_cpu,
            .trials = &dsf_trials_compress);
