/* same_bits_wire.c - random cases of kinds that code numbers for the wire: all
 * formats, blocks for one warp, four and eight, numbers and bytes that begin
 * anywhere, tensors with a scale of their own, and more terms than one launch
 * is told of. */
#include "base/alloc.h"
#include "gpu/same_bits.h"
#include "lib/test.h"
#include "tasks/compress_args.h"
#include "tasks/tasks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where numbers begin: at whole words, or anywhere. */
static int64_t any_place(struct trial *t)
{
    return one_in(t, 2) ? 16 * any(t, 0, 2) : any(t, 0, 21);
}

/* A coding, and how many blocks the unit has. `few`: of few small blocks, more
 * often of signs. */
static struct dsf_coding any_coding(struct trial *t, bool few, int64_t *blocks)
{
    static const char *const formats[] = { "bf16", "int8", "int4", "sign" };
    static const int64_t sizes[] = { 16,  32,   48,   64,   256, 496,
                                     512, 1024, 2032, 2048, 4096 };
    struct dsf_coding c = { .block = sizes[any(t, 0, few ? 2 : 10)] };

    snprintf(c.format, sizeof(c.format), "%s",
             formats[few && one_in(t, 2) ? 3 : any(t, 0, 3)]);
    *blocks = any(t, 1, few ? 6 : (one_in(t, 8) ? 14000 : 4000) / c.block + 2);
    c.coded = one_in(t, 2) ? c.block * *blocks : c.block * any(t, 0, *blocks);
    return c;
}

/* Where the format has a scale for each tensor: some, with gaps. */
static void any_tensors(struct trial *t, struct dsf_coding *c, int64_t blocks)
{
    struct dsf_coded_tensor of[3] = { { 0 } };
    const int64_t unit = c->block * blocks;
    unsigned n = 0;

    for (int64_t at = any(t, 0, 1) * any(t, 0, 40); at < unit && n < 3; n++) {
        of[n] = (struct dsf_coded_tensor){
            at, one_in(t, 3) ? unit - at : any(t, 1, unit - at), n
        };
        at += of[n].elems + (one_in(t, 2) ? 0 : any(t, 0, 40));
    }
    if (strcmp(c->format, "sign") == 0 && !one_in(t, 3))
        dsf_coding_by_tensor(c, n, of);
}

static struct dsflow_shape packed(const struct dsf_coding *c, int64_t at,
                                  int64_t elems)
{
    return dsflow_shape_of(DSFLOW_BYTES, dsf_coding_bytes(c, at, elems));
}

static enum dsflow_dtype any_out(struct trial *t)
{
    static const enum dsflow_dtype types[] = { DSFLOW_FP32, DSFLOW_BF16,
                                               DSFLOW_FP16 };

    return types[any(t, 0, 2)];
}

static void make_recode(struct trial *t)
{
    struct dsf_recode_args *a = (void *)t->args;
    int64_t blocks, first;

    a->coding = any_coding(t, false, &blocks);
    any_tensors(t, &a->coding, blocks);
    first = any(t, 0, blocks - 1);
    a->at = first * a->coding.block;
    a->elems = any(t, 0, blocks - first) * a->coding.block;
    a->in_at = any_place(t);
    a->out_at = any_place(t);
    t->n = 2;
    t->shapes[0] = floats(a->in_at + a->elems);
    t->shapes[1] = dsflow_shape_of(any_out(t), a->out_at + a->elems);
}

static void make_compress(struct trial *t)
{
    struct dsf_compress_args *a = (void *)t->args;
    int64_t blocks, first = 0;

    a->coding = any_coding(t, false, &blocks);
    any_tensors(t, &a->coding, blocks);
    a->by_block = one_in(t, 3);
    if (a->by_block || a->coding.ntensors == 0)
        first = any(t, 0, blocks - 1);
    a->at = first * a->coding.block;
    a->elems = a->coding.block * (blocks - first);
    a->out_at = a->coding.block * any(t, 0, first);
    a->from = any_place(t);
    t->n = 2;
    t->shapes[0] = floats(a->from + a->elems);
    t->shapes[1] = packed(&a->coding, a->out_at, a->at + a->elems - a->out_at);
}

static void make_decompress(struct trial *t)
{
    struct dsf_decompress_args *a = (void *)t->args;
    const bool many = one_in(t, 16);
    int64_t blocks;

    a->coding = any_coding(t, many, &blocks);
    blocks = many ? any(t, 90, MOST_PORTS - 1) : blocks;
    any_tensors(t, &a->coding, blocks);
    a->pieces = (struct dsf_pieces){
        .blocks = blocks,
        .block = a->coding.block,
        .members = many ? (int32_t)blocks : (int32_t)any(t, 1, 7),
    };
    a->pieces.owner = (int32_t)any(t, 0, a->pieces.members - 1);
    a->runs = many ? a->pieces.members : (int32_t)any(t, 1, a->pieces.members);
    t->n = 1;
    for (int32_t i = 0; i < a->runs; i++) {
        const int64_t at = dsf_pieces_run_at(&a->pieces, a->runs, i);
        const int64_t end = dsf_pieces_run_at(&a->pieces, a->runs, i + 1);

        a->first += at == end && t->n == 1;
        if (at < end)
            t->shapes[t->n++] = packed(&a->coding, at, end - at);
    }
    t->shapes[0] = dsflow_shape_of(any_out(t), blocks * a->coding.block);
}

static void make_add_compressed(struct trial *t)
{
    struct dsf_compressed_args *a = (void *)t->args;
    const bool many = one_in(t, 16);
    int64_t blocks, first;

    a->coding = any_coding(t, many, &blocks);
    any_tensors(t, &a->coding, blocks);
    first = any(t, 0, blocks - 1);
    a->at = first * a->coding.block;
    a->elems = any(t, 1, blocks - first) * a->coding.block;
    a->in_at = any(t, 0, first) * a->coding.block;
    a->into_at = any_place(t);
    t->n = (unsigned)(many ? any(t, 100, MOST_PORTS) : any(t, 2, 20));
    t->shapes[0] = floats(a->into_at + a->elems);
    for (unsigned i = 1; i < t->n; i++)
        t->shapes[i] = one_in(t, 2)
                           ? packed(&a->coding, a->at, a->elems)
                           : packed(&a->coding, a->in_at,
                                    blocks * a->coding.block - a->in_at);
}

static void make_add_recoded(struct trial *t)
{
    struct dsf_add_recoded_args *a = (void *)t->args;
    const bool many = one_in(t, 6);
    int64_t blocks;

    a->coding = any_coding(t, many, &blocks);
    any_tensors(t, &a->coding, blocks);
    t->calm = many; /* else most of so many scales are no numbers */
    a->elems = blocks * a->coding.block;
    a->at = a->coding.ntensors > 0 ? 0 : a->coding.block * any(t, 0, 2);
    a->into_at = any_place(t);
    a->from_at = any_place(t);
    t->n = (unsigned)(many ? any(t, 100, MOST_PORTS) : any(t, 1, 17));
    a->self = any(t, 0, (int64_t)t->n - 1);
    a->node = one_in(t, 2) ? any(t, 1, (int64_t)t->n) : 0;
    while (a->node > 0 && t->n % a->node != 0)
        a->node--;
    for (unsigned i = 0; i < t->n; i++)
        t->shapes[i] = floats((i == 0 ? a->into_at : a->from_at) + a->elems);
}

static void make_feed_back(struct trial *t)
{
    struct dsf_feed_back_args *a = (void *)t->args;
    const bool int8 = one_in(t, 2);
    int64_t blocks;

    a->coding = any_coding(t, false, &blocks);
    any_tensors(t, &a->coding, blocks);
    a->elems = blocks * a->coding.block;
    a->at = a->coding.ntensors > 0
                ? 0
                : a->coding.block * DSFLOW_BLOCK_ELEMS * any(t, 0, 1);
    a->grad_at = any_place(t);
    a->error_at = DSFLOW_BLOCK_ELEMS * any(t, 0, 2);
    a->reset = any(t, 0, 3);
    a->beta = (double)any(t, 0, 10) / 10;
    t->n = 3;
    t->shapes[0] = control();
    t->shapes[1] = floats(a->grad_at + a->elems);
    t->shapes[2] = dsflow_shape_of(int8 ? DSFLOW_INT8_BLOCK : DSFLOW_FP32,
                                   a->error_at + a->elems + any(t, 0, 300));
}

/* --- 1-bit Adam ----------------------------------------------------------- */

struct dsf_coding any_signs(struct trial *t, int64_t *blocks)
{
    struct dsf_coding c;

    do {
        c = any_coding(t, one_in(t, 4), blocks);
        snprintf(c.format, sizeof(c.format), "sign");
        any_tensors(t, &c, *blocks);
    } while (c.ntensors == 0 && !one_in(t, 16));
    return c;
}

void leave_out(struct trial *t, unsigned port)
{
    t->without |= 1u << port;
    t->shapes[port] = (struct dsflow_shape){ 0 };
}

static void make_feed_momentum(struct trial *t)
{
    struct dsf_momentum_args *a = (void *)t->args;
    const bool narrow = one_in(t, 2);
    int64_t blocks;

    a->coding = any_signs(t, &blocks);
    a->elems = blocks * a->coding.block;
    a->grad_at = any_place(t);
    a->error_at = any_place(t);
    a->groups = any(t, 1, 8);
    a->beta1 = 0.9;
    a->last = any(t, 0, 5);
    t->n = 5;
    t->shapes[0] = control();
    t->shapes[1] = floats(a->grad_at + a->elems);
    t->shapes[2] = floats(a->elems);
    t->shapes[3] = dsflow_shape_of(narrow ? DSFLOW_BF16 : DSFLOW_FP32,
                                   a->error_at + a->elems);
    t->shapes[4] =
        dsflow_shape_of(DSFLOW_FP64, DSF_LAMB_FIELDS * DSFLOW_MAX_TENSORS);
    if (!one_in(t, 3))
        t->n = 4;
    if (one_in(t, 4)) {
        t->n = 4;
        a->elems = any(t, 1, a->elems);
        t->shapes[2] = floats(a->elems);
        leave_out(t, 3);
    }
    if (one_in(t, 8)) {
        a->beta1 = 0;
        leave_out(t, 2);
    }
}

void any_chunks(struct trial *t)
{
    struct dsf_chunk_args *a = (void *)t->args;
    int64_t blocks, first;

    a->coding = any_signs(t, &blocks);
    first = any(t, 0, blocks - 1);
    a->at = a->coding.block * first;
    a->elems = a->coding.block * any(t, 1, blocks - first);
    a->groups = any(t, 1, 8);
    a->grad_at = any_place(t);
    a->server_at = any_place(t);
    a->m_at = any_place(t);
}

static void make_chunk_squares(struct trial *t)
{
    const struct dsf_chunk_args *a = (const void *)t->args;

    any_chunks(t);
    t->n = 3;
    t->shapes[0] = floats(a->grad_at + a->elems);
    t->shapes[1] = floats(a->server_at + a->elems);
    t->shapes[2] = dsflow_shape_of(DSFLOW_FP64, a->elems / a->coding.block);
    if (one_in(t, 4))
        leave_out(t, 1);
}

static void make_chunk_scales(struct trial *t)
{
    struct dsf_chunk_scales_args *a = (void *)t->args;
    int64_t blocks, most;

    do
        a->coding = any_signs(t, &blocks);
    while (a->coding.ntensors == 0);
    a->groups = any(t, 1, 8);
    most = one_in(t, 4) ? 1 : blocks;
    t->shapes[0] = dsflow_shape_of(DSFLOW_FP64, a->coding.ntensors * a->groups);
    for (t->n = 1; blocks > 0 && t->n < MOST_PORTS; t->n++) {
        const int64_t n = t->n == MOST_PORTS - 1
                              ? blocks
                              : any(t, 1, most < blocks ? most : blocks);

        t->shapes[t->n] = dsflow_shape_of(DSFLOW_FP64, n);
        blocks -= n;
    }
}

static void make_serve(struct trial *t)
{
    struct dsf_chunk_args *a = (void *)t->args;

    do
        any_chunks(t);
    while (a->coding.ntensors == 0);
    t->n = 5;
    t->shapes[0] = control();
    t->shapes[1] = floats(a->grad_at + a->elems);
    t->shapes[2] = dsflow_shape_of(DSFLOW_FP64, a->coding.ntensors * a->groups);
    t->shapes[3] = floats(a->server_at + a->elems);
    t->shapes[4] = floats(a->m_at + a->elems);
    if (one_in(t, 4)) {
        leave_out(t, 2);
        leave_out(t, 3);
    }
}

/* --- 1-bit LAMB ----------------------------------------------------------- */

static void make_send_signs(struct trial *t)
{
    struct dsf_send_args *a = (void *)t->args;
    const bool narrow = one_in(t, 2);
    int64_t blocks;

    a->coding = any_signs(t, &blocks);
    a->elems = blocks * a->coding.block;
    a->grad_at = any_place(t);
    a->error_at = any_place(t);
    a->all = any(t, 1, 100000);
    t->n = 3;
    t->shapes[0] = floats(a->grad_at + a->elems);
    t->shapes[1] = dsflow_shape_of(narrow ? DSFLOW_BF16 : DSFLOW_FP32,
                                   a->error_at + a->elems);
    t->shapes[2] = dsflow_shape_of(DSFLOW_FP64, 1);
}

static void make_serve_lamb(struct trial *t)
{
    struct dsf_united_args *a = (void *)t->args;

    do
        any_chunks(t);
    while (a->at.coding.ntensors == 0);
    a->before = any(t, 0, 5000);
    a->all = a->before + any(t, 0, 5000);
    for (int64_t i = 0; i < a->at.coding.ntensors; i++)
        a->all += a->at.coding.tensors[i].elems;
    a->fresh_at = any_place(t);
    a->by_tensor = one_in(t, 4);
    if (a->by_tensor)
        a->at.groups = DSFLOW_MAX_TENSORS;
    a->beta1 = 0.9;
    a->beta2 = 0.95;
    t->n = 7;
    t->shapes[0] = control();
    t->shapes[1] = floats(a->at.grad_at + a->at.elems);
    t->shapes[2] = dsflow_shape_of(DSFLOW_FP64, 2 * a->at.groups);
    t->shapes[3] =
        dsflow_shape_of(DSFLOW_FP64, DSF_LAMB_FIELDS * DSFLOW_MAX_TENSORS);
    t->shapes[4] = floats(a->at.server_at + a->at.elems);
    t->shapes[5] = floats(a->at.m_at + a->at.elems);
    t->shapes[6] = floats(a->fresh_at + a->at.elems);
    t->counts = 1u << 2;
    if (one_in(t, 4)) {
        leave_out(t, 2);
        leave_out(t, 3);
        leave_out(t, 4);
    }
}

static const struct {
    const char *op;
    void (*make)(struct trial *t);
    bool coded;
} kinds[] = {
    { "recode", make_recode, false },
    { "compress", make_compress, true },
    { "decompress", make_decompress, true },
    { "add_compressed", make_add_compressed, true },
    { "add_recoded", make_add_recoded, false },
    { "feed_back", make_feed_back, false },
    { "feed_momentum", make_feed_momentum, false },
    { "chunk_squares", make_chunk_squares, false },
    { "chunk_scales", make_chunk_scales, false },
    { "serve", make_serve, false },
    { "send_signs", make_send_signs, false },
    { "serve_lamb", make_serve_lamb, false },
};

void make_wire(struct trial *t)
{
    const struct dsf_coding *c = (const void *)t->args;

    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
        if (strcmp(kinds[i].op, t->op) == 0) {
            t->coded = kinds[i].coded;
            kinds[i].make(t);
        }
    t->calm = t->calm || one_in(t, 2);
    t->quiet = one_in(t, 4) ? 2 * c->block : 0;
}

/* The first number of what is on a port. */
static int64_t first_of(const struct trial *t, unsigned port)
{
    const struct dsf_compressed_args *add = (const void *)t->args;
    const struct dsf_decompress_args *all = (const void *)t->args;

    if (strcmp(t->op, "decompress") == 0)
        return dsf_decompress_move(all, port).at;
    return t->shapes[port].elems ==
                   dsf_coding_bytes(&add->coding, add->at, add->elems)
               ? add->at
               : add->in_at;
}

/* Numbers that are coded, or any bytes. */
void fill_wire(struct trial *t, unsigned port)
{
    const struct dsf_coding *c = (const void *)t->args;
    const bool plain = one_in(t, 2);
    uint8_t *out = t->before[port];
    const size_t bytes = t->shapes[port].bytes;
    int64_t at, n = 0;
    float *v;

    for (size_t i = 0; i < bytes; i++)
        out[i] = (uint8_t)dsf_random(&t->random);
    if (strcmp(t->op, "compress") == 0 || one_in(t, 4))
        return;
    at = first_of(t, port);
    while (dsf_coding_bytes(c, at, n) < (int64_t)bytes)
        n += c->block;
    v = dsf_xcalloc((size_t)n + 1, sizeof(*v));
    for (int64_t i = 0; i < n; i++) {
        v[i] = any_float(t, plain || t->calm);
        if (t->quiet > 0 && i / t->quiet % 2 == 1)
            v[i] = 0x1p-149f * (float)(i % 4);
        if (t->calm && !(fabsf(v[i]) < 0x1p20f))
            v[i] = 1.5f;
    }
    dsf_coding_encode(c, NULL, at, n, v, out);
    free(v);
}
