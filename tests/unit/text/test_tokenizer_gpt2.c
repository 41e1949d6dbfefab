/* test_tokenizer_gpt2.c - GPT-2's tokenizer gives the ids that it is known
 * for. Its files are 1.5 MB and not here: the test looks for them. */
#include "text/tokenizer.h"

#include "unit/text/encoded.h"

#include <stdio.h>
#include <sys/stat.h>

static int load(void **state)
{
    const char *dir = getenv("DSFLOW_GPT2_VOCAB"), *src = getenv("srcdir");
    struct dsf_tokenizer *tok;
    struct dsflow_err err;
    struct stat st;
    char path[4096];

    if (dir == NULL) {
        snprintf(path, sizeof(path), "%s/../shared/data/gpt2",
                 src != NULL ? src : ".");
        dir = path;
    }
    if (stat(dir, &st) < 0)
        exit(77);
    if (dsf_tokenizer_open(dir, &tok, &err) < 0)
        fail_msg("%s", err.msg);
    *state = tok;
    return 0;
}

static int unload(void **state)
{
    dsf_tokenizer_free(*state);
    return 0;
}

static void its_size_and_its_end_of_text_are_known(void **state)
{
    struct dsf_tokenizer *tok = *state;

    assert_int_equal(dsf_tokenizer_vocab(tok), 50257);
    assert_int_equal(dsf_tokenizer_eot(tok), 50256);
    assert_non_null(dsf_tokenizer_files(tok)[0]);
    assert_non_null(dsf_tokenizer_files(tok)[1]);
    assert_null(dsf_tokenizer_files(tok)[2]);
}

/* Expected: tokenizers 0.23 with the same files. */
static void texts_give_the_known_ids(void **state)
{
    GIVES(*state, "Hello, world! It's 2024.", 15496, 11, 995, 0, 632, 338,
          48609, 13);
    GIVES(*state,
          "h\xc3\xa9llo \xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e "
          "\xf0\x9f\x98\x80",
          71, 2634, 18798, 10545, 245, 98, 17312, 105, 45739, 252, 30325, 222);
    GIVES(*state, "  two  spaces\n\n\ttab ", 220, 734, 220, 9029, 628, 197,
          8658, 220);
    GIVES(*state, "I'll we've DON'T", 40, 1183, 356, 1053, 23917, 6, 51);
    GIVES(*state, "x<|endoftext|>y", 87, 50256, 88);
    GIVES(*state,
          "\xe1\xa0\x8e a\xe2\x80\x83"
          "b",
          157, 254, 236, 257, 447, 225, 65);
}

static void any_bytes_come_back(void **state)
{
    check_any_bytes(*state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(its_size_and_its_end_of_text_are_known),
        cmocka_unit_test(texts_give_the_known_ids),
        cmocka_unit_test(any_bytes_come_back),
    };

    return cmocka_run_group_tests(tests, load, unload);
}
