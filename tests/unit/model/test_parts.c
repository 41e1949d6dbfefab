/* test_parts.c - parts of the units for tensor ranks: every number is in one of
 * them, and goes back to its place. */
#include "model/parts.h"

#include "unit/model/made.h"

#include <stdlib.h>
#include <string.h>

static const char *const models[] = {
    "family = \"gpt2\"\nlayers = 2\nheads = 4\nwidth = 28\nvocab = 97\n"
    "context = 41\n",
    "family = \"llama\"\nlayers = 2\nheads = 8\nkv_heads = 4\nwidth = 36\n"
    "head_dim = 10\nffn_width = 32\nvocab = 61\ncontext = 16\ntied = false\n"
    "qkv_bias = true\n",
    "family = \"llama\"\nlayers = 1\nheads = 8\nkv_heads = 2\nwidth = 36\n"
    "head_dim = 10\nffn_width = 32\nvocab = 61\ncontext = 16\n"
    "qkv_bias = true\n",
    "family = \"llama\"\nlayers = 1\nheads = 4\nwidth = 8\nffn_width = 8\n"
    "vocab = 4111\ncontext = 16\ntied = false\n",
};
enum { MODELS = sizeof(models) / sizeof(*models) };

/* Each number of a unit is its place; what is no tensor's is 0. */
static float *numbered(const struct dsf_unit *u)
{
    float *x = calloc((size_t)u->elems, sizeof(*x));

    assert_non_null(x);
    for (unsigned t = 0; t < u->ntensors; t++)
        for (int64_t i = 0; i < u->tensors[t].rows * u->tensors[t].cols; i++)
            x[u->tensors[t].offset + i] = (float)(u->tensors[t].offset + i + 1);
    return x;
}

static int64_t numbers_of(const struct dsf_unit *u)
{
    int64_t n = 0;

    for (unsigned t = 0; t < u->ntensors; t++)
        n += u->tensors[t].rows * u->tensors[t].cols;
    return n;
}

/* How many numbers the part has; `back` receives them. */
static int64_t check_part(const struct dsf_model *m, int parts, unsigned unit,
                          int index, const float *whole, float *back)
{
    const struct dsf_unit *u = &m->units[unit];
    struct dsf_part p;
    float *own;
    int64_t n = 0;

    dsf_part_init(&p, m, parts, unit, index);
    if (p.elems == 0)
        return 0;
    assert_int_equal(p.unit, unit);
    assert_int_equal(p.part, index);
    assert_int_equal(p.elems % p.block, 0);
    own = malloc((size_t)p.elems * sizeof(*own));
    assert_non_null(own);
    dsf_part_split(&p, whole, own);
    for (int64_t i = 0; i < p.elems; i++) {
        if (own[i] == 0)
            continue;
        /* What decays in the unit does so in the part, and nothing else. */
        assert_int_equal(i < p.decay, (int64_t)own[i] - 1 < u->decay);
        n++;
    }
    dsf_part_merge(&p, own, back);
    free(own);
    return n;
}

static void what_is_split_and_merged_is_the_whole(void **state)
{
    for (int k = 0; k < 2 * MODELS; k++) {
        struct dsf_model m;
        struct dsf_job job;

        make(&m, &job, models[k / 2]);
        if (k % 2 == 1)
            dsf_model_pad(&m);
        for (int parts = 1; parts <= 4; parts *= 2)
            for (unsigned u = 0; u < m.nunits; u++) {
                size_t bytes = (size_t)m.units[u].elems * sizeof(float);
                float *whole = numbered(&m.units[u]), *back = calloc(1, bytes);
                int64_t n = 0;

                assert_non_null(back);
                for (int p = 0; p <= parts; p++)
                    n += check_part(&m, parts, u, p, whole, back);
                assert_int_equal(n, numbers_of(&m.units[u]));
                assert_memory_equal(back, whole, bytes);
                free(whole);
                free(back);
            }
        dsf_model_fini(&m);
        dsf_job_fini(&job);
    }
}

/* The rows of the vocabulary of all parts follow each other, and all parts have
 * words. */
static void check_shares(const struct dsf_dims *d)
{
    for (int32_t parts = 1; parts <= 5; parts++) {
        int32_t first, end = 0;

        for (int32_t p = 0; p < parts; p++) {
            const int32_t n = dsf_share_vocabulary(d, parts, p, &first);

            assert_int_equal(first, end);
            assert_int_equal(n % d->vocab_step, 0);
            assert_true(n > 0 && first < d->vocab);
            end += n;
        }
        assert_int_equal(end, d->vocab_rows);
    }
}

/* A unit that is padded, and as it was: what they leave in files is the same. */
static void check_file(const struct dsf_unit *u, const struct dsf_unit *was)
{
    const size_t bytes = (size_t)u->elems * sizeof(float);
    float *padded = numbered(u), *file = malloc(bytes);

    assert_non_null(file);
    memset(file, 0xff, bytes); /* NaNs */
    for (int64_t i = 0; i < was->elems; i++)
        file[i] = 0;
    for (unsigned t = 0; t < u->ntensors; t++) {
        const int64_t n = was->tensors[t].rows * was->tensors[t].cols;

        assert_int_equal(u->tensors[t].rows, was->tensors[t].rows);
        assert_int_equal(u->tensors[t].file_offset, was->tensors[t].offset);
        memcpy(file + was->tensors[t].offset, padded + u->tensors[t].offset,
               (size_t)n * sizeof(float));
    }
    assert_int_equal(u->file_elems, was->elems);
    dsf_unit_from_file(u, file);
    assert_memory_equal(file, padded, bytes);
    dsf_unit_to_file(u, file);
    for (unsigned t = 0; t < u->ntensors; t++)
        assert_memory_equal(file + was->tensors[t].offset,
                            padded + u->tensors[t].offset,
                            (size_t)(was->tensors[t].rows *
                                     was->tensors[t].cols) *
                                sizeof(float));
    free(padded);
    free(file);
}

static void files_know_no_padding_of_the_vocabulary(void **state)
{
    static const int32_t rows[MODELS] = { 104, 61, 61, 4160 };

    for (int k = 0; k < MODELS; k++) {
        struct dsf_model was, m;
        struct dsf_job job, same;

        make(&was, &same, models[k]);
        make(&m, &job, models[k]);
        dsf_model_pad(&m);
        assert_int_equal(m.dims.vocab, was.dims.vocab);
        assert_int_equal(m.dims.vocab_rows, rows[k]);
        assert_int_equal(m.nunits, was.nunits);
        assert_int_equal(m.params, was.params);
        check_shares(&m.dims);
        for (unsigned u = 0; u < m.nunits; u++)
            check_file(&m.units[u], &was.units[u]);
        dsf_model_fini(&was);
        dsf_model_fini(&m);
        dsf_job_fini(&same);
        dsf_job_fini(&job);
    }
}

static void a_part_has_its_heads_columns_and_words(void **state)
{
    struct dsf_model m;
    struct dsf_job job;
    struct dsf_part p;
    float *whole, *own;

    make(&m, &job, models[1]);
    /* 8 heads of 10, 4 of keys and of values, rows of 36. Part 1 of 2. */
    dsf_part_init(&p, &m, 2, dsf_model_unit(&m, 1, &dsf_segment_qkv, 0), 1);
    assert_string_equal(p.name, "layer1.qkv.p1");
    whole = numbered(&m.units[p.unit]);
    own = malloc((size_t)p.elems * sizeof(*own));
    dsf_part_split(&p, whole, own);
    assert_true(own[p.w] == whole[4 * 10 * 36]);
    assert_true(own[p.w + 40 * 36] == whole[(80 + 20) * 36]);
    assert_true(own[p.w + 60 * 36] == whole[(80 + 40 + 20) * 36]);
    assert_true(own[p.b + 60] == whole[m.units[p.unit].at[DSF_QKV_B] + 140]);
    assert_int_equal(p.norm_w, -1);
    free(whole);
    free(own);

    /* 32 columns of the feed-forward, gate and up. Part 3 of 4. */
    dsf_part_init(&p, &m, 4, dsf_model_unit(&m, 0, &dsf_segment_mlp, 0), 3);
    whole = numbered(&m.units[p.unit]);
    own = malloc((size_t)p.elems * sizeof(*own));
    dsf_part_split(&p, whole, own);
    assert_true(own[p.at[DSF_MLP_W1]] == whole[24 * 36]);
    assert_true(own[p.at[DSF_MLP_W1] + 8 * 36] == whole[(32 + 24) * 36]);
    assert_true(own[p.at[DSF_MLP_W2] + 8] ==
                whole[m.units[p.unit].at[DSF_MLP_W2] + 32 + 24]);
    assert_int_equal(p.at[DSF_MLP_B1], -1);
    free(whole);
    free(own);

    /* 61 words: 16, then 15 three times. */
    dsf_part_init(
        &p, &m, 4,
        dsf_model_unit(&m, m.layers, &dsf_segment_head, DSF_HEAD_UNIT_W), 2);
    assert_int_equal(p.first, 31);
    assert_int_equal(p.count, 15);
    assert_int_equal(p.npos, 0);
    dsf_model_fini(&m);
    dsf_job_fini(&job);
}

static void what_all_parts_need_is_a_part_of_its_own(void **state)
{
    struct dsf_model m;
    struct dsf_job job;
    struct dsf_part p;

    make(&m, &job, models[0]);
    dsf_part_init(&p, &m, 2, dsf_model_unit(&m, 1, &dsf_segment_mlp, 0), 2);
    assert_string_equal(p.name, "layer1.mlp.shared");
    assert_int_equal(p.decay, 0);
    assert_int_equal(p.b, 0);
    assert_int_equal(p.norm_w, 32);
    assert_int_equal(p.norm_b, 64);
    assert_false(dsf_shares_kv(m.dims.kv_heads, 4));
    dsf_part_init(&p, &m, 2, dsf_model_unit(&m, -1, &dsf_segment_embed, 0), 2);
    assert_int_equal(p.elems, 0);
    dsf_part_init(
        &p, &m, 2,
        dsf_model_unit(&m, m.layers, &dsf_segment_head, DSF_HEAD_UNIT_NORM), 1);
    assert_int_equal(p.elems, 0);
    dsf_part_init(&p, &m, 2, dsf_model_unit(&m, 0, &dsf_segment_out, 0), 2);
    assert_int_equal(p.b, 0);
    assert_int_equal(p.nblocks, 1);
    dsf_part_init(&p, &m, 1, dsf_model_unit(&m, 0, &dsf_segment_out, 0), 1);
    assert_int_equal(p.elems, 0);
    dsf_model_fini(&m);
    dsf_job_fini(&job);

    /* Two heads of keys for four ranks. */
    make(&m, &job, models[2]);
    assert_true(dsf_shares_kv(m.dims.kv_heads, 4));
    dsf_part_init(&p, &m, 4, dsf_model_unit(&m, 0, &dsf_segment_qkv, 0), 1);
    assert_int_equal(p.nblocks, 2); /* queries, and their bias */
    dsf_part_init(&p, &m, 4, dsf_model_unit(&m, 0, &dsf_segment_qkv, 0), 4);
    assert_int_equal(p.w, 0);
    assert_int_equal(p.blocks[0].rows, 2 * 2 * 10);
    assert_int_equal(p.blocks[0].at_whole, 80 * 36);
    assert_int_equal(p.b, 40 * 36);
    assert_int_equal(p.decay, 40 * 36);
    dsf_model_fini(&m);
    dsf_job_fini(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_split_and_merged_is_the_whole),
        cmocka_unit_test(files_know_no_padding_of_the_vocabulary),
        cmocka_unit_test(a_part_has_its_heads_columns_and_words),
        cmocka_unit_test(what_all_parts_need_is_a_part_of_its_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
