/* test_tokenizer_json.c - tokenizer.json gives what its own library gives; what
 * is not supported is named. */
#include "text/tokenizer.h"

#include "unit/text/encoded.h"
#include "unit/text/tiny.h"

/* Expected: tokenizers 0.23 with the same file. */
static void texts_give_the_known_ids(void **state)
{
    struct dsf_tokenizer *tok;
    struct dsflow_err err;

    assert_int_equal(dsf_tokenizer_open(path_of_tiny(), &tok, &err), DSFLOW_OK);
    assert_int_equal(dsf_tokenizer_vocab(tok), 274);
    assert_int_equal(dsf_tokenizer_eot(tok), 271);
    assert_string_equal(dsf_tokenizer_files(tok)[0], path_of_tiny());
    assert_null(dsf_tokenizer_files(tok)[1]);
    GIVES(tok, "hello world", 259, 264);
    GIVES(tok, "Hello  world's 12345\n\n  x", 72, 101, 257, 111, 32, 264, 39,
          115, 32, 269, 51, 52, 53, 10, 10, 32, 32, 120);
    GIVES(tok, "aaaaaaa", 268, 267, 97);
    GIVES(tok, "<tool>x<tool> hello<|endoftext|>", 273, 272, 32, 259, 271);
    GIVES(tok, "wor or", 119, 261, 32, 261);
    GIVES(tok, "        a", 266, 265, 32, 32, 97);
    check_any_bytes(tok);
    dsf_tokenizer_free(tok);
}

#define TEMPLATE(single, id)                                                   \
    "{\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": "     \
    "[" single                                                                 \
    "], \"special_tokens\": {\"<s>\": {\"id\": \"<s>\", \"ids\": [" id "]}}}}"
#define BEGIN "{\"SpecialToken\": {\"id\": \"<s>\"}}"
#define TEXT  "{\"Sequence\": {\"id\": \"A\"}}"

static void a_template_says_what_begins_a_text(void **state)
{
    static const struct {
        const char *change;
        int32_t begin;
    } cases[] = {
        { "{}", -1 },
        { TEMPLATE(BEGIN ", " TEXT, "271"), 271 },
        { TEMPLATE(BEGIN ", " TEXT ", " BEGIN, "65"), 65 },
        { TEMPLATE(TEXT ", " BEGIN, "271"), -1 },
        { TEMPLATE(BEGIN ", " BEGIN ", " TEXT, "271"), -1 },
        { TEMPLATE(BEGIN ", " TEXT, "271, 272"), -1 },
        { TEMPLATE(BEGIN ", " TEXT, "5000"), -1 },
        { TEMPLATE(BEGIN ", " TEXT, "-7"), -1 },
        { TEMPLATE(BEGIN ", " TEXT, "\"271\""), -1 },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct dsf_tokenizer *tok;
        struct dsflow_err err;

        assert_int_equal(open_changed(cases[i].change, &tok, &err), DSFLOW_OK);
        assert_int_equal(dsf_tokenizer_begin(tok), cases[i].begin);
        GIVES(tok, "hello world", 259, 264);
        dsf_tokenizer_free(tok);
    }
}

static void special_tokens_are_text_where_they_are_not_wanted(void **state)
{
    struct dsf_tokens out = { 0 };
    struct dsf_tokenizer *tok;
    struct dsflow_err err;

    assert_int_equal(dsf_tokenizer_open(path_of_tiny(), &tok, &err), DSFLOW_OK);
    assert_int_equal(dsf_encode(tok, "<tool>", 6, 0, &out, &err), DSFLOW_OK);
    assert_int_equal(out.n, 6);
    assert_int_equal(out.v[0], '<');
    dsf_tokens_fini(&out);
    dsf_tokenizer_free(tok);
}

static void variants_of_the_same_file_are_read(void **state)
{
    struct dsf_tokenizer *tok;
    struct dsflow_err err;

    assert_int_equal(
        open_changed("{\"model\": {\"ignore_merges\": true}}", &tok, &err), 0);
    GIVES(tok, "wor or", 270, 32, 261);
    dsf_tokenizer_free(tok);
    assert_int_equal(
        open_changed("{\"model\": {\"merges\": [[\"h\", \"e\"]]}}", &tok, &err),
        0);
    GIVES(tok, "hell", 256, 'l', 'l');
    dsf_tokenizer_free(tok);
    assert_int_equal(open_changed("{\"pre_tokenizer\": {\"type\": "
                                  "\"ByteLevel\", \"add_prefix_space\": true}, "
                                  "\"post_processor\": null, \"added_tokens\": "
                                  "[]}",
                                  &tok, &err),
                     0);
    GIVES(tok, "world", 264);
    GIVES(tok, " world", 264);
    assert_int_equal(dsf_tokenizer_eot(tok), -1);
    dsf_tokenizer_free(tok);
    assert_int_equal(open_changed("{\"pre_tokenizer\": {\"pretokenizers\": ["
                                  "{\"type\": \"Digits\", "
                                  "\"individual_digits\": true}, {\"type\": "
                                  "\"ByteLevel\", \"add_prefix_space\": "
                                  "false}]}}",
                                  &tok, &err),
                     0);
    GIVES(tok, "12", '1', '2');
    dsf_tokenizer_free(tok);
}

/* Expected: tokenizers 0.23 with the same changes. */
static void text_is_brought_into_normal_form_where_asked(void **state)
{
    static const char *const changes[] = {
        "{\"normalizer\": {\"type\": \"NFC\"}}",
        "{\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": "
        "[{\"type\": \"NFC\"}, {\"type\": \"Sequence\", \"normalizers\": "
        "[]}]}}",
    };
    struct dsf_tokens out = { 0 };
    struct dsf_tokenizer *tok;
    struct dsflow_err err;

    for (int k = 0; k < 2; k++) {
        assert_int_equal(open_changed(changes[k], &tok, &err), 0);
        GIVES(tok, "h\u00e9llo", 104, 195, 169, 257, 111);
        GIVES(tok, "he\u0301llo", 104, 195, 169, 257, 111);
        GIVES(tok, "a\u0301\u0323", 225, 186, 161, 204, 129);
        GIVES(tok, "\u1112\u1161\u11ab\u110c", 237, 149, 156, 225, 132, 140);
        GIVES(tok, "\u212b\u0344 \u0958", 195, 133, 204, 136, 204, 129, 32, 224,
              164, 149, 224, 164, 188);
        /* The tokens that stand in the text are cut out first. */
        GIVES(tok, "he\u0301<tool>xe\u0301<|endoftext|>\u0301e", 104, 195, 169,
              273, 195, 169, 271, 204, 129, 101);
        GIVES(tok, "caf\u00e9<to\u0301ol>", 99, 97, 102, 195, 169, 60, 116, 195,
              179, 111, 108, 62);
        assert_int_equal(dsf_encode(tok, "e\u0301<tool>", 9, 0, &out, &err), 0);
        assert_int_equal(out.n, 8);
        assert_int_equal(out.v[0], 195);
        assert_int_equal(out.v[1], 169);
        assert_int_equal(out.v[2], '<');
        dsf_tokens_fini(&out);
        dsf_tokenizer_free(tok);
    }
    assert_int_equal(open_changed("{}", &tok, &err), 0);
    GIVES(tok, "he\u0301llo", 256, 204, 129, 257, 111);
    dsf_tokenizer_free(tok);
    assert_int_equal(
        open_changed("{\"normalizer\": {\"type\": \"NFC\"}, "
                     "\"added_tokens\": [{\"id\": 271, \"content\": "
                     "\"<\u00e9>\", \"normalized\": true}, {\"id\": 272, "
                     "\"content\": \"<|e\u0301|>\", \"normalized\": false}]}",
                     &tok, &err),
        0);
    GIVES(tok, "x<\u00e9>y<e\u0301>z", 120, 271, 121, 271, 122);
    GIVES(tok, "<|e\u0301|><|\u00e9|>", 272, 60, 124, 195, 169, 124, 62);
    dsf_tokenizer_free(tok);
}

static void what_is_not_supported_is_named(void **state)
{
    static const struct {
        const char *change, *message;
    } cases[] = {
        { "{\"model\": {\"type\": \"Unigram\"}}",
          "t.json: model: type Unigram is not supported; expected BPE" },
        { "{\"model\": {\"dropout\": 0.1}}",
          "t.json: model: dropout is not supported; expected null" },
        { "{\"model\": {\"end_of_word_suffix\": \"</w>\"}}",
          "t.json: model: end_of_word_suffix is not supported" },
        { "{\"model\": {\"merges\": [\"abc\"]}}",
          "t.json: model: merge 1: \"abc\": expected two tokens with a space "
          "between" },
        { "{\"model\": {\"merges\": [[\"a\"]]}}",
          "t.json: model: merge 1: expected two tokens" },
        { "{\"model\": {\"vocab\": {\"a\": 1.5}}}",
          "t.json: model: vocab: \"a\": the id is no integer" },
        { "{\"model\": {\"vocab\": {\"a\": 98}}}",
          "t.json: token \"b\": id 98 is also that of another" },
        { "{\"normalizer\": {\"type\": \"NFKC\"}}",
          "t.json: normalizer: type NFKC is not supported; expected NFC, a "
          "Sequence of it, or none" },
        { "{\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": "
          "[{\"type\": \"NFC\"}, {\"type\": \"Lowercase\"}]}}",
          "t.json: normalizer: type Lowercase is not supported; expected NFC, "
          "a Sequence of it, or none" },
        { "{\"normalizer\": {\"type\": \"Sequence\"}}",
          "t.json: normalizer: normalizers: expected an array" },
        { "{\"normalizer\": {\"type\": \"NFC\"}, \"added_tokens\": "
          "[{\"id\": 300, \"content\": \"e\u0301\", \"normalized\": true}]}",
          "t.json: added_tokens: \"e\u0301\": normalized is not supported for "
          "a text that is not in NFC" },
        { "{\"pre_tokenizer\": {\"type\": \"Metaspace\"}}",
          "t.json: pre_tokenizer: type Metaspace is not supported; expected "
          "ByteLevel, Split, Digits or a Sequence of them" },
        { "{\"pre_tokenizer\": null}",
          "t.json: pre_tokenizer: without ByteLevel it is not supported" },
        { "{\"pre_tokenizer\": {\"pretokenizers\": [{\"type\": \"Split\", "
          "\"pattern\": {\"Regex\": \"a\"}, \"behavior\": \"Removed\"}]}}",
          "t.json: pre_tokenizer: Split: behavior Removed is not supported; "
          "expected Isolated" },
        { "{\"pre_tokenizer\": {\"pretokenizers\": [{\"type\": \"Split\", "
          "\"pattern\": {\"Regex\": \"\\\\w\"}, \"behavior\": "
          "\"Isolated\"}]}}",
          "t.json: pre_tokenizer: Split: regular expression \"\\w\": \"\\w\" "
          "at offset 0 is not supported" },
        { "{\"post_processor\": {\"type\": \"RobertaProcessing\"}}",
          "t.json: post_processor: type RobertaProcessing is not supported; "
          "expected ByteLevel, TemplateProcessing or a Sequence of them" },
        { "{\"decoder\": {\"type\": \"WordPiece\"}}",
          "t.json: decoder: type WordPiece is not supported; expected "
          "ByteLevel" },
        { "{\"added_tokens\": [{\"id\": 300, \"content\": \"<m>\", "
          "\"lstrip\": true}]}",
          "t.json: added_tokens: \"<m>\": lstrip is not supported" },
        { "{\"added_tokens\": [{\"id\": 97, \"content\": \"<m>\"}]}",
          "t.json: added_tokens: \"<m>\": id 97; the vocabulary has another "
          "for it" },
        { "{\"added_tokens\": [{\"id\": 32, \"content\": \"\\u0120\"}]}",
          "t.json: added_tokens: \"\xc4\xa0\": in the vocabulary it stands "
          "for other bytes" },
        { "{\"added_tokens\": [{\"id\": 300, \"content\": \"x1\"}, "
          "{\"id\": 300, \"content\": \"x2\"}]}",
          "t.json: added_tokens: \"x2\": id 300 is also that of \"x1\"" },
        /* Hugging Face would make it 271. */
        { "{\"added_tokens\": [{\"id\": 274, \"content\": \"<m>\"}]}",
          "t.json: added_tokens: \"<m>\": id 274: expected 271, the first that "
          "is free" },
        { "{\"added_tokens\": [{\"id\": 272, \"content\": \"x2\"}, "
          "{\"id\": 271, \"content\": \"x1\"}]}",
          "t.json: added_tokens: \"x2\": id 272: expected 271, the first that "
          "is free" },
        { "{\"added_tokens\": [{\"id\": 272, \"content\": \"x1\"}, "
          "{\"id\": 4194304, \"content\": \"x2\"}]}",
          "t.json: added_tokens: \"x2\": id: expected 0 to 4194303" },
        { "{\"model\": {\"vocab\": {\"zz\": 4000000}}, \"added_tokens\": "
          "[]}",
          "t.json: the highest id is 4000000, and there are 272 tokens: "
          "expected ids that follow each other" },
        { "{\"model\": {\"merges\": [\"a \u00e9\u00e8\"]}}",
          "t.json: merge 1: \"\u00e9\u00e8\" is not in the vocabulary" },
    };
    struct dsf_tokenizer *tok;
    struct dsflow_err err;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        assert_int_equal(open_changed(cases[i].change, &tok, &err),
                         DSFLOW_EINVAL);
        assert_string_equal(err.msg, cases[i].message);
    }
}

static void bytes_are_their_own_tokens(void **state)
{
    struct dsf_tokenizer *tok;
    struct dsflow_err err;
    size_t n;

    assert_int_equal(dsf_tokenizer_open("bytes", &tok, &err), DSFLOW_OK);
    assert_int_equal(dsf_tokenizer_vocab(tok), 256);
    assert_int_equal(dsf_tokenizer_eot(tok), -1);
    assert_null(dsf_tokenizer_files(tok)[0]);
    GIVES(tok, "a\xff", 'a', 0xff);
    dsf_decode(tok, 256, &n);
    assert_int_equal(n, 0);
    dsf_decode(tok, -1, &n);
    assert_int_equal(n, 0);
    check_any_bytes(tok);
    dsf_tokenizer_free(tok);
}

static void files_that_are_no_json_are_named(void **state)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        { "", "t.json: is empty: expected JSON" },
        { "\xef\xbb\xbf{}", "t.json: begins with a byte order mark: expected "
                            "JSON in UTF-8 without one" },
        { "{\"model\": 1,\n\"model\": 2}",
          "t.json:2: duplicate object key near '\"model\"'" },
        { "{\"model\": {\"vocab\": {\"a\": 1, \"a\": 2}}}",
          "t.json:1: duplicate object key near '\"a\"'" },
        { "[]", "t.json: expected an object" },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct dsf_tokenizer *tok = dsf_tokenizer_new();
        struct dsflow_err err;

        assert_int_equal(dsf_tokenizer_parse_json(tok, cases[i].text,
                                                  strlen(cases[i].text),
                                                  "t.json", &err),
                         DSFLOW_EINVAL);
        assert_string_equal(err.msg, cases[i].message);
        dsf_tokenizer_free(tok);
    }
}

/* A vocabulary of the 256 bytes, in GPT-2's alphabet, with more keys. */
static struct dsf_tokenizer *open_bytes(const char *keys, int32_t shift)
{
    json_t *vocab = json_object(), *more = json_loads(keys, 0, NULL), *all;
    struct dsf_tokenizer *tok = dsf_tokenizer_new();
    struct dsflow_err err;
    int other = 0x100;
    char *text;

    for (int byte = 0; byte < 256; byte++) {
        bool itself = (byte >= '!' && byte <= '~') ||
                      (byte >= 0xa1 && byte != 0xad);
        int code = itself ? byte : other++;
        char name[3] = { (char)code };

        if (code >= 0x80) {
            name[0] = (char)(0xc0 | code >> 6);
            name[1] = (char)(0x80 | (code & 0x3f));
        }
        json_object_set_new(vocab, name, json_integer((byte + shift) % 256));
    }
    all = json_pack("{s:{s:s, s:o, s:[]}, s:{s:s, s:b}}", "model", "type",
                    "BPE", "vocab", vocab, "merges", "pre_tokenizer", "type",
                    "ByteLevel", "add_prefix_space", 0);
    assert_int_equal(json_object_update_recursive(all, more), 0);
    json_decref(more);
    text = json_dumps(all, 0);
    if (dsf_tokenizer_parse_json(tok, text, strlen(text), "t.json", &err) < 0)
        fail_msg("%s", err.msg);
    free(text);
    json_decref(all);
    return tok;
}

static void a_vocabulary_of_bytes_is_bytes(void **state)
{
    struct dsf_tokenizer *bytes, *tok = open_bytes("{}", 0);
    struct dsflow_err err;

    assert_int_equal(dsf_tokenizer_open("bytes", &bytes, &err), DSFLOW_OK);
    assert_true(dsf_tokenizer_is_bytes(tok));
    assert_int_equal(dsf_tokenizer_vocab(tok), 256);
    assert_int_equal(dsf_tokenizer_hash(tok), dsf_tokenizer_hash(bytes));
    assert_string_equal(dsf_tokenizer_files(tok)[0], "t.json");
    GIVES(tok, "h\u00e9 ", 104, 195, 169, 32);
    check_any_bytes(tok);
    dsf_tokenizer_free(tok);
    tok = open_bytes("{}", 1);
    assert_false(dsf_tokenizer_is_bytes(tok));
    assert_false(dsf_tokenizer_same(tok, bytes));
    GIVES(tok, "h\u00e9 ", 105, 196, 170, 33);
    dsf_tokenizer_free(tok);
    tok = open_bytes("{\"normalizer\": {\"type\": \"NFC\"}}", 0);
    assert_false(dsf_tokenizer_is_bytes(tok));
    assert_true(dsf_tokenizer_same(tok, bytes));
    dsf_tokenizer_free(tok);
    tok = open_bytes("{\"pre_tokenizer\": {\"add_prefix_space\": true}}", 0);
    assert_false(dsf_tokenizer_is_bytes(tok));
    dsf_tokenizer_free(tok);
    tok = open_bytes("{\"added_tokens\": [{\"id\": 256, \"content\": "
                     "\"<x>\"}]}",
                     0);
    assert_false(dsf_tokenizer_is_bytes(tok));
    assert_false(dsf_tokenizer_same(tok, bytes));
    dsf_tokenizer_free(tok);
    dsf_tokenizer_free(bytes);
}

static void a_tokenizer_that_is_not_there_is_named(void **state)
{
    struct dsf_tokenizer *tok;
    struct dsflow_err err;

    assert_int_equal(dsf_tokenizer_open("no/such", &tok, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg,
                        "no/such: No such file or directory; "
                        "expected \"bytes\", a tokenizer.json or a folder");
    assert_int_equal(dsf_tokenizer_open("/", &tok, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "/: no tokenizer here; expected "
                                 "tokenizer.json, or encoder.json and "
                                 "vocab.bpe, or vocab.json and merges.txt");
}

static void the_hash_follows_the_contents(void **state)
{
    struct dsf_tokenizer *a, *b, *c;
    struct dsflow_err err;

    assert_int_equal(open_changed("{}", &a, &err), 0);
    assert_int_equal(open_changed("{}", &b, &err), 0);
    assert_int_equal(
        open_changed("{\"model\": {\"ignore_merges\": true}}", &c, &err), 0);
    assert_true(dsf_tokenizer_hash(a) == dsf_tokenizer_hash(b));
    assert_true(dsf_tokenizer_hash(a) != dsf_tokenizer_hash(c));
    dsf_tokenizer_free(a);
    dsf_tokenizer_free(b);
    dsf_tokenizer_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_give_the_known_ids),
        cmocka_unit_test(a_template_says_what_begins_a_text),
        cmocka_unit_test(special_tokens_are_text_where_they_are_not_wanted),
        cmocka_unit_test(variants_of_the_same_file_are_read),
        cmocka_unit_test(text_is_brought_into_normal_form_where_asked),
        cmocka_unit_test(what_is_not_supported_is_named),
        cmocka_unit_test(bytes_are_their_own_tokens),
        cmocka_unit_test(files_that_are_no_json_are_named),
        cmocka_unit_test(a_vocabulary_of_bytes_is_bytes),
        cmocka_unit_test(a_tokenizer_that_is_not_there_is_named),
        cmocka_unit_test(the_hash_follows_the_contents),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
