/* test_attention.c - tiles of queries against tiles of keys. */
#include "unit/codelets/attention.h"

static double objective(void *user)
{
    const struct sequence *s = user;
    const struct dsflow_tile *t = &s->tile;
    size_t nq = dsf_tile_qwidth(t), total = 0, length;
    double sum = 0;

    for (int i = 0; i < s->ntiles; i++)
        total += (size_t)s->rows[i];
    length = total / (size_t)t->nseq;
    for (size_t r = 0; r < total; r++) {
        for (size_t h = 0; h < (size_t)t->heads; h++)
            attend(s, r, r / length * length, h);
        sum += dot_ref(s->y + r * nq, row_of(s, s->datt, r, nq), nq);
    }
    return sum;
}

struct layout {
    int32_t block, heads, of;
};

static void check_layout(struct dsflow_tile t, struct layout layout,
                         int32_t window, int ntiles, const int32_t *rows)
{
    struct sequence s = sequence_new(t, ntiles, rows);
    size_t heads = (size_t)t.heads, nq = dsf_tile_qwidth(&t);

    s.window = window;
    if (layout.block > 0)
        sequence_lay_out(&s, layout.block, layout.heads, layout.of,
                         (uint64_t)rows[0]);
    objective(&s);
    forward(&s);
    for (int i = 0; i < ntiles; i++) {
        assert_close(s.att[i].f, s.y + (size_t)s.pos[i] * nq, s.att[i].n, 2e-6);
        assert_close(s.lse[i].f, s.lsum + (size_t)s.pos[i] * heads,
                     (size_t)rows[i] * heads, 1e-6);
    }
    fill_delta(&s);
    backward(&s);
    for (int i = 0; i < ntiles; i++) {
        check_gradient(objective, &s, s.q[i].d, s.dq[i].f, s.q[i].n, "q");
        check_gradient(objective, &s, s.kv[i].d, s.dkv[i].f, s.kv[i].n, "kv");
    }
    sequence_free(&s);
}

static void check_window(struct dsflow_tile t, int32_t window, int ntiles,
                         const int32_t *rows)
{
    check_layout(t, (struct layout){ 0 }, window, ntiles, rows);
}

static void check_sequence(struct dsflow_tile t, int ntiles,
                           const int32_t *rows)
{
    check_window(t, 0, ntiles, rows);
}

static void check_windows(void)
{
    check_window(shape(1, 1, 1, 4), 1, 1, (int32_t[]){ 5 });
    check_window(shape(1, 3, 1, 8), 3, 1, (int32_t[]){ 40 });
    check_window(shape(3, 2, 2, 20), 10, 1, (int32_t[]){ 99 });
    check_window(shape(1, 2, 1, 16), 17, 1, (int32_t[]){ 150 });
    check_window(shape(1, 1, 1, 5), 129, 1, (int32_t[]){ 270 });
    check_window(shape(1, 4, 2, 6), 30, 4, (int32_t[]){ 37, 37, 37, 11 });
    check_window(shape(1, 2, 2, 16), 8, 4, (int32_t[]){ 1, 50, 7, 26 });
    check_window(shape(1, 2, 1, 8), 64, 3, (int32_t[]){ 64, 64, 3 });
    check_window(shape(1, 2, 1, 8), 65, 3, (int32_t[]){ 64, 64, 3 });
    check_window(shape(1, 1, 1, 8), 66, 3, (int32_t[]){ 64, 64, 3 });
    check_window(shape(1, 1, 1, 8), 1, 3, (int32_t[]){ 20, 20, 3 });
}

static void a_window_hides_what_is_before_it(void **state)
{
    with_every_isa(check_windows);
}

#define LAYOUT(block, heads, of)                                               \
    (struct layout)                                                            \
    {                                                                          \
        block, heads, of                                                       \
    }

static void check_layouts(void)
{
    check_layout(shape(1, 1, 1, 4), LAYOUT(16, 1, 3), 0, 1, (int32_t[]){ 64 });
    check_layout(shape(1, 3, 1, 7), LAYOUT(16, 3, 4), 0, 1, (int32_t[]){ 150 });
    check_layout(shape(3, 2, 2, 20), LAYOUT(16, 2, 2), 0, 1,
                 (int32_t[]){ 144 });
    check_layout(shape(1, 4, 2, 6), LAYOUT(16, 4, 6), 0, 4,
                 (int32_t[]){ 64, 64, 64, 64 });
    check_layout(shape(1, 4, 2, 6), LAYOUT(16, 1, 9), 0, 5,
                 (int32_t[]){ 48, 48, 48, 48, 20 });
    check_layout(shape(1, 2, 1, 16), LAYOUT(64, 2, 3), 0, 4,
                 (int32_t[]){ 48, 48, 48, 48 });
    check_layout(shape(1, 2, 2, 8), LAYOUT(32, 2, 2), 0, 4,
                 (int32_t[]){ 1, 50, 7, 26 });
    check_layout(shape(1, 2, 1, 5), LAYOUT(16, 1, 1), 0, 1, (int32_t[]){ 270 });
    check_layout(shape(1, 1, 1, 5), LAYOUT(128, 1, 2), 0, 2,
                 (int32_t[]){ 200, 100 });
    check_layout(shape(1, 2, 1, 8), LAYOUT(16, 2, 3), 21, 3,
                 (int32_t[]){ 48, 48, 31 });
    check_layout(shape(1, 2, 1, 8), LAYOUT(32, 1, 2), 50, 1,
                 (int32_t[]){ 150 });
}

static void blocks_that_are_off_are_not_seen(void **state)
{
    with_every_isa(check_layouts);
}

/* What the sums of a row are made of does not depend on how keys are packed, or
 * whether they are (dsf_attention_in_place), which `seen` decides. */
static void check_all_seen(double seen)
{
    struct dsflow_tile t = shape(1, 4, 2, 20);
    struct sequence all = sequence_new(t, 2, (int32_t[]){ 208, 99 });
    struct sequence on = sequence_new(t, 2, (int32_t[]){ 208, 99 });

    sequence_lay_out(&on, 16, 1, 1, 1);
    on.layout.block = 16;
    forward(&all);
    fill_delta(&all);
    backward(&all);
    for (int i = 0; i < 2; i++)
        for (int k = 0; k <= i; k++) {
            struct dsflow_attention_args a = pair_args(&on, i, k);

            assert_int_equal(a.block, 0); /* it is left out */
            a.block = 16;
            a.blocks = on.layout.blocks;
            a.layouts = 1;
            a.packed = (on.rows[k] + 15) / 16 * 16;
            a.seen = seen;
            assert_int_equal(dsf_attention_in_place(&a), seen == 0);
            run_pair(&dsf_codelet_attention_forward, &a, 5,
                     (struct on[]){ { DSFLOW_ATTENTION_Q, &on.q[i] },
                                    { DSFLOW_ATTENTION_KV, &on.kv[k] },
                                    { DSFLOW_ATTENTION_ATT, &on.att[i] },
                                    { DSFLOW_ATTENTION_LSE, &on.lse[i] },
                                    { DSFLOW_ATTENTION_LAYOUT, &on.bits } });
        }
    fill_delta(&on);
    for (int i = 1; i >= 0; i--)
        for (int k = i; k >= 0; k--) {
            struct dsflow_attention_args a = pair_args(&on, i, k);

            a.block = 16;
            a.blocks = on.layout.blocks;
            a.layouts = 1;
            a.packed = (on.rows[k] + 15) / 16 * 16;
            a.seen = seen;
            assert_int_equal(dsf_attention_in_place(&a), seen == 0);
            run_pair(&dsf_codelet_attention_backward_input, &a, 8,
                     (struct on[]){ { DSFLOW_ATTENTION_Q, &on.q[i] },
                                    { DSFLOW_ATTENTION_KV, &on.kv[k] },
                                    { DSFLOW_ATTENTION_DATT, &on.datt[i] },
                                    { DSFLOW_ATTENTION_LSE, &on.lse[i] },
                                    { DSFLOW_ATTENTION_DELTA, &on.delta[i] },
                                    { DSFLOW_ATTENTION_DQ, &on.dq[i] },
                                    { DSFLOW_ATTENTION_DKV, &on.dkv[k] },
                                    { DSFLOW_ATTENTION_LAYOUT, &on.bits } });
        }
    for (int i = 0; i < 2; i++) {
        assert_memory_equal(on.att[i].f, all.att[i].f,
                            all.att[i].n * sizeof(float));
        assert_memory_equal(on.dq[i].f, all.dq[i].f,
                            all.dq[i].n * sizeof(float));
        assert_memory_equal(on.dkv[i].f, all.dkv[i].f,
                            all.dkv[i].n * sizeof(float));
    }
    sequence_free(&all);
    sequence_free(&on);
}

static void check_all_on(void)
{
    check_all_seen(0);
    check_all_seen(1e9);
}

static void all_blocks_give_the_bits_of_no_layout(void **state)
{
    with_every_isa(check_all_on);
}

static void check_shapes(void)
{
    check_sequence(shape(1, 1, 1, 4), 1, (int32_t[]){ 1 });
    check_sequence(shape(1, 3, 1, 8), 1, (int32_t[]){ 7 });
    check_sequence(shape(3, 2, 2, 64), 1, (int32_t[]){ 33 });
    check_sequence(shape(1, 2, 1, 80), 1, (int32_t[]){ 71 });
    check_sequence(shape(1, 1, 1, 5), 1, (int32_t[]){ 130 });
    check_sequence(shape(1, 4, 2, 6), 3, (int32_t[]){ 65, 64, 9 });
    check_sequence(shape(1, 2, 2, 16), 4, (int32_t[]){ 1, 50, 7, 26 });
}

static void outputs_and_gradients_are_those_of_double_precision(void **state)
{
    with_every_isa(check_shapes);
}

/* A sequence in one tile and in three differ in rounding alone. */
static void tiles_do_not_change_the_result(void **state)
{
    struct dsflow_tile t = shape(1, 2, 2, 8);
    struct sequence whole = sequence_new(t, 1, (int32_t[]){ 100 });
    struct sequence cut = sequence_new(t, 3, (int32_t[]){ 40, 40, 20 });
    size_t nq = dsf_tile_qwidth(&t), nkv = dsf_tile_kvwidth(&t);

    for (int i = 0; i < 3; i++) {
        size_t at = (size_t)cut.pos[i];

        memcpy(cut.q[i].f, whole.q[0].f + at * nq, cut.q[i].mem.bytes);
        memcpy(cut.kv[i].f, whole.kv[0].f + at * nkv, cut.kv[i].mem.bytes);
        memcpy(cut.datt[i].f, whole.datt[0].f + at * nq, cut.q[i].mem.bytes);
    }
    forward(&whole);
    forward(&cut);
    fill_delta(&whole);
    backward(&whole);
    fill_delta(&cut);
    backward(&cut);
    tensor_from_floats(&whole.att[0]);
    tensor_from_floats(&whole.dq[0]);
    tensor_from_floats(&whole.dkv[0]);
    for (int i = 0; i < 3; i++) {
        size_t at = (size_t)cut.pos[i];

        assert_close(cut.att[i].f, whole.att[0].d + at * nq, cut.att[i].n,
                     1e-6);
        assert_close(cut.dq[i].f, whole.dq[0].d + at * nq, cut.dq[i].n, 2e-6);
        assert_close(cut.dkv[i].f, whole.dkv[0].d + at * nkv, cut.dkv[i].n,
                     2e-6);
    }
    sequence_free(&whole);
    sequence_free(&cut);
}

/* Scores of some hundreds, where e^score is not a float. */
static void large_scores_do_not_overflow(void **state)
{
    struct sequence s = sequence_new(shape(1, 1, 1, 16), 1, (int32_t[]){ 60 });

    for (size_t i = 0; i < s.q[0].n; i++)
        s.q[0].f[i] *= 40;
    tensor_from_floats(&s.q[0]);
    objective(&s);
    forward(&s);
    assert_close(s.att[0].f, s.y, s.att[0].n, 1e-4);
    fill_delta(&s);
    backward(&s);
    for (size_t i = 0; i < s.dq[0].n; i++)
        assert_true(isfinite(s.dq[0].f[i]));
    sequence_free(&s);
}

static void what_does_not_agree_is_refused(void **state)
{
    struct dsflow_attention_args a = { .tile = shape(1, 4, 2, 8),
                                       .keys = 8,
                                       .diagonal = 1 };
    size_t elems[] = { 256, 256, 256, 64 };
    struct dsflow_err err;
    const struct dsflow_op *op = &dsf_op_attention_forward;

    a.tile.rows = 8;
    assert_int_equal(check_elems(op, elems, 4, &a, &err), DSFLOW_OK);
    elems[3] = 63;
    assert_int_equal(check_elems(op, elems, 4, &a, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg,
                        "attention.forward: lse: 63 fp32: expected 64");
    elems[3] = 64;
    a.keys = 7;
    assert_int_equal(check_elems(op, elems, 4, &a, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "attention.forward: keys: 7: expected the 8 "
                                 "rows of the tile");
    a.diagonal = 0;
    assert_int_equal(check_elems(op, elems, 4, &a, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "attention.forward: keys: 7: expected 1 to "
                                 "0, before the tile");
    a.tile.pos = 7;
    assert_int_equal(check_elems(op, elems, 4, &a, &err), DSFLOW_OK);
    a.key_pos = 1;
    assert_int_equal(check_elems(op, elems, 4, &a, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "attention.forward: key_pos: 1: expected 0");
    a.window = 5;
    assert_int_equal(check_elems(op, elems, 4, &a, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg,
                        "attention.forward: key_pos: 1: expected 0 to 0");
    a.key_pos = 0;
    assert_int_equal(check_elems(op, elems, 4, &a, &err), DSFLOW_OK);
    a.window = -1;
    assert_int_equal(check_elems(op, elems, 4, &a, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "attention.forward: window: -1: expected 1 or "
                                 "more, or 0: none");
    a.window = 0;
    a.tile.nseq = 2;
    a.tile.pos = 0;
    assert_int_equal(check_elems(op, elems, 4, &a, &err), DSFLOW_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outputs_and_gradients_are_those_of_double_precision),
        cmocka_unit_test(a_window_hides_what_is_before_it),
        cmocka_unit_test(blocks_that_are_off_are_not_seen),
        cmocka_unit_test(all_blocks_give_the_bits_of_no_layout),
        cmocka_unit_test(tiles_do_not_change_the_result),
        cmocka_unit_test(large_scores_do_not_overflow),
        cmocka_unit_test(what_does_not_agree_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
