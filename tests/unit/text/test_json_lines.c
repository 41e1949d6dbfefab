/* test_json_lines.c - the texts in files of JSON Lines. */
#include "text/json_lines.h"

#include "lib/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The texts of `file`, each between < and >. */
static void read_all(const char *file, const char *field, char *all,
                     size_t size)
{
    struct dsf_json_lines l = { file, 0, strlen(file), field };
    struct dsf_json_texts texts = { .n = 0 };
    struct dsflow_err err;

    all[0] = '\0';
    do {
        if (dsf_json_lines_read(&l, &texts, &err) < 0)
            fail_msg("%s: %s", file, err.msg);
        for (size_t i = 0; i < texts.n; i++) {
            const struct dsf_json_text *t = &texts.v[i];

            if (t->text != NULL) {
                assert_int_equal(t->n, strlen(t->text));
                snprintf(all + strlen(all), size - strlen(all), "<%s>",
                         t->text);
            }
            free(t->text);
        }
    } while (texts.n > 0);
    assert_int_equal(l.at, l.end);
    free(texts.v);
}

static void each_line_has_a_text(void **state)
{
    static const struct {
        const char *file, *field, *texts;
    } table[] = {
        { "{\"text\": \"one\"}\n{\"text\": \"two\"}\n", "text", "<one><two>" },
        { "{\"id\": 1, \"text\": \"one\", \"more\": {\"text\": \"in\"}}",
          "text", "<one>" },
        { "{\"text\": \"a\\nb \\\"c\\\" \\u00e9 \\ud83d\\ude00\"}\r\n", "text",
          "<a\nb \"c\" \xc3\xa9 \xf0\x9f\x98\x80>" },
        { "\n  \r\n{\"a b\": \"x\"}\n\t\n\n{\"a b\": \"y\"}", "a b", "<x><y>" },
        { "{\"text\": \"\"}\n{\"text\": \"after none\"}\n", "text",
          "<after none>" },
        { "{\"id\": 18446744073709551616, \"text\": \"a large id\"}", "text",
          "<a large id>" },
        { "{\"text\": \"first\", \"text\": \"last\"}", "text", "<last>" },
        { "", "text", "" },
        { "\n\n", "text", "" },
    };
    char all[200];

    for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
        read_all(table[i].file, table[i].field, all, sizeof(all));
        assert_string_equal(all, table[i].texts);
    }
}

/* Also where only some of the lines are asked for. */
static void what_is_no_text_is_named_by_its_line(void **state)
{
    static const struct {
        const char *line, *why;
    } table[] = {
        { "[\"text\"]",
          "line 3: is no object: expected an object with a string "
          "\"text\"" },
        { "\"text\"", "line 3: is no object: expected an object with a string "
                      "\"text\"" },
        { "{\"Text\": \"one\"}", "line 3: expected an object with a string "
                                 "\"text\": it has \"Text\"" },
        { "{}", "line 3: expected an object with a string \"text\": it has "
                "nothing" },
        { "{\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"f\":1,\"g\":1}",
          "line 3: expected an object with a string \"text\": it has \"a\", "
          "\"b\", \"c\", \"d\", \"e\", \"f\", ..." },
        { "{\"text\": 5}", "line 3: has no string there: expected an object "
                           "with a string \"text\"" },
        { "{\"text\": null}", "line 3: has no string there: expected an object "
                              "with a string \"text\"" },
        { "{\"text\": \"a\\u0000b\"}",
          "line 3: is no text: a NUL in \"text\"" },
        { "{\"text\": \"one\"", "line 3: is no JSON: '}' expected near end of "
                                "file" },
        { "{\"text\": \"one\"} {}", "line 3: is no JSON: end of file expected "
                                    "near '{'" },
        { "no JSON", "line 3: is no JSON: invalid token near 'no'" },
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
        struct dsf_json_lines l = { .at = 16, .field = "text" };
        struct dsf_json_texts texts = { .n = 0 };
        struct dsflow_err err;
        char *file = NULL;

        assert_true(asprintf(&file,
                             "{\"text\": \"one\"}\n\n%s\n{\"text\": 0}\n",
                             table[i].line) > 0);
        l.file = file;
        l.end = strlen(file);
        assert_int_equal(dsf_json_lines_read(&l, &texts, &err), DSFLOW_EINVAL);
        assert_int_equal(texts.n, 0);
        assert_string_equal(err.msg, table[i].why);
        free(texts.v);
        free(file);
    }
}

/* More than are read at once, and one that is longer than that. */
static void many_lines_keep_their_order(void **state)
{
    enum { LINES = 200000, LONG = 9000000 };
    size_t cap = (size_t)LINES * 40 + LONG + 40, n = 0, at = 0;
    char *file = malloc(cap);
    struct dsf_json_texts texts = { .n = 0 };
    struct dsf_json_lines l = { file, 0, 0, "t" };
    struct dsflow_err err;

    assert_non_null(file);
    for (size_t i = 0; i < LINES; i++) {
        n += (size_t)snprintf(file + n, cap - n, "{\"t\": \"%zu\"}\n", i);
        if (i == LINES / 2) {
            n += (size_t)snprintf(file + n, cap - n, "{\"t\": \"");
            memset(file + n, 'x', LONG);
            n += LONG;
            n += (size_t)snprintf(file + n, cap - n, "\"}\n");
        }
    }
    l.end = n;
    do {
        assert_int_equal(dsf_json_lines_read(&l, &texts, &err), DSFLOW_OK);
        for (size_t i = 0; i < texts.n; i++) {
            if (texts.v[i].n == LONG)
                assert_int_equal(at, LINES / 2 + 1);
            else
                assert_int_equal(strtoul(texts.v[i].text, NULL, 10), at++);
            free(texts.v[i].text);
        }
    } while (texts.n > 0);
    assert_int_equal(at, LINES);
    free(texts.v);
    free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_line_has_a_text),
        cmocka_unit_test(what_is_no_text_is_named_by_its_line),
        cmocka_unit_test(many_lines_keep_their_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
