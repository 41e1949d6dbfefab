/* fuzz_tokenizer.c - any bytes as tokenizer.json: it is refused with a line, or
 * it opens and loses no byte of a text. Without arguments the bytes are a
 * sound file with deterministic damage; with arguments, the files named. */
#include "text/tokenizer.h"

#include "base/alloc.h"
#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 6000 };

static const char sample[] =
    "Hello  world's 12345\n\n<|endoftext|><tool>x aaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa \xff\xfe h\xc3\xa9llo \xe6\x97\xa5\x80";

static uint64_t seed = 1;

static size_t any(size_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(seed >> 33) % n;
}

static void die(const char *why)
{
    fprintf(stderr, "fuzz_tokenizer: %s\n", why);
    abort();
}

/* An expression may ask for spaces in front: all else must come back. */
static void check_decoded(const struct dsf_tokenizer *tok,
                          const struct dsf_tokens *out)
{
    const char *at = sample, *end = sample + sizeof(sample) - 1, *piece;
    size_t n;

    for (size_t i = 0; i < out->n; i++) {
        if (out->v[i] < 0 || out->v[i] >= dsf_tokenizer_vocab(tok))
            die("a token beyond the vocabulary");
        piece = dsf_decode(tok, out->v[i], &n);
        for (size_t j = 0; j < n; j++) {
            if (piece[j] == ' ')
                continue;
            while (at < end && *at == ' ')
                at++;
            if (at == end || *at++ != piece[j])
                die("decode gives other bytes than encode was given");
        }
    }
    while (at < end && *at == ' ')
        at++;
    if (at != end)
        die("bytes were lost");
}

static int try(const char *text, size_t n)
{
    struct dsf_tokenizer *tok = dsf_tokenizer_new();
    struct dsf_tokens out = { 0 };
    struct dsflow_err err = { .msg = "" };
    int opened = 0;

    if (dsf_tokenizer_parse_json(tok, text, n, "tokenizer.json", &err) < 0) {
        if (err.msg[0] == '\0')
            die("refused without a line");
    } else {
        opened = 1;
        if (dsf_encode(tok, sample, sizeof(sample) - 1, 1, &out, &err) == 0)
            check_decoded(tok, &out);
        else if (strstr(err.msg, "regular expression") == NULL)
            die("a text was refused");
    }
    dsf_tokens_fini(&out);
    dsf_tokenizer_free(tok);
    return opened;
}

static void replace(char **text, size_t *n, size_t at, size_t less,
                    const char *with, size_t more)
{
    char *to = dsf_xcalloc(*n - less + more, 1);

    memcpy(to, *text, at);
    memcpy(to + at, with, more);
    memcpy(to + at + more, *text + at + less, *n - at - less);
    free(*text);
    *text = to;
    *n = *n - less + more;
}

/* One fault: of a byte, of a word of JSON, of a stretch, or of the length. */
static void damage(char **text, size_t *n)
{
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
    };
    size_t at = any(*n), m = any(40);
    const char *word = words[any(sizeof(words) / sizeof(*words))];
    char byte = (char)any(256);

    if (m > *n - at)
        m = *n - at;
    switch (any(6)) {
    case 0:
        (*text)[at] = byte;
        break;
    case 1:
        replace(text, n, at, any(2), word, strlen(word));
        break;
    case 2: { /* a whole value */
        char *colon = memchr(*text + at, ':', *n - at);
        size_t from = colon != NULL ? (size_t)(colon - *text) + 1 : *n, to;

        for (to = from; to < *n && strchr(",]}\n", (*text)[to]) == NULL;)
            to++;
        replace(text, n, from, to - from, word, strlen(word));
        break;
    }
    case 3:
        replace(text, n, at, m, "", 0);
        break;
    case 4: {
        char *part = dsf_xcalloc(m, 1);

        memcpy(part, *text + at, m);
        replace(text, n, any(*n), 0, part, m);
        free(part);
        break;
    }
    default:
        if (any(8) == 0)
            *n = at + 1;
    }
}

int main(int argc, char **argv)
{
    const char *src = getenv("srcdir");
    char *path = dsf_xasprintf("%s/tests/unit/text/tiny_tokenizer.json",
                               src != NULL ? src : ".");
    struct dsflow_err err = { .msg = "" };
    unsigned opened = 0;
    char *sound, *text;
    size_t nsound, n;

    for (int i = 1; i < argc; i++) {
        if (dsf_file_load(argv[i], DSF_MOST_VOCAB, &text, &n, &err) < 0)
            die(err.msg);
        try(text, n);
        free(text);
    }
    if (argc == 1) {
        if (dsf_file_load(path, DSF_MOST_VOCAB, &sound, &nsound, &err) < 0)
            die(err.msg);
        if (!try(sound, nsound))
            die("the sound file was refused");
        for (unsigned round = 0; round < ROUNDS; round++) {
            n = nsound;
            text = dsf_xcalloc(n, 1);
            memcpy(text, sound, n);
            for (size_t faults = 1 + any(3); faults > 0 && n > 0; faults--)
                damage(&text, &n);
            opened += (unsigned)try(text, n);
            free(text);
        }
        free(sound);
        printf("%d damaged files, %u of them still tokenizers\n", ROUNDS,
               opened);
    }
    free(path);
    return 0;
}
