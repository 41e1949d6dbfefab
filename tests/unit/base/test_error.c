/* test_error.c - messages that a terminal can be trusted with. */
#include <dsflow/error.h>

#include "base/utf8.h"
#include "lib/test.h"

#include <string.h>

static void cleaned(const char *from, const char *to)
{
    char text[64];

    snprintf(text, sizeof(text), "%s", from);
    dsf_utf8_clean(text);
    assert_string_equal(text, to);
}

static void what_is_no_character_becomes_a_question_mark(void **state)
{
    cleaned("", "");
    cleaned("gr\xc3\xb6\xc3\x9f"
            "e \xe2\x82\xac \xf0\x9f\x99\x82",
            "gr\xc3\xb6\xc3\x9f"
            "e \xe2\x82\xac \xf0\x9f\x99\x82");
    cleaned("\033[31m\n\t\x7f", "?[31m???");
    cleaned("\xc2\x9b"
            "31m",
            "?31m"); /* CSI in eight bits */
    cleaned("gr\xc3: x", "gr?: x");
    cleaned("\xe2\x82: x\xf0\x9f\x99", "?: x?");
    cleaned("\xff\xfe", "??");
}

static void the_ends_of_lines_stay_where_there_are_several(void **state)
{
    char text[] = "a\n\tb\xff\n";

    dsf_utf8_clean_lines(text);
    assert_string_equal(text, "a\n?b?\n");
}

static void a_name_that_was_cut_leaves_no_half_character(void **state)
{
    struct dsflow_err err;
    char name[700] = "";

    for (int i = 0; i < 300; i++)
        strcat(name, "\xc3\xb6");
    dsflow_fail(&err, DSFLOW_EINVAL, "a%.60s: unknown", name);
    assert_int_equal(dsf_utf8_valid(err.msg, strlen(err.msg)), strlen(err.msg));
    dsflow_fail(&err, DSFLOW_EINVAL, "%.61s: unknown", name);
    assert_int_equal(dsf_utf8_valid(err.msg, strlen(err.msg)), strlen(err.msg));
    for (int from = 0; from < 2; from++) {
        dsflow_fail(&err, DSFLOW_EINVAL, "%s%s", &"a"[from], name);
        assert_int_equal(dsf_utf8_valid(err.msg, strlen(err.msg)),
                         strlen(err.msg));
        assert_string_equal(err.msg + strlen(err.msg) - 3, "...");
        assert_null(strchr(err.msg, '?'));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_character_becomes_a_question_mark),
        cmocka_unit_test(the_ends_of_lines_stay_where_there_are_several),
        cmocka_unit_test(a_name_that_was_cut_leaves_no_half_character),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
