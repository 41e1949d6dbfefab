/* test_sparsity.c - layouts of sparse attention are those of DeepSpeed. */
#include "tasks/sparsity.h"

#include "lib/test.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A job with keys of [sparse_attention], "mode=fixed block=32 …". */
static int parse(struct dsf_job *job, const char *keys, struct dsflow_err *err)
{
    static const char text[] = "[job]\nsteps = 1\n[data]\ntrain = \"x\"\n";
    char words[600], sets[16][200], *word, *rest = NULL;
    const char *all[16];
    unsigned n = 0;

    assert_true(strlen(keys) < sizeof(words));
    strcpy(words, keys);
    for (word = strtok_r(words, " ", &rest); word != NULL;
         word = strtok_r(NULL, " ", &rest), n++) {
        assert_true(n < 16);
        snprintf(sets[n], sizeof(sets[n]), "sparse_attention.%s", word);
        all[n] = sets[n];
    }
    return dsf_job_parse(text, strlen(text), "job.toml", all, n, NULL, job,
                         err);
}

static void must(int status, const char *keys, const struct dsflow_err *err)
{
    if (status < 0)
        fail_msg("%s: %s", keys, err->msg);
}

static struct dsf_sparsity_layout make_of(const char *keys, int32_t heads,
                                          int32_t layer, int64_t tokens)
{
    struct dsf_sparsity_layout l;
    struct dsflow_err err;
    struct dsf_job job;

    must(parse(&job, keys, &err), keys, &err);
    must(dsf_sparsity_make(&job, heads, layer, tokens, &l, &err), keys, &err);
    dsf_job_fini(&job);
    return l;
}

/* Layouts of 8 and of 10 blocks have so many of them. */
static void check_counts(const char *keys, int64_t eight, int64_t ten)
{
    struct dsf_sparsity_layout a = make_of(keys, 1, 0, 128);
    struct dsf_sparsity_layout b = make_of(keys, 1, 0, 160);

    if (dsf_sparsity_count(&a, 0) != eight || dsf_sparsity_count(&b, 0) != ten)
        fail_msg("%s: %" PRId64 " and %" PRId64 " blocks: expected %" PRId64
                 " and %" PRId64,
                 keys, dsf_sparsity_count(&a, 0), dsf_sparsity_count(&b, 0),
                 eight, ten);
    dsf_sparsity_free(&a);
    dsf_sparsity_free(&b);
}

static void check_rows(const char *keys, const char *rows)
{
    struct dsf_sparsity_layout l = make_of(keys, 1, 0, 128);
    char text[8 * 9 + 1] = "";

    for (int row = 0; row < 8; row++)
        for (int col = 0; col < 9; col++)
            text[row * 9 + col] = col == 8              ? ' '
                                  : l.on[row * 8 + col] ? '1'
                                                        : '0';
    text[8 * 9 - 1] = '\0';
    assert_string_equal(text, rows);
    dsf_sparsity_free(&l);
}

#define BI  " attention=bidirectional"
#define UNI " attention=unidirectional"

static void small_layouts_have_the_blocks_of_deepspeed(void **state)
{
    check_counts("mode=dense", 64, 100);
    check_counts("mode=fixed", 40, 56);
    check_counts("mode=fixed" BI, 40, 56);
    check_counts("mode=fixed horizontal_global_attention=true", 46, 70);
    check_counts("mode=fixed" UNI, 24, 31);
    check_counts("mode=bslongformer", 34, 44);
    check_counts("mode=bslongformer" UNI, 21, 27);
    check_counts("mode=local_sliding_window", 15, 19);
    check_counts("mode=local_sliding_window" BI, 22, 28);
    check_counts("mode=variable local_window_blocks=[2,3]", 28, 34);
    check_counts("mode=variable local_window_blocks=[2,3]" UNI, 21, 26);
    check_counts("mode=bigbird num_random_blocks=0", 34, 44);
    check_counts("mode=bigbird num_random_blocks=0" UNI, 21, 27);
    check_rows("mode=fixed" UNI,
               "10000000 11000000 11100000 11110000 00011000 00011100 00011110 "
               "00011111");
    check_rows("mode=fixed",
               "11110001 11110001 11110001 11110001 00011111 00011111 00011111 "
               "00011111");
    check_rows("mode=variable local_window_blocks=[2,3]",
               "11000000 11000000 10111000 10111000 10111000 10000111 10000111 "
               "10000111");
    check_rows("mode=bigbird num_random_blocks=0",
               "11111111 11100000 11110000 10111000 10011100 10001110 10000111 "
               "10000011");
}

/* FNV-1a of the blocks of all heads. */
static uint64_t hash_of(const struct dsf_sparsity_layout *l, int32_t heads)
{
    const size_t cells = (size_t)l->blocks * (size_t)l->blocks;
    uint64_t h = 0xcbf29ce484222325u;

    for (int32_t head = 0; head < heads; head++)
        for (size_t i = 0; i < cells; i++)
            h = (h ^ dsf_sparsity_head(l, head)[i]) * 0x100000001b3u;
    return h;
}

/* Random blocks come to those that are there without any: at most so many of a
 * row, of those that a row chooses from; and in all at least as many as one row
 * has. */
static void check_random(const char *keys, int32_t heads, int64_t tokens,
                         const struct dsf_sparsity_layout *without)
{
    struct dsf_sparsity_layout l = make_of(keys, heads, 0, tokens);
    int64_t most = atoi(strstr(keys, "num_random_blocks=") + 18);
    bool before =
        strstr(keys, "mode=bigbird") && strstr(keys, "unidirectional");

    assert_int_equal(l.heads, without->heads);
    for (int32_t h = 0; h < l.heads; h++)
        for (int64_t row = 0; row < l.blocks; row++) {
            const uint8_t *on = dsf_sparsity_head(&l, h) + row * l.blocks;
            const uint8_t *base =
                dsf_sparsity_head(without, h) + row * l.blocks;
            int64_t more = 0, all = 0;

            for (int64_t col = 0; col < l.blocks; col++) {
                assert_true(on[col] >= base[col]);
                assert_true(!before || col <= row || !on[col] || base[col]);
                more += on[col] - base[col];
                all += on[col];
            }
            assert_in_range(more, 0, most);
            assert_true(all >= most);
        }
    dsf_sparsity_free(&l);
}

/* The keys, without random blocks. */
static void without_random(const char *keys, char *to)
{
    char *at;

    strcpy(to, keys);
    at = strstr(to, "num_random_blocks=");
    if (at != NULL)
        at[18] = '0';
}

static void random_settings_give_the_blocks_of_deepspeed(void **state)
{
    const char *src = getenv("srcdir");
    char path[600], line[600], keys[600], none[600];
    int32_t heads, settings = 0;
    int64_t tokens;
    uint64_t hash;
    FILE *in;

    snprintf(path, sizeof(path), "%s/tests/reference/sparsity/layouts.txt",
             src != NULL ? src : ".");
    in = fopen(path, "r");
    assert_non_null(in);
    while (fgets(line, sizeof(line), in) != NULL) {
        struct dsf_sparsity_layout l;

        if (line[0] == '#')
            continue;
        assert_int_equal(sscanf(line,
                                "%" SCNd32 " %" SCNd64 " %" SCNx64 " %599[^\n]",
                                &heads, &tokens, &hash, keys),
                         4);
        without_random(keys, none);
        l = make_of(none, heads, 0, tokens);
        if (hash_of(&l, heads) != hash)
            fail_msg("%d heads, %" PRId64 " tokens: %s: other blocks",
                     (int)heads, tokens, none);
        if (strcmp(keys, none) != 0)
            check_random(keys, heads, tokens, &l);
        dsf_sparsity_free(&l);
        settings++;
    }
    fclose(in);
    assert_int_equal(settings, 300);
}

/* They follow from the seed, the layer and the head, and from nothing else. */
static void random_blocks_come_from_seed_layer_and_head(void **state)
{
    static const char keys[] =
        "mode=bigbird num_random_blocks=3 different_layout_per_head=true";
    struct dsf_sparsity_layout a = make_of(keys, 4, 0, 1024);
    struct dsf_sparsity_layout more = make_of(keys, 6, 0, 1024);
    struct dsf_sparsity_layout layer = make_of(keys, 4, 1, 1024);
    struct dsf_sparsity_layout seed =
        make_of("mode=bigbird num_random_blocks=3 "
                "different_layout_per_head=true seed=2",
                4, 0, 1024);
    const size_t cells = 64 * 64;

    for (int32_t h = 0; h < 4; h++) {
        assert_memory_equal(dsf_sparsity_head(&a, h),
                            dsf_sparsity_head(&more, h), cells);
        assert_memory_not_equal(dsf_sparsity_head(&a, h),
                                dsf_sparsity_head(&layer, h), cells);
        assert_memory_not_equal(dsf_sparsity_head(&a, h),
                                dsf_sparsity_head(&seed, h), cells);
        assert_memory_not_equal(dsf_sparsity_head(&a, h),
                                dsf_sparsity_head(&a, (h + 1) % 4), cells);
    }
    dsf_sparsity_free(&a);
    dsf_sparsity_free(&more);
    dsf_sparsity_free(&layer);
    dsf_sparsity_free(&seed);
}

/* Every column is drawn about as often. */
static void random_blocks_are_anywhere(void **state)
{
    enum { BLOCKS = 16, LAYERS = 400, DRAWN = 3 };
    int count[BLOCKS] = { 0 };

    for (int32_t layer = 0; layer < LAYERS; layer++) {
        struct dsf_sparsity_layout l =
            make_of("mode=variable num_random_blocks=3 local_window_blocks=[1] "
                    "global_block_indices=[]",
                    1, layer, 16 * BLOCKS);

        for (int col = 1; col < BLOCKS; col++)
            count[col] += l.on[col];
        dsf_sparsity_free(&l);
    }
    for (int col = 1; col < BLOCKS; col++)
        assert_in_range(count[col], LAYERS * DRAWN / BLOCKS - 40,
                        LAYERS * DRAWN / BLOCKS + 40);
}

static void refused(const char *keys, int64_t tokens, const char *message)
{
    struct dsf_sparsity_layout l = { .blocks = 0 };
    struct dsflow_err err = { .msg = "" };
    struct dsf_job job;
    int status = parse(&job, keys, &err);

    if (status == DSFLOW_OK) {
        status = dsf_sparsity_make(&job, 4, 0, tokens, &l, &err);
        dsf_job_fini(&job);
    }
    assert_int_equal(status, DSFLOW_EINVAL);
    if (strstr(err.msg, message) == NULL)
        fail_msg("%s: says \"%s\", not \"%s\"", keys, err.msg, message);
}

static void what_does_not_go_together_is_refused(void **state)
{
    refused("mode=fixed", 100,
            "sparse_attention: block: 16: expected a divisor of the sequence, "
            "100 tokens; sequences of 96 and 112 are the nearest");
    refused(
        "mode=fixed block=128", 100,
        "block: 128: expected a divisor of the sequence, 100 tokens; one of "
        "128 is the nearest");
    refused("mode=fixed block=48", 96, "block: 48: expected 16, 32, 64 or 128");
    refused("mode=fixed num_local_blocks=5 num_global_blocks=2", 160,
            "num_local_blocks: 5: expected a multiple of num_global_blocks, 2");
    refused("mode=fixed num_different_global_patterns=2", 160,
            "num_different_global_patterns: 2: expected 1 without "
            "different_layout_per_head");
    refused("mode=fixed num_different_global_patterns=5 "
            "different_layout_per_head=true",
            160,
            "num_different_global_patterns: 5: expected at most "
            "num_local_blocks / num_global_blocks, 4");
    refused(
        "mode=fixed horizontal_global_attention=true" UNI, 160,
        "horizontal_global_attention: true: expected false with attention = "
        "\"unidirectional\"");
    refused("mode=variable local_window_blocks=[]", 160,
            "local_window_blocks: []: expected the width of a window or more");
    refused("mode=variable num_random_blocks=11", 160,
            "num_random_blocks: 11: expected at most the 10 blocks of a row");
    refused("mode=bslongformer global_block_indices=[1,4] "
            "global_block_end_indices=[2]",
            160,
            "global_block_end_indices: 1 numbers: expected as many as "
            "global_block_indices, 2");
    refused("mode=bslongformer global_block_indices=[1,4] "
            "global_block_end_indices=[2,4]",
            160,
            "global_block_end_indices: 4: expected more than where the range "
            "begins, 4");
    refused(
        "mode=bigbird num_sliding_window_blocks=11", 160,
        "num_sliding_window_blocks: 11: expected at most the 10 blocks of a "
        "row");
    refused("mode=bigbird num_random_blocks=2" UNI, 160,
            "num_random_blocks: 2: expected at most 1 with attention = "
            "\"unidirectional\": row 0 has one block to choose from");
    refused("mode=bigbird num_global_blocks=11", 160,
            "num_global_blocks: 11: expected at most the 10 blocks of a row");
}

/* One of a plug-in that leaves a row out. */
static void odd_fill(const void *part, const struct dsflow_sparsity_keys *k,
                     uint8_t *on)
{
    for (int64_t row = 0; row < k->blocks; row++)
        on[row * k->blocks + row] = row != 3;
}

static const struct dsflow_sparsity odd = {
    .abi = DSFLOW_SPARSITY_ABI,
    .name = "odd",
    .summary = "the diagonal, but for a row",
    .fill = odd_fill,
};

static void others_may_bring_one_and_no_row_is_empty(void **state)
{
    struct dsf_sparsity_layout l;
    struct dsflow_err err;

    refused("mode=odd", 48, "mode");
    must(dsflow_sparsity_register(&odd, &err), "odd", &err);
    assert_ptr_equal(dsflow_sparsity_find("odd"), &odd);
    l = make_of("mode=odd", 2, 0, 48);
    assert_int_equal(dsf_sparsity_count(&l, 1), 3);
    dsf_sparsity_free(&l);
    refused(
        "mode=odd", 64,
        "sparse_attention: mode: \"odd\": row 3 of head 0 has no block: its "
        "queries would see nothing");
    assert_int_equal(dsflow_sparsity_register(&odd, &err), DSFLOW_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_layouts_have_the_blocks_of_deepspeed),
        cmocka_unit_test(random_settings_give_the_blocks_of_deepspeed),
        cmocka_unit_test(random_blocks_come_from_seed_layer_and_head),
        cmocka_unit_test(random_blocks_are_anywhere),
        cmocka_unit_test(what_does_not_go_together_is_refused),
        cmocka_unit_test(others_may_bring_one_and_no_row_is_empty),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
