/* test_part_embed.c - tables of embeddings, cut by rows. */
#include "unit/codelets/part.h"

static struct dsflow_tile tile_of(int32_t nseq, int32_t pos)
{
    return (struct dsflow_tile){ .rows = 24,
                                 .nseq = nseq,
                                 .pos = pos,
                                 .width = 19,
                                 .heads = 1,
                                 .kv_heads = 1,
                                 .head_dim = 1,
                                 .ffn = 1,
                                 .vocab = 101,
                                 .context = 40,
                                 .eps = 1e-5f };
}

/* Tokens that come again, and rows that have none. */
static struct tensor batch_new(const struct dsflow_tile *t)
{
    struct tensor batch = tensor_unset(2 * (size_t)t->rows);
    int32_t *tokens = (int32_t *)batch.f;

    for (int32_t r = 0; r < t->rows; r++)
        tokens[r] = r % 7 == 3 ? -1 : r % 5 == 0 ? 42 : r * 7919 % t->vocab;
    return batch;
}

/* Parts of each table, one more row in the first ones. */
static int32_t share(int32_t n, int32_t parts, int32_t p)
{
    return n / parts + (p < n % parts);
}

static void check_parts(struct dsflow_tile t, int32_t parts, int positions)
{
    const size_t width = (size_t)t.width;
    const int64_t rows = t.vocab + (positions ? t.context : 0);
    const struct dsflow_embed_args whole = {
        .tile = t,
        .wpe = positions ? (int64_t)t.vocab * t.width : -1,
        .npos = positions ? t.context : 0,
    };
    struct tensor embed = tensor_new((size_t)rows * width, 1, 1);
    struct tensor grad = tensor_new(embed.n, 1, 2), batch = batch_new(&t);
    struct tensor x = tensor_unset(dsf_tile_x(&t)), sum = tensor_zero(x.n);
    struct tensor y = tensor_unset(x.n), dx = tensor_new(x.n, 1, 3);
    int32_t first = 0, first_pos = 0;

    struct tensor before = tensor_copy(&grad);

    RUN(&dsf_codelet_embed_forward, &whole, { DSFLOW_EMBED_BATCH, &batch },
        { DSFLOW_EMBED_UNIT, &embed }, { DSFLOW_EMBED_X, &x });
    RUN(&dsf_codelet_embed_backward_weight, &whole,
        { DSFLOW_EMBED_BATCH, &batch }, { DSFLOW_EMBED_DX, &dx },
        { DSFLOW_EMBED_GRAD, &grad });
    for (int32_t p = 0; p < parts; p++) {
        int32_t n = share(t.vocab, parts, p);
        int32_t npos = positions ? share(t.context, parts, p) : 0;
        struct dsflow_embed_args a = {
            .tile = t,
            .wte = (int64_t)width * npos, /* wpe stands first */
            .wpe = positions ? 0 : -1,
            .first = first,
            .first_pos = first_pos,
            .npos = npos,
        };
        struct tensor part = tensor_unset((size_t)(n + npos) * width);
        struct tensor expected = tensor_copy(&part);
        const struct tensor *from[] = { &embed, &before, &grad };
        float *to[] = { part.f, part.f, expected.f };

        a.tile.vocab = n;
        for (int i = 0; i < 3; i++) {
            copy_block(to[i] + a.wte, width, from[i]->f + (size_t)first * width,
                       width, (size_t)n, width);
            if (positions)
                copy_block(to[i], width,
                           from[i]->f + (size_t)(t.vocab + first_pos) * width,
                           width, (size_t)npos, width);
            if (i == 0)
                RUN(&dsf_codelet_embed_forward, &a,
                    { DSFLOW_EMBED_BATCH, &batch },
                    { DSFLOW_EMBED_UNIT, &part }, { DSFLOW_EMBED_X, &y });
            if (i == 1)
                RUN(&dsf_codelet_embed_backward_weight, &a,
                    { DSFLOW_EMBED_BATCH, &batch }, { DSFLOW_EMBED_DX, &dx },
                    { DSFLOW_EMBED_GRAD, &part });
        }
        add_floats(sum.f, y.f, sum.n);
        assert_same_bits(part.f, expected.f, part.n);
        first += n;
        first_pos += npos;
        tensor_free(&part);
        tensor_free(&expected);
    }
    assert_same_bits(sum.f, x.f, x.n);
    tensor_free(&embed);
    tensor_free(&grad);
    tensor_free(&before);
    tensor_free(&batch);
    tensor_free(&x);
    tensor_free(&sum);
    tensor_free(&y);
    tensor_free(&dx);
}

static void check_shapes(void)
{
    for (int32_t parts = 1; parts <= 4; parts++) {
        check_parts(tile_of(1, 0), parts, 1);
        check_parts(tile_of(1, 16), parts, 1);
        check_parts(tile_of(2, 0), parts, 0);
        check_parts(tile_of(3, 0), parts, 1);
    }
}

static void the_sum_over_the_parts_is_the_whole_bit_for_bit(void **state)
{
    with_every_isa(check_shapes);
}

static void what_does_not_agree_is_refused(void **state)
{
    struct dsflow_embed_args a = { .tile = tile_of(1, 0), .wpe = -1 };
    size_t elems[] = { 48, 1919, 456 };
    struct dsflow_err err;
    const struct dsflow_op *op = &dsf_op_embed_forward;

    assert_int_equal(check_elems(op, elems, 3, &a, &err), DSFLOW_OK);
    a.npos = 3;
    assert_int_equal(check_elems(op, elems, 3, &a, &err), DSFLOW_EINVAL);
    assert_string_equal(
        err.msg, "embed.forward: 3 positions from 0 on: expected some of 0");
    a.wpe = 101 * 19;
    assert_int_equal(check_elems(op, elems, 3, &a, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg,
                        "embed.forward: embed: 1919 fp32: expected 1976");
    a.first_pos = 38;
    assert_int_equal(check_elems(op, elems, 3, &a, &err), DSFLOW_EINVAL);
    assert_string_equal(
        err.msg, "embed.forward: 3 positions from 38 on: expected some of 40");
    a.first = -1;
    assert_int_equal(check_elems(op, elems, 3, &a, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg,
                        "embed.forward: first: -1: expected 0 or more");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_sum_over_the_parts_is_the_whole_bit_for_bit),
        cmocka_unit_test(what_does_not_agree_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
