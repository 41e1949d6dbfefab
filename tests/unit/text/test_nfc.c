/* test_nfc.c - normal form C as Hugging Face's tokenizers has it; the expected
 * texts are those of tokenizers 0.23. */
#include "text/nfc.h"

#include "base/alloc.h"

#include "lib/test.h"

#include <stdlib.h>
#include <string.h>

static void check_bytes(const char *text, size_t n, const char *want,
                        size_t nwant)
{
    size_t bytes = 0;
    char *got = dsf_nfc(text, n, &bytes);

    if (got == NULL) {
        assert_int_equal(n, nwant);
        assert_memory_equal(text, want, n);
        return;
    }
    if (bytes != nwant || memcmp(got, want, nwant) != 0)
        fail_msg("\"%s\" gives \"%.*s\": expected \"%s\"", text, (int)bytes,
                 got, want);
    free(got);
}

static void check_text(const char *text, const char *want)
{
    check_bytes(text, strlen(text), want, strlen(want));
}

static void text_without_accents_of_its_own_is_not_copied(void **state)
{
    size_t n;

    assert_null(dsf_nfc("", 0, &n));
    assert_null(dsf_nfc("plain text\0\n", 12, &n));
    assert_null(dsf_nfc("caf\u00e9 \u02af", 9, &n));
}

static void accents_become_part_of_their_letters(void **state)
{
    check_text("e\u0301", "\u00e9");
    check_text("e\u0301te\u0301 e", "\u00e9t\u00e9 e");
    check_text("\u00e9\u0301", "\u00e9\u0301");
    check_text("q\u0301e\u0301", "q\u0301\u00e9");
    check_text("\u0301e", "\u0301e");
    check_text("\u0438\u0306 \u0435\u0308", "\u0439 \u0451");
    check_text("\u304b\u3099\u304b", "\u304c\u304b");
    check_text("\u212b\u2126", "\u00c5\u03a9");
}

static void accents_are_put_in_order(void **state)
{
    check_text("a\u0301\u0323", "\u1ea1\u0301");
    check_text("a\u0323\u0301", "\u1ea1\u0301");
    check_text("\u1ea1\u0302", "\u1ead");
    check_text("\u1ea1\u0306", "\u1eb7");
    /* Two of a class stay as they were, and the first hides the second. */
    check_text("a\u0307\u0301", "\u0227\u0301");
    check_text("a\u0315\u0300\u05ae\u0300b", "\u00e0\u05ae\u0300\u0315b");
}

static void what_is_never_composed_is_taken_apart(void **state)
{
    check_text("\u0344", "\u0308\u0301");
    check_text("\u0958", "\u0915\u093c");
    check_text("\u0915\u093c", "\u0915\u093c");
    check_text("\u2adc", "\u2add\u0338");
    check_text("\ufb1d", "\u05d9\u05b4");
    check_text("\U0001d15e", "\U0001d157\U0001d165");
    /* That is for forms of compatibility, which are other characters. */
    check_text("\ufb01\u2460\u00b2", "\ufb01\u2460\u00b2");
}

static void hangul_is_composed(void **state)
{
    check_text("\u1112\u1161\u11ab", "\ud55c");
    check_text("\ud558\u11ab", "\ud55c");
    check_text("\ud55c\u11ab", "\ud55c\u11ab");
    check_text("\u1100\u1161\u1100", "\uac00\u1100");
    check_text("\u1100\u1176", "\u1100\u1176");
    /* A vowel of old: one before the finals, and utf8proc 2.8 lost it. */
    check_text("\uac00\u11a7", "\uac00\u11a7");
    check_text("\uac00\u11a7\u11a8", "\uac00\u11a7\u11a8");
}

/* Marks of Unicode 10 and later are no marks to tokenizers. */
static void what_is_newer_than_tokenizers_stays(void **state)
{
    check_text("a\u0898\u0301", "a\u0898\u0301");
    check_text("a\u0301\u1df6\u0323", "\u00e1\u1df6\u0323");
    check_text("a\u1ac5\u0300", "a\u1ac5\u0300");
    check_text("a\u1ab5\u0300", "\u00e0\u1ab5");
    check_text("\U00011935\U00011930", "\U00011935\U00011930");
    check_text("\U000105d2\u0307", "\U000105d2\u0307");
    check_text("\U00011131\U00011127", "\U0001112e");
}

static void what_is_no_utf8_stays(void **state)
{
    check_text("e\u0301\xff\u0301", "\u00e9\xff\u0301");
    check_text("e\xcc", "e\xcc");
    check_text("\xcc\u0301", "\xcc\u0301");
    check_text("e\xcc\xcc\x81", "e\xcc\u0301");
    check_text("\xed\xa0\x80"
               "e\u0301",
               "\xed\xa0\x80\u00e9");
    check_bytes("e\u0301\0e\u0301", 7, "\u00e9\0\u00e9", 5);
}

/* In a time that grows like the text, or this one does not end. */
static void a_million_marks_are_put_in_order(void **state)
{
    enum { MARKS = 500000 };
    char *text = dsf_xcalloc(4 * MARKS + 1, 1);
    char *want = dsf_xcalloc(4 * MARKS + 1, 1);

    for (int i = 0; i < MARKS; i++) {
        memcpy(text + 4 * i, "\u0301\u0323", 4);
        memcpy(want + 2 * i, "\u0323", 2);
        memcpy(want + 2 * MARKS + 2 * i, "\u0301", 2);
    }
    check_bytes(text, 4 * MARKS, want, 4 * MARKS);
    free(text);
    free(want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_without_accents_of_its_own_is_not_copied),
        cmocka_unit_test(accents_become_part_of_their_letters),
        cmocka_unit_test(accents_are_put_in_order),
        cmocka_unit_test(what_is_never_composed_is_taken_apart),
        cmocka_unit_test(hangul_is_composed),
        cmocka_unit_test(what_is_newer_than_tokenizers_stays),
        cmocka_unit_test(what_is_no_utf8_stays),
        cmocka_unit_test(a_million_marks_are_put_in_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
