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

/* The same layers one by one, "0 1 2"; "": it is no list of at most 8. */
static const char *read_in_order(const char *text)
{
    static char names[100];
    int32_t layers[8], n = dsf_layer_list_in_order(text, LAYERS, layers, 8);
    size_t at = 0;

    names[0] = '\0';
    for (int32_t i = 0; i < n; i++)
        at += (size_t)snprintf(names + at, sizeof(names) - at, "%s%d",
                               i > 0 ? " " : "", (int)layers[i]);
    return names;
}

static void
layers_are_read_in_order_and_as_often_as_they_are_named(void **state)
{
    static const char *const wrong[] = { "",   "all", "12",      "0-8",  "1,",
                                         ",1", "3-2", "0-3,0-4", "0-7,0" };

    assert_string_equal(read_in_order("0"), "0");
    assert_string_equal(read_in_order("0-2,8"), "0 1 2 8");
    assert_string_equal(read_in_order("0-3,2-5"), "0 1 2 3 2 3 4 5");
    assert_string_equal(read_in_order("11,0-0,11"), "11 0 11");
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
        assert_string_equal(read_in_order(wrong[i]), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_and_ranges_are_read),
        cmocka_unit_test(what_is_no_list_is_refused),
        cmocka_unit_test(
            layers_are_read_in_order_and_as_often_as_they_are_named),
        cmocka_unit_test(a_list_is_written_as_it_is_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
