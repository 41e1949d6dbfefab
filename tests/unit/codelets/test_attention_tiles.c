/* test_attention_tiles.c - a task of attention that takes keys of several tiles
 * leaves the bits of tasks that take them one after the other. */
#include "unit/codelets/attention.h"

/* Keys of tiles first .. end, in one buffer. */
struct buffer {
    int first, end;
    struct tensor kv, dkv;
};

static size_t kv_rows(const struct sequence *s, const struct buffer *b)
{
    const int last = b->end - 1;

    return (size_t)(s->pos[last] + s->rows[last] - s->pos[b->first]);
}

static struct buffer buffer_new(const struct sequence *s, int first, int end)
{
    struct buffer b = { .first = first, .end = end };
    const size_t nkv = dsf_tile_kvwidth(&s->tile), n = kv_rows(s, &b) * nkv;
    float *to;

    b.kv = tensor_unset(n);
    b.dkv = tensor_unset(n);
    to = b.kv.f;
    for (int k = first; k < end; k++) {
        memcpy(to, s->kv[k].f, s->kv[k].n * sizeof(float));
        to += s->kv[k].n;
    }
    return b;
}

static int sees_any(const struct sequence *s, int i, const struct buffer *b)
{
    for (int k = b->first; k < b->end && k <= i; k++)
        if (sees(s, i, k))
            return 1;
    return 0;
}

static int last_of(const struct sequence *s, const struct buffer *b)
{
    int i = s->ntiles - 1;

    while (!sees_any(s, i, b))
        i--;
    return i;
}

static struct dsflow_attention_args args_of(const struct sequence *s, int i,
                                            const struct buffer *b, int first)
{
    const int own = i < b->end;
    struct dsflow_attention_args a = {
        .tile = s->tile,
        .diagonal = own,
        .first = first,
        .last = own,
        .first_q = own,
        .first_kv = i == last_of(s, b),
        .before = own ? s->pos[i] - s->pos[b->first] : 0,
        .window = s->window,
        .key_pos =
            s->window > 0 || s->layout.bits != NULL ? s->pos[b->first] : 0,
    };

    a.keys = own ? a.before + s->rows[i] : (int32_t)kv_rows(s, b);
    a.key_tile = a.keys > s->rows[b->first] ? s->rows[b->first] : 0;
    a.tile.rows = s->rows[i];
    a.tile.pos = s->pos[i];
    if (s->layout.bits != NULL)
        dsf_attention_lay_out(&s->layout, 0, &a);
    return a;
}

static void forward_together(struct sequence *s, struct buffer *b, int n)
{
    for (int i = 0; i < s->ntiles; i++)
        for (int k = 0, first = 1; k < n && b[k].first <= i; k++) {
            struct dsflow_attention_args a = args_of(s, i, &b[k], first);

            if (!sees_any(s, i, &b[k]))
                continue;
            RUN_PAIR(&dsf_codelet_attention_forward, &a,
                     { DSFLOW_ATTENTION_Q, &s->q[i], s->type },
                     { DSFLOW_ATTENTION_KV, &b[k].kv, s->type },
                     { DSFLOW_ATTENTION_ATT, &s->att[i],
                       type_of(s, a.first && a.last) },
                     { DSFLOW_ATTENTION_LSE, &s->lse[i] },
                     { DSFLOW_ATTENTION_LAYOUT, &s->bits });
            first = 0;
        }
}

/* Is the task of tile `i` the only one that writes what the buffer is for? */
static int is_alone(const struct sequence *s, int i, const struct buffer *b)
{
    return last_of(s, b) == i && b->first == i;
}

static void backward_together(struct sequence *s, struct buffer *b, int n)
{
    for (int i = s->ntiles - 1; i >= 0; i--) {
        int first = 0;

        while (!sees_any(s, i, &b[first]))
            first++;
        for (int k = n - 1; k >= first; k--) {
            struct dsflow_attention_args a = args_of(s, i, &b[k], k == first);

            if (b[k].first > i || !sees_any(s, i, &b[k]))
                continue;
            RUN_PAIR(&dsf_codelet_attention_backward_input, &a,
                     { DSFLOW_ATTENTION_Q, &s->q[i], s->type },
                     { DSFLOW_ATTENTION_KV, &b[k].kv, s->type },
                     { DSFLOW_ATTENTION_DATT, &s->datt[i], s->type },
                     { DSFLOW_ATTENTION_LSE, &s->lse[i] },
                     { DSFLOW_ATTENTION_DELTA, &s->delta[i] },
                     { DSFLOW_ATTENTION_DQ, &s->dq[i],
                       type_of(s, b[first].end > i) },
                     { DSFLOW_ATTENTION_DKV, &b[k].dkv,
                       type_of(s, is_alone(s, i, &b[k])) },
                     { DSFLOW_ATTENTION_LAYOUT, &s->bits });
        }
    }
}

/* What is stored, in the type of the sequence. */
static void assert_same(const struct sequence *s, const float *is,
                        const float *expected, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const float a = is_narrow(s->type)
                            ? wide_of(s->type, narrow_of(s->type, is[i]))
                            : is[i];
        const float b = is_narrow(s->type)
                            ? wide_of(s->type, narrow_of(s->type, expected[i]))
                            : expected[i];

        if (memcmp(&a, &b, sizeof(a)) != 0)
            fail_msg("number %zu is %a: expected %a (%s)", i, (double)a,
                     (double)b, dsf_kernels_isa());
    }
}

struct job {
    struct dsflow_tile tile;
    enum dsflow_dtype type;
    int32_t window, block, heads, of;
};

static struct sequence sequence_of(const struct job *j, int ntiles,
                                   const int32_t *rows)
{
    struct sequence s = sequence_new(j->tile, ntiles, rows);

    s.type = j->type;
    s.window = j->window;
    for (int i = 0; i < ntiles && is_narrow(j->type); i++) {
        tensor_round(&s.q[i], j->type);
        tensor_round(&s.kv[i], j->type);
        tensor_round(&s.datt[i], j->type);
    }
    if (j->block > 0)
        sequence_lay_out(&s, j->block, j->heads, j->of, 7);
    return s;
}

/* Tiles of equal rows, but for the last, `each` of them in a buffer. */
static void check(struct job j, int ntiles, int32_t rows, int32_t last,
                  int each)
{
    int32_t all[MOST_TILES] = { 0 };
    struct sequence apart, together;
    struct buffer b[MOST_TILES];
    int n = 0;

    for (int i = 0; i < ntiles; i++)
        all[i] = i + 1 < ntiles ? rows : last;
    apart = sequence_of(&j, ntiles, all);
    together = sequence_of(&j, ntiles, all);
    for (int i = 0; i < ntiles; i += each)
        b[n++] =
            buffer_new(&together, i, i + each < ntiles ? i + each : ntiles);
    forward(&apart);
    fill_delta(&apart);
    backward(&apart);
    forward_together(&together, b, n);
    for (int i = 0; i < ntiles; i++) {
        assert_same(&apart, together.att[i].f, apart.att[i].f, apart.att[i].n);
        memcpy(together.delta[i].f, apart.delta[i].f,
               apart.delta[i].n * sizeof(float));
        assert_memory_equal(together.lse[i].f, apart.lse[i].f,
                            apart.lse[i].n * sizeof(float));
    }
    backward_together(&together, b, n);
    for (int i = 0; i < ntiles; i++)
        assert_same(&apart, together.dq[i].f, apart.dq[i].f, apart.dq[i].n);
    for (int k = 0; k < n; k++) {
        const float *dkv = b[k].dkv.f;

        for (int i = b[k].first; i < b[k].end; i++) {
            assert_same(&apart, dkv, apart.dkv[i].f, apart.dkv[i].n);
            dkv += apart.dkv[i].n;
        }
        tensor_free(&b[k].kv);
        tensor_free(&b[k].dkv);
    }
    sequence_free(&apart);
    sequence_free(&together);
}

static void check_all(void)
{
    const struct job dense = { .tile = shape(1, 4, 2, 20) };
    const struct job wide = { .tile = shape(1, 1, 1, 33) };
    const struct job window = { .tile = shape(1, 3, 1, 8), .window = 41 };
    const struct job laid = {
        .tile = shape(1, 4, 2, 6), .block = 16, .heads = 4, .of = 9
    };
    const struct job both = { .tile = shape(1, 2, 1, 8),
                              .window = 70,
                              .block = 32,
                              .heads = 1,
                              .of = 2 };
    const struct job narrow = { .tile = shape(1, 4, 2, 20),
                                .type = DSFLOW_BF16 };
    const struct job narrow_laid = { .tile = shape(1, 2, 2, 16),
                                     .type = DSFLOW_BF16,
                                     .block = 16,
                                     .heads = 2,
                                     .of = 5 };

    check(dense, 5, 32, 11, 2);
    check(dense, 4, 24, 24, 4);
    check(wide, 3, 160, 150, 3);
    check(window, 7, 16, 9, 3);
    check(window, 4, 48, 48, 4);
    check(laid, 6, 32, 32, 3);
    check(laid, 5, 48, 20, 5);
    check(both, 5, 48, 31, 2);
    check(narrow, 4, 32, 32, 4);
    check(narrow, 5, 32, 8, 2);
    check(narrow_laid, 6, 32, 32, 6);
}

static void several_tiles_of_keys_leave_the_bits_of_one_at_a_time(void **state)
{
    with_every_isa(check_all);
}

static void tiles_that_do_not_agree_are_refused(void **state)
{
    struct dsflow_attention_args a = { .tile = shape(1, 1, 1, 8),
                                       .keys = 48,
                                       .key_tile = 16,
                                       .before = 32,
                                       .diagonal = 1 };
    const size_t elems[] = { 128, 768, 128, 32 };
    const struct dsflow_op *op = &dsf_op_attention_forward;
    struct dsflow_err err;

    a.tile.rows = 16;
    a.tile.pos = 64;
    assert_int_equal(check_elems(op, elems, 4, &a, &err), DSFLOW_OK);
    a.before = 24;
    assert_int_equal(check_elems(op, elems, 4, &a, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg,
                        "attention.forward: before: 24: expected whole tiles "
                        "of 16, and tokens 64 and on behind them; or 0: none");
    a.before = 32;
    a.keys = 47;
    assert_int_equal(check_elems(op, elems, 4, &a, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "attention.forward: keys: 47: expected the 48 "
                                 "rows of the tile");
    a.keys = a.key_tile;
    assert_int_equal(check_elems(op, elems, 4, &a, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg,
                        "attention.forward: key_tile: 16 of 16 keys in 1 "
                        "sequences: expected some of those of one, or 0: one "
                        "tile");
    a.keys = 48;
    a.diagonal = 0;
    assert_int_equal(check_elems(op, elems, 4, &a, &err), DSFLOW_EINVAL);
    a.before = 0;
    assert_int_equal(check_elems(op, elems, 4, &a, &err), DSFLOW_OK);
}

static double scores_of(const struct dsflow_attention_args *a)
{
    const struct dsflow_op *op = &dsf_op_attention_forward;
    const struct dsflow_shape shapes[DSFLOW_ATTENTION_NPORTS] = { { 0 } };
    struct dsflow_cost cost = { 0 };

    op->cost(&(struct dsflow_case){ op, shapes, op->nports, a }, &cost);
    return cost.scores;
}

/* All of them cost what they do without a layout; of few, packing is the most.
 */
static void keys_that_are_packed_cost_time(void **state)
{
    struct dsflow_attention_args a = { .tile = shape(1, 2, 1, 64),
                                       .keys = 256 };
    double dense;

    a.tile.rows = 256;
    a.tile.pos = 256;
    dense = scores_of(&a);
    assert_true(dense == 2.0 * 256 * 256);
    a.block = 16;
    a.blocks = 32;
    a.layouts = 1;
    a.packed = 256;
    a.seen = dense;
    assert_true(fabs(scores_of(&a) / dense - 1) < 0.1);
    a.packed = 128;
    a.seen = 2 * 8 * 16 * 16;
    assert_true(scores_of(&a) > 2 * a.seen);
    assert_true(scores_of(&a) < dense / 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(several_tiles_of_keys_leave_the_bits_of_one_at_a_time),
        cmocka_unit_test(tiles_that_do_not_agree_are_refused),
        cmocka_unit_test(keys_that_are_packed_cost_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
