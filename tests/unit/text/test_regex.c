/* test_regex.c - expressions written for Oniguruma, cut by PCRE2. */
#include "text/regex.h"

#include "text/split.h"

#include "lib/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char joined[256];

static void join(void *user, const char *word, size_t n)
{
    strncat(joined, word, n);
    strcat(joined, "|");
}

static void join_words(struct dsf_split *split, const char *text)
{
    size_t n = strlen(text);
    struct dsf_split_part all = { .text = text, .n = n, .limit = n };
    struct dsf_splitter *splitter = dsf_splitter_new(split);
    struct dsflow_err err;

    joined[0] = '\0';
    assert_int_equal(dsf_split_text(splitter, &all, join, NULL, &err),
                     DSFLOW_OK);
    assert_int_equal(all.end, n);
    dsf_splitter_free(splitter);
}

/* The words of `text`, with a bar behind each. */
static const char *cut(const char *regex, const char *text)
{
    struct dsf_split *split = dsf_split_new();
    struct dsflow_err err = { 0 };

    if (dsf_split_add_regex(split, regex, &err) < 0)
        fail_msg("%s", err.msg);
    join_words(split, text);
    dsf_split_free(split);
    return joined;
}

static void what_matches_and_what_lies_between_are_words(void **state)
{
    assert_string_equal(cut("[0-9]+", "ab12cd3"), "ab|12|cd|3|");
    assert_string_equal(cut(dsf_gpt2_regex, "It's  12 o'clock!\n"),
                        "It|'s| | 12| o|'|clock|!|\n|");
}

static void a_match_of_nothing_is_a_cut(void **state)
{
    assert_string_equal(cut("(?=b)", "abab"), "a|ba|b|");
    assert_string_equal(cut("x*", "\xc3\xa9xx"), "\xc3\xa9|xx|");
}

/* Expected: Oniguruma 6.9, as in tokenizers 0.23. */
static void white_space_is_unicodes(void **state)
{
    /* U+180E is none; U+0085 and U+2003 are. */
    assert_string_equal(cut("\\s+", "a\xe1\xa0\x8e"
                                    "b"),
                        "a\xe1\xa0\x8e"
                        "b|");
    assert_string_equal(cut("[\\s]+", "a\xe1\xa0\x8e"
                                      "b"),
                        "a\xe1\xa0\x8e"
                        "b|");
    assert_string_equal(cut("\\S+", "\xe1\xa0\x8e \xe1\xa0\x8e"),
                        "\xe1\xa0\x8e| |\xe1\xa0\x8e|");
    assert_string_equal(cut("[\\S]+", "\xe1\xa0\x8e \xe1\xa0\x8e"),
                        "\xe1\xa0\x8e| |\xe1\xa0\x8e|");
    assert_string_equal(cut("\\s+", "a\xc2\x85\xe2\x80\x83"
                                    "b"),
                        "a|\xc2\x85\xe2\x80\x83|b|");
}

/* U+31350 came with Unicode 15, U+10D40 with 16. */
static void young_letters_and_digits_are_known(void **state)
{
    assert_string_equal(cut("\\p{L}+", "-\xf0\xb1\x8d\x90-"),
                        "-|\xf0\xb1\x8d\x90|-|");
    assert_string_equal(cut("[^\\p{L}]+", "-\xf0\xb1\x8d\x90-"),
                        "-|\xf0\xb1\x8d\x90|-|");
    assert_string_equal(cut("\\p{Nd}+", "-\xf0\x90\xb5\x80-"),
                        "-|\xf0\x90\xb5\x80|-|");
    assert_string_equal(cut("\\P{L}+", "-\xf0\xb1\x8d\x90-"),
                        "-|\xf0\xb1\x8d\x90|-|");
    assert_string_equal(cut("\\p{l}+", "-\xf0\xb1\x8d\x90-"),
                        "-|\xf0\xb1\x8d\x90|-|");
    assert_string_equal(cut("\\d+", "1\xf0\x90\xb5\x80-"),
                        "1\xf0\x90\xb5\x80|-|");
    assert_string_equal(cut("[a\\d]+", "1\xf0\x90\xb5\x80-"),
                        "1\xf0\x90\xb5\x80|-|");
    assert_string_equal(cut("\\D+", "\xf0\x90\xb5\x80--"),
                        "\xf0\x90\xb5\x80|--|");
}

/* U+1CC00 is of all scripts, U+3001 of those that use Yi, too. */
static void young_characters_have_their_script(void **state)
{
    static const char *const names[] = { "Han", "han", "Hani", "H_an" };
    char regex[16];

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        snprintf(regex, sizeof(regex), "[\\p{%s}]+", names[i]);
        assert_string_equal(cut(regex, "\xe6\x97\xa5\xf0\xb1\x8d\x90-"),
                            "\xe6\x97\xa5\xf0\xb1\x8d\x90|-|");
    }
    assert_string_equal(cut("\\P{Common}+", "\xf0\x9c\xb0\x80xx"),
                        "\xf0\x9c\xb0\x80|xx|");
    assert_string_equal(cut("\\p{Yi}+", "\xea\x80\x80\xe3\x80\x81"),
                        "\xea\x80\x80|\xe3\x80\x81|");
}

/* "st" is U+FB06, too, to Oniguruma, and [^\p{Lu}] any letter. */
static void letters_of_either_case_are_those_of_ascii(void **state)
{
    static const char *const regexes[] = {
        "(?i:st)",  "(?i:x(?:S)T)", "(?i:'s|ff)",    "(?i:\xc3\x9f)",
        "(?i:s(s)", "(?i:\\x66f)",  "(?i:[\\p{L}])",
    };
    struct dsflow_err err;
    char *to;

    for (size_t i = 0; i < sizeof(regexes) / sizeof(*regexes); i++)
        assert_int_equal(dsf_regex_translate(regexes[i], &to, &err),
                         DSFLOW_EINVAL);
    assert_string_equal(cut("(?i:'s|'t|ll)st|ss|\xc3\x9f+", "'Sstss\xc3\x9f"),
                        "'Sst|ss|\xc3\x9f|");
}

static void what_means_something_else_to_pcre2_is_refused(void **state)
{
    static const char *const regexes[] = {
        "\\w+",   "\\bx",   "\\h",      "a{2}+",  "(?i)a",   "(?m:a)",
        "[a[b]]", "[a&&b]", "(*UCP)a",  "(?R)",   "(a)\\1",  "\\p",
        "\\p{",   "\\p{}",  "\\p{L",    "a{,3}",  "a{x",     "[]a]",
        "\\xff",  "\\x{",   "\\",       "\\K",    "(?<n>a)", "[\\w]",
        "a{2}?",  "[\\D]",  "[\\P{L}]", "\\p{C}", "\\p{cn}", "\\p{Lc}",
    };
    struct dsflow_err err;
    char *to;

    for (size_t i = 0; i < sizeof(regexes) / sizeof(*regexes); i++) {
        assert_int_equal(dsf_regex_translate(regexes[i], &to, &err),
                         DSFLOW_EINVAL);
        assert_null(to);
        assert_non_null(strstr(err.msg, "is not supported"));
    }
    assert_int_equal(dsf_regex_translate("a\\w", &to, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "regular expression \"a\\w\": \"\\w\" at "
                                 "offset 1 is not supported");
}

static void a_broken_expression_is_refused(void **state)
{
    static const char *const regexes[] = { "(a", "a)",           "[a",
                                           "*a", "\\p{Nothing}", "a{3,2}" };
    struct dsf_split *split = dsf_split_new();
    struct dsflow_err err;

    for (size_t i = 0; i < sizeof(regexes) / sizeof(*regexes); i++)
        assert_int_equal(dsf_split_add_regex(split, regexes[i], &err),
                         DSFLOW_EINVAL);
    dsf_split_free(split);
}

static void a_quoted_string_matches_itself(void **state)
{
    struct dsf_split *split = dsf_split_new();
    struct dsflow_err err;

    assert_int_equal(dsf_split_add_string(split, "a.b\\Q(", &err), DSFLOW_OK);
    join_words(split, "axb\\Q( a.b\\Q(c");
    assert_string_equal(joined, "axb\\Q( |a.b\\Q(|c|");
    dsf_split_free(split);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_matches_and_what_lies_between_are_words),
        cmocka_unit_test(a_match_of_nothing_is_a_cut),
        cmocka_unit_test(white_space_is_unicodes),
        cmocka_unit_test(young_letters_and_digits_are_known),
        cmocka_unit_test(young_characters_have_their_script),
        cmocka_unit_test(letters_of_either_case_are_those_of_ascii),
        cmocka_unit_test(what_means_something_else_to_pcre2_is_refused),
        cmocka_unit_test(a_broken_expression_is_refused),
        cmocka_unit_test(a_quoted_string_matches_itself),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
