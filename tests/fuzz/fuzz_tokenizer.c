/* fuzz_tokenizer.c - any bytes as tokenizer.json: it is refused with a line, or
 * it opens and loses no byte of a text. */
#include "text/tokenizer.h"

#include "base/alloc.h"

#include "fuzz/fuzz.h"

static const char sample[] =
    "Hello  world's 12345\n\n<|endoftext|><tool>x aaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa \xff\xfe h\xc3\xa9llo \xe6\x97\xa5\x80";

static const char *const words[] = {
    "null",      "true",
    "false",     "0",
    "-1",        "1e9",
    "4194303",   "{}",
    "[]",        "\"\"",
    "\"a\"",     "\"ByteLevel\"",
    "\\\\p{L}",  "\\\\s",
    "(",         ")",
    "[",         "]",
    "|",         "*",
    "+?",        "{1,9}",
    "\\u0120",   "\\ud83d",
    "\xff",      "\"Sequence\"",
    "\"Split\"", "{\"type\": \"NFC\"}",
    "\\u2581",   "\"Metaspace\"",
    NULL,
};

static char *sound(size_t *n)
{
    const char *src = getenv("srcdir");
    char *path = dsf_xasprintf("%s/tests/unit/text/tiny_tokenizer.json",
                               src != NULL ? src : ".");
    char *text = fuzz_load(path, n);

    free(path);
    return text;
}

/* An expression may ask for spaces in front: all else must come back. */
static void check_decoded(const struct dsf_tokenizer *tok,
                          const struct dsf_tokens *out)
{
    const char *at = sample, *end = sample + sizeof(sample) - 1, *piece;
    size_t n;

    for (size_t i = 0; i < out->n; i++) {
        if (out->v[i] < 0 || out->v[i] >= dsf_tokenizer_vocab(tok))
            fuzz_die("a token beyond the vocabulary");
        piece = dsf_decode(tok, out->v[i], &n);
        for (size_t j = 0; j < n; j++) {
            if (piece[j] == ' ')
                continue;
            while (at < end && *at == ' ')
                at++;
            if (at == end || *at++ != piece[j])
                fuzz_die("decode gives other bytes than encode was given");
        }
    }
    while (at < end && *at == ' ')
        at++;
    if (at != end)
        fuzz_die("bytes were lost");
}

static bool accepts(const char *text, size_t n)
{
    struct dsf_tokenizer *tok = dsf_tokenizer_new();
    struct dsf_tokens out = { 0 };
    struct dsflow_err err = { .msg = "" };
    bool opened =
        dsf_tokenizer_parse_json(tok, text, n, "tokenizer.json", &err) ==
        DSFLOW_OK;

    if (!opened)
        fuzz_refused(&err);
    else if (dsf_encode(tok, sample, sizeof(sample) - 1, 1, &out, &err) == 0)
        check_decoded(tok, &out);
    else if (strstr(err.msg, "regular expression") == NULL)
        fuzz_die("a text was refused");
    dsf_tokens_fini(&out);
    dsf_tokenizer_free(tok);
    return opened;
}

const struct fuzz_reader fuzz_reader = {
    .name = "tokenizer",
    .rounds = 6000,
    .sound = sound,
    .words = words,
    .accepts = accepts,
};
