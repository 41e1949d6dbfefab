/* test_attention_narrow.c - attention in bf16 and fp16: what the fp32 kernel
 * makes of the same numbers, rounded once; or near to it, where operands are
 * pairs of bf16. */
#include "unit/codelets/attention.h"

static const enum dsflow_dtype types[] = { DSFLOW_BF16, DSFLOW_FP16 };

/* The same numbers, which `type` has, in tiles of fp32 and of `type`. */
static void make_pair(struct dsflow_tile t, enum dsflow_dtype type, int ntiles,
                      const int32_t *rows, struct sequence *wide,
                      struct sequence *narrow)
{
    *wide = sequence_new(t, ntiles, rows);
    *narrow = sequence_new(t, ntiles, rows);
    narrow->type = type;
    for (int i = 0; i < ntiles; i++) {
        struct tensor *all[] = {
            &wide->q[i],   &wide->kv[i],   &wide->datt[i],
            &narrow->q[i], &narrow->kv[i], &narrow->datt[i]
        };

        for (size_t k = 0; k < 6; k++)
            tensor_round(all[k], type);
    }
}

/* P and dS, which are multiplied in bf16, are off by 2^-9 at most; much of it
 * goes away in sums, and results are rounded once more. */
static const double near = 0x1p-7;

static int in_pairs(enum dsflow_dtype type)
{
    return type == DSFLOW_BF16 && strcmp(dsf_kernels_isa(), "avx512_bf16") == 0;
}

static void check_near(const struct tensor *wide, const struct tensor *narrow)
{
    double *exact = malloc(wide->n * sizeof(*exact));

    assert_non_null(exact);
    for (size_t i = 0; i < wide->n; i++)
        exact[i] = wide->f[i];
    assert_close(narrow->f, exact, narrow->n, near);
    free(exact);
}

/* Every bit: of sums those of fp32, of others those of its rounded numbers. */
static void check_same(const struct sequence *s, struct tensor *wide,
                       const struct tensor *narrow, int alone)
{
    if (alone)
        tensor_round(wide, s->type);
    if (in_pairs(s->type))
        check_near(wide, narrow);
    else
        assert_memory_equal(wide->f, narrow->f, wide->n * sizeof(float));
}

/* Blocks of `block` tokens, of one head or of each; 0: no layout. */
static void check_layout(struct dsflow_tile t, enum dsflow_dtype type,
                         int32_t block, int32_t heads, int32_t window,
                         int ntiles, const int32_t *rows)
{
    struct sequence wide, narrow;

    make_pair(t, type, ntiles, rows, &wide, &narrow);
    wide.window = narrow.window = window;
    if (block > 0) {
        sequence_lay_out(&wide, block, heads, 3, (uint64_t)rows[0]);
        sequence_lay_out(&narrow, block, heads, 3, (uint64_t)rows[0]);
    }
    forward(&wide);
    forward(&narrow);
    fill_delta(&wide);
    for (int i = 0; i < ntiles; i++) {
        memcpy(narrow.delta[i].f, wide.delta[i].f,
               wide.delta[i].n * sizeof(float));
        check_same(&narrow, &wide.att[i], &narrow.att[i],
                   first_tile(&wide, i) == i);
        if (in_pairs(type))
            check_near(&wide.lse[i], &narrow.lse[i]);
        else
            assert_memory_equal(wide.lse[i].f, narrow.lse[i].f,
                                wide.lse[i].n * sizeof(float));
    }
    backward(&wide);
    backward(&narrow);
    for (int i = 0; i < ntiles; i++) {
        /* The gradient of one score is zero but for what is rounded. */
        if (window != 1 || !in_pairs(type))
            check_same(&narrow, &wide.dq[i], &narrow.dq[i],
                       first_tile(&wide, i) == i);
        check_same(&narrow, &wide.dkv[i], &narrow.dkv[i],
                   last_tile(&wide, i) == i);
    }
    sequence_free(&wide);
    sequence_free(&narrow);
}

static void check_window(struct dsflow_tile t, enum dsflow_dtype type,
                         int32_t window, int ntiles, const int32_t *rows)
{
    check_layout(t, type, 0, 1, window, ntiles, rows);
}

static void check_pair(struct dsflow_tile t, enum dsflow_dtype type, int ntiles,
                       const int32_t *rows)
{
    check_window(t, type, 0, ntiles, rows);
}

static void check_shapes(void)
{
    for (size_t i = 0; i < 2; i++) {
        const enum dsflow_dtype type = types[i];

        check_pair(shape(1, 1, 1, 4), type, 1, (int32_t[]){ 1 });
        check_pair(shape(1, 3, 1, 7), type, 1, (int32_t[]){ 7 });
        check_pair(shape(3, 2, 2, 64), type, 1, (int32_t[]){ 33 });
        check_pair(shape(8, 6, 2, 5), type, 1, (int32_t[]){ 72 });
        check_pair(shape(1, 2, 1, 80), type, 1, (int32_t[]){ 271 });
        check_pair(shape(1, 4, 2, 6), type, 3, (int32_t[]){ 65, 64, 9 });
        check_pair(shape(1, 2, 2, 16), type, 4, (int32_t[]){ 1, 50, 7, 26 });
        check_window(shape(1, 3, 1, 7), type, 5, 1, (int32_t[]){ 77 });
        check_window(shape(2, 2, 2, 16), type, 19, 1, (int32_t[]){ 300 });
        check_window(shape(1, 2, 1, 16), type, 30, 4,
                     (int32_t[]){ 37, 37, 37, 11 });
        check_window(shape(1, 2, 1, 16), type, 1, 2, (int32_t[]){ 37, 11 });
        check_layout(shape(1, 3, 1, 7), type, 16, 3, 0, 1, (int32_t[]){ 150 });
        check_layout(shape(1, 4, 2, 16), type, 32, 4, 0, 1, (int32_t[]){ 271 });
        check_layout(shape(1, 2, 2, 20), type, 64, 1, 0, 3,
                     (int32_t[]){ 72, 72, 43 });
        check_layout(shape(1, 4, 2, 6), type, 16, 4, 0, 4,
                     (int32_t[]){ 48, 48, 48, 17 });
        check_layout(shape(1, 2, 1, 8), type, 16, 2, 21, 3,
                     (int32_t[]){ 50, 50, 29 });
    }
}

static void results_are_those_of_fp32_rounded_once(void **state)
{
    with_every_isa(check_shapes);
}

/* 4096 keys in `ntiles` tiles: att and the gradients of the last ones. */
static struct sequence long_rows(int ntiles)
{
    int32_t rows[MOST_TILES];
    struct sequence s;

    for (int i = 0; i < ntiles; i++)
        rows[i] = 4096 / ntiles;
    s = sequence_new(shape(1, 1, 1, 8), ntiles, rows);
    s.type = DSFLOW_BF16;
    s.tile.context = 4096;
    return s;
}

/* The numbers of one sequence in another's tiles, rounded. */
static void retile(const struct sequence *whole, struct sequence *s)
{
    for (int i = 0; i < s->ntiles; i++) {
        size_t at = (size_t)s->pos[i];
        const struct {
            const struct tensor *from;
            struct tensor *to;
        } all[] = { { whole->q, &s->q[i] },
                    { whole->kv, &s->kv[i] },
                    { whole->datt, &s->datt[i] } };

        for (size_t k = 0; k < 3; k++) {
            struct tensor *to = all[k].to;
            size_t width = to->n / (size_t)s->rows[i];

            memcpy(to->f, all[k].from->f + at * width, to->n * sizeof(float));
            tensor_round(to, s->type);
        }
    }
}

/* Far from the double precision of the last rows. */
static double distance_of(struct sequence *s)
{
    enum { LAST = 40 };
    const size_t nq = dsf_tile_qwidth(&s->tile), at = 4096 - LAST;
    const struct tensor *last = &s->att[s->ntiles - 1];

    for (size_t r = at; r < 4096; r++)
        attend(s, r, 0, 0);
    return distance(last->f + last->n - LAST * nq, s->y + at * nq, LAST * nq);
}

/* Sums stay in fp32 however many tasks add to them. */
static void the_error_of_long_rows_does_not_grow_with_tiles(void **state)
{
    struct sequence whole = long_rows(1);

    retile(&whole, &whole);
    forward(&whole);
    assert_true(distance_of(&whole) < 0x1p-8);
    fill_delta(&whole);
    backward(&whole);
    tensor_from_floats(&whole.dq[0]);
    tensor_from_floats(&whole.dkv[0]);
    for (int ntiles = 2; ntiles <= MOST_TILES; ntiles *= 4) {
        struct sequence s = long_rows(ntiles);
        int last = ntiles - 1;

        retile(&whole, &s);
        forward(&s);
        assert_true(distance_of(&s) < (in_pairs(s.type) ? near : 2e-6));
        for (int i = 0; i < ntiles; i++)
            memcpy(s.delta[i].f, whole.delta[0].f + s.pos[i],
                   s.delta[i].n * sizeof(float));
        backward(&s);
        /* whole is rounded; so is not what several tasks add to. */
        assert_close(s.dq[last].f, whole.dq[0].d + s.pos[last] * 8,
                     s.dq[last].n, 0x1p-8);
        assert_close(s.dkv[0].f, whole.dkv[0].d, s.dkv[0].n, 0x1p-8);
        sequence_free(&s);
    }
    sequence_free(&whole);
}

/* Of forward, with types on q, kv and att. */
static int check_types(const struct dsflow_attention_args *a,
                       enum dsflow_dtype q, enum dsflow_dtype kv,
                       enum dsflow_dtype att, struct dsflow_err *err)
{
    const struct dsflow_op *op = &dsf_op_attention_forward;
    struct dsflow_shape shapes[DSFLOW_ATTENTION_NPORTS] = {
        [DSFLOW_ATTENTION_Q] = dsflow_shape_of(q, 64),
        [DSFLOW_ATTENTION_KV] = dsflow_shape_of(kv, 128),
        [DSFLOW_ATTENTION_ATT] = dsflow_shape_of(att, 64),
        [DSFLOW_ATTENTION_LSE] = dsflow_shape_of(DSFLOW_FP32, 16),
    };

    return op->check(&(struct dsflow_case){ op, shapes, op->nports, a }, err);
}

static void sums_of_several_tasks_are_fp32(void **state)
{
    struct dsflow_attention_args a = { .tile = shape(1, 1, 1, 8),
                                       .keys = 8,
                                       .diagonal = 1,
                                       .first = 1,
                                       .last = 1 };
    struct dsflow_err err;

    a.tile.rows = 8;
    assert_int_equal(
        check_types(&a, DSFLOW_BF16, DSFLOW_BF16, DSFLOW_BF16, &err), 0);
    assert_int_equal(
        check_types(&a, DSFLOW_FP16, DSFLOW_FP16, DSFLOW_FP32, &err), 0);
    assert_int_equal(
        check_types(&a, DSFLOW_BF16, DSFLOW_FP16, DSFLOW_FP32, &err),
        DSFLOW_EINVAL);
    assert_string_equal(err.msg, "attention.forward: kv: expected bf16, is "
                                 "fp16");
    a.first = 0;
    assert_int_equal(
        check_types(&a, DSFLOW_BF16, DSFLOW_BF16, DSFLOW_FP32, &err), 0);
    assert_int_equal(
        check_types(&a, DSFLOW_BF16, DSFLOW_BF16, DSFLOW_BF16, &err),
        DSFLOW_EINVAL);
    assert_string_equal(err.msg, "attention.forward: att: bf16: expected fp32, "
                                 "as several tasks add to it");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_those_of_fp32_rounded_once),
        cmocka_unit_test(the_error_of_long_rows_does_not_grow_with_tiles),
        cmocka_unit_test(sums_of_several_tasks_are_fp32),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
