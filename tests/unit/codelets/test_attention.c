/* test_attention.c - tiles of queries against tiles of keys. */
#include "unit/codelets/segment.h"

enum { MOST = 4 };

/* A sequence cut in `ntiles` tiles, or one tile of several sequences. */
struct sequence {
    struct dsflow_tile tile;
    int ntiles;
    int32_t rows[MOST], pos[MOST];
    struct tensor q[MOST], kv[MOST], att[MOST], lse[MOST], datt[MOST],
        delta[MOST], dq[MOST], dkv[MOST];
    double *y, *lsum; /* of the reference, for all tiles */
};

static struct sequence sequence_new(struct dsflow_tile t, int ntiles,
                                    const int32_t *rows)
{
    struct sequence s = { .tile = t, .ntiles = ntiles };
    size_t nq = dsf_tile_qwidth(&t), nkv = dsf_tile_kvwidth(&t), total = 0;

    for (int i = 0; i < ntiles; i++) {
        size_t n = (size_t)rows[i];
        uint64_t seed = 10 * (uint64_t)i;

        s.rows[i] = rows[i];
        s.pos[i] = (int32_t)total;
        s.q[i] = tensor_new(n * nq, 3, seed + 1);
        s.kv[i] = tensor_new(n * nkv, 3, seed + 2);
        s.att[i] = tensor_unset(n * nq);
        s.lse[i] = tensor_unset(2 * n * (size_t)t.heads);
        s.datt[i] = tensor_new(n * nq, 1, seed + 3);
        s.delta[i] = tensor_unset(n * (size_t)t.heads);
        s.dq[i] = tensor_unset(n * nq);
        s.dkv[i] = tensor_unset(n * nkv);
        total += n;
    }
    s.y = zeroes(total * nq);
    s.lsum = zeroes(total * (size_t)t.heads);
    return s;
}

static void sequence_free(struct sequence *s)
{
    for (int i = 0; i < s->ntiles; i++) {
        tensor_free(&s->q[i]);
        tensor_free(&s->kv[i]);
        tensor_free(&s->att[i]);
        tensor_free(&s->lse[i]);
        tensor_free(&s->datt[i]);
        tensor_free(&s->delta[i]);
        tensor_free(&s->dq[i]);
        tensor_free(&s->dkv[i]);
    }
    free(s->y);
    free(s->lsum);
}

/* Row `p` of all the rows, as a row of a tile. */
static double *row_of(const struct sequence *s, const struct tensor *tiles,
                      size_t p, size_t width)
{
    int i = 0;

    while (p >= (size_t)(s->pos[i] + s->rows[i]))
        i++;
    return tiles[i].d + (p - (size_t)s->pos[i]) * width;
}

static void attend(const struct sequence *s, size_t row, size_t first, size_t h)
{
    const struct dsflow_tile *t = &s->tile;
    size_t d = (size_t)t->head_dim, heads = (size_t)t->heads;
    size_t nq = dsf_tile_qwidth(t), nkv = dsf_tile_kvwidth(t);
    size_t g = h / (heads / (size_t)t->kv_heads);
    const double *q = row_of(s, s->q, row, nq) + h * d;
    double *y = s->y + row * nq + h * d, sum = 0, top = -INFINITY;

    for (size_t j = first; j <= row; j++) {
        const double *k = row_of(s, s->kv, j, nkv) + g * d;

        top = fmax(top, dot_ref(q, k, d) / sqrt((double)d));
    }
    memset(y, 0, d * sizeof(double));
    for (size_t j = first; j <= row; j++) {
        const double *k = row_of(s, s->kv, j, nkv) + g * d, *v = k + nkv / 2;
        double p = exp(dot_ref(q, k, d) / sqrt((double)d) - top);

        sum += p;
        for (size_t i = 0; i < d; i++)
            y[i] += p * v[i];
    }
    for (size_t i = 0; i < d; i++)
        y[i] /= sum;
    s->lsum[row * heads + h] = top + log(sum);
}

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

static struct dsflow_attention_args pair_args(const struct sequence *s, int i,
                                              int k)
{
    struct dsflow_attention_args a = {
        .tile = s->tile,
        .keys = s->rows[k],
        .diagonal = k == i,
        .first = k == 0,
        .last = k == i,
        .first_q = k == i,
        .first_kv = i == s->ntiles - 1,
    };

    a.tile.rows = s->rows[i];
    a.tile.pos = s->pos[i];
    return a;
}

static void forward(struct sequence *s)
{
    for (int i = 0; i < s->ntiles; i++) {
        for (int k = 0; k <= i; k++) {
            struct dsflow_attention_args a = pair_args(s, i, k);

            RUN(&dsf_codelet_attention_forward, &a,
                { DSFLOW_ATTENTION_Q, &s->q[i] },
                { DSFLOW_ATTENTION_KV, &s->kv[k] },
                { DSFLOW_ATTENTION_ATT, &s->att[i] },
                { DSFLOW_ATTENTION_LSE, &s->lse[i] });
        }
    }
}

static void backward(struct sequence *s)
{
    for (int i = s->ntiles - 1; i >= 0; i--) {
        dsf_head_dots(s->datt[i].f, s->att[i].f, s->delta[i].f,
                      (size_t)s->rows[i], (size_t)s->tile.heads,
                      (size_t)s->tile.head_dim);
        for (int k = i; k >= 0; k--) {
            struct dsflow_attention_args a = pair_args(s, i, k);

            RUN(&dsf_codelet_attention_backward_input, &a,
                { DSFLOW_ATTENTION_Q, &s->q[i] },
                { DSFLOW_ATTENTION_KV, &s->kv[k] },
                { DSFLOW_ATTENTION_DATT, &s->datt[i] },
                { DSFLOW_ATTENTION_LSE, &s->lse[i] },
                { DSFLOW_ATTENTION_DELTA, &s->delta[i] },
                { DSFLOW_ATTENTION_DQ, &s->dq[i] },
                { DSFLOW_ATTENTION_DKV, &s->dkv[k] });
        }
    }
}

static void check_sequence(struct dsflow_tile t, int ntiles,
                           const int32_t *rows)
{
    struct sequence s = sequence_new(t, ntiles, rows);
    size_t heads = (size_t)t.heads, nq = dsf_tile_qwidth(&t);

    objective(&s);
    forward(&s);
    for (int i = 0; i < ntiles; i++) {
        assert_close(s.att[i].f, s.y + (size_t)s.pos[i] * nq, s.att[i].n, 2e-6);
        assert_close(s.lse[i].f, s.lsum + (size_t)s.pos[i] * heads,
                     (size_t)rows[i] * heads, 1e-6);
    }
    backward(&s);
    for (int i = 0; i < ntiles; i++) {
        check_gradient(objective, &s, s.q[i].d, s.dq[i].f, s.q[i].n, "q");
        check_gradient(objective, &s, s.kv[i].d, s.dkv[i].f, s.kv[i].n, "kv");
    }
    sequence_free(&s);
}

static struct dsflow_tile shape(int32_t nseq, int32_t heads, int32_t kv_heads,
                                int32_t head_dim)
{
    return (struct dsflow_tile){ .rows = 1,
                                 .nseq = nseq,
                                 .width = 1,
                                 .heads = heads,
                                 .kv_heads = kv_heads,
                                 .head_dim = head_dim,
                                 .ffn = 1,
                                 .vocab = 1,
                                 .context = 1000,
                                 .eps = 1e-5f };
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
    backward(&whole);
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
    a.tile.nseq = 2;
    a.tile.pos = 0;
    assert_int_equal(check_elems(op, elems, 4, &a, &err), DSFLOW_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outputs_and_gradients_are_those_of_double_precision),
        cmocka_unit_test(tiles_do_not_change_the_result),
        cmocka_unit_test(large_scores_do_not_overflow),
        cmocka_unit_test(what_does_not_agree_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
