/* test_layer_list.c - layers as keys name them, read and written. */
#include "config/layer_list.h"

#include "lib/test.h"

#include <stdlib.h>
#include <string.h>

enum { LAYERS = 12 };

/* The layers of a list as digits, "110000000000"; "": it is none. */
static const char *read_list(const char *text)
{
    static char digits[LAYERS + 1];
    bool on[LAYERS];

    digits[0] = '\0';
    if (!dsf_layer_list_read(text, LAYERS, on))
        return digits;
    for (int l = 0; l < LAYERS; l++)
        digits[l] = on[l] ? '1' : '0';
    digits[LAYERS] = '\0';
    return digits;
}

static void numbers_and_ranges_are_read(void **state)
{
    assert_string_equal(read_list("all"), "111111111111");
    assert_string_equal(read_list("0"), "100000000000");
    assert_string_equal(read_list("0-2,8"), "111000001000");
    assert_string_equal(read_list("11,0-0,10"), "100000000011");
    assert_string_equal(read_list("0-11"), "111111111111");
}

static void what_is_no_list_is_refused(void **state)
{
    static const char *const wrong[] = {
        "",    "none",  "12",    "0-12",
        "3-2", "-1",    "1-",    "1,",
        ",1",  "1,,2",  "1 ",    " 1",
        "0x1", "1-2-3", "all,1", "99999999999999999999",
    };

    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
        assert_string_equal(read_list(wrong[i]), "");
}

/* What is written is read as what it was, and is as short as it can be. */
static void a_list_is_written_as_it_is_read(void **state)
{
    static const char *const lists[] = { "all",  "0",          "11",
                                         "0-10", "1-3,5,7-11", "0,2,4" };

    for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++) {
        bool on[LAYERS];
        char *text;

        assert_true(dsf_layer_list_read(lists[i], LAYERS, on));
        text = dsf_layer_list_text(on, LAYERS);
        assert_string_equal(text, lists[i]);
        free(text);
    }
    assert_string_equal(read_list("1-3,5"), "011101000000");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_and_ranges_are_read),
        cmocka_unit_test(what_is_no_list_is_refused),
        cmocka_unit_test(a_list_is_written_as_it_is_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
