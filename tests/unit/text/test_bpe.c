/* test_bpe.c - byte pairs merge in the order of their ranks, in words of any
 * length. */
#include "text/bpe.h"

#include "unit/text/encoded.h"

#include <time.h>

static void name_of(unsigned byte, char *name)
{
    bool itself =
        (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte != 0xad);
    unsigned code = byte, other = 0x100;

    for (unsigned b = 0; !itself && b < byte; b++)
        other += !((b >= '!' && b <= '~') || (b >= 0xa1 && b != 0xad));
    if (!itself)
        code = other;
    if (code < 0x80) {
        name[0] = (char)code;
        name[1] = '\0';
    } else {
        name[0] = (char)(0xc0 | code >> 6);
        name[1] = (char)(0x80 | (code & 0x3f));
        name[2] = '\0';
    }
}

/* All bytes, and the merges given as pairs of strings. */
static struct dsf_bpe *make(const char *const *merges, bool ignore_merges)
{
    struct dsf_bpe *bpe = dsf_bpe_new();
    struct dsflow_err err = { 0 };
    char name[64];

    for (unsigned i = 0; i < 256; i++) {
        name_of(i, name);
        assert_int_equal(dsf_bpe_token(bpe, name, strlen(name), i, &err), 0);
    }
    for (int id = 256; *merges != NULL; merges += 2, id++) {
        snprintf(name, sizeof(name), "%s%s", merges[0], merges[1]);
        assert_int_equal(dsf_bpe_token(bpe, name, strlen(name), id, &err), 0);
        assert_int_equal(dsf_bpe_merge(bpe, merges[0], strlen(merges[0]),
                                       merges[1], strlen(merges[1]), &err),
                         0);
    }
    if (dsf_bpe_finish(bpe, ignore_merges, &err) < 0)
        fail_msg("%s", err.msg);
    return bpe;
}

static const char *const some[] = { "b", "c", "a",  "b",  "ab", "c",
                                    "a", "a", "aa", "aa", NULL };

static void the_lowest_rank_is_merged_first(void **state)
{
    struct dsf_bpe *bpe = make(some, false);
    struct dsf_tokens out = { 0 };

    dsf_bpe_encode(bpe, NULL, "abc", 3, &out); /* a bc, not abc */
    assert_int_equal(out.n, 2);
    assert_int_equal(out.v[0], 'a');
    assert_int_equal(out.v[1], 256);
    out.n = 0;
    dsf_bpe_encode(bpe, NULL, "aaaaa", 5, &out);
    assert_int_equal(out.n, 2);
    assert_int_equal(out.v[0], 260);
    assert_int_equal(out.v[1], 'a');
    dsf_tokens_fini(&out);
    dsf_bpe_free(bpe);
}

static void a_whole_token_wins_where_merges_are_ignored(void **state)
{
    struct dsf_bpe *bpe = make(some, true);
    struct dsf_tokens out = { 0 };

    dsf_bpe_encode(bpe, NULL, "abc", 3, &out);
    assert_int_equal(out.n, 1);
    assert_int_equal(out.v[0], 258);
    dsf_tokens_fini(&out);
    dsf_bpe_free(bpe);
}

/* The same merges by the simplest means: look at all pairs for every one. */
static size_t slow(const char *text, size_t n, int32_t *ids)
{
    for (size_t i = 0; i < n; i++)
        ids[i] = (unsigned char)text[i];
    for (;;) {
        static const int32_t pairs[][2] = {
            { 'b', 'c' }, { 'a', 'b' }, { 257, 'c' }, { 'a', 'a' }, { 259, 259 }
        };
        size_t at = n;
        int best = 5;

        for (size_t i = 0; i + 1 < n; i++)
            for (int r = 0; r < best; r++)
                if (ids[i] == pairs[r][0] && ids[i + 1] == pairs[r][1]) {
                    best = r;
                    at = i;
                }
        if (at == n)
            return n;
        ids[at] = 256 + best;
        memmove(ids + at + 1, ids + at + 2, (n - at - 2) * sizeof(*ids));
        n--;
    }
}

static void words_of_all_lengths_give_what_the_rule_says(void **state)
{
    struct dsf_bpe *bpe = make(some, false);
    struct dsf_bpe_cache *cache = dsf_bpe_cache_new();
    struct dsf_tokens out = { 0 };
    uint32_t seed = 1;
    int32_t ids[200];
    char text[200];

    for (unsigned round = 0; round < 4000; round++) {
        size_t n = 1 + round % 120, expected;

        for (size_t i = 0; i < n; i++) {
            seed = seed * 1664525u + 1013904223u;
            text[i] = "aaabcd"[(seed >> 16) % 6];
        }
        expected = slow(text, n, ids);
        for (unsigned twice = 0; twice < 2; twice++) {
            out.n = 0;
            dsf_bpe_encode(bpe, cache, text, n, &out);
            assert_int_equal(out.n, expected);
            assert_memory_equal(out.v, ids, expected * sizeof(*ids));
        }
    }
    dsf_tokens_fini(&out);
    dsf_bpe_cache_free(cache);
    dsf_bpe_free(bpe);
}

static void a_word_of_a_megabyte_takes_no_square_of_time(void **state)
{
    struct dsf_bpe *bpe = make(some, false);
    struct dsf_tokens out = { 0 };
    size_t n = (size_t)1 << 20;
    char *text = malloc(n);
    clock_t start = clock();

    memset(text, 'a', n);
    dsf_bpe_encode(bpe, NULL, text, n, &out);
    assert_int_equal(out.n, n / 4);
    /* A square would take an hour. */
    assert_true((double)(clock() - start) / CLOCKS_PER_SEC < 60.0);
    free(text);
    dsf_tokens_fini(&out);
    dsf_bpe_free(bpe);
}

static void a_vocabulary_that_contradicts_itself_is_refused(void **state)
{
    struct dsf_bpe *bpe = dsf_bpe_new();
    struct dsflow_err err;

    assert_int_equal(dsf_bpe_token(bpe, "a", 1, 5, &err), 0);
    assert_int_equal(dsf_bpe_token(bpe, "b", 1, 5, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "token \"b\": id 5 is also that of another");
    assert_int_equal(dsf_bpe_token(bpe, "a", 1, 6, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "token \"a\" is there twice");
    assert_int_equal(dsf_bpe_token(bpe, "c", 1, -1, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "token \"c\": id -1; expected 0 to 4194303");
    assert_int_equal(dsf_bpe_merge(bpe, "a", 1, "z", 1, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "merge 1: \"z\" is not in the vocabulary");
    assert_int_equal(dsf_bpe_merge(bpe, "a", 1, "a", 1, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "merge 1: \"aa\" is not in the vocabulary");
    assert_int_equal(dsf_bpe_finish(bpe, false, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "the vocabulary has no token for byte 0x00; "
                                 "expected all 256");
    dsf_bpe_free(bpe);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_lowest_rank_is_merged_first),
        cmocka_unit_test(a_whole_token_wins_where_merges_are_ignored),
        cmocka_unit_test(words_of_all_lengths_give_what_the_rule_says),
        cmocka_unit_test(a_word_of_a_megabyte_takes_no_square_of_time),
        cmocka_unit_test(a_vocabulary_that_contradicts_itself_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
