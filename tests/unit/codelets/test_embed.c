/* test_embed.c - tokens to vectors, and back to the table. */
#include "unit/codelets/segment.h"

static const int32_t some_tokens[] = { 3, 0, 3, 9, -1, 3, 1, 9, 2 };

/* A tile of the first rows of some_tokens. */
static void check_tile(int32_t rows, int32_t nseq, int32_t pos, int learned)
{
    struct dsflow_tile t = { .rows = rows,
                             .nseq = nseq,
                             .pos = pos,
                             .width = 19,
                             .heads = 1,
                             .kv_heads = 1,
                             .head_dim = 1,
                             .ffn = 1,
                             .vocab = 10,
                             .context = 12,
                             .eps = 1e-5f };
    struct dsflow_embed_args a = { .tile = t,
                                   .wpe = learned ? 192 : -1,
                                   .npos = learned ? t.context : 0 };
    size_t n = learned ? 192 + 12 * 19 : 190, width = 19;
    struct tensor batch = tensor_unset(2 * (size_t)rows);
    struct tensor unit = tensor_new(n, 1, 1), grad = tensor_new(n, 1, 2);
    struct tensor x = tensor_unset((size_t)rows * width);
    struct tensor dx = tensor_new((size_t)rows * width, 1, 3);

    memcpy(batch.f, some_tokens, (size_t)rows * sizeof(int32_t));
    RUN(&dsf_codelet_embed_forward, &a, { DSFLOW_EMBED_BATCH, &batch },
        { DSFLOW_EMBED_UNIT, &unit }, { DSFLOW_EMBED_X, &x });
    RUN(&dsf_codelet_embed_backward_weight, &a, { DSFLOW_EMBED_BATCH, &batch },
        { DSFLOW_EMBED_DX, &dx }, { DSFLOW_EMBED_GRAD, &grad });
    for (size_t r = 0; r < (size_t)rows; r++) {
        int32_t token = some_tokens[r];
        size_t p = (size_t)pos + r % (size_t)(rows / nseq);

        for (size_t i = 0; i < width; i++) {
            size_t wpe = 192 + p * width + i;
            float sum = 0;

            if (token >= 0) {
                sum = unit.f[(size_t)token * width + i];
                sum += learned ? unit.f[wpe] : 0;
                grad.d[(size_t)token * width + i] += dx.d[r * width + i];
                if (learned)
                    grad.d[wpe] += dx.d[r * width + i];
            }
            assert_true(x.f[r * width + i] == sum);
        }
    }
    assert_close(grad.f, grad.d, n, 1e-6);
    tensor_free(&batch);
    tensor_free(&unit);
    tensor_free(&grad);
    tensor_free(&x);
    tensor_free(&dx);
}

static void check_tiles(void)
{
    check_tile(9, 1, 0, 1);
    check_tile(9, 3, 0, 1);
    check_tile(8, 1, 4, 1);
    check_tile(1, 1, 0, 0);
    check_tile(9, 1, 3, 0);
}

static void rows_are_looked_up_and_their_gradients_added(void **state)
{
    with_every_isa(check_tiles);
}

static void what_does_not_agree_is_refused(void **state)
{
    struct dsflow_tile t = { .rows = 4,
                             .nseq = 2,
                             .width = 8,
                             .heads = 1,
                             .kv_heads = 1,
                             .head_dim = 1,
                             .ffn = 1,
                             .vocab = 10,
                             .context = 2,
                             .eps = 1e-5f };
    struct dsflow_embed_args a = { .tile = t, .wpe = 80, .npos = t.context };
    size_t elems[] = { 8, 96, 32 };
    struct dsflow_err err;

    assert_int_equal(check_elems(&dsf_op_embed_forward, elems, 3, &a, &err), 0);
    a.tile.pos = 1;
    assert_int_equal(check_elems(&dsf_op_embed_forward, elems, 3, &a, &err),
                     DSFLOW_EINVAL);
    assert_string_equal(err.msg, "embed.forward: pos: 1: expected 0 for whole "
                                 "sequences");
    a.tile.pos = 0;
    a.wte = -1;
    assert_int_equal(check_elems(&dsf_op_embed_forward, elems, 3, &a, &err),
                     DSFLOW_EINVAL);
    assert_string_equal(err.msg, "embed.forward: wte: offset -1 in a unit");
    a.wte = 0;
    a.tile.vocab = 0;
    assert_int_equal(check_elems(&dsf_op_embed_forward, elems, 3, &a, &err),
                     DSFLOW_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_looked_up_and_their_gradients_added),
        cmocka_unit_test(what_does_not_agree_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
