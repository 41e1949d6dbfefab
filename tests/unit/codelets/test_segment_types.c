/* test_segment_types.c - the tasks of the segments in bf16 and fp16: what they
 * make of numbers is what fp32 makes of the same ones, but for rounding. */
#include "unit/codelets/segment.h"

#include "base/half.h"
#include "codelets/trials.h"

#include <stdbool.h>
#include <dsflow/segment.h>

/* Shapes that fill more than a block are those of seeds 6 and 29. */
enum { SEEDS = 30 };

static const struct {
    enum dsflow_dtype dtype;
    double error; /* of what is rounded a few times on its way */
} types[] = { { DSFLOW_BF16, 0x1p-6 }, { DSFLOW_FP16, 0x1p-9 } };

static bool is_half(enum dsflow_dtype dtype)
{
    return dtype == DSFLOW_BF16 || dtype == DSFLOW_FP16;
}

static uint16_t half_of(enum dsflow_dtype dtype, float x)
{
    if (isnan(x))
        return 0xffff;
    return dtype == DSFLOW_BF16 ? dsf_to_bf16(x) : dsf_to_fp16(x);
}

static float float_of(enum dsflow_dtype dtype, uint16_t h)
{
    return dtype == DSFLOW_BF16 ? dsf_from_bf16(h) : dsf_from_fp16(h);
}

/* One case of an op: a seed's arguments and shapes, which are of fp32 at first.
 */
struct a_case {
    const struct dsflow_codelet *codelet;
    uint64_t seed;
    unsigned char args[DSFLOW_SEGMENT_ARGS];
    unsigned n, fresh;
    struct dsflow_shape shapes[DSFLOW_TRIAL_PORTS];
    struct guarded data[DSFLOW_TRIAL_PORTS];
};

static struct dsflow_case seen(const struct a_case *c)
{
    return (struct dsflow_case){ c->codelet->op, c->shapes, c->n, c->args };
}

static void make(struct a_case *c, const struct dsflow_codelet *codelet,
                 const struct dsflow_trials *trials, uint64_t seed)
{
    memset(c, 0, sizeof(*c));
    c->codelet = codelet;
    c->seed = seed;
    assert_int_equal(
        trials->make(codelet->op, seed, c->shapes, &c->n, c->args, &c->fresh),
        0);
}

/* The types of its data: sums may be fp32, and some data is of any. */
static void narrow_down(struct a_case *c, enum dsflow_dtype dtype)
{
    struct dsflow_err err = { .msg = "" };
    const struct dsflow_case s = seen(c);

    for (unsigned p = 0; p < c->n; p++) {
        uint8_t floats = c->codelet->op->ports[p].floats;

        if (c->shapes[p].bytes > 0 &&
            (floats == DSFLOW_NARROW ||
             (floats != DSFLOW_FP32_ONLY && (c->seed + p) % 3 != 0)))
            c->shapes[p] = dsflow_shape_of(dtype, c->shapes[p].elems);
    }
    if (s.op->check(&s, &err) != DSFLOW_OK)
        fail_msg("%s", err.msg);
}

/* What a port has before: numbers that `dtype` has too, where its data may be
 * of that type. */
static void fill(const struct a_case *c, const struct dsflow_trials *trials,
                 enum dsflow_dtype dtype, unsigned p, float *v)
{
    const struct dsflow_op *op = c->codelet->op;
    const size_t n = (size_t)c->shapes[p].elems;

    if (trials->fill == NULL ||
        !trials->fill(op, c->seed, p, v, c->shapes[p].elems, c->args)) {
        struct tensor t = tensor_new(n, 1, c->seed * 16 + p);

        memcpy(v, t.f, n * sizeof(float));
        tensor_free(&t);
    }
    for (size_t i = 0; i < n; i++)
        if (op->ports[p].floats != DSFLOW_FP32_ONLY)
            v[i] = float_of(dtype, half_of(dtype, v[i]));
}

static bool is_number(const struct a_case *c, unsigned p)
{
    return c->codelet->op->ports[p].name != NULL && c->shapes[p].bytes > 0 &&
           (c->shapes[p].dtype == DSFLOW_FP32 || is_half(c->shapes[p].dtype));
}

static bool is_read(const struct a_case *c, unsigned p)
{
    return c->codelet->op->ports[p].access != DSFLOW_W && !(c->fresh >> p & 1);
}

/* Memory of `c`, with what `from` begins with, in its types. */
static void copy_in(struct a_case *c, const struct a_case *from)
{
    for (unsigned p = 0; p < c->n; p++) {
        const float *f = (const float *)(const void *)from->data[p].p;
        uint16_t *h;

        c->data[p] = guarded_new(c->shapes[p].bytes);
        h = (uint16_t *)(void *)c->data[p].p;
        if (!is_half(c->shapes[p].dtype))
            memcpy(h, f, c->shapes[p].bytes);
        for (int64_t i = 0; i < c->shapes[p].elems; i++)
            if (is_half(c->shapes[p].dtype))
                h[i] = half_of(c->shapes[p].dtype, f[i]);
    }
}

static void compute(const struct a_case *c)
{
    const struct dsflow_case s = seen(c);
    struct guarded scratch =
        guarded_new(s.op->scratch != NULL ? s.op->scratch(&s) : 0);
    struct dsflow_buf bufs[DSFLOW_TRIAL_PORTS];
    struct dsflow_cost cost = { .flops = -1, .bytes = -1 };

    s.op->cost(&s, &cost);
    assert_true(cost.flops >= 0 && cost.bytes > 0);
    for (unsigned p = 0; p < c->n; p++)
        bufs[p] =
            (struct dsflow_buf){ c->shapes[p].bytes > 0 ? c->data[p].p : NULL,
                                 c->shapes[p].bytes, c->shapes[p].elems,
                                 c->shapes[p].dtype };
    memset(scratch.p, 0xff, scratch.bytes);
    c->codelet->cpu(&(struct dsflow_call){ .bufs = bufs,
                                           .nbufs = c->n,
                                           .args = c->args,
                                           .fresh = c->fresh,
                                           .scratch = scratch.p });
    guarded_free(&scratch);
}

/* What each left on a port: as vectors, no further from each other than
 * rounding of numbers around 1 takes them. */
static void compare(const struct a_case *narrow, const struct a_case *wide,
                    unsigned p, double error)
{
    const float *f = (const float *)(const void *)narrow->data[p].p;
    const float *b = (const float *)(const void *)wide->data[p].p;
    const uint16_t *h = (const uint16_t *)(const void *)f;
    const size_t n = (size_t)narrow->shapes[p].elems;
    double diff = 0, size = 0;

    for (size_t i = 0; i < n; i++) {
        float a = is_half(narrow->shapes[p].dtype)
                      ? float_of(narrow->shapes[p].dtype, h[i])
                      : f[i];

        diff += ((double)a - (double)b[i]) * ((double)a - (double)b[i]);
        size += (double)b[i] * (double)b[i];
    }
    if (!(sqrt(diff) <= error * (sqrt(size) + 0.1)))
        fail_msg("%s, seed %d, %s: %s: off by %g of %g (%s)",
                 narrow->codelet->op->name, (int)narrow->seed,
                 error < 0x1p-8 ? "fp16" : "bf16",
                 narrow->codelet->op->ports[p].name, sqrt(diff), sqrt(size),
                 dsf_kernels_isa());
}

static void try(const struct dsflow_codelet *codelet,
                const struct dsflow_trials *trials, uint64_t seed,
                enum dsflow_dtype dtype, double error)
{
    struct a_case begin, narrow, wide;

    make(&begin, codelet, trials, seed);
    wide = narrow = begin;
    narrow_down(&narrow, dtype);
    for (unsigned p = 0; p < begin.n; p++) {
        begin.data[p] = guarded_new(begin.shapes[p].bytes);
        memset(begin.data[p].p, 0xff, begin.shapes[p].bytes);
        if (begin.shapes[p].bytes > 0 && is_read(&begin, p))
            fill(&begin, trials, dtype, p, (float *)(void *)begin.data[p].p);
    }
    copy_in(&narrow, &begin);
    copy_in(&wide, &begin);
    compute(&narrow);
    compute(&wide);
    for (unsigned p = 0; p < begin.n; p++) {
        if (is_number(&begin, p) && codelet->op->ports[p].access != DSFLOW_R)
            compare(&narrow, &wide, p, error);
        guarded_free(&begin.data[p]);
        guarded_free(&narrow.data[p]);
        guarded_free(&wide.data[p]);
    }
}

static const struct dsflow_codelet *const codelets[] = {
    &dsf_codelet_mlp_forward,
    &dsf_codelet_mlp_hidden,
    &dsf_codelet_mlp_backward_input,
    &dsf_codelet_mlp_backward_weight,
    &dsf_codelet_out_forward,
    &dsf_codelet_out_backward_input,
    &dsf_codelet_out_backward_weight,
    &dsf_codelet_qkv_forward,
    &dsf_codelet_qkv_backward_input,
    &dsf_codelet_qkv_backward_weight,
    &dsf_codelet_head_forward,
    &dsf_codelet_head_loss,
    &dsf_codelet_head_backward_input,
    &dsf_codelet_head_backward_weight,
    &dsf_codelet_head_logits,
    &dsf_codelet_head_forward_columns,
    &dsf_codelet_head_backward_columns,
    &dsf_codelet_head_backward_input_columns,
    &dsf_codelet_head_backward_weight_columns,
    &dsf_codelet_embed_forward,
    &dsf_codelet_embed_backward_weight,
    &dsf_codelet_norm_forward,
    &dsf_codelet_norm_backward_input,
    &dsf_codelet_residual_forward,
    &dsf_codelet_residual_backward_weight,
};

static void check_all(void)
{
    for (size_t i = 0; i < sizeof(codelets) / sizeof(*codelets); i++)
        for (size_t k = 0; k < sizeof(types) / sizeof(*types); k++)
            for (uint64_t seed = 0; seed < SEEDS; seed++) {
                if (codelets[i]->trials != &dsf_trials_part)
                    try(codelets[i], &dsf_trials_segment, seed, types[k].dtype,
                        types[k].error);
                try(codelets[i], &dsf_trials_part, seed, types[k].dtype,
                    types[k].error);
            }
}

static void results_are_those_of_fp32_but_for_rounding(void **state)
{
    with_every_isa(check_all);
}

static const struct dsflow_tile shape = { .rows = 3,
                                          .nseq = 1,
                                          .width = 8,
                                          .heads = 1,
                                          .kv_heads = 1,
                                          .head_dim = 8,
                                          .ffn = 21,
                                          .vocab = 5,
                                          .context = 3,
                                          .eps = 1e-5f };

/* What is on a port. */
struct data {
    unsigned port;
    void *ptr;
    int64_t elems;
    enum dsflow_dtype dtype;
};

static void run_on(const struct dsflow_codelet *codelet, const void *args,
                   unsigned n, const struct data *data)
{
    struct a_case c = { .codelet = codelet, .n = codelet->op->nports };
    struct dsflow_err err = { .msg = "" };
    const struct dsflow_case s = { codelet->op, c.shapes, c.n, c.args };

    memcpy(c.args, args, codelet->op->args_size);
    for (unsigned i = 0; i < n; i++) {
        c.shapes[data[i].port] = dsflow_shape_of(data[i].dtype, data[i].elems);
        c.data[data[i].port].p = data[i].ptr;
    }
    if (s.op->check(&s, &err) != DSFLOW_OK)
        fail_msg("%s", err.msg);
    compute(&c);
}

#define RUN_ON(codelet, args, ...)                                             \
    run_on(codelet, args,                                                      \
           sizeof((struct data[]){ __VA_ARGS__ }) / sizeof(struct data),       \
           (struct data[]){ __VA_ARGS__ })

/* Numbers from -1 to 1 in bf16. */
static void fill_bf16(uint16_t *v, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++)
        v[i] = dsf_to_bf16((float)noise(&seed));
}

static void what_is_computed_again_has_the_same_bits(void **state)
{
    const struct dsflow_mlp_args a = { shape, 0, 336, 168, 368, 376, 384 };
    uint16_t x[24], unit[392], h[63], again[63], y[24];

    fill_bf16(x, 24, 1);
    fill_bf16(unit, 392, 2);
    RUN_ON(&dsf_codelet_mlp_forward, &a, { DSFLOW_MLP_X, x, 24, DSFLOW_BF16 },
           { DSFLOW_MLP_UNIT, unit, 392, DSFLOW_BF16 },
           { DSFLOW_MLP_H, h, 63, DSFLOW_BF16 },
           { DSFLOW_MLP_Y, y, 24, DSFLOW_BF16 });
    RUN_ON(&dsf_codelet_mlp_hidden, &a, { DSFLOW_MLP_X, x, 24, DSFLOW_BF16 },
           { DSFLOW_MLP_UNIT, unit, 392, DSFLOW_BF16 },
           { DSFLOW_MLP_H, again, 63, DSFLOW_BF16 });
    assert_memory_equal(h, again, sizeof(h));
}

/* Where a sum is left as fp32, rounding it gives what else is left. */
static void a_sum_in_fp32_is_the_same_before_it_is_rounded(void **state)
{
    const struct dsflow_mlp_args a = { shape, 0, -1, 168, -1, -1, -1 };
    uint16_t x[24], unit[336], h[63], y[24];
    float sums[24];

    fill_bf16(x, 24, 3);
    fill_bf16(unit, 336, 4);
    RUN_ON(&dsf_codelet_mlp_forward, &a, { DSFLOW_MLP_X, x, 24, DSFLOW_BF16 },
           { DSFLOW_MLP_UNIT, unit, 336, DSFLOW_BF16 },
           { DSFLOW_MLP_H, h, 63, DSFLOW_BF16 },
           { DSFLOW_MLP_Y, y, 24, DSFLOW_BF16 });
    RUN_ON(&dsf_codelet_mlp_forward, &a, { DSFLOW_MLP_X, x, 24, DSFLOW_BF16 },
           { DSFLOW_MLP_UNIT, unit, 336, DSFLOW_BF16 },
           { DSFLOW_MLP_H, h, 63, DSFLOW_BF16 },
           { DSFLOW_MLP_Y, sums, 24, DSFLOW_FP32 });
    for (int i = 0; i < 24; i++)
        assert_int_equal(y[i], dsf_to_bf16(sums[i]));
}

/* A word that is almost certain: its probability is 1 in bf16, and the gradient
 * of its logit is that probability less 1. */
static void the_gradient_of_a_certain_word_is_not_lost(void **state)
{
    const struct dsflow_head_args a = {
        .tile = shape, .norm_b = 8, .whole = 5, .parts = 1, .scale = 1
    };
    uint16_t x[24], norm[16] = { 0 }, weight[40] = { 0 }, logits[15];
    int32_t batch[6] = { 0, 0, 0, 2, 2, 2 };
    double loss, lost;

    fill_bf16(x, 24, 5);
    norm[8] = dsf_to_bf16(1); /* b: the first number of a normed row is 1 */
    weight[2 * 8] = dsf_to_bf16(10);
    RUN_ON(&dsf_codelet_head_forward, &a, { DSFLOW_HEAD_X, x, 24, DSFLOW_BF16 },
           { DSFLOW_HEAD_NORM, norm, 16, DSFLOW_BF16 },
           { DSFLOW_HEAD_WEIGHT, weight, 40, DSFLOW_BF16 },
           { DSFLOW_HEAD_BATCH, batch, 6, DSFLOW_INT32 },
           { DSFLOW_HEAD_LOGITS, logits, 15, DSFLOW_BF16 },
           { DSFLOW_HEAD_LOSS, &loss, 1, DSFLOW_FP64 });
    lost = 4 * exp(-10) / (1 + 4 * exp(-10));
    assert_true(fabs(loss + 3 * log(1 - lost)) < 1e-6);
    for (int r = 0; r < 3; r++) {
        double g = (double)dsf_from_bf16(logits[5 * r + 2]);

        assert_true(fabs(g + lost) < 0x1p-8 * lost);
    }
}

/* A row of a table that the tile adds to several times: 256 and 1 are 256 in
 * bf16. */
static void rows_of_one_token_are_rounded_together(void **state)
{
    const struct dsflow_embed_args a = { .tile = shape, .wpe = -1 };
    uint16_t dx[24], grad[40] = { 0 };
    int32_t batch[6] = { 2, 2, 2 };

    for (int i = 0; i < 24; i++)
        dx[i] = dsf_to_bf16(i < 8 ? 256 : 1);
    RUN_ON(&dsf_codelet_embed_backward_weight, &a,
           { DSFLOW_EMBED_BATCH, batch, 6, DSFLOW_INT32 },
           { DSFLOW_EMBED_DX, dx, 24, DSFLOW_BF16 },
           { DSFLOW_EMBED_GRAD, grad, 40, DSFLOW_BF16 });
    for (int i = 0; i < 40; i++)
        assert_int_equal(grad[i], dsf_to_bf16(i / 8 == 2 ? 258 : 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_those_of_fp32_but_for_rounding),
        cmocka_unit_test(what_is_computed_again_has_the_same_bits),
        cmocka_unit_test(a_sum_in_fp32_is_the_same_before_it_is_rounded),
        cmocka_unit_test(the_gradient_of_a_certain_word_is_not_lost),
        cmocka_unit_test(rows_of_one_token_are_rounded_together),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
