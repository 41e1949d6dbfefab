/* test_same_bits.c - kinds of task of which a GPU leaves the bits that cores
 * leave: random cases of each, with every set of instructions and in several
 * orders of blocks, warps and lanes. DSFLOW_GPU_CASES says how many cases.
 *
 *     test_same_bits [KIND] */
#include "lib/test.h"

#include "gpu/place.h"
#include "gpu/same_bits.h"
#include "kernels/loops.h"
#include "tasks/args.h"
#include <dsflow/codelet.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 64, ORDERS = 2 };

/* --- contents ------------------------------------------------------------- */

/* Floats of all sizes, with zeroes, infinities and NaNs; where `plain`, none of
 * the latter, so that blocks and sums have numbers, too. */
float any_float(struct trial *t, bool plain)
{
    static const float odd[] = { 1,         0,         -0.0f,
                                 0x1p-149f, 0x1p-126f, 0x1.fffffep127f,
                                 INFINITY,  -INFINITY, NAN };
    uint32_t bits = (uint32_t)dsf_random(&t->random);
    float v;

    if (one_in(t, 8))
        return odd[any(t, 0, plain ? 4 : 8)];
    /* Exponents close to each other, so that sums cancel. */
    if (plain || !one_in(t, 4))
        bits = (bits & 0x83ffffff) | 0x3c000000;
    memcpy(&v, &bits, sizeof(v));
    return v;
}

static void fill_control(struct trial *t, struct dsflow_control *c)
{
    *c = (struct dsflow_control){
        .step = any(t, 1, 5),
        .lr = 1e-5 * (double)any(t, 0, 3000),
        .correction1 = 1e-3 * (double)any(t, 1, 999),
        .correction2 = 1e-3 * (double)any(t, 1, 999),
        .norm = 3,
        .scale = one_in(t, 2) ? 1 : 1e-3 * (double)any(t, 1, 2000),
        .loss_scale = (double)any(t, 1, 4),
        .updates = any(t, 0, 20),
        .skip = t->skips || one_in(t, 8) ? any(t, 1, 2) : DSFLOW_SKIP_NONE,
    };
}

static void fill(struct trial *t, unsigned port)
{
    const struct dsflow_shape *s = &t->shapes[port];
    const bool plain = one_in(t, 2), squares = plain && one_in(t, 2);
    uint8_t *bytes = t->before[port];
    float *v = t->before[port];

    if (s->dtype == DSFLOW_BYTES && t->coded) {
        fill_wire(t, port);
        return;
    }
    if (fill_rows(t, port) || fill_zeroone(t, port) || fill_few(t, port))
        return;
    if (s->dtype == DSFLOW_BYTES) {
        fill_control(t, t->before[port]);
        return;
    }
    for (size_t i = 0; i < s->bytes; i++)
        bytes[i] = (uint8_t)dsf_random(&t->random);
    for (int64_t i = 0; i < s->elems; i++)
        if (s->dtype == DSFLOW_FP32) {
            v[i] = any_float(t, plain);
            v[i] *= squares ? v[i] * v[i] * v[i] : 1;
            if (t->calm && !(fabsf(v[i]) < 0x1p20f))
                v[i] = 1.5f;
            if (t->quiet > 0 && i / t->quiet % 2 == 1)
                v[i] = 0x1p-149f * (float)any(t, -3, 3);
        } else if (s->dtype == DSFLOW_BF16 || s->dtype == DSFLOW_FP16) {
            const float one = any_float(t, plain);

            dsf_narrow(s->dtype)->narrow(
                &one, 1, NULL, (uint16_t *)t->before[port] + i, 1, 1, 1);
        } else if (s->dtype == DSFLOW_FP64)
            ((double *)t->before[port])[i] =
                i % 2 == 1 && t->counts >> (port < 31 ? port : 31) & 1
                    ? (double)any(t, 1, 1000)
                    : (double)any_float(t, plain) *
                          (1 + 0x1p-25 * (double)(i % 5));
}

/* Whole cache lines, of which those past the end must stay as they were. */
static size_t room(size_t bytes)
{
    return bytes / LINE * LINE + 2 * LINE;
}

static void begin(struct trial *t)
{
    for (unsigned i = 0; i < t->n; i++) {
        size_t bytes = room(t->shapes[i].bytes);

        t->before[i] = aligned_alloc(LINE, bytes);
        t->cores[i] = aligned_alloc(LINE, bytes);
        t->gpu[i] = aligned_alloc(LINE, bytes);
        memset(t->before[i], 0x5a, bytes);
        fill(t, i);
    }
}

static void end(struct trial *t)
{
    for (unsigned i = 0; i < t->n; i++) {
        free(t->before[i]);
        free(t->cores[i]);
        free(t->gpu[i]);
    }
}

/* --- cases ---------------------------------------------------------------- */

/* The type of a gradient: half of them are fp32. */
static enum dsflow_dtype any_type(struct trial *t)
{
    static const enum dsflow_dtype types[] = { DSFLOW_FP32, DSFLOW_FP32,
                                               DSFLOW_BF16, DSFLOW_FP16 };

    return types[any(t, 0, 3)];
}

static void make_update(struct trial *t)
{
    struct dsf_update_args *a = (void *)t->args;
    const bool is_adam = strcmp(t->op, "adam") == 0;
    const bool plain_sgd = strcmp(t->op, "sgd") == 0 && one_in(t, 2);
    const int64_t n = any_size(t);

    *a = (struct dsf_update_args){
        .at = { .elems = n,
                .decay = any(t, 0, n),
                .grad_at = any_start(t),
                .param_at = any_start(t) },
        .beta1 = 0.9,
        .beta2 = 0.95,
        .eps = one_in(t, 2) ? 1e-8f : 1e-3f,
        .weight_decay = one_in(t, 4) ? 0 : 0.1f,
        .momentum = 0.9f,
        .decoupled = one_in(t, 2),
        .nesterov = one_in(t, 2),
        .copies = !plain_sgd && one_in(t, 2),
        .uncorrected = one_in(t, 4),
    };
    t->shapes[0] = control();
    t->shapes[1] =
        dsflow_shape_of(any_type(t), n + a->at.grad_at + any(t, 0, 3));
    t->shapes[2] = floats(n + a->at.param_at + any(t, 0, 3));
    t->n = plain_sgd ? 3 : is_adam ? 5 : 4;
    for (unsigned i = 3; i < t->n; i++)
        t->shapes[i] = floats(n);
    a->copy_at = a->copies ? any_start(t) : 0;
    if (a->copies)
        t->shapes[t->n++] = dsflow_shape_of(
            one_in(t, 2) ? DSFLOW_BF16 : DSFLOW_FP16, n + a->copy_at + 1);
}

/* Tensors in order, with gaps; the first may begin in front, the last end
 * behind, and two follow each other that are pieces of one. */
static void make_tensors(struct trial *t, struct dsflow_update_args *a)
{
    int64_t at = -any(t, 0, 1) * any(t, 0, 500);

    for (int16_t i = 0; i < 6 && at < a->elems; i++) {
        struct dsflow_tensor *one = &a->tensors[a->ntensors++];

        *one = (struct dsflow_tensor){ .at = at,
                                       .rows = 1 + any(t, 0, 3),
                                       .cols = 1 + any(t, 0, a->elems / 3),
                                       .decays = one_in(t, 2),
                                       .number = (int16_t)(i > 2 ? i - 1 : i) };
        at += one->rows * one->cols;
        if (at <= 0)
            a->ntensors--;
        at += one_in(t, 2) ? 0 : any(t, 1, 40);
    }
}

static void make_lamb(struct trial *t)
{
    struct dsf_update_args *a = (void *)t->args;
    const bool moments = strcmp(t->op, "lamb_moments") == 0;
    const int64_t blocks = any(t, 1, 12), block = 1 + any_size(t);
    const int64_t n = block * blocks;

    *a = (struct dsf_update_args){
        .at = { .elems = n,
                .block = block,
                .grad_at = any_start(t),
                .param_at = any_start(t) },
        .beta1 = 0.9,
        .beta2 = 0.95,
        .eps = one_in(t, 2) ? 1e-8f : 1e-3f,
        .weight_decay = one_in(t, 4) ? 0 : 0.1f,
        .copies = !moments && one_in(t, 2),
        .uncorrected = one_in(t, 4),
        .width = 16,
    };
    make_tensors(t, &a->at);
    t->shapes[0] = control();
    t->shapes[1] = moments ? dsflow_shape_of(any_type(t), n + a->at.grad_at)
                           : dsflow_shape_of(DSFLOW_FP64, 8);
    t->shapes[2] = floats(n + a->at.param_at);
    a->m_at = any_start(t);
    t->shapes[3] = floats(n + a->m_at);
    t->shapes[4] = floats(n);
    t->n = moments || a->copies ? 6 : 5;
    a->copy_at = a->copies ? any_start(t) : 0;
    if (moments)
        t->shapes[5] = dsflow_shape_of(DSFLOW_FP64, blocks * a->width);
    else if (a->copies)
        t->shapes[5] = dsflow_shape_of(one_in(t, 2) ? DSFLOW_BF16 : DSFLOW_FP16,
                                       n + a->copy_at);
}

/* The first number that is no matrix's: second moments may begin there. */
static int64_t first_of_adam(const struct dsflow_update_args *a)
{
    int64_t first = a->elems;

    for (int32_t i = 0; i < a->ntensors; i++)
        if (a->tensors[i].kind != DSFLOW_MATRIX && a->tensors[i].at < first)
            first = a->tensors[i].at;
    return first < 0 ? 0 : first;
}

/* Of a unit without matrices of layers, which is AdamW's; where the step is
 * skipped, what is whole is a matrix. */
static void make_muon(struct trial *t)
{
    struct dsf_update_args *a = (void *)t->args;
    const int64_t n = any_size(t);

    *a = (struct dsf_update_args){
        .at = { .elems = n, .grad_at = any_start(t), .param_at = any_start(t) },
        .beta1 = 0.9,
        .beta2 = 0.95,
        .eps = one_in(t, 2) ? 1e-8f : 1e-3f,
        .weight_decay = one_in(t, 4) ? 0 : 0.1f,
        .uncorrected = one_in(t, 4),
        .steps = 5,
        .adam_rate = one_in(t, 2) ? 1 : 1e-3 * (double)any(t, 0, 5000),
        .copies = one_in(t, 2),
    };
    make_tensors(t, &a->at);
    t->skips = one_in(t, 8);
    for (int32_t i = 0; i < a->at.ntensors; i++) {
        struct dsflow_tensor *one = &a->at.tensors[i];
        const bool whole = one->at >= 0 && one->at + one->rows * one->cols <= n;

        one->kind = t->skips && whole
                        ? DSFLOW_MATRIX
                        : (int32_t)any(t, DSFLOW_VECTOR, DSFLOW_HEAD);
    }
    t->shapes[0] = control();
    t->shapes[1] = dsflow_shape_of(any_type(t), n + a->at.grad_at);
    t->shapes[2] = floats(n + a->at.param_at);
    a->v_at = any(t, 0, first_of_adam(&a->at));
    t->shapes[3] = floats(n);
    t->shapes[4] = floats(n - a->v_at);
    t->n = a->copies ? 6 : 5;
    a->copy_at = a->copies ? any_start(t) : 0;
    if (a->copies)
        t->shapes[5] = dsflow_shape_of(one_in(t, 2) ? DSFLOW_BF16 : DSFLOW_FP16,
                                       n + a->copy_at + 1);
}

static void make_lamb_norms(struct trial *t)
{
    struct dsf_weigh_args *w = (void *)t->args;
    struct dsf_update_args *a = &w->of;
    const int64_t n = any(t, 1, 12) * (1 + any_size(t));

    *a = (struct dsf_update_args){
        .at = { .elems = n,
                .block = n,
                .grad_at = any_start(t),
                .param_at = any_start(t) },
        .eps = one_in(t, 2) ? 1e-8f : 1e-3f,
        .weight_decay = one_in(t, 4) ? 0 : 0.1f,
        .width = 32,
        .m_at = any_start(t),
    };
    w->v_at = any_start(t);
    while (!one_in(t, 3) && a->at.block % 2 == 0)
        a->at.block /= 2;
    make_tensors(t, &a->at);
    t->shapes[0] = control();
    t->shapes[1] = floats(n + a->at.grad_at);
    t->shapes[2] = floats(n + a->at.param_at);
    t->shapes[3] = floats(n + a->m_at);
    t->shapes[4] = floats(n + w->v_at);
    t->shapes[5] = dsflow_shape_of(DSFLOW_FP64, n / a->at.block * a->width);
    t->n = 6;
}

/* Now and then more terms than one launch adds, and some that have just what is
 * added. */
static void make_sum(struct trial *t)
{
    struct dsf_sum_args *a = (void *)t->args;
    const bool many = one_in(t, 16);
    const enum dsflow_dtype type = any_type(t);

    a->elems = many ? any(t, 0, 40) : any_size(t);
    a->at = any_start(t);
    a->from = any_start(t);
    t->n = (unsigned)(many ? any(t, 30, MOST_PORTS) : any(t, 2, 20));
    a->self = any(t, 0, (int64_t)t->n - 1);
    t->fresh = one_in(t, 2);
    t->shapes[0] = dsflow_shape_of(type, a->at + a->elems);
    for (unsigned i = 1; i < t->n; i++)
        t->shapes[i] =
            dsflow_shape_of(type, a->elems + (one_in(t, 8) ? 0 : a->from));
}

static void make_square(struct trial *t)
{
    struct dsf_square_args *a = (void *)t->args;
    const int64_t block = any_size(t), blocks = any(t, 1, 12);

    a->elems = block * blocks;
    a->at = any_start(t);
    t->n = 2;
    t->shapes[0] = dsflow_shape_of(any_type(t), a->at + a->elems + 1);
    t->shapes[1] = dsflow_shape_of(DSFLOW_FP64, blocks);
}

static int64_t whole_blocks(struct trial *t)
{
    return DSFLOW_BLOCK_ELEMS * any(t, 0, 3);
}

static void make_cast(struct trial *t)
{
    static const enum dsflow_dtype types[] = { DSFLOW_BF16, DSFLOW_INT8_BLOCK,
                                               DSFLOW_FP16, DSFLOW_FP64 };
    struct dsf_cast_args *a = (void *)t->args;
    const bool at_random = one_in(t, 2), narrows = at_random || one_in(t, 2);
    const enum dsflow_dtype other = types[any(t, 0, at_random ? 1 : 3)];
    const bool blocks = other == DSFLOW_INT8_BLOCK;
    const int64_t n = any_size(t), more = any(t, 0, 300);
    int64_t *wide_at = narrows ? &a->in_at : &a->out_at;
    int64_t *other_at = narrows ? &a->out_at : &a->in_at;

    a->elems = n;
    a->at = whole_blocks(t) + (one_in(t, 8) ? INT64_C(1) << 40 : 0);
    a->rounding = at_random ? DSF_ROUND_STOCHASTIC : DSF_ROUND_NEAREST;
    a->stream = dsf_random(&t->random);
    *wide_at = any_start(t);
    *other_at = blocks ? whole_blocks(t) : any_start(t);
    a->packed = blocks && one_in(t, 2) ? *other_at + n + more / 2 : 0;
    t->n = at_random ? 3 : 2;
    t->shapes[narrows ? 0 : 1] = floats(*wide_at + n);
    t->shapes[narrows ? 1 : 0] =
        dsflow_shape_of(other, *other_at + n + (blocks ? more : 0));
    t->shapes[2] = control();
}

static void make_wait(struct trial *t)
{
    t->n = (unsigned)any(t, 2, 5);
    for (unsigned i = 0; i < t->n; i++)
        t->shapes[i] = floats(any_size(t));
}

static const struct {
    const char *op;
    void (*make)(struct trial *t);
} kinds[] = {
    { "adam", make_update },
    { "sgd", make_update },
    { "lion", make_update },
    { "adagrad", make_update },
    { "add", make_sum },
    { "reduce", make_sum },
    { "square", make_square },
    { "cast", make_cast },
    { "fake_quantize", make_fake_quantize },
    { "wait", make_wait },
    { "lamb", make_lamb },
    { "lamb_moments", make_lamb },
    { "muon", make_muon },
    { "recode", make_wire },
    { "compress", make_wire },
    { "decompress", make_wire },
    { "add_compressed", make_wire },
    { "add_recoded", make_wire },
    { "feed_back", make_wire },
    { "feed_momentum", make_wire },
    { "chunk_squares", make_wire },
    { "chunk_scales", make_wire },
    { "serve", make_wire },
    { "send_signs", make_wire },
    { "serve_lamb", make_wire },
    { "lamb_norms", make_lamb_norms },
    { "clip_group", make_zeroone },
    { "held_update", make_zeroone },
    { "local_weights", make_zeroone },
    { "local_update", make_zeroone },
    { "feed_local", make_zeroone },
    { "serve_mean", make_zeroone },
    { "local_settle", make_zeroone },
    { "lamb_ratio", make_few },
    { "lamb_totals", make_few },
    { "lamb_factor", make_few },
    { "lamb_mean", make_few },
    { "unite_scales", make_few },
    { "chunk_sums", make_few },
    { "tensor_scales", make_few },
    { "sum_each", make_few },
    { "pack_rows", make_pack_rows },
    { "add_rows", make_add_rows },
};

/* --- runs ----------------------------------------------------------------- */

static void run_at(struct trial *t, void **at, dsflow_cpu_fn cores,
                   const struct dsf_gpu_side *gpu)
{
    const struct dsflow_op *op = dsflow_op_find(t->op);
    const struct dsflow_case c = { op, t->shapes, t->n, t->args };
    size_t (*scratch)(const struct dsflow_case *) =
        gpu != NULL ? place_scratch(gpu) : op->scratch;
    const size_t bytes = scratch != NULL ? scratch(&c) : 0;
    struct dsflow_buf bufs[MOST_PORTS];
    struct dsflow_call call = { .bufs = bufs,
                                .nbufs = t->n,
                                .args = t->args,
                                .fresh = t->fresh,
                                .scratch = aligned_alloc(LINE, room(bytes)) };
    const char *why;

    for (unsigned i = 0; i < t->n; i++) {
        const struct dsflow_shape *s = &t->shapes[i];

        memcpy(at[i], t->before[i], room(s->bytes));
        bufs[i] = (struct dsflow_buf){ at[i], s->bytes, s->elems, s->dtype };
        if (i < 32 && t->without >> i & 1)
            bufs[i] = (struct dsflow_buf){ 0 };
    }
    why = gpu != NULL ? place_run(gpu, &call) : NULL;
    if (why != NULL)
        fail_msg("%s: case %llu: %s", t->op, t->seed, why);
    if (cores != NULL)
        cores(&call);
    free(call.scratch);
}

/* An update whose control says so leaves all as it is. */
static bool is_skipped(const struct trial *t)
{
    const struct dsflow_control *c = t->before[0];

    return dsflow_op_find(t->op)->update && c->skip != 0;
}

/* Which NaN it is says nothing, but in 16 and 8 bits. */
static bool is_same(enum dsflow_dtype type, const void *a, const void *b,
                    size_t i)
{
    const float *fa = a, *fb = b;
    const double *da = a, *db = b;

    if (type == DSFLOW_FP32)
        return memcmp(fa + i, fb + i, sizeof(*fa)) == 0 ||
               (isnan(fa[i]) && isnan(fb[i]));
    if (type == DSFLOW_FP64)
        return memcmp(da + i, db + i, sizeof(*da)) == 0 ||
               (isnan(da[i]) && isnan(db[i]));
    return ((const char *)a)[i] == ((const char *)b)[i];
}

static void compare(const struct trial *t, uint64_t seed)
{
    for (unsigned i = 0; i < t->n; i++) {
        const struct dsflow_shape *s = &t->shapes[i];
        const enum dsflow_dtype type =
            s->dtype == DSFLOW_FP32 || s->dtype == DSFLOW_FP64 ? s->dtype
                                                               : DSFLOW_BYTES;
        const size_t width = dsflow_dtype_bytes(type, 1);

        for (size_t k = 0; k < room(s->bytes) / width; k++)
            if (!is_same(type, t->cores[i], t->gpu[i], k))
                fail_msg("%s: case %llu: port %u: %s %zu of %lld differs (%s)",
                         t->op, (unsigned long long)seed, i,
                         dsflow_dtype_str(s->dtype), k, (long long)s->elems,
                         dsf_kernels_isa());
    }
}

static void try_case(size_t kind, uint64_t seed)
{
    static const char *const isas[] = { "portable", "avx2", "avx512",
                                        "avx512_bf16" };
    static struct trial t;
    const struct dsf_gpu_side *side = place_side(kinds[kind].op);
    const struct dsflow_op *op = dsflow_op_find(kinds[kind].op);
    const struct dsflow_codelet *codelet = dsflow_codelet_find(op);
    const struct dsf_loops *best = dsf_loops();
    struct dsflow_err err;

    if (side == NULL)
        fail_msg("%s has no side", kinds[kind].op);
    memset(&t, 0, sizeof(t));
    t.op = kinds[kind].op;
    t.seed = t.random = seed;
    kinds[kind].make(&t);
    if (op->check(&(struct dsflow_case){ op, t.shapes, t.n, t.args }, &err) < 0)
        fail_msg("case %llu: %s", (unsigned long long)seed, err.msg);
    begin(&t);
    for (uint64_t order = 1; order <= ORDERS; order++) {
        place_order(seed * ORDERS + order);
        run_at(&t, t.gpu, NULL, side);
        for (size_t k = 0; k < sizeof(isas) / sizeof(*isas); k++) {
            if (dsf_loops_find(isas[k]) == NULL)
                continue;
            dsf_loops_use(dsf_loops_find(isas[k]));
            run_at(&t, t.cores, is_skipped(&t) ? NULL : codelet->cpu, NULL);
            compare(&t, seed);
        }
    }
    dsf_loops_use(best);
    end(&t);
}

static void a_gpu_leaves_the_bits_of_cores(void **state)
{
    const size_t *kind = *state;
    const char *wanted = getenv("DSFLOW_GPU_CASES");
    const uint64_t cases = wanted != NULL ? strtoull(wanted, NULL, 10) : 150;

    for (uint64_t seed = 1; seed <= cases; seed++)
        try_case(*kind, seed);
}

/* A test for each kind: one that is wrong is not the end. */
int PLACE_MAIN(same_bits)(int argc, char **argv)
{
    enum { KINDS = sizeof(kinds) / sizeof(*kinds) };
    struct CMUnitTest tests[KINDS];
    size_t numbers[KINDS];

    for (size_t kind = 0; kind < KINDS; kind++) {
        numbers[kind] = kind;
        tests[kind] = (struct CMUnitTest){
            .name = kinds[kind].op,
            .test_func = a_gpu_leaves_the_bits_of_cores,
            .initial_state = &numbers[kind],
        };
    }
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
