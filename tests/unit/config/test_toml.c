/* test_toml.c - texts that are not TOML: a line and a reason for each. */
#include "config/toml_read.h"

#include "lib/test.h"

#include <string.h>

static struct dsf_toml toml;
static struct dsflow_err err;

static int parse(const char *text, size_t n)
{
    memset(&toml, 0, sizeof(toml));
    err.msg[0] = '\0';
    return dsf_toml_parse(text, n, "t", &toml, &err);
}

#define OUTSIDE                                                                \
    ": expected within quotes: without, there are only letters from A to Z, "  \
    "digits, _ and -"

static void what_is_not_toml_has_a_line_and_a_reason(void **state)
{
#define CASE(text, message)                                                    \
    {                                                                          \
        text, sizeof(text) - 1, message                                        \
    }
    static const struct {
        const char *text;
        size_t n;
        const char *message;
    } cases[] = {
        CASE("\xc3\xb6 = 1\n", "t:1: \xc3\xb6" OUTSIDE),
        CASE("[job]\n\xc3\xb6 = 1", "t:2: \xc3\xb6" OUTSIDE),
        CASE("[\xc3\xb6]\n", "t:1: \xc3\xb6" OUTSIDE),
        CASE("[job]\nx = \xc3\xb6\n", "t:2: \xc3\xb6" OUTSIDE),
        CASE("a.\xe2\x82\xac = 1", "t:1: \xe2\x82\xac" OUTSIDE),
        CASE("\xc2\xa0x = 1", "t:1: \xc2\xa0" OUTSIDE),
        CASE("x = 1\n\xe2\x80\x9cy\xe2\x80\x9d = 2",
             "t:2: \xe2\x80\x9c" OUTSIDE),
        CASE("[$x]\n", "t:1: $" OUTSIDE),
        CASE("[a]\n\n[b$]", "t:3: $" OUTSIDE),
        CASE("x = 1; y = 2", "t:1: ;" OUTSIDE),
        CASE("[a]\n[.a]\n", "t:2: this line is not TOML"),
        CASE("[a]\nx = \"b\n", "t:2: a string without its end: expected \""),
        CASE("[a]\nx = 'b\ny = 1", "t:2: a string without its end: expected '"),
        CASE("x = \"b\\\"", "t:1: a string without its end: expected \""),
        CASE("[a]\nx = \"\"\"b\n\nc\"\"\n",
             "t:2: a string without its end: expected \"\"\""),
        CASE("x = '''b\n", "t:1: a string without its end: expected '''"),
        CASE("[a]\nx.b.c.d.e.f.g.h.i = 1",
             "t:2: a key of more than 8 parts: expected such as table.key"),
        CASE("a\0b = 1\n", "t:1: a byte 0: expected text"),
        CASE("x = 1\n\nname = \"\xff\"\n",
             "t:3: a byte 0xff: expected text in UTF-8"),
        CASE("# \x80\n", "t:1: a byte 0x80: expected text in UTF-8"),
        CASE("\xff\xfex\0", "t:1: a byte 0xff: expected text in UTF-8, not in "
                            "UTF-16"),
        CASE("\x7f"
             "ELF\x02",
             "t:1: a byte 0x7f: expected text"),
        CASE("[a]\nx = ten\n",
             "t:2: Error while parsing boolean: expected 'true', saw 'te' (a "
             "string stands in quotes)"),
        CASE("[a]\nx = gpt2\n",
             "t:2: Error while parsing value: could not determine value type "
             "(a string stands in quotes)"),
        CASE("[a]\nx = 1GiB\n",
             "t:2: Error while parsing decimal integer: expected digit, saw "
             "'G' (a string stands in quotes)"),
        CASE("[a]\nx = 1.5h\n",
             "t:2: Error while parsing floating-point: expected decimal digit, "
             "saw 'h' (a string stands in quotes)"),
        CASE("\"\" = 1\n[a]\n\"\" = 1", ""),
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        int status = parse(cases[i].text, cases[i].n);

        assert_string_equal(err.msg, cases[i].message);
        assert_int_equal(status, cases[i].message[0] == '\0' ? DSFLOW_OK
                                                             : DSFLOW_EINVAL);
        dsf_toml_fini(&toml);
    }
}

static void what_toml_finds_has_a_line_too(void **state)
{
    static const char *const texts[] = {
        "x = 1\n[]",
        "x = 1\n=",
        "x = 1\ny",
        "x = 1\ny = ",
        "x = 1\nx = 2",
        "x = 1\n[a",
        "x = 1\n[a]]",
        "x = 1\n[a] b=1",
        "x = 1\ny = 0x",
        "x = 1\ny = 1_",
        "x = 1\ny = {",
        "x = 1\ny = [1,",
        "x = 1\nx.y = 2",
        "x = 1\n[x]",
        "x = 1\n[a.]",
        "x = 1\na. = 1",
        "x = 1\n.a = 1",
        "x = 1\ny = \"\\q\"",
        "x = 1\ry = 1",
        "x = 1\n{\"job\": 1}",
        "x = 1\ny = 99999999999999999999",
        "x = 1\ny = 2024-13-01",
        "x = 1\ny = \"\\ud800\"",
        "x = 1\ny = \"\x01\"",
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        assert_int_equal(parse(texts[i], strlen(texts[i])), DSFLOW_EINVAL);
        if (strncmp(err.msg, "t:2: ", 5) != 0 &&
            strncmp(err.msg, "t:1: ", 5) != 0)
            fail_msg("%s: %s", texts[i], err.msg);
        assert_true(strlen(err.msg) > 15);
        dsf_toml_fini(&toml);
    }
}

static void what_is_toml_passes(void **state)
{
    static const char text[] =
        "\xef\xbb\xbf# \xc3\xb6 $ \"\r\n"
        "'\xc3\xb6' = \"\xc3\xb6 \\\" # \"\r\n"
        "[\"a b\"]\n"
        "x = \"\"\"\"two\"\" \\\" $ \n \xe2\x82\xac\"\"\"\"\" # \"\n"
        "y = ''''$\\'''''\n"
        "z = { a = [1, 2.5e+1, 1979-05-27T07:32:00Z], \"\\u00e9\" = '' }\n";

    if (parse(text, sizeof(text) - 1) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(toml.n, 5);
    dsf_toml_fini(&toml);
}

/* As many tables in each other as there can be: a dotted key in each of the
 * values that toml++ lets be in each other. */
static void tables_in_tables_are_read(void **state)
{
    enum { VALUES = 250 };
    static const char key[] = "a.'.'.c.d.e.f.g.h = ";
    static const char floats[] = "x = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, "
                                 "0.9, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7]";
    char text[VALUES * (sizeof(key) + 3)], *at = text;

    for (int i = 0; i < VALUES; i++)
        at += sprintf(at, "%s%s", i > 0 ? "{ " : "", key);
    *at++ = '1';
    for (int i = 1; i < VALUES; i++)
        *at++ = '}';
    assert_int_equal(parse(text, (size_t)(at - text)), DSFLOW_OK);
    assert_int_equal(toml.n, 1);
    dsf_toml_fini(&toml);
    assert_int_equal(parse(floats, sizeof(floats) - 1), DSFLOW_OK);
    dsf_toml_fini(&toml);
}

static void a_nan_has_no_sign(void **state)
{
    assert_int_equal(parse("x = -nan", 8), DSFLOW_OK);
    assert_string_equal(toml.v[0].value.text, "nan");
    dsf_toml_fini(&toml);
}

static void a_table_that_repeats_is_counted(void **state)
{
    static const char text[] = "[[a]]\nx = 1\n[[a.b]]\n[[a]]\n[a.c]\ny = 2\n"
                               "[d]\ne = [{ f = 3 }, {}]\n";
    static const struct {
        const char *table, *key;
        int line;
    } all[] = {
        { "a[0]", "", 1 },    { "a[0].b[0]", "", 3 }, { "a[0]", "x", 2 },
        { "a[1]", "", 4 },    { "a[1].c", "y", 6 },   { "d.e[0]", "", 8 },
        { "d.e[0]", "f", 8 }, { "d.e[1]", "", 8 },
    };

    if (parse(text, sizeof(text) - 1) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(toml.n, sizeof(all) / sizeof(*all));
    for (size_t i = 0; i < toml.n; i++) {
        assert_string_equal(toml.v[i].table, all[i].table);
        assert_string_equal(toml.v[i].key, all[i].key);
        assert_int_equal(toml.v[i].line, all[i].line);
        assert_int_equal(toml.v[i].value.type == DSF_TOML_TABLE,
                         all[i].key[0] == '\0');
    }
    dsf_toml_fini(&toml);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_toml_has_a_line_and_a_reason),
        cmocka_unit_test(what_toml_finds_has_a_line_too),
        cmocka_unit_test(what_is_toml_passes),
        cmocka_unit_test(tables_in_tables_are_read),
        cmocka_unit_test(a_nan_has_no_sign),
        cmocka_unit_test(a_table_that_repeats_is_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
