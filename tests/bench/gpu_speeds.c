/* gpu_speeds.c - what GPU 0 of the module that DSFLOW_CUDA names can do, and
 * how near kinds of tasks come to it: copies, links, launches; norms, cross
 * entropy, embeddings, Adam, coding for the wire and weights in few bits in
 * bytes a second, Muon and attention in operations a second.
 *
 *     gpu_speeds [small]
 *
 * Prints a line of JSON for each: the seconds of one, the bytes that it has to
 * read and write, the operations that it has to do. small: of few numbers, for
 * emulated GPUs. */
#include "base/by_value.h"
#include "exec/cuda_module.h"
#include "tasks/args.h"
#include "tasks/compress_args.h"
#include "tasks/tile.h"

#include <dsflow/op.h>
#include <dsflow/segments.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PORTS = 16, TURNS = 5, MEBI = 1 << 20 };

static const struct dsf_gpu *gpu;
static void *stream, *begun, *ended;
static int small;

static void must(const char *why)
{
    if (why == NULL)
        return;
    fprintf(stderr, "gpu_speeds: %s\n", why);
    exit(1);
}

/* --- memory --------------------------------------------------------------- */

static void *pinned(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (at == MAP_FAILED)
        must("main memory is missing");
    memset(at, 0, bytes);
    must(gpu->pin(at, bytes));
    return at;
}

static void copy(void *to, int to_gpu, const void *from, int from_gpu,
                 size_t bytes)
{
    const struct dsf_gpu_copy c = { to, from, bytes, to_gpu, from_gpu };

    must(gpu->copy(&c, stream));
}

/* Numbers between 0.5 and 1 and their opposites, as fp32, bf16 and fp16: GPUs
 * are faster with zeroes. */
static void *numbers(size_t bytes)
{
    static uint16_t *some;
    enum { SOME = 1 << 20 };
    uint32_t random = 1;
    void *at = NULL;

    if (some == NULL) {
        some = pinned(SOME);
        for (size_t i = 0; i < SOME / sizeof(*some); i++) {
            random = random * 1664525u + 1013904223u;
            some[i] = (uint16_t)(0x3f00 | (random >> 24 & 0x7f) |
                                 (random >> 16 & 0x8000));
        }
    }
    must(gpu->allocate(bytes, &at));
    for (size_t done = 0; done < bytes; done += SOME)
        copy((char *)at + done, 0, some, -1,
             bytes - done < SOME ? bytes - done : SOME);
    return at;
}

/* --- time ----------------------------------------------------------------- */

struct measured {
    const char *name;
    void (*enqueue)(const void *user);
    const void *user;
    double bytes, flops;
};

static double seconds_of(const struct measured *m, unsigned times)
{
    double seconds;

    must(gpu->record(begun, stream));
    for (unsigned i = 0; i < times; i++)
        m->enqueue(m->user);
    must(gpu->launched());
    must(gpu->record(ended, stream));
    must(gpu->await(ended));
    must(gpu->elapsed(begun, ended, &seconds));
    return seconds / times;
}

/* The median of some turns of 10 ms or more each, after one that warms up. */
static void measure(const struct measured *m)
{
    const double once = seconds_of(m, 1);
    const unsigned times =
        small || once > 1e-2 ? 1 : (unsigned)(1e-2 / (once + 1e-6)) + 1;
    double v[TURNS];

    for (unsigned i = 0; i < TURNS; i++)
        v[i] = seconds_of(m, times);
    qsort(v, TURNS, sizeof(*v), dsf_by_value);
    printf("{\"name\": \"%s\", \"seconds\": %.9g, \"bytes\": %.9g, "
           "\"flops\": %.9g}\n",
           m->name, v[TURNS / 2], m->bytes, m->flops);
    fflush(stdout);
}

/* --- copies and launches -------------------------------------------------- */

struct moved {
    void *to, *from;
    int to_gpu, from_gpu;
    size_t bytes;
};

static void move(const void *user)
{
    const struct moved *m = user;

    copy(m->to, m->to_gpu, m->from, m->from_gpu, m->bytes);
}

static void measure_copies(void)
{
    const size_t bytes = small ? MEBI : (size_t)1024 * MEBI;
    const size_t linked = small ? MEBI : (size_t)256 * MEBI;
    void *a = numbers(bytes), *b = numbers(bytes), *host = pinned(linked);
    const struct moved on = { a, b, 0, 0, bytes };
    const struct moved in = { a, host, 0, -1, linked };
    const struct moved out = { host, a, -1, 0, linked };

    measure(&(struct measured){ "copy", move, &on, 2.0 * (double)bytes, 0 });
    measure(&(struct measured){ "link in", move, &in, (double)linked, 0 });
    measure(&(struct measured){ "link out", move, &out, (double)linked, 0 });
    must(gpu->release(a));
    must(gpu->release(b));
    must(gpu->unpin(host));
    munmap(host, linked);
}

/* --- kinds of tasks ------------------------------------------------------- */

struct port {
    unsigned port;
    enum dsflow_dtype type;
    int64_t elems;
};

struct ready {
    const struct dsf_gpu_side *side;
    struct dsflow_call call;
};

static void run_task(const void *user)
{
    const struct ready *r = user;

    r->side->run(&r->call, stream);
}

/* Tokens, losses, the control; other bytes are numbers for the wire. */
static int is_of_host(enum dsflow_dtype type, int64_t elems)
{
    return type == DSFLOW_INT32 || type == DSFLOW_FP64 ||
           (type == DSFLOW_BYTES &&
            elems == (int64_t)sizeof(struct dsflow_control));
}

/* Bytes of a text, one in six a space. */
static void *host_of(const struct dsflow_shape *s)
{
    void *at = pinned(s->bytes);
    uint32_t random = 1;

    for (int64_t i = 0; s->dtype == DSFLOW_INT32 && i < s->elems; i++) {
        random = random * 1664525u + 1013904223u;
        ((int32_t *)at)[i] = random >> 24 < 43 ? 32 : random >> 16 & 0x7f;
    }
    return at;
}

/* `ports`: the last one is of 0 elements. */
static void measure_task(const char *name, const char *kind, const void *args,
                         double bytes, double flops, const struct port *ports)
{
    const struct dsflow_op *op = dsflow_op_find(kind);
    struct dsflow_shape shapes[PORTS] = { { 0 } };
    struct dsflow_buf bufs[PORTS] = { { 0 } };
    const struct dsflow_case c = { op, shapes, op->nports, args };
    struct ready r = { dsf_cuda_side(op), { 0 } };
    struct dsflow_err err;
    size_t scratch;

    for (const struct port *p = ports; p->elems > 0; p++) {
        const struct dsflow_shape s = dsflow_shape_of(p->type, p->elems);

        shapes[p->port] = s;
        bufs[p->port] = (struct dsflow_buf){ is_of_host(p->type, p->elems)
                                                 ? host_of(&s)
                                                 : numbers(s.bytes),
                                             s.bytes, s.elems, s.dtype };
    }
    if (op->check(&c, &err) < 0)
        must(err.msg);
    scratch = r.side->scratch != NULL ? r.side->scratch(&c) : 0;
    r.call = (struct dsflow_call){ .bufs = bufs,
                                   .nbufs = op->nports,
                                   .args = args,
                                   .scratch = numbers(scratch + 256) };
    measure(&(struct measured){ name, run_task, &r, bytes, flops });
    must(gpu->release(r.call.scratch));
    for (unsigned i = 0; i < op->nports; i++)
        if (bufs[i].ptr != NULL && !is_of_host(bufs[i].dtype, bufs[i].elems))
            must(gpu->release(bufs[i].ptr));
}

static void measure_launch(void)
{
    static const struct dsf_sum_args one = { .elems = 1 };

    measure_task(
        "launch", "add", &one, 0, 0,
        (struct port[PORTS]){ { 0, DSFLOW_FP32, 1 }, { 1, DSFLOW_FP32, 1 } });
}

static struct dsflow_tile tile_of(int32_t rows, int32_t nseq, int32_t heads,
                                  int32_t head_dim)
{
    return (struct dsflow_tile){ .rows = small ? 64 * nseq : rows,
                                 .nseq = nseq,
                                 .width = heads * head_dim,
                                 .heads = heads,
                                 .kv_heads = heads,
                                 .head_dim = head_dim,
                                 .ffn = 4 * heads * head_dim,
                                 .vocab = small ? 512 : 50304,
                                 .context = 4096,
                                 .eps = 1e-5f };
}

/* Of the rows of a micro-batch of GPT-2 1.5B. */
static struct dsflow_tile normed_tile(void)
{
    return tile_of(16384, 16, small ? 1 : 25, 64);
}

static void measure_norm(const char *name, struct dsflow_tile t, double bytes)
{
    const struct dsf_norm_args args = { t, 0, t.width, 1, 0 };
    const int64_t n = (int64_t)t.rows * t.width;

    measure_task(
        name, "norm.forward", &args, bytes * (double)n, 0,
        (struct port[PORTS]){ { DSFLOW_NORM_X, DSFLOW_BF16, n },
                              { DSFLOW_NORM_UNIT, DSFLOW_BF16, 2 * t.width },
                              { DSFLOW_NORM_Y, DSFLOW_BF16, n } });
}

/* And its rows as inputs of 8 bits, which are read and written once more. */
static void measure_inputs(const char *name, int32_t group)
{
    struct dsflow_tile t = normed_tile();

    t.input_quantizer = DSF_SYMMETRIC;
    t.input_bits = 8;
    t.input_group = group;
    measure_norm(name, t, 8);
}

static void measure_norms(void)
{
    const struct dsflow_tile t = normed_tile();
    const struct dsf_norm_args args = { t, 0, t.width, 1, 0 };
    const int64_t n = (int64_t)t.rows * t.width;

    measure_norm("norm forward", t, 4);
    measure_task(
        "norm backward", "norm.backward_input", &args, 10.0 * (double)n, 0,
        (struct port[PORTS]){ { DSFLOW_NORM_X, DSFLOW_BF16, n },
                              { DSFLOW_NORM_UNIT, DSFLOW_BF16, 2 * t.width },
                              { DSFLOW_NORM_DY, DSFLOW_FP32, n },
                              { DSFLOW_NORM_DX, DSFLOW_BF16, n },
                              { DSFLOW_NORM_DNORM, DSFLOW_FP32, 2 * t.width },
                              { DSFLOW_NORM_DRES, DSFLOW_BF16, n } });
}

/* The second half of a part of the head: logits are read and written once. */
static void measure_loss(void)
{
    const struct dsflow_tile t = tile_of(8192, 8, small ? 1 : 12, 64);
    const struct dsflow_head_args args = { t, 0, -1, -1, 0, t.vocab, 1, 1 };
    const int64_t n = (int64_t)t.rows * t.vocab;

    measure_task(
        "cross entropy", "head.loss", &args, 4.0 * (double)n, 0,
        (struct port[PORTS]){
            { DSFLOW_HEAD_BATCH, DSFLOW_INT32, 2 * (int64_t)t.rows },
            { DSFLOW_HEAD_LOGITS, DSFLOW_BF16, n },
            { DSFLOW_HEAD_LOSS, DSFLOW_FP64, 1 },
            { DSFLOW_HEAD_TOPS, DSFLOW_FP32,
              t.rows * (int64_t)dsf_head_blocks(&t) },
            { DSFLOW_HEAD_ALL_STATS, DSFLOW_FP64, 3 * (int64_t)t.rows } });
}

/* Of the tokens of a micro-batch, text in bytes. No bytes are counted: rows of
 * a token are added one after the other, and that bounds it. */
static void measure_embedding(void)
{
    const struct dsflow_tile t = tile_of(65536, 64, small ? 1 : 12, 64);
    const struct dsflow_embed_args args = { .tile = t, .wpe = -1 };
    const int64_t n = (int64_t)t.rows * t.width;
    const int64_t table = (int64_t)t.vocab * t.width;

    measure_task(
        "embedding backward", "embed.backward_weight", &args, 0, 0,
        (struct port[PORTS]){ { DSFLOW_EMBED_BATCH, DSFLOW_INT32, 2 * t.rows },
                              { DSFLOW_EMBED_DX, DSFLOW_BF16, n },
                              { DSFLOW_EMBED_GRAD, DSFLOW_FP32, table } });
}

static void measure_adam(void)
{
    const int64_t n = small ? 4096 : 64 * MEBI;
    const struct dsf_update_args args = { .at = { .elems = n, .decay = n },
                                          .beta1 = 0.9,
                                          .beta2 = 0.95,
                                          .eps = 1e-8f,
                                          .weight_decay = 0.1f,
                                          .decoupled = 1,
                                          .copies = 1 };

    measure_task("adam", "adam", &args, 30.0 * (double)n, 0,
                 (struct port[PORTS]){
                     { 0, DSFLOW_BYTES, sizeof(struct dsflow_control) },
                     { 1, DSFLOW_FP32, n },
                     { 2, DSFLOW_FP32, n },
                     { 3, DSFLOW_FP32, n },
                     { 4, DSFLOW_FP32, n },
                     { 5, DSFLOW_BF16, n } });
}

/* Five steps of Newton and Schulz for one square matrix, in fp32. */
static void measure_muon(void)
{
    const int64_t side = small ? 32 : 4096, n = side * side;
    const struct dsf_update_args args = {
        .at = { .elems = n,
                .ntensors = 1,
                .tensors = { { .rows = side,
                               .cols = side,
                               .kind = DSFLOW_MATRIX } } },
        .momentum = 0.95f,
        .nesterov = 1,
        .steps = 5,
        .adam_rate = 1,
    };

    measure_task("muon", "muon", &args, 0, 5 * 6.0 * (double)side * (double)n,
                 (struct port[PORTS]){
                     { 0, DSFLOW_BYTES, sizeof(struct dsflow_control) },
                     { 1, DSFLOW_FP32, n },
                     { 2, DSFLOW_FP32, n },
                     { 3, DSFLOW_FP32, n },
                     { 4, DSFLOW_FP32, n } });
}

/* Of a unit: coded, decoded, and both at once; gradients of two groups. */
static void measure_format(const char *format, int64_t block,
                           const char *const names[4])
{
    const int64_t n = small ? 16384 : 64 * MEBI;
    struct dsf_coding coding = { .block = block, .coded = n };
    struct dsf_compress_args there = { .elems = n };
    struct dsf_decompress_args back = {
        .pieces = { .blocks = n / block, .block = block, .members = 1 },
        .runs = 1,
        .type = DSFLOW_FP32,
    };
    struct dsf_recode_args both = { .elems = n };
    struct dsf_add_recoded_args sum = { .elems = n };
    const double whole = 4.0 * (double)n;
    int64_t bytes;

    snprintf(coding.format, sizeof(coding.format), "%s", format);
    bytes = dsf_coding_bytes(&coding, 0, n);
    there.coding = back.coding = both.coding = sum.coding = coding;
    measure_task(names[0], "compress", &there, whole + (double)bytes, 0,
                 (struct port[PORTS]){ { 0, DSFLOW_FP32, n },
                                       { 1, DSFLOW_BYTES, bytes } });
    measure_task(names[1], "decompress", &back, whole + (double)bytes, 0,
                 (struct port[PORTS]){ { 0, DSFLOW_FP32, n },
                                       { 1, DSFLOW_BYTES, bytes } });
    measure_task(
        names[2], "recode", &both, 2 * whole, 0,
        (struct port[PORTS]){ { 0, DSFLOW_FP32, n }, { 1, DSFLOW_FP32, n } });
    measure_task(
        names[3], "add_recoded", &sum, 3 * whole, 0,
        (struct port[PORTS]){ { 0, DSFLOW_FP32, n }, { 1, DSFLOW_FP32, n } });
}

static void measure_wire(void)
{
    static const char *const int8[] = { "int8 encode", "int8 decode",
                                        "int8 recode", "int8 sum of two" };
    static const char *const int4[] = { "int4 encode", "int4 decode",
                                        "int4 recode", "int4 sum of two" };

    measure_format("int8", 2048, int8);
    measure_format("int4", 256, int4);
}

/* Copies of a unit in bf16: in groups of 64 and 4 bits, if in bits at all. */
static void measure_weights(const char *name, enum dsf_quantizer quantizer,
                            int32_t keep, int32_t of)
{
    const int64_t n = small ? 16384 : 64 * MEBI;
    const struct dsf_weight_form form = {
        n, (int32_t)quantizer, 64, 4, 4, keep, of, 1, 0, 0
    };
    const struct dsf_fake_quantize_args args = { .form = form, .elems = n };

    measure_task(name, "fake_quantize", &args, 6.0 * (double)n, 0,
                 (struct port[PORTS]){
                     { 0, DSFLOW_BYTES, sizeof(struct dsflow_control) },
                     { 1, DSFLOW_FP32, n },
                     { 2, DSFLOW_BF16, n } });
}

/* Scores that are seen count, all before a token or those of a window; backward
 * is 2.5 x forward. */
static void measure_attention(const char *forward, const char *backward,
                              int32_t heads, int32_t head_dim, int32_t window)
{
    const struct dsflow_tile t = tile_of(8192, 2, heads, head_dim);
    const struct dsflow_attention_args args = { .tile = t,
                                                .keys = t.rows,
                                                .diagonal = 1,
                                                .first = 1,
                                                .last = 1,
                                                .first_q = 1,
                                                .first_kv = 1,
                                                .window = window };
    const int64_t n = (int64_t)t.rows * t.width;
    const int64_t lse = 2 * (int64_t)t.rows * t.heads;
    const double hidden = window > 0 ? t.rows / t.nseq - window : 0;
    const double all = t.rows / t.nseq;
    const double flops = 2.0 * (double)n * (all - hidden * hidden / all);

    measure_task(
        forward, "attention.forward", &args, 0, flops,
        (struct port[PORTS]){ { DSFLOW_ATTENTION_Q, DSFLOW_BF16, n },
                              { DSFLOW_ATTENTION_KV, DSFLOW_BF16, 2 * n },
                              { DSFLOW_ATTENTION_ATT, DSFLOW_BF16, n },
                              { DSFLOW_ATTENTION_LSE, DSFLOW_FP32, lse } });
    measure_task(
        backward, "attention.backward_input", &args, 0, 2.5 * flops,
        (struct port[PORTS]){ { DSFLOW_ATTENTION_Q, DSFLOW_BF16, n },
                              { DSFLOW_ATTENTION_KV, DSFLOW_BF16, 2 * n },
                              { DSFLOW_ATTENTION_LSE, DSFLOW_FP32, lse },
                              { DSFLOW_ATTENTION_DATT, DSFLOW_BF16, n },
                              { DSFLOW_ATTENTION_DELTA, DSFLOW_FP32, lse / 2 },
                              { DSFLOW_ATTENTION_DQ, DSFLOW_BF16, n },
                              { DSFLOW_ATTENTION_DKV, DSFLOW_BF16, 2 * n } });
}

int main(int argc, char **argv)
{
    struct dsflow_err err;

    small = argc > 1 && strcmp(argv[1], "small") == 0;
    gpu = dsf_cuda_module(&err);
    if (gpu == NULL)
        must(err.msg);
    must(gpu->use(0));
    must(gpu->stream_new(&stream));
    must(gpu->event_new(&begun));
    must(gpu->event_new(&ended));
    measure_copies();
    measure_launch();
    measure_norms();
    measure_loss();
    measure_embedding();
    measure_adam();
    measure_muon();
    measure_wire();
    measure_weights("symmetric 4 bits", DSF_SYMMETRIC, 0, 0);
    measure_weights("ternary", DSF_TERNARY, 0, 0);
    measure_weights("2:4", DSF_UNQUANTIZED, 2, 4);
    measure_inputs("norm, 8 bits of 64", 64);
    measure_inputs("norm, 8 bits of a row", 0);
    measure_attention("attention 128 forward", "attention 128 backward",
                      small ? 1 : 16, 128, 0);
    measure_attention("attention 64 forward", "attention 64 backward",
                      small ? 1 : 32, 64, 0);
    measure_attention("window 128 forward", "window 128 backward",
                      small ? 1 : 16, 128, small ? 20 : 1024);
    return 0;
}
