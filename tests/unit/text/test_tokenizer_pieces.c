/* test_tokenizer_pieces.c - tokenizer.json of SentencePiece's kind gives what
 * its own library gives; what is not supported is named. */
#include "text/encode.h"
#include "text/tokenizer.h"

#include "base/alloc.h"

#include "unit/text/encoded.h"

#include <jansson.h>
#include <stdio.h>

#define S "\xe2\x96\x81"

/* Ids are 3 and on for bytes, 259 and on for these. */
static const char *const pieces[] = {
    S,        "e",      "t",     "h", "a",     "n",   "d",
    "\u00e9", "\u65e5", "o",     "r", "he",    S "t", S "the",
    "an",     "and",    S "and", S S, S S S S, "er",  "\u65e5\u65e5"
};
static const char *const merges[][2] = {
    { "h", "e" },    { S, "t" },
    { S "t", "he" }, { "a", "n" },
    { "an", "d" },   { S, "and" },
    { S, S },        { S S, S S },
    { "e", "r" },    { "\u65e5", "\u65e5" },
};

static json_t *special(int id, const char *text)
{
    return json_pack("{s:i, s:s, s:b, s:b}", "id", id, "content", text,
                     "normalized", 0, "special", 1);
}

/* Without what is around the model. */
static json_t *make(void)
{
    json_t *vocab = json_object(), *list = json_array();
    json_t *added = json_pack("[o, o, o]", special(0, "<unk>"),
                              special(1, "<s>"), special(2, "</s>"));
    char name[8];

    json_object_set_new(vocab, "<unk>", json_integer(0));
    json_object_set_new(vocab, "<s>", json_integer(1));
    json_object_set_new(vocab, "</s>", json_integer(2));
    for (int i = 0; i < 256; i++) {
        snprintf(name, sizeof(name), "<0x%02X>", (unsigned)i);
        json_object_set_new(vocab, name, json_integer(3 + i));
    }
    for (size_t i = 0; i < sizeof(pieces) / sizeof(*pieces); i++)
        json_object_set_new(vocab, pieces[i], json_integer(259 + (int)i));
    for (size_t i = 0; i < sizeof(merges) / sizeof(*merges); i++)
        json_array_append_new(list,
                              json_pack("[s, s]", merges[i][0], merges[i][1]));
    return json_pack("{s:o, s:{s:s, s:b, s:b, s:o, s:o}}", "added_tokens",
                     added, "model", "type", "BPE", "byte_fallback", 1,
                     "ignore_merges", 0, "vocab", vocab, "merges", list);
}

/* `change`: objects are merged into the file, all else takes its place. */
static int open_it(const char *change, struct dsf_tokenizer **tok,
                   struct dsflow_err *err)
{
    json_t *all = make(), *other = json_loads(change, 0, NULL);
    json_t *first = json_object_get(other, "first");
    json_t *list = json_object_get(json_object_get(all, "model"), "merges");
    struct dsf_tokenizer *t = dsf_tokenizer_new();
    int status;
    char *text;

    assert_non_null(other);
    if (first != NULL) /* a merge before the others */
        json_array_insert(list, 0, first);
    json_object_update_recursive(all, other);
    text = json_dumps(all, 0);
    status = dsf_tokenizer_parse_json(t, text, strlen(text), "t.json", err);
    free(text);
    json_decref(all);
    json_decref(other);
    if (status < 0)
        dsf_tokenizer_free(t);
    else
        *tok = t;
    return status;
}

#define METASPACE(scheme)                                                      \
    "\"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": \"" S       \
    "\", " scheme "}"
#define FIRST METASPACE("\"prepend_scheme\": \"first\", \"split\": false")
#define REPLACE                                                                \
    "{\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, \"content\": "  \
    "\"" S "\"}"
#define PREPEND "{\"type\": \"Prepend\", \"prepend\": \"" S "\"}"
#define LEGACY                                                                 \
    "\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [" PREPEND      \
    ", " REPLACE "]}"

enum { MOST = 12 };

static const char *const texts[] = {
    "the and the",
    "  the\n\nthe",
    "the</s>and <s> and",
    "\u00e9\u65e5\u65e5\u65e5x\n",
    S "and",
    "<0x41> the",
};
enum { NTEXTS = sizeof(texts) / sizeof(*texts) };

/* Expected: tokenizers 0.23 with the same file; lists end with -1. */
static const struct {
    const char *change;
    int32_t ids[NTEXTS][MOST];
} cases[] = {
    { "{" LEGACY "}",
      { { 272, 275, 272, -1 },
        { 276, 272, 13, 13, 261, 270, -1 },
        { 272, 2, 275, 259, 1, 259, 275, -1 },
        { 259, 266, 279, 267, 123, 13, -1 },
        { 259, 275, -1 },
        { 259, 63, 51, 123, 55, 52, 65, 272, -1 } } },
    { "{" METASPACE("\"add_prefix_space\": true, \"split\": false") "}",
      { { 272, 275, 272, -1 },
        { 259, 272, 13, 13, 261, 270, -1 },
        { 272, 2, 275, 259, 1, 275, -1 },
        { 259, 266, 279, 267, 123, 13, -1 },
        { 275, -1 },
        { 259, 63, 51, 123, 55, 52, 65, 272, -1 } } },
    { "{" FIRST "}",
      { { 272, 275, 272, -1 },
        { 259, 272, 13, 13, 261, 270, -1 },
        { 272, 2, 274, 259, 1, 275, -1 },
        { 259, 266, 279, 267, 123, 13, -1 },
        { 275, -1 },
        { 259, 63, 51, 123, 55, 52, 65, 272, -1 } } },
    { "{\"normalizer\": " REPLACE "}",
      { { 261, 270, 275, 272, -1 },
        { 259, 272, 13, 13, 261, 270, -1 },
        { 261, 270, 2, 274, 259, 1, 275, -1 },
        { 266, 279, 267, 123, 13, -1 },
        { 275, -1 },
        { 63, 51, 123, 55, 52, 65, 272, -1 } } },
    /* Each space begins a word. */
    { "{" METASPACE("\"prepend_scheme\": \"always\"") "}",
      { { 272, 275, 272, -1 },
        { 259, 272, 13, 13, 261, 270, -1 },
        { 272, 2, 275, 259, 1, 275, -1 },
        { 259, 266, 279, 267, 123, 13, -1 },
        { 275, -1 },
        { 259, 63, 51, 123, 55, 52, 65, 272, -1 } } },
    /* Merges of two words, and of two lines: no text may be cut there. */
    { "{\"model\": {\"vocab\": {\"e" S "\": 280}}, \"first\": [\"e\", \"" S
      "\"], " FIRST "}",
      { { 271, 262, 280, 274, 272, -1 },
        { 259, 272, 13, 13, 261, 270, -1 },
        { 272, 2, 274, 259, 1, 275, -1 },
        { 259, 266, 279, 267, 123, 13, -1 },
        { 275, -1 },
        { 259, 63, 51, 123, 55, 52, 65, 272, -1 } } },
    { "{\"model\": {\"vocab\": {\"\\n\": 280, \"\\nt\": 281}}, \"first\": "
      "[\"\\n\", \"t\"], " FIRST "}",
      { { 272, 275, 272, -1 },
        { 259, 272, 280, 281, 270, -1 },
        { 272, 2, 274, 259, 1, 275, -1 },
        { 259, 266, 279, 267, 123, 280, -1 },
        { 275, -1 },
        { 259, 63, 51, 123, 55, 52, 65, 272, -1 } } },
};

static void texts_give_the_known_ids(void **state)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct dsf_tokenizer *tok;
        struct dsflow_err err;

        if (open_it(cases[i].change, &tok, &err) < 0)
            fail_msg("%s", err.msg);
        assert_int_equal(dsf_tokenizer_eot(tok), 2);
        for (int k = 0; k < NTEXTS; k++)
            check_gives(tok, texts[k], cases[i].ids[k]);
        dsf_tokenizer_free(tok);
    }
}

static const char *text_of(const struct dsf_tokenizer *tok, int32_t id)
{
    static char text[32];
    size_t n;
    const char *v = dsf_decode(tok, id, &n);

    memcpy(text, v, n);
    text[n] = '\0';
    return text;
}

static void tokens_are_spaces_characters_and_bytes(void **state)
{
    struct dsf_tokenizer *tok;
    struct dsflow_err err;
    struct dsf_tokens out = { 0 };

    assert_int_equal(open_it("{\"normalizer\": " REPLACE "}", &tok, &err), 0);
    assert_string_equal(text_of(tok, 272), " the");
    assert_string_equal(text_of(tok, 277), "    ");
    assert_string_equal(text_of(tok, 266), "\u00e9");
    assert_string_equal(text_of(tok, 13), "\n");
    assert_string_equal(text_of(tok, 2), "</s>");
    check_any_bytes(tok);
    /* A space that is put in front, before what is no character, too. */
    dsf_tokenizer_free(tok);
    assert_int_equal(open_it("{" FIRST "}", &tok, &err), 0);
    assert_int_equal(dsf_encode(tok, "\xff", 1, 1, &out, &err), 0);
    assert_int_equal(out.n, 2);
    assert_int_equal(out.v[0], 259);
    assert_int_equal(out.v[1], 3 + 0xff);
    dsf_tokens_fini(&out);
    dsf_tokenizer_free(tok);
}

/* Long words are merged by other means than short ones. */
static void long_words_are_merged_as_short_ones(void **state)
{
    enum { WORDS = 200 };
    char text[6 * WORDS + 1] = "";
    struct dsf_tokenizer *tok;
    struct dsf_tokens out = { 0 };
    struct dsflow_err err;

    for (int i = 0; i < WORDS; i++)
        strcat(text, "\u65e5he");
    assert_int_equal(open_it("{" FIRST "}", &tok, &err), 0);
    assert_int_equal(dsf_encode(tok, text, strlen(text), 1, &out, &err), 0);
    assert_int_equal(out.n, 1 + 2 * WORDS);
    for (size_t i = 1; i < out.n; i += 2)
        assert_true(out.v[i] == 267 && out.v[i + 1] == 270);
    dsf_tokens_fini(&out);
    dsf_tokenizer_free(tok);
}

static void append(void *user, const int32_t *ids, size_t n)
{
    struct dsf_tokens *all = user;

    dsf_grow(&all->v, &all->cap, all->n + n, sizeof(*all->v));
    memcpy(all->v + all->n, ids, n * sizeof(*ids));
    all->n += n;
}

static void let_go(void *user)
{
}

static size_t random_text(char *text, size_t bytes, uint64_t *drawn)
{
    static const char *const parts[] = { "the",   " ",    "and", "\u65e5",
                                         "\n",    "</s>", S,     "e",
                                         "  the", "\xff", "x",   "er " };
    size_t n = 0;

    for (;;) {
        const char *part;

        *drawn = *drawn * 6364136223846793005u + 1442695040888963407u;
        part = parts[(*drawn >> 33) % (sizeof(parts) / sizeof(*parts))];
        if (n + strlen(part) > bytes)
            return n;
        memcpy(text + n, part, strlen(part));
        n += strlen(part);
    }
}

static void lanes_give_the_tokens_of_one(void **state)
{
    uint64_t drawn = 3;
    char text[400];

    for (int i = 0; i < 700; i++) {
        const struct dsf_lanes_size size = { 1 + i % 5, 1 + (size_t)i % 97 };
        struct dsf_tokens one = { 0 }, all = { 0 };
        const struct dsf_encoding to = { .take = append,
                                         .let_go = let_go,
                                         .user = &all };
        size_t n = random_text(text, sizeof(text), &drawn);
        struct dsf_tokenizer *tok;
        struct dsf_encoder *e;
        struct dsflow_err err;

        assert_int_equal(open_it(cases[i % 7].change, &tok, &err), 0);
        assert_int_equal(dsf_encode(tok, text, n, 1, &one, &err), 0);
        e = dsf_encoder_new(tok, size, &to, &err);
        assert_int_equal(dsf_encoder_text(e, NULL, text, n, 1), 0);
        assert_int_equal(dsf_encoder_end(e), 0);
        dsf_encoder_free(e);
        assert_int_equal(all.n, one.n);
        assert_memory_equal(all.v, one.v, one.n * sizeof(*one.v));
        dsf_tokens_fini(&one);
        dsf_tokens_fini(&all);
        dsf_tokenizer_free(tok);
    }
}

static void what_is_not_supported_is_named(void **state)
{
    static const struct {
        const char *change, *message;
    } wrong[] = {
        { "{}", "t.json: pre_tokenizer: with byte_fallback, and no normalizer "
                "Replace, expected Metaspace" },
        { "{\"normalizer\": {\"type\": \"NFKC\"}}",
          "t.json: normalizer: type NFKC is not supported with byte_fallback; "
          "expected Prepend and Replace, of U+2581 for a space, or none" },
        { "{\"normalizer\": {\"type\": \"Prepend\", \"prepend\": \"x\"}}",
          "t.json: normalizer: type Prepend is not supported with "
          "byte_fallback; expected Prepend and Replace, of U+2581 for a space, "
          "or none" },
        { "{\"pre_tokenizer\": {\"type\": \"Whitespace\"}}",
          "t.json: pre_tokenizer: type Whitespace is not supported with "
          "byte_fallback; expected Metaspace, or none" },
        { "{\"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": "
          "\"_\"}}",
          "t.json: pre_tokenizer: Metaspace: replacement: expected U+2581" },
        { "{" METASPACE("\"prepend_scheme\": \"last\"") "}",
          "t.json: pre_tokenizer: Metaspace: prepend_scheme: expected first, "
          "never or always" },
        { "{" FIRST ", \"decoder\": {\"type\": \"WordPiece\"}}",
          "t.json: decoder: type WordPiece is not supported with "
          "byte_fallback; expected Replace, ByteFallback, Fuse, Strip, "
          "Metaspace or a Sequence of them" },
        { "{" FIRST ", \"model\": {\"ignore_merges\": true}}",
          "t.json: model: ignore_merges is not supported with byte_fallback" },
        { "{" FIRST ", \"model\": {\"vocab\": {\"<0x41>\": null}}}",
          "t.json: model: vocab: \"<0x41>\": the id is no integer" },
        { "{" LEGACY ", \"added_tokens\": [{\"id\": 0, \"content\": "
          "\"<unk>\", \"normalized\": true}]}",
          "t.json: added_tokens: \"<unk>\": normalized is not supported with "
          "byte_fallback and Prepend, or a text with a space" },
    };

    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        struct dsf_tokenizer *tok;
        struct dsflow_err err;

        assert_int_equal(open_it(wrong[i].change, &tok, &err), DSFLOW_EINVAL);
        assert_string_equal(err.msg, wrong[i].message);
    }
}

/* Every byte must have a token. */
static void a_byte_without_a_token_is_named(void **state)
{
    struct dsf_tokenizer *tok = dsf_tokenizer_new();
    struct dsflow_err err;
    json_t *all = make();
    char *text;

    json_object_set_new(all, "normalizer", json_loads(REPLACE, 0, NULL));
    json_object_del(json_object_get(json_object_get(all, "model"), "vocab"),
                    "<0x41>");
    text = json_dumps(all, 0);
    assert_int_equal(
        dsf_tokenizer_parse_json(tok, text, strlen(text), "t.json", &err),
        DSFLOW_EINVAL);
    assert_string_equal(err.msg, "t.json: the vocabulary has no token for byte "
                                 "0x41; expected all 256");
    free(text);
    json_decref(all);
    dsf_tokenizer_free(tok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_give_the_known_ids),
        cmocka_unit_test(tokens_are_spaces_characters_and_bytes),
        cmocka_unit_test(long_words_are_merged_as_short_ones),
        cmocka_unit_test(lanes_give_the_tokens_of_one),
        cmocka_unit_test(what_is_not_supported_is_named),
        cmocka_unit_test(a_byte_without_a_token_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
