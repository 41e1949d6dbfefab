/* test_lanes.c - a text gives the same tokens, on however many lanes. */
#include "text/encode.h"

#include "base/alloc.h"

#include "unit/text/tiny.h"

#define SPLIT(regex)                                                           \
    "{\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": ["        \
    "{\"type\": \"Split\", \"behavior\": \"Isolated\", \"pattern\": "          \
    "{\"Regex\": \"" regex "\"}}, {\"type\": \"ByteLevel\", "                  \
    "\"add_prefix_space\": false, \"use_regex\": false}]}}"

static const char *const tokenizers[] = {
    "{}",
    "{\"normalizer\": {\"type\": \"NFC\"}}",
    "{\"added_tokens\": [{\"id\": 271, \"content\": \"s1\", \"normalized\": "
    "true}, {\"id\": 272, \"content\": \" \\n\", \"normalized\": false}, "
    "{\"id\": 273, \"content\": \"<tool>\", \"normalized\": false}]}",
    "{\"pre_tokenizer\": {\"pretokenizers\": [{\"type\": \"Digits\", "
    "\"individual_digits\": true}, {\"type\": \"ByteLevel\"}]}}",
    "{\"pre_tokenizer\": {\"pretokenizers\": [{\"type\": \"ByteLevel\", "
    "\"add_prefix_space\": true}]}}",
    /* Who begins in the middle of these ends elsewhere. */
    SPLIT("\\\\p{N}{1,3}"),
    SPLIT("[^ ]{5}|(?<=o) +"),
    SPLIT("(?=w)"), /* matches nothing: a cut */
    SPLIT("a*|(?<=l)"),
    SPLIT("never"),
};

static void append(void *user, const int32_t *ids, size_t n)
{
    struct dsf_tokens *all = user;

    assert_true(n > 0);
    dsf_grow(&all->v, &all->cap, all->n + n, sizeof(*all->v));
    memcpy(all->v + all->n, ids, n * sizeof(*ids));
    all->n += n;
}

static void let_go(void *user)
{
}

static void must(int status, const struct dsflow_err *err)
{
    if (status < 0)
        fail_msg("%s", err->msg);
}

static unsigned draw(unsigned below)
{
    static uint64_t state = 11;

    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)((state >> 33) % below);
}

static size_t random_text(char *text, size_t bytes)
{
    static const char *const words[] = {
        "hello",
        " world's",
        "1",
        "234",
        " ",
        "\n\n",
        "<tool>",
        "e\xcc\x81",
        "\xe6\x97\xa5\xe6\x9c\xac",
        "\xff",
        "\xe6\x97",
        "aaaaaaa",
        "<|endoftext|>",
        "wor",
        "\xe1\x84\x92\xe1\x85\xa1",
        "<t",
    };
    const unsigned nwords = sizeof(words) / sizeof(*words);
    /* Some texts are of few words, which then are long. */
    unsigned few = 1 + draw(nwords), first = draw(nwords);
    size_t n = 0;

    for (;;) {
        const char *word = words[(first + draw(few)) % nwords];

        if (n + strlen(word) > bytes)
            return n;
        memcpy(text + n, word, strlen(word));
        n += strlen(word);
    }
}

/* A text, a token and a text, on one lane each and on several together. */
static void check(const struct dsf_tokenizer *tok, struct dsf_lanes_size size,
                  const char *text, size_t n, int special)
{
    enum { BETWEEN = 3 };
    const size_t cut = draw((unsigned)n + 1);
    struct dsf_tokens one = { 0 }, all = { 0 };
    const struct dsf_encoding to = { .take = append,
                                     .let_go = let_go,
                                     .user = &all };
    struct dsflow_err err;
    struct dsf_encoder *e = dsf_encoder_new(tok, size, &to, &err);
    const int32_t between = BETWEEN;

    must(dsf_encode(tok, text, cut, special, &one, &err), &err);
    append(&one, &between, 1);
    must(dsf_encode(tok, text + cut, n - cut, special, &one, &err), &err);

    must(dsf_encoder_text(e, "first", text, cut, special), &err);
    must(dsf_encoder_token(e, BETWEEN), &err);
    must(dsf_encoder_text(e, "second", text + cut, n - cut, special), &err);
    must(dsf_encoder_end(e), &err);
    dsf_encoder_free(e);

    assert_int_equal(all.n, one.n);
    assert_memory_equal(all.v, one.v, one.n * sizeof(*one.v));
    dsf_tokens_fini(&one);
    dsf_tokens_fini(&all);
}

static void lanes_give_the_tokens_of_one(void **state)
{
    enum { TEXTS = 300, BYTES = 700 };
    struct dsf_tokenizer *tok = NULL;
    struct dsflow_err err;
    char text[BYTES];

    for (unsigned k = 0; k < sizeof(tokenizers) / sizeof(*tokenizers); k++) {
        must(open_changed(tokenizers[k], &tok, &err), &err);
        for (unsigned i = 0; i < TEXTS; i++) {
            struct dsf_lanes_size size = { 1 + (int)draw(5), 1 + draw(200) };
            size_t n = random_text(text, i % 10 > 0 ? BYTES : i / 10);

            check(tok, size, text, n, i % 3 > 0);
        }
        dsf_tokenizer_free(tok);
    }
}

/* As files are read: on all cores, each with a megabyte at a time. */
static void a_long_text_is_read_by_all_cores(void **state)
{
    enum { BYTES = 5000000, SOME = 3000 };
    char *text = dsf_xcalloc(1, BYTES);
    struct dsf_tokenizer *tok = NULL;
    struct dsflow_err err;
    size_t n = 0;

    while (n + SOME < BYTES)
        n += random_text(text + n, SOME);
    for (int kind = 0; kind < 3; kind++) {
        must(kind == 0 ? dsf_tokenizer_open("bytes", &tok, &err)
                       : open_changed(tokenizers[kind - 1], &tok, &err),
             &err);
        check(tok, dsf_lanes_of_cores(), text, n, 1);
        dsf_tokenizer_free(tok);
    }
    free(text);
}

/* An expression that gives up, in the third lane. */
static void what_cannot_be_split_is_named_with_its_text(void **state)
{
    const struct dsf_lanes_size size = { 4, 2 };
    struct dsf_tokens all = { 0 };
    const struct dsf_encoding to = { .take = append,
                                     .let_go = let_go,
                                     .user = &all };
    struct dsf_tokenizer *tok = NULL;
    struct dsf_encoder *e;
    struct dsflow_err err;
    char text[2000];

    memset(text, 'a', sizeof(text));
    must(open_changed(SPLIT("(a*a*)*[bc]"), &tok, &err), &err);
    e = dsf_encoder_new(tok, size, &to, &err);
    must(dsf_encoder_text(e, "first", "bb", 2, 1), &err);
    must(dsf_encoder_text(e, "second", "bb", 2, 1), &err);
    must(dsf_encoder_text(e, "third", text, sizeof(text), 1), &err);
    assert_int_equal(dsf_encoder_end(e), DSFLOW_EFAIL);
    assert_string_equal(err.msg, "third: regular expression \"(a*a*)*[bc]\": "
                                 "match limit exceeded");
    dsf_encoder_free(e);
    dsf_tokens_fini(&all);
    dsf_tokenizer_free(tok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lanes_give_the_tokens_of_one),
        cmocka_unit_test(a_long_text_is_read_by_all_cores),
        cmocka_unit_test(what_cannot_be_split_is_named_with_its_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
