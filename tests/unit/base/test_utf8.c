/* test_utf8.c - which bytes are UTF-8. */
#include "base/utf8.h"

#include "lib/test.h"

#include <string.h>

static unsigned put(char *to, uint32_t code)
{
    unsigned n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = { 0, 0, 0xc0, 0xe0, 0xf0 };

    for (unsigned i = n - 1; i > 0; i--, code >>= 6)
        to[i] = (char)(0x80 | (code & 0x3f));
    to[0] = (char)(lead[n] | code);
    return n;
}

static void every_character_is_read_back(void **state)
{
    char text[4];

    for (uint32_t code = 0; code < 0x110000; code++) {
        unsigned n = put(text, code);

        if (code >= 0xd800 && code < 0xe000) {
            assert_int_equal(dsf_utf8_char(text, n), 0);
            continue;
        }
        assert_int_equal(dsf_utf8_char(text, n), n);
        assert_int_equal(dsf_utf8_code(text, n), code);
        if (n > 1)
            assert_int_equal(dsf_utf8_char(text, n - 1), 0);
    }
}

static void what_is_overlong_or_too_far_is_no_character(void **state)
{
    static const char *const bad[] = { "\x80",
                                       "\xbf",
                                       "\xc0\x80",
                                       "\xc1\xbf",
                                       "\xe0\x9f\xbf",
                                       "\xed\xa0\x80",
                                       "\xf0\x8f\xbf\xbf",
                                       "\xf4\x90\x80\x80",
                                       "\xf5\x80\x80\x80",
                                       "\xff",
                                       "\xc3(",
                                       "\xe6\x97(" };

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        assert_int_equal(dsf_utf8_char(bad[i], strlen(bad[i])), 0);
}

static void runs_end_where_the_kind_changes(void **state)
{
    static const char text[] = "0123456789 h\xc3\xa9\xff\x80\xc3z";
    size_t n = sizeof(text) - 1;

    assert_int_equal(dsf_utf8_valid(text, n), 14);
    assert_int_equal(dsf_utf8_invalid(text + 14, n - 14), 3);
    assert_int_equal(dsf_utf8_valid(text + 17, n - 17), 1);
    assert_int_equal(dsf_utf8_valid("", 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_character_is_read_back),
        cmocka_unit_test(what_is_overlong_or_too_far_is_no_character),
        cmocka_unit_test(runs_end_where_the_kind_changes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
